"""The slow, obvious way: sum over everything that is hidden, table by table, step by step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from latentia.sequences.families import families_of
from latentia.sequences.hidden_states import ChainLayout, make_layout
from latentia.sequences.slices import Slice
from latentia.sequences.step_data import Sequences


def random_tables(layout: ChainLayout, seed: int = 0, sharp: float = 1.0) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for n, family in enumerate(layout.families):
        shape = layout.shape(family)
        if layout.sizes[family.variable]:
            found[n] = rng.dirichlet(np.full(shape[-1], sharp), size=shape[:-1])
        else:
            leaf = np.ones(shape)
            leaf[..., 1] = rng.normal(size=shape[:-1])
            leaf[..., 2] = rng.uniform(0.3, 1.5, size=shape[:-1])
            found[n] = leaf
    return found


def log_density(leaf: np.ndarray, x: float) -> float:
    _, mean, variance = leaf[0]
    return -0.5 * (math.log(2 * math.pi * variance) + (x - mean) ** 2 / variance)


def log_joint(slice_: Slice, tables: Mapping[int, np.ndarray], path: list[dict]) -> float:
    """log P(values of all variables at all steps | inputs); None: a missing continuous cell."""
    total = 0.0
    for t, values in enumerate(path):
        for n, family in enumerate(families_of(slice_)):
            if (family.when == "first" and t > 0) or (family.when == "later" and t == 0):
                continue
            above = tuple(path[t - lag][u] for u, lag in family.parents)
            own = values[family.variable]
            row = tables[n][above]
            if row.ndim == 2:
                total += 0.0 if own is None else log_density(row, own)
            else:
                total += math.log(row[own]) if row[own] > 0 else -math.inf
    return total


def worlds(slice_: Slice, sizes: tuple[int, ...], cells: Mapping[int, np.ndarray]) -> Iterator:
    """Every way to fill in what is hidden: paths of all variables."""
    steps = len(next(iter(cells.values())))
    choices = []
    for t in range(steps):
        for v in range(len(slice_.names)):
            if v in slice_.latent:
                choices.append(range(sizes[v]))
            elif sizes[v] == 0:
                x = float(cells[v][t])
                choices.append([None if math.isnan(x) else x])
            else:
                x = int(cells[v][t])
                choices.append(range(sizes[v]) if x < 0 else [x])
    names = range(len(slice_.names))
    for drawn in itertools.product(*choices):
        yield [
            dict(zip(names, drawn[t * len(names) : (t + 1) * len(names)], strict=True))
            for t in range(steps)
        ]


def enumerate_sequence(slice_, sizes, tables, cells):
    """All paths and their probabilities P(path, cells)."""
    paths = list(worlds(slice_, sizes, cells))
    return paths, np.exp([log_joint(slice_, tables, path) for path in paths])


def cut_cells(sequences: Sequences, s: int) -> dict[int, np.ndarray]:
    a, b = sequences.offsets[s], sequences.offsets[s + 1]
    return {v: x[a:b] for v, x in sequences.cells.items()}


def random_cells(slice_: Slice, sizes: tuple[int, ...], lengths: list[int], holes: float, seed=1):
    rng = np.random.default_rng(seed)
    steps = sum(lengths)
    cells = {}
    for v in slice_.told:
        gone = (rng.random(steps) < holes) & (v not in slice_.given)
        if sizes[v]:
            cells[v] = np.where(gone, -1, rng.integers(sizes[v], size=steps))
        else:
            cells[v] = np.where(gone, np.nan, rng.normal(size=steps))
    return Sequences(cells, np.concatenate([[0], np.cumsum(lengths)]))


def layout_for(slice_: Slice, sizes: tuple[int, ...], sequences: Sequences) -> ChainLayout:
    return make_layout(slice_, sizes, sequences.holes())

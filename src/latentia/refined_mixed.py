"""A valid distribution over continuous columns: smooth tables on grids per separator state.

The positive network of design 4.3 with the cells of each grid as states. Leaves are P(cell | s); the
M-step smooths them along the grid (EM with a smoothing step), so that they are kernel mixtures and
never histograms. Started from clusters of the kernel embedding's shared coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.cpts import operators_of
from latentia.em import Problem, counts_in, pose
from latentia.embedding import Embedding, KernelSettings, choose_sides, embed, smoothing, sum_sides
from latentia.errors import DataError
from latentia.estep import pack_rows
from latentia.features.continuous import Column, ContinuousColumn
from latentia.features.kernel import coordinates
from latentia.frames.local import LocalRows, unique_rows
from latentia.moments import Rows
from latentia.operators import Ascent, Operators
from latentia.plan import Plan, make_plan
from latentia.positive import PositiveNetwork, positive_network
from latentia.refine import Prior, Tables, make_prior, normalised
from latentia.start import first_counts, memberships
from latentia.typing import Array, Source

__all__ = ["SmoothSettings", "refine_mixed"]

SAMPLE = 2000
TRIAL_STEPS = 12
MOST_STEPS = 100
REST = 1e-4  # gain in log density per row and step


@final
@dataclass(frozen=True, slots=True)
class SmoothSettings:
    """Bandwidth of the leaves in standard deviations; pseudo-counts of every table row."""

    bandwidth: float = 0.15
    pseudo_counts: float = 2.0
    starts: int = 4


def refine_mixed(
    plan: Plan,
    columns: Sequence[Column],
    source: LocalRows,
    sample: Rows,
    kernel: KernelSettings,
    smooth: SmoothSettings,
    rng: np.random.Generator,
) -> Operators:
    """One start from the embedding, smoothed MAP-EM, operators of the network's own plan."""
    network = positive_network(plan)
    own = make_plan(network.graph)
    cells = LocalRows(nearest_cells(columns, source.rows))
    problem = pose(own, cells)
    blur = _blurs(network, columns, smooth.bandwidth)
    few = Rows(tuple(c[:SAMPLE] for c in sample.codes), None)
    parts = _shared_parts(plan, columns, network, few, kernel)
    coded = nearest_cells(columns, few)
    small = LocalRows(pack_rows(problem.estep, coded), threads=1)
    trial = replace(problem, source=small, packed=True, weight=coded.total)
    best: tuple[float, dict[int, Array], Prior] | None = None
    for k in range(smooth.starts):
        soft = memberships(network, parts, coded, rng if k else None)
        counts = _blurred(first_counts(network, soft, coded), blur)
        prior = make_prior(counts, smooth.pseudo_counts)
        tables, path, _ = _climb(trial, normalised(counts, prior), prior, blur, TRIAL_STEPS)
        if best is None or path[-1] > best[0]:
            best = (path[-1], tables, prior)
    assert best is not None
    tables, path, rested = _climb(problem, best[1], best[2], blur, MOST_STEPS)
    found = operators_of(own, tables, problem.weight, Ascent((tuple(path),), (rested,), 0))
    return replace(found, blur=(smooth.bandwidth, smooth.bandwidth))


def nearest_cells(columns: Sequence[Column], rows: Rows) -> Rows:
    """Positions rounded to cells; codes as they are."""
    codes = []
    for column, values in zip(columns, rows.codes, strict=True):
        if isinstance(column, ContinuousColumn):
            codes.append(np.where(np.isnan(values), -1, np.rint(np.nan_to_num(values))).astype(np.int16))
        else:
            codes.append(values)
    return Rows(tuple(codes), rows.weight)


def _blurs(
    network: PositiveNetwork, columns: Sequence[Column], bandwidth: float
) -> dict[int, Array]:
    """Smoothing of each continuous variable of the network, (cells, cells)."""
    found = {}
    for column in columns:
        S = smoothing(column, bandwidth)
        if S is not None:
            found[network.graph.index(column.name)] = S
    return found


def _blurred(counts: Tables, blur: Mapping[int, Array]) -> dict[int, Array]:
    return {v: c @ blur[v].T if v in blur else c for v, c in counts.items()}


def _climb(
    problem: Problem, start: Tables, prior: Prior, blur: Mapping[int, Array], most: int
) -> tuple[dict[int, Array], list[float], bool]:
    """EM whose M-step smooths the leaves; levels are log-likelihoods per row."""
    tables, path = dict(start), []
    best: tuple[float, dict[int, Array]] = (-np.inf, tables)
    for _ in range(most):
        moments = problem.sum(tables)
        path.append(float(moments.sums["log_likelihood"][0]) / problem.weight)
        if path[-1] > best[0]:
            best = (path[-1], tables)
        if len(path) > 2 and path[-1] - path[-2] < REST:
            return best[1], path, True
        tables = normalised(_blurred(counts_in(moments), blur), prior)
    return best[1], path, False


def _shared_parts(
    plan: Plan,
    columns: Sequence[Column],
    network: PositiveNetwork,
    rows: Rows,
    settings: KernelSettings,
) -> dict[int, Array]:
    """What inside and outside tell alike of each separator's state: (n, r − 1)."""
    z = coordinates(columns, rows.codes)
    sides = choose_sides(plan, columns, z, settings)
    source = LocalRows(rows, threads=1)
    found = embed(plan, sides, source.fold(partial(sum_sides, columns, sides)), settings)
    phi = [m(z) for m in sides.maps]
    parts = {}
    for name, k in network.node_of.items():
        Q, mean = found.inside[k]
        V, middle = found.outside[k]
        f = Q @ (phi[sides.inside[k]] - mean[:, None])
        f = np.nan_to_num(f)
        eta = V @ (phi[sides.outside[k]] - middle[:, None])  # predicts f / e: scale back
        predicted = eta * found.strengths[k][:, None]
        noise = f.var(axis=1) + 1e-12
        d = np.sqrt(np.clip(predicted.var(axis=1) / noise, 1e-4, 0.98))
        a, b = f / np.sqrt(noise)[:, None], predicted / (np.sqrt(noise) * d)[:, None]
        parts[network.graph.index(name)] = ((a + b) * (np.sqrt(d) / (1 + d))[:, None]).T
    return parts

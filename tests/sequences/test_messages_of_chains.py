"""Filter, smooth, score and counts equal enumeration for every kind of slice, cut or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.sequences.brute_force import (
    cut_cells,
    enumerate_sequence,
    layout_for,
    random_cells,
    random_tables,
)

from latentia.sequences.careful_passes import careful_filter, careful_smooth
from latentia.sequences.chain_wiring import wire_steps
from latentia.sequences.expectation import chain_estep, filtered, smoothed
from latentia.sequences.families import families_of
from latentia.sequences.potentials import potentials
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import missing_cells

# slice, latents, given, sizes of columns (0: continuous)
SLICES = {
    "chain": ("z -> z', z -> a", {"z": 2}, [], {"a": 3}),
    "several columns": ("z -> z', z -> a, x, b", {"z": 2}, [], {"a": 2, "b": 2, "x": 0}),
    "many discrete": ("z -> z', z -> a,b,c,d", {"z": 2}, [], dict.fromkeys("abcd", 2)),
    "gaussians": ("z -> z', z -> x, y", {"z": 3}, [], {"x": 0, "y": 0}),
    "factorial": ("y -> y'; z -> z'; y, z -> a", {"y": 2, "z": 2}, [], {"a": 3}),
    "coupled": ("y -> y', z'; z -> z'; y -> z; z -> a", {"y": 2, "z": 2}, [], {"a": 2}),
    "fed back": ("z -> z', z -> a, a -> z'", {"z": 2}, [], {"a": 2}),
    "own memory": ("z -> z', z -> a, a -> a'", {"z": 2}, [], {"a": 2}),
    "to others": ("z -> z', z -> a, b, x, a -> b', b -> x", {"z": 2}, [], {"a": 2, "b": 2, "x": 0}),
    "late column": ("z -> z', z -> a', x'", {"z": 2}, [], {"a": 2, "x": 0}),
    "inputs": ("z -> z', d -> z', z -> a, d -> a", {"z": 2}, ["d"], {"a": 2, "d": 2}),
    "inputs now": ("z -> z', d -> z, z -> x, d -> x", {"z": 2}, ["d"], {"x": 0, "d": 2}),
    "no latent": ("a -> a', a -> b", {}, [], {"a": 2, "b": 2}),
    "alone": ("z -> a, x", {"z": 2}, [], {"a": 2, "x": 0}),
}


def made(kind: str, holes: float, lengths: list[int]):
    text, latents, given, columns = SLICES[kind]
    slice_ = read_slice(text, latents, given)
    sizes = tuple({**latents, **columns}[name] for name in slice_.names)
    sequences = random_cells(slice_, sizes, lengths, holes)
    layout = layout_for(slice_, sizes, sequences)
    return slice_, sizes, sequences, layout, random_tables(layout)


@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("kind", SLICES)
@pytest.mark.parametrize("way", ["whole", "pieces", "careful"])
def test_equal_enumeration(kind: str, holes: float, way: str) -> None:
    lengths = [3, 1, 2]
    slice_, sizes, sequences, layout, tables = made(kind, holes, lengths)
    wired = wire_steps(layout, sequences, 1 if way == "pieces" else 100)
    if way == "careful":
        forward = careful_filter(wired.packing, potentials(wired, tables))
        both = careful_smooth(wired.packing, potentials(wired, tables))
    else:  # pieces of one step remember: products of pieces join them
        forward, used = filtered(wired, tables)
        forward = replace(forward, alpha=forward.alpha.copy())  # it lies in scratch memory
        both, again = smoothed(wired, tables)
        assert used is again is wired
    place = np.argsort(wired.packing.order)
    logs = forward.log_scale[place]
    np.testing.assert_allclose(both.log_scale[place], logs, atol=1e-12)
    gamma = both.gamma[:, place]
    for s, steps in enumerate(sequences):
        cells = cut_cells(sequences, s)
        paths, weight = enumerate_sequence(slice_, sizes, tables, cells)
        assert logs[steps].sum() == pytest.approx(np.log(weight.sum()), abs=1e-12)
        for v in sorted(slice_.latent):
            for t in range(lengths[s]):
                own = np.bincount([p[t][v] for p in paths], weight, sizes[v]) / weight.sum()
                found = np.bincount(layout.values[v, 0], gamma[:, steps][:, t], sizes[v])
                np.testing.assert_allclose(found, own, atol=1e-12)
                early = {u: x[: t + 1] for u, x in cells.items()}
                some, w = enumerate_sequence(slice_, sizes, tables, early)
                own = np.bincount([p[t][v] for p in some], w, sizes[v]) / w.sum()
                alpha = forward.alpha[:, place][:, steps][:, t]
                found = np.bincount(layout.values[v, 0], alpha, sizes[v])
                np.testing.assert_allclose(found, own, atol=1e-12)


def gone(sequences, s: int, t: int, v: int) -> bool:
    return bool(missing_cells(cut_cells(sequences, s)[v])[t])


@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("kind", SLICES)
@pytest.mark.parametrize("longest", [100, 2, 1])
def test_counts_equal_enumeration(kind: str, holes: float, longest: int) -> None:
    slice_, sizes, sequences, layout, tables = made(kind, holes, [3, 2])
    counts, level, _ = chain_estep([wire_steps(layout, sequences, longest)], tables)
    expected = {n: np.zeros(t.shape) for n, t in tables.items()}
    total = 0.0
    for s in range(len(sequences)):
        paths, weight = enumerate_sequence(slice_, sizes, tables, cut_cells(sequences, s))
        total += np.log(weight.sum())
        for path, w in zip(paths, weight / weight.sum(), strict=True):
            for t, values in enumerate(path):
                for n, f in enumerate(families_of(slice_)):
                    if (f.when == "first" and t > 0) or (f.when == "later" and t == 0):
                        continue
                    own = values[f.variable]
                    above = tuple(path[t - lag][u] for u, lag in f.parents)
                    if (f.variable, 0) not in layout.hidden and gone(sequences, s, t, f.variable):
                        continue  # a missing leaf tells nothing, and is not counted
                    if sizes[f.variable]:
                        expected[n][(*above, own)] += w
                    elif own is not None:
                        expected[n][(*above, 0)] += w * np.array([1.0, own, own * own])
    assert level == pytest.approx(total, abs=1e-12)
    for n, table in expected.items():
        np.testing.assert_allclose(counts[n], table, atol=1e-12)

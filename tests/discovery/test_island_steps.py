"""Steps of islands by the compiled kernel, against numpy's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from latentia.discovery.cell_bells import cell_line
from latentia.discovery.compiled_islands import CompiledSteps
from latentia.discovery.island_network import (
    IslandLayout,
    island_counts,
    island_layout,
    random_islands,
)
from latentia.discovery.island_steps import IslandSteps, PlainSteps, counts_of_codes
from latentia.discovery.islands import cut_islands
from latentia.native.loading import VARIABLE, kernel
from latentia.typing import Array

SIZES = (2, 3, 2, 5, 4, 9, 2)
TREE = ((0, 1), (0, 2), (2, 3), (2, 4), (0, 5), (5, 6))
ROWS, BATCHES = 300, 5
SINGLE = 1e-5  # rounding of single precision, of counts and of log-likelihoods


def layout(smallest: int, inner: bool, states: int, holes: Sequence[int]) -> IslandLayout:
    """Columns 3 and 5 lie along lines, but for the last state of 5."""
    rng = np.random.default_rng(1)
    lines = {
        c: cell_line(rng.dirichlet(np.full(SIZES[c], 5.0)), along) for c, along in ((3, 5), (5, 8))
    }
    islands = cut_islands(len(SIZES), TREE, smallest, inner, {*holes, *lines})
    return island_layout(islands, SIZES, states, holes, lines)


def rows(holes: Sequence[int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = np.stack([rng.integers(m, size=ROWS) for m in SIZES], axis=1)
    found[:, 1] = np.where(rng.random(ROWS) < 0.7, found[:, 0], found[:, 1])
    for c in holes:
        found[rng.random(ROWS) < 0.3, c] = -1
    return found


def climbed(steps: IslandSteps, own: IslandLayout) -> tuple[list[Array], Array]:
    """Counts and likelihoods after some batches."""
    rng = np.random.default_rng(2)
    steps.start(random_islands(own, [np.full(m, 1 / m) for m in SIZES], rng))
    steps.count_all()
    parts = np.array_split(rng.permutation(ROWS), BATCHES)
    share = [np.float32(x) for x in (0.5, 0.4, 0.3, 0.2, 0.1)]
    steps.batches(parts, [np.float32(1.0) - x for x in share], [BATCHES * x for x in share])
    return [*steps.counts.links, *steps.counts.features], steps.likelihoods()


@pytest.mark.parametrize("level", ["base", "avx2"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("holes", [(), (1, 3, 6)])
@pytest.mark.parametrize(
    ("smallest", "inner", "states"),
    [(1, False, 3), (2, True, 8), (3, False, 40), (3, True, 13), (7, True, 1), (7, False, 70)],
)
def test_the_kernel_climbs_as_numpy_does(
    smallest: int,
    inner: bool,
    states: int,
    holes: Sequence[int],
    weighted: bool,
    level: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, level)
    compiled = kernel()
    if compiled is None:
        pytest.skip("no kernel was built")
    own, codes, watched = layout(smallest, inner, states, holes), rows(holes, 3), rows(holes, 4)
    weight = np.random.default_rng(5).random(ROWS) * 3 if weighted else None
    phi = own.of_rows(codes), own.of_rows(watched)
    slow, told = climbed(PlainSteps(own, phi, weight, 0.7), own)
    fast, heard = climbed(CompiledSteps(compiled, own, codes, weight, watched, 0.7), own)
    for a, b in zip(slow, fast, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, atol=SINGLE * ROWS)  # counts are out of all rows
    np.testing.assert_allclose(heard, told, rtol=SINGLE, atol=SINGLE)


def test_codes_that_no_table_has_are_an_error() -> None:
    compiled = kernel()
    if compiled is None:
        pytest.skip("no kernel was built")
    own, codes = layout(2, False, 3, ()), rows((), 0)
    codes[5, 3] = 5
    with pytest.raises(IndexError, match="states"):
        CompiledSteps(compiled, own, codes, None, codes, 1.0)


@pytest.mark.parametrize("wish", ["on", "off"])
def test_counts_of_all_rows_are_those_of_one_batch(
    wish: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, wish)
    own, codes = layout(3, True, 4, (1,)), rows((1,), 3)
    weight = np.random.default_rng(5).random(ROWS)
    tables = random_islands(own, [np.full(m, 1 / m) for m in SIZES], np.random.default_rng(6))
    found = counts_of_codes(own, tables, codes, weight)
    slow, _ = island_counts(own, tables, own.of_rows(codes), weight.astype(np.float32))
    for a, b in zip((*found.links, *found.features), (*slow.links, *slow.features), strict=True):
        np.testing.assert_allclose(a, b, atol=SINGLE * ROWS)

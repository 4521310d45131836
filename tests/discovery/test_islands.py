"""Likelihoods, counts and tables of islands, against enumeration and the library's own answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.discovery.cell_bells import cell_line
from latentia.discovery.island_climb import IslandClimb, Known, known_rows
from latentia.discovery.island_graph import name_islands
from latentia.discovery.island_network import (
    IslandCounts,
    IslandLayout,
    column_tables,
    island_counts,
    island_layout,
    maximise_islands,
    random_islands,
    row_likelihoods,
)
from latentia.discovery.islands import cut_islands
from latentia.exact.table_answers import TableAnswers

SIZES = (2, 3, 2, 4, 2)
TREE = ((0, 1), (0, 2), (2, 3), (2, 4))
SINGLE = 2e-5  # rounding of single precision over a few sums


def layout(
    smallest: int, inner: bool, holes: tuple[int, ...] = (), states: int = 3
) -> IslandLayout:
    return island_layout(cut_islands(5, TREE, smallest, inner, holes), SIZES, states, holes)


def every_row() -> np.ndarray:
    return np.array(list(itertools.product(*map(range, SIZES))))


def some_counts(own: IslandLayout, seed: int = 0) -> IslandCounts:
    """Counts of a random model, as an M-step takes them."""
    rng = np.random.default_rng(seed)
    tables = random_islands(own, [np.full(m, 1 / m) for m in SIZES], rng)
    return island_counts(own, tables, own.of_rows(every_row()))[0]


@pytest.mark.parametrize("smallest", [1, 2, 3, 5])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("holes", [(), (1, 3)])
def test_likelihoods_are_those_of_the_named_tables(
    smallest: int, inner: bool, holes: tuple[int, ...]
) -> None:
    own = layout(smallest, inner, holes)
    counts = some_counts(own)
    tables = maximise_islands(own, counts, 1.0)
    rows = every_row()
    assert np.exp(row_likelihoods(own, tables, own.of_rows(rows))).sum() == pytest.approx(
        1.0, abs=1e-4
    )
    for c in holes:
        rows[::3, c] = -1
    named = name_islands(own, counts, 1.0, list("abcde"))
    answers = TableAnswers(named.graph, {named.graph.names[v]: t for v, t in named.tables.items()})
    wide = np.full((len(rows), len(named.graph.names)), -1)
    wide[:, :5] = rows
    found = row_likelihoods(own, tables, own.of_rows(rows))
    np.testing.assert_allclose(found, answers.log_evidence(wide), atol=SINGLE)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("holes", [(), (1, 3)])
def test_expected_counts_are_posteriors_summed_row_by_row(
    inner: bool, holes: tuple[int, ...]
) -> None:
    own = layout(2, inner, holes)
    counts = some_counts(own)
    tables = maximise_islands(own, counts, 1.0)
    rng = np.random.default_rng(1)
    rows = every_row()[rng.integers(96, size=50)]
    for c in holes:
        rows[::4, c] = -1
    weight = rng.random(50).astype(np.float32)
    found, log = island_counts(own, tables, own.of_rows(rows), weight)
    named = name_islands(own, counts, 1.0, list("abcde"))
    graph = named.graph
    answers = TableAnswers(graph, {graph.names[v]: t for v, t in named.tables.items()})
    wide = np.full((50, len(graph.names)), -1)
    wide[:, :5] = rows
    np.testing.assert_allclose(log, answers.log_evidence(wide), atol=SINGLE)
    latents = [graph.names[v] for v in sorted(graph.latent)]
    told = answers.posteriors(wide, latents)
    for i, name in enumerate(latents):
        features = own.features[i].of_rows(rows)
        slow = features.T @ (told[name] * weight[:, None])
        np.testing.assert_allclose(found.features[i], slow, atol=1e-4)
        above = own.islands.tree.above[i]
        if above >= 0:
            both = answers.joint([latents[above], name], wide)
            np.testing.assert_allclose(
                found.links[i], np.einsum("nij,n->ij", both, weight), atol=1e-4
            )


def test_counts_of_all_cells_come_back_from_few_features() -> None:
    own = layout(5, True)
    rng = np.random.default_rng(2)
    rows = every_row()[rng.integers(96, size=300)]
    told = rng.dirichlet(np.ones(3), size=300).astype(np.float32)
    features = own.features[0]
    tables = features.tables(features.of_rows(rows).T @ told)
    for group, table in zip(features.groups, tables, strict=True):
        for c, each in zip(group.columns, table, strict=True):
            p = own.islands.column_parent[c]
            for s in range(SIZES[c]):
                at = rows[:, c] == s
                if p < 0:
                    np.testing.assert_allclose(each[s], told[at].sum(axis=0), atol=1e-3)
                    continue
                for t in range(SIZES[p]):
                    slow = told[at & (rows[:, p] == t)].sum(axis=0)
                    np.testing.assert_allclose(each[t, s], slow, atol=1e-3)


def test_a_climb_ends_and_keeps_its_best() -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=1500)
    flip = rng.random((1500, 5)) < 0.15
    codes = np.where(flip, 1 - h[:, None], h[:, None])
    own = island_layout(cut_islands(5, TREE, 5, False), (2,) * 5, 2)
    train, held = Known(codes[:1000]), Known(codes[1000:])
    climb = IslandClimb(own, train, held, 1.0, 0)
    climb.advance(200)
    assert climb.done
    assert climb.best_round <= climb.rounds
    again = held.mean(row_likelihoods(own, climb.best_tables, own.of_rows(held.codes)))
    assert again == pytest.approx(climb.best, abs=1e-6)
    truth = np.log(
        0.5 * np.prod(np.where(held.codes == 1, 0.85, 0.15), axis=1)
        + 0.5 * np.prod(np.where(held.codes == 0, 0.85, 0.15), axis=1)
    )
    # five parameters a state, 1,000 rows: 11 / 2,000 nats; three times that
    assert abs(again - truth.mean()) < 0.0165


def test_rows_become_a_matrix() -> None:
    rows = Rows((np.array([0, 1]), np.array([2, -1])), np.array([1.0, 3.0]))
    known = known_rows(rows)
    assert known.codes.tolist() == [[0, 2], [1, -1]]
    assert known.total == 4.0
    assert known.mean(np.array([0.0, 4.0])) == 3.0


@pytest.mark.parametrize("smallest", [1, 2, 3])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("holes", [(), (1, 3)])
def test_an_m_step_of_joined_islands_is_that_of_each_island(
    smallest: int, inner: bool, holes: tuple[int, ...]
) -> None:
    shares = {c: np.full(m, 1 / m) for c, m in enumerate(SIZES)}
    lines = {c: cell_line(shares[c], SIZES[c]) for c in (1, 3)}  # of two shapes
    islands = cut_islands(5, TREE, smallest, inner, {*holes, *lines})
    own = island_layout(islands, SIZES, 3, holes, lines)
    counts = some_counts(own)
    found = maximise_islands(own, counts, 0.7)
    assert len(own.joined) == len(set(own.states))
    for i, features in enumerate(own.features):
        logs = [np.log(t) for t in column_tables(features, counts.features[i], 0.7)]
        alone = features.weights(logs, own.states[i])
        np.testing.assert_allclose(found.weights[i], alone, rtol=1e-5, atol=1e-5)  # float32


def test_a_climb_goes_on_from_the_best_tables_of_another() -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=600)
    codes = np.stack([np.where(rng.random(600) < 0.8, h, 1 - h) for _ in range(5)], axis=1)
    own = island_layout(cut_islands(5, TREE, 5, False), (2,) * 5, 2)
    rows = Known(codes)
    first = IslandClimb(own, rows, rows, 1.0, 0)
    first.advance(5)
    second = IslandClimb(own, rows, rows, 1.0, 1)
    second.go_on_from(first)
    second.advance(1)
    fresh = IslandClimb(own, rows, rows, 1.0, 1)
    fresh.advance(1)
    assert second.best > fresh.best
    assert second.best == pytest.approx(first.best, abs=0.01)  # mini-batches move it a little

"""What a latent class expects of pairs of columns, and the start that pairs tell."""

import itertools

import numpy as np
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.networks.class_rows import survey_rows
from latentia.networks.pair_misfit import pair_misfit
from latentia.networks.pair_start import pair_tables

GRAPH = lt.templates.latent_class(5, 3).with_states({f"X{i}": 2 + i % 3 for i in range(5)})


def truth(seed=0, concentration=0.3):
    rng = np.random.default_rng(seed)
    (h,) = GRAPH.latent
    tables = {
        v: rng.dirichlet(np.full(GRAPH.states[v], concentration) + 0.05, size=3)
        for v in GRAPH.observed
    }
    return tables | {h: np.array([0.5, 0.3, 0.2])}


def every_row(tables, weight):
    """All joint states of the columns, weighted by their probability."""
    (h,) = GRAPH.latent
    states = [range(GRAPH.states[v]) for v in GRAPH.observed]
    codes = np.array(list(itertools.product(*states)), dtype=np.int8)
    p = tables[h] @ np.prod(
        [tables[v][:, codes[:, i]] for i, v in enumerate(GRAPH.observed)], axis=0
    )
    return Rows(tuple(np.ascontiguousarray(c) for c in codes.T), weight * p)


def drawn(rows, count, rng):
    times = rng.multinomial(count, rows.weight / rows.weight.sum())
    return Rows(rows.codes, times.astype(float))


def test_pairs_of_the_truth_are_as_it_says():
    tables = truth()
    fit = pair_misfit(survey_rows(GRAPH, every_row(tables, 1000.0)), tables)
    assert fit.worst < 1e-20
    assert fit.cells == sum(
        GRAPH.states[a] * GRAPH.states[b] for a, b in itertools.combinations(GRAPH.observed, 2)
    )


def test_columns_apart_are_worth_the_sum_of_their_entropies():
    tables, (h,) = truth(), GRAPH.latent
    fit = pair_misfit(survey_rows(GRAPH, every_row(tables, 10.0)), tables)
    shares = [tables[h] @ tables[v] for v in GRAPH.observed]
    assert fit.apart == pytest.approx(10.0 * sum((p * np.log(p)).sum() for p in shares))


def test_a_pair_counted_by_hand_and_cells_that_are_missing():
    """Two columns, one class: z² against the obvious sums; a row with a hole is in no pair."""
    graph = lt.templates.latent_class(2, 2).with_states({"X0": 2, "X1": 2})
    (h,) = graph.latent
    a, b = graph.observed
    tables = {h: np.array([0.5, 0.5]), a: np.full((2, 2), 0.5), b: np.full((2, 2), 0.5)}
    codes = (np.array([0, 0, 1, 1, 1], np.int8), np.array([0, 0, 1, 1, -1], np.int8))
    fit = pair_misfit(survey_rows(graph, Rows(codes)), tables)
    z2 = [(2 - 1) ** 2 / 1.5, (0 - 1) ** 2 / 1.5, (0 - 1) ** 2 / 1.5, (2 - 1) ** 2 / 1.5]
    assert fit.worst == pytest.approx(max(z2))
    assert fit.per_freedom == pytest.approx(sum(z2))
    assert fit.cells == 4


def test_rows_of_the_truth_leave_what_chance_does():
    """Each cell (1 - p) of the truth: Σ (ab - 1) = 67 over the pairs, of 31 degrees of freedom.

    Fitted tables take the rest. Three standard errors of 40 draws are .23, and the half row in the
    denominator takes some off.
    """
    tables, rng = truth(), np.random.default_rng(3)
    rows = every_row(tables, 1.0)
    found = [
        pair_misfit(survey_rows(GRAPH, drawn(rows, 5000, rng)), tables).per_freedom
        for _ in range(40)
    ]
    assert np.mean(found) == pytest.approx(67 / 31, abs=0.3)


def test_a_column_copied_stands_out():
    tables, rng = truth(), np.random.default_rng(4)
    rows = drawn(every_row(tables, 1.0), 2000, rng)
    a, b = (GRAPH.states[GRAPH.observed[i]] for i in (0, 3))
    assert a == b
    copied = Rows((*rows.codes[:3], rows.codes[0], rows.codes[4]), rows.weight)
    fit = pair_misfit(survey_rows(GRAPH, copied), tables)
    assert fit.worst > 100
    assert fit.per_freedom > 10


@pytest.mark.parametrize("seed", range(5))
def test_pairs_find_the_classes(seed):
    """Of rows whose class their columns nearly tell, the start has each class near its tables."""
    tables = {
        v: 0.9 * np.roll(np.eye(GRAPH.states[v]), seed, axis=1)[np.arange(3) % GRAPH.states[v]]
        + 0.1 / GRAPH.states[v]
        for v in GRAPH.observed
    }
    (h,) = GRAPH.latent
    tables[h] = np.array([0.45, 0.35, 0.2])
    found = pair_tables(survey_rows(GRAPH, every_row(tables, 3000.0)))
    far = min(
        max(np.abs(found[v][list(order)] - tables[v]).max() for v in GRAPH.observed)
        for order in itertools.permutations(range(3))
    )
    assert far < 0.15  # rows cut by their nearest centre: a start, no more
    for v in GRAPH.observed:
        np.testing.assert_allclose(found[v].sum(axis=1), 1.0)
    np.testing.assert_allclose(found[h].sum(), 1.0)


def test_rows_that_are_all_alike_make_a_start_without_nan():
    codes = tuple(np.zeros(20, np.int8) for _ in GRAPH.observed)
    for table in pair_tables(survey_rows(GRAPH, Rows(codes))).values():
        assert np.isfinite(table).all()
        assert (table > 0).all()

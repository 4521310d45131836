"""Pseudo-counts that the counts of a table ask for: against scipy, and for what they are good."""

import numpy as np
import pytest
import scipy

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError
from latentia.networks import concentrations as concentrating
from latentia.networks import leaning
from latentia.networks.accelerate import Prior
from latentia.networks.concentrations import CountedTable
from latentia.networks.own_tables import climb_tables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.structure import templates
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.testing import random_model

ONE = TableSettings(smoothing=1.0)


def concentrations(counts, share, least):
    """Of one table."""
    return concentrating.concentrations([CountedTable(counts, share, least)])[0]


def plainly(counts, share, least):
    """The same with a loop over rows and pseudo-counts, by scipy's law."""
    seen = [n for n in counts if n.any()]
    if len(seen) < 2:
        return np.full(len(counts), least)
    gain = np.zeros((concentrating.TRIED, len(seen)))
    for i, step in enumerate(concentrating.STEPS):
        for j, n in enumerate(seen):
            gain[i, j] = log_evidence(n, share, least * np.exp(step)) - log_evidence(
                n, share, least
            )
    leans = concentrating.LOG_ODDS
    level = np.log1p(np.exp(gain + leans)).sum(axis=1)
    level -= (concentrating.STEPS / concentrating.WIDTH) ** 2 / 2
    best, width = int(level.argmax()), concentrating.STEPS[1]
    step = concentrating.STEPS[best]
    if 0 < best < concentrating.TRIED - 1:
        below, top, above = level[best - 1 : best + 2]
        step += width * (below - above) / (below - 2 * top + above) / 2
    told = iter(np.array([np.interp(step, concentrating.STEPS, g) for g in gain.T]))
    top = least * np.exp(step)
    share_of = [1 / (1 + np.exp(-next(told) - leans)) if n.any() else 1.0 for n in counts]
    return least + (top - least) * np.array(share_of)


def log_evidence(n, share, a):
    """Of one row."""
    log_gamma = scipy.special.gammaln
    cells = (log_gamma(n + a * share) - log_gamma(a * share)).sum()
    return cells + log_gamma(a) - log_gamma(n.sum() + a)


def test_many_tables_at_once_are_as_each_alone():
    rng = np.random.default_rng(7)
    tables = []
    for rows, states in ((1, 2), (9, 3), (40, 2), (6, 5), (3, 1), (200, 4)):
        share = rng.dirichlet(np.ones(states))
        counts = rng.poisson(rng.gamma(0.5, 6.0, (rows, 1)) * share).astype(float)
        tables.append(CountedTable(counts, share, float(rng.uniform(0.3, 2.0))))
    tables.append(CountedTable(np.zeros((4, 2)), np.array([0.5, 0.5]), 1.0))
    tables.append(CountedTable(np.full((9, 2), 200.0), np.array([0.5, 0.5]), 1.0))
    found = concentrating.concentrations(tables)
    for table, own in zip(tables, found, strict=True):
        right = plainly(table.counts, table.share, table.least)
        np.testing.assert_allclose(own, right, rtol=1e-9)
    assert concentrating.concentrations([]) == []


def test_the_evidence_is_that_of_dirichlet_multinomials():
    rng = np.random.default_rng(0)
    counts, share = rng.poisson(3.0, (6, 4)).astype(float), rng.dirichlet(np.ones(4))
    law = scipy.stats.dirichlet_multinomial
    whole = counts.sum(axis=1)
    rows = concentrating.stacked_rows([CountedTable(counts, share, 1.0)], [np.arange(6)])
    found = concentrating.evidence_of_rows(rows, np.array([1.0, 7.5]))
    for i, a in enumerate((1.0, 7.5)):
        right = law.logpmf(counts.astype(int), a * share, whole.astype(int)).sum()
        ways = (
            scipy.special.gammaln(whole + 1) - scipy.special.gammaln(counts + 1).sum(axis=1)
        ).sum()
        assert found[i].sum() == pytest.approx(right - ways, abs=1e-9)  # ways to order rows


def test_the_concentration_is_found():
    rng = np.random.default_rng(1)
    share = np.array([0.5, 0.3, 0.2])
    for a in (3.0, 12.0, 40.0):
        tables = rng.dirichlet(a * share, size=400)
        counts = np.array([rng.multinomial(40, t) for t in tables], dtype=float)
        # 400 rows of 40 tell log a to about .1; rows that may have the least leave more to others
        found = np.median(concentrations(counts, share, 1.0))
        assert np.log(found) == pytest.approx(np.log(a), abs=0.35)


def test_ends_and_single_rows():
    share = np.array([0.5, 0.5])
    sharp = np.array([[1e4, 0.0], [0.0, 1e4]])
    np.testing.assert_allclose(concentrations(sharp, share, 1.0), 1.0)
    np.testing.assert_array_equal(concentrations(np.array([[5.0, 3.0]]), share, 1.0), [1.0])
    lonely = np.array([[5.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(concentrations(lonely, share, 2.0), [2.0, 2.0])
    same = np.full((500, 2), 200.0)
    np.testing.assert_allclose(concentrations(same, share, 1.0), concentrating.MOST, rtol=0.1)


def test_a_row_with_a_mind_of_its_own_keeps_it():
    """All rows of an "and" but its last: fifteen times .9, and once .0001."""
    rng = np.random.default_rng(4)
    truth = np.append(np.full(15, 0.9), 1e-4)
    counts = np.array([rng.multinomial(60, [p, 1 - p]) for p in truth], dtype=float)
    found = concentrations(counts, counts.sum(axis=0) / counts.sum(), 1.0)
    assert np.median(found[:-1]) > 5
    assert found[-1] == pytest.approx(1.0, abs=1e-3)


def test_large_tables_are_worked_on_in_parts(monkeypatch):
    rng = np.random.default_rng(2)
    counts, share = rng.poisson(2.0, (50, 3)).astype(float), np.array([0.2, 0.3, 0.5])
    whole = concentrations(counts, share, 1.0)
    monkeypatch.setattr(concentrating, "MOST_CELLS", 400)
    np.testing.assert_allclose(concentrations(counts, share, 1.0), whole, rtol=1e-12)


def many_parents(n, seed=0):
    """A column that one of its four parents tells, and little at that; and a latent cause."""
    rng = np.random.default_rng(seed)
    graph = as_graph("h -> a, b, c, d, y; a -> y; b -> y; c -> y; d -> y", {"h": 2})
    graph = graph.with_states(dict.fromkeys("abcd", 3) | {"y": 2})
    h = rng.integers(0, 2, n)
    columns = {v: np.where(rng.random(n) < 0.6, h, rng.integers(0, 3, n)) for v in "abcd"}
    columns["y"] = (rng.random(n) < 0.2 + 0.1 * columns["a"]).astype(int)
    order = [graph.names[v] for v in graph.observed]
    return graph, Rows(tuple(columns[v].astype(np.int8) for v in order))


def test_large_families_of_few_rows_lean():
    graph, rows = many_parents(1000)
    right = 0.2 + 0.1 * np.arange(3)
    off = {}
    for name, settings in (("one", ONE), ("auto", TableSettings())):
        table = learn_tables(graph, LocalRows(rows), settings, 0).cpts["y"]
        at = [graph.names[v] for v in graph.parents()[graph.index("y")]].index("a")
        off[name] = np.abs(np.moveaxis(table[..., 1], at, -1) - right).mean()
    assert off["auto"] < 0.75 * off["one"]  # 162 rows of the table share 1,000: .105 becomes .072


def test_many_rows_decide_for_themselves():
    graph, rows = many_parents(3000)
    many = Rows(rows.codes, np.full(3000, 1e7))
    a = learn_tables(graph, LocalRows(many), ONE, 0).cpts["c"]
    b = learn_tables(graph, LocalRows(many), TableSettings(), 0).cpts["c"]
    np.testing.assert_allclose(a, b, atol=1e-4)


def test_numbers_that_are_given_are_kept():
    _, rows = many_parents(300)
    counted = LatentGraph(("a", "y"), ((0, 1),), frozenset(), (3, 2))
    two = Rows((rows.codes[0], rows.codes[-1]))
    n = np.zeros((3, 2))
    np.add.at(n, two.codes, 1.0)
    mu = n.sum(axis=0) / n.sum()
    for a in (0.0, 1.0, 5.0):
        found = learn_tables(counted, LocalRows(two), TableSettings(smoothing=a), 0).cpts["y"]
        np.testing.assert_allclose(found, (n + a * mu) / (n + a * mu).sum(1, keepdims=True))
    own = concentrations(n, mu, 1.0)[:, None]
    found = learn_tables(counted, LocalRows(two), TableSettings(), 0).cpts["y"]
    np.testing.assert_allclose(found, (n + own * mu) / (n + own * mu).sum(1, keepdims=True))


def test_what_is_known_or_shared_has_the_least():
    counts = {0: np.full((9, 2), 5.0), 1: np.full((9, 2), 5.0), 2: np.full((9, 2), 5.0)}
    prior = Prior(dict.fromkeys(counts, np.array([0.5, 0.5])))
    found = leaning.leaning(counts, prior, {1}, {2}).counts
    assert found[1].sum() == 1
    assert min(found[0].sum(axis=1).min(), found[2].sum(axis=1).min()) > 2


def test_learners_take_it_by_default():
    rng = np.random.default_rng(3)
    frame = {x: rng.integers(0, 3, 200) for x in "abc"}
    auto = lt.LatentModel("a -> b; a -> c; b -> c", learner=lt.Tables()).fit(frame)
    one = lt.LatentModel("a -> b; a -> c; b -> c", learner=lt.Tables(smoothing=1.0)).fit(frame)
    assert lt.Tables().smoothing == "auto" == lt.PBP().smoothing
    # nothing tells of anything: rows of the table that lean are nearer to each other
    assert np.ptp(auto.cpts_["c"], axis=(0, 1)).max() < np.ptp(one.cpts_["c"], axis=(0, 1)).max()
    with pytest.raises(DataError, match="smoothing"):
        lt.LatentModel("a -> b; a -> c", learner=lt.Tables(smoothing="some")).fit(frame)
    with pytest.raises(DataError, match="smoothing"):  # EM has the prior that it is told to have
        lt.LatentModel("a -> b; a -> c", learner=lt.EM(smoothing="auto")).fit(frame)


def test_tables_that_are_not_at_rest_climb_before_they_lean() -> None:
    """Near the middle all states look alike, and would lean on what all have."""
    graph = templates.latent_class(6, 3)
    graph = graph.with_states({graph.names[v]: 4 for v in graph.observed})
    rng = np.random.default_rng(0)
    truth = random_model(graph, rng, 0.3)
    source = LocalRows(Rows(tuple(np.asarray(truth.sample(600, rng)).T)))
    near = {v: 0.97 / t.shape[-1] + 0.03 * t for v, t in enumerate(truth.cpts.values())}
    levels = [
        climb_tables(graph, source, near, rested=rested).log_likelihood for rested in (True, False)
    ]
    best = learn_tables(graph, source, TableSettings(), rng).log_likelihood
    assert levels[0] < best - 50  # there is something to be had
    assert abs(levels[1] - best) < 5

"""Stepwise EM: the update as published, fair to few rows, the same whatever the threads."""

import numpy as np
import pytest
from scipy.special import xlogy
from tests.blocks import FoldOnly

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import ConvergenceWarning, DataError
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.networks.em_problem import counts_in, maximise, pose
from latentia.networks.starts import random_tables
from latentia.networks.stepwise_passes import batch_rows, climb_stepwise, shuffled
from latentia.structure.plan import make_plan
from latentia.structure.templates import hidden_markov, latent_class
from latentia.testing.random_models import brute_force, random_model

CLASSES = latent_class(6, 3).with_states({f"X{i}": 3 for i in range(6)})
CHAIN = hidden_markov(4, 2).with_states({f"X{t}": 3 for t in range(4)})


def rows_of(graph, seed, n, holes=0.0):
    rng = np.random.default_rng(seed)
    model = random_model(graph, rng, 0.4)
    codes = model.sample(n, rng)
    codes = np.where(rng.random(codes.shape) < holes, -1, codes)
    return model, Rows(tuple(codes.T.astype(np.int8)))


def kl(model, operators):
    graph = model.graph
    tables = {graph.names[v]: table for v, table in operators.tables.items()}
    p, q = (brute_force(m) for m in (model, lt.TabularModel(graph, tables)))
    return float(xlogy(p, p / q).sum())


@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_the_update_is_the_published_one(smoothing):
    """s ← (1 − γ) s + γ s(batch), γ = (k + 2)^−a, and an M-step after every batch."""
    _, rows = rows_of(CHAIN, 0, 30, holes=0.2)
    problem = pose(make_plan(CHAIN), LocalRows(rows), smoothing)
    start = random_tables(CHAIN, np.random.SeedSequence(3))
    found = climb_stepwise(problem, start, 0.8, 10, 2, np.random.default_rng(5))
    estep, rng, tables, k = compile_estep(CHAIN), np.random.default_rng(5), start, 0
    s = {v: t * t.shape[-1] / t.size for v, t in start.items()}
    packed = problem.source.rows
    assert len(packed) == 30  # all rows differ, so that their order is that of the rows
    for _ in range(2):
        order = shuffled(packed, rng)
        for first in (0, 10, 20):
            batch = Rows(tuple(c[order[first : first + 10]] for c in rows.codes))
            counts = counts_in(sum_counts(estep, tables, batch))
            gamma = (k + 2) ** -0.8
            s = {v: (1 - gamma) * s[v] + gamma * counts[v] / 10 for v in s}
            tables = maximise({v: 30 * x for v, x in s.items()}, problem.prior)
            k += 1
    for v, table in tables.items():
        np.testing.assert_allclose(found.tables[v], table, atol=1e-12)


@pytest.mark.parametrize(("graph", "seed"), [(CLASSES, 1), (CHAIN, 2)], ids=["classes", "chain"])
def test_comes_close_to_em(graph, seed):
    model, rows = rows_of(graph, seed, 3000)
    plan, source = make_plan(graph), LocalRows(rows)
    em = lt.EM(4, random_state=0).learn(plan, source)
    stepwise = lt.StepwiseEM(restarts=4, random_state=0).learn(plan, source)
    gap = (
        em.provenance.ascent.paths[em.provenance.ascent.best][-1]
        - stepwise.provenance.ascent.paths[stepwise.provenance.ascent.best][-1]
    )
    assert gap < 0.02
    assert kl(model, stepwise) < 2 * kl(model, em) + 0.01


def test_answers_do_not_depend_on_jobs():
    _, rows = rows_of(CHAIN, 3, 400, holes=0.1)
    plan, source = make_plan(CHAIN), LocalRows(rows)
    found = [
        lt.StepwiseEM(restarts=3, epochs=2, random_state=1, n_jobs=jobs).learn(plan, source)
        for jobs in (None, 1, 2)
    ]
    for other in found[1:]:
        assert other.provenance.ascent == found[0].provenance.ascent
        for v, table in found[0].tables.items():
            np.testing.assert_array_equal(table, other.tables[v])


def test_whole_weights_are_repeated_rows():
    """Sums over shuffled rows: an epoch sees every row as often as its weight says."""
    rng = np.random.default_rng(0)
    rows = Rows((np.arange(5),), np.array([1.0, 0.0, 3.0, 2.0, 4.0]))
    assert np.bincount(shuffled(rows, rng), minlength=5).tolist() == [1, 0, 3, 2, 4]
    plain = Rows((np.arange(5),))
    assert sorted(shuffled(plain, rng).tolist()) == [0, 1, 2, 3, 4]
    decimal = Rows((np.arange(2),), np.array([0.5, 1999.5]))
    drawn = shuffled(decimal, rng)
    assert len(drawn) == 2000
    assert (drawn == 1).mean() > 0.99


def test_batches_shrink_with_the_table():
    assert batch_rows(500, 5 * 500) == 20
    assert batch_rows(500, 5 * 10**5) == 250
    assert batch_rows(500, 5 * 10**6) == 500
    assert batch_rows(10, 5 * 10**6) == 10


def test_as_a_model(tmp_path, capsys):
    _, rows = rows_of(CLASSES, 4, 2000, holes=0.1)
    names = [CLASSES.names[v] for v in CLASSES.observed]
    data = {n: np.where(c < 0, np.nan, c) for n, c in zip(names, rows.codes, strict=True)}
    learner = lt.StepwiseEM(restarts=2, epochs=10, random_state=0, smoothing=0.5, verbose=True)
    fitted = lt.LatentModel(CLASSES, learner=learner).fit(data)
    assert capsys.readouterr().out.count("epochs, converged") == 2
    assert fitted.n_iter_ == 10
    assert [len(path) for path in fitted.history_] == [11, 11]
    assert set(fitted.cpts_) == set(CLASSES.names)
    np.testing.assert_allclose(sum(fitted.predict_latent(data, "H").values()), 1.0)
    fitted.save(tmp_path / "m")
    assert lt.load(tmp_path / "m").history_ == fitted.history_
    with pytest.warns(ConvergenceWarning, match="StepwiseEM stopped after 1"):
        lt.LatentModel(CLASSES, learner=lt.StepwiseEM(epochs=1, random_state=0)).fit(data)


@pytest.mark.parametrize(
    "parameters",
    [{"exponent": 0.5}, {"exponent": 1.1}, {"batch_size": 0}, {"epochs": 0}, {"restarts": 0}],
    ids=str,
)
def test_parameters(parameters):
    (name,) = parameters
    _, rows = rows_of(CHAIN, 0, 20)
    with pytest.raises(DataError, match=f"expected {name} to be"):
        lt.StepwiseEM(**parameters).learn(make_plan(CHAIN), LocalRows(rows))


def test_more_rows_than_are_kept_are_sampled_and_told(monkeypatch):
    """Rows in memory are all learned from; those of a source that only folds, up to a limit."""
    _, rows = rows_of(CHAIN, 0, 2000)
    monkeypatch.setattr("latentia.networks.stepwise_passes.MOST_KEPT", 40)
    learner = lt.StepwiseEM(epochs=1, restarts=1, random_state=0)
    found = learner.learn(make_plan(CHAIN), FoldOnly.of(rows, 3))
    assert found.weight == pytest.approx(40)
    assert "a random sample of 40" in found.provenance.remarks[0]
    local = learner.learn(make_plan(CHAIN), LocalRows(rows))
    assert (local.weight, local.provenance.remarks) == (2000, ())

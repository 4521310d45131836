"""The same rows in memory and in blocks: the same starts, and so the same model."""

import numpy as np
import pytest
from tests.blocks import FoldOnly

import latentia as lt
from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.kernels.settings import KernelSettings
from latentia.model.mixed_plans import prepare_mixed
from latentia.networks.em_problem import pose
from latentia.networks.smooth_network import SmoothSettings, refine_mixed
from latentia.networks.starts import seeding_of
from latentia.structure.plan import make_plan
from latentia.testing.random_models import random_model

COLUMNS = [f"X{i}" for i in range(5)]
CLASS = lt.templates.latent_class(5, 2).with_states(dict.fromkeys(COLUMNS, 3))
CHAIN = lt.templates.hidden_markov(5, 2).with_states(dict.fromkeys(COLUMNS, 3))
NORMAL = lt.as_graph("H->x,y,z,d", {"H": 2}, {"x": 60, "y": 60, "z": 60, "d": 2})
LEARNERS = {
    "em": lt.EM(3, max_iter=40, random_state=0),
    "em from the closed form": lt.EM(init="pbp", max_iter=40, random_state=0),
    "stepwise": lt.StepwiseEM(epochs=2, restarts=2, random_state=0),
    "refined": lt.PBP(refine=True),
    "default": lt.PBP(),
    "known": lt.PBP(known={"X0": [[0.2, np.nan, np.nan], [np.nan] * 3]}),
}


def discrete_rows(graph, n, weight=None, seed=0):
    rng = np.random.default_rng(seed)
    codes = random_model(graph, rng, 0.4).sample(n, rng).astype(np.int8)
    codes[rng.random(codes.shape) < 0.05] = -1
    given = {"whole": rng.integers(1, 4, n).astype(float), "broken": rng.random(n) + 0.2}
    return Rows(tuple(codes.T), given.get(weight))


def normal_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    dense = [30.0 + 6.0 * (2 * h - 1) + 4.0 * rng.normal(size=n) for _ in "xyz"]
    d = np.where(rng.random(n) < 0.9, h, 1 - h).astype(np.int8)
    return Rows((*dense, d), None)


def assert_alike(one, two):
    """Sums in another order move the last digits, and a climb of many steps some more."""
    mine, other = one.provenance.choice, two.provenance.choice
    assert mine == other or mine.chosen == other.chosen
    assert one.tables.keys() == two.tables.keys()
    for a, b in zip(one.leaves, two.leaves, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    for v, table in one.tables.items():
        np.testing.assert_allclose(table, two.tables[v], atol=1e-9)
    for v, leaf in one.gaussians.items():
        np.testing.assert_allclose(leaf, two.gaussians[v], rtol=1e-8)


@pytest.mark.parametrize("weight", [None, "whole", "broken"])
@pytest.mark.parametrize("graph", [CLASS, CHAIN], ids=["class", "chain"])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.filterwarnings("ignore::latentia.errors.ConvergenceWarning")
def test_discrete_rows(learner, graph, weight):
    rows, plan = discrete_rows(graph, 600, weight), make_plan(graph)
    one = LEARNERS[learner].learn(plan, LocalRows(rows))
    two = LEARNERS[learner].learn(plan, FoldOnly.of(rows, 4))
    assert_alike(one, two)


@pytest.mark.parametrize("learner", ["em", "stepwise"])
def test_decimals(learner):
    rows, plan = normal_rows(900), make_plan(NORMAL)
    one = LEARNERS[learner].learn(plan, LocalRows(rows))
    two = LEARNERS[learner].learn(plan, FoldOnly.of(rows, 4))
    assert_alike(one, two)
    starts = [[path[0] for path in found.provenance.ascent.paths] for found in (one, two)]
    np.testing.assert_allclose(*starts, atol=1e-9)


def test_starts_of_decimals_are_rows_whatever_the_source():
    """Of blocks they were noise, of which few found the optimum."""
    rows, plan = normal_rows(900), make_plan(NORMAL)
    source = FoldOnly.of(rows, 4)
    problem = pose(plan, source)
    ((variables, X),) = seeding_of(problem, source, 1).groups
    for v, x in zip(variables, X, strict=True):
        mean, deviation = problem.scales[v]
        own = rows.codes[NORMAL.observed.index(v)]
        np.testing.assert_allclose(np.sort(x * deviation + mean), np.sort(own), rtol=1e-9)


def mixed_rows(n, learner):
    """The plan of a class over decimals and a state, its columns, and rows on their grids."""
    data = dict(zip("xyzd", normal_rows(n).codes, strict=True))
    found = [discover_from_values(name, Values(x)) for name, x in data.items()]
    plan, columns = prepare_mixed(lt.as_graph("H->x,y,z,d", {"H": 2}), found, learner.abilities)
    return plan, columns, Rows(tuple(c.place(Values(data[c.name])) for c in columns))


@pytest.mark.parametrize("refine", ["auto", True])
def test_mixed_rows(refine):
    learner = lt.PBP(refine=refine)
    plan, columns, rows = mixed_rows(600, learner)
    one = learner.learn_mixed(plan, columns, LocalRows(rows))
    two = learner.learn_mixed(plan, columns, FoldOnly.of(rows, 4))
    assert_alike(one, two)


def test_the_start_of_a_smooth_network_heeds_weights():
    """A row of weight three is three rows: sums are the same but for their order."""
    plan, columns, rows = mixed_rows(120, lt.PBP(refine=True))  # all of them landmarks
    times = np.random.default_rng(1).integers(1, 4, 120)
    weighted = Rows(rows.codes, times.astype(float))
    repeated = Rows(tuple(c.repeat(times) for c in rows.codes))
    one, two = (
        refine_mixed(
            plan, columns, LocalRows(x), x, KernelSettings(), SmoothSettings(0.1),
            np.random.default_rng(0),
        )
        for x in (weighted, repeated)
    )  # fmt: skip
    assert_alike(one, two)

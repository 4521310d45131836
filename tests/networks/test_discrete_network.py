"""The positive network: a valid distribution, a path that never falls, and close to the truth."""

import itertools

import numpy as np
import pytest

from latentia import PBP, LatentModel, TabularModel, load
from latentia.closed_form.evaluating import evaluator
from latentia.closed_form.solving import gather_statistics
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import read_evidence
from latentia.networks.discrete_network import refine_closed_form
from latentia.networks.soft_states import memberships, shared_parts
from latentia.structure import templates
from latentia.structure.plan import make_plan
from latentia.structure.state_network import positive_network
from latentia.testing.random_models import KINDS, all_rows, brute_force, random_graph, random_model

DIRECTED = [kind for kind in KINDS if kind not in ("undirected",)]


def counted(table, n, rng):
    """n rows drawn from a joint table, equal ones counted."""
    codes, weight = all_rows(table)
    counts = rng.multinomial(n, weight / weight.sum()).astype(float)
    return LocalRows(Rows(tuple(codes[counts > 0].T.astype(np.int8)), counts[counts > 0]))


def joint_of(operators, table):
    codes, _ = all_rows(table)
    log, _ = log_evidence(operators, read_evidence(operators.plan, list(codes.T)))
    return np.exp(log).reshape(table.shape)


class TestPositiveNetwork:
    @pytest.mark.parametrize(
        ("graph", "latents"),
        [
            (templates.latent_class(7, 3), 1),
            (templates.latent_tree([["a", "b", "u"], ["c", "d"], ["e", ["f", "g"]]], 3), 5),
            (templates.hidden_markov(6, 3), 5),  # the first latent has nothing of its own to say
        ],
        ids=["class", "tree", "chain"],
    )
    def test_trees_come_back_as_they_were(self, graph, latents):
        columns = [graph.names[v] for v in graph.observed]
        plan = make_plan(graph, states=dict.fromkeys(columns, 4))
        found = positive_network(plan).graph
        assert len(found.latent) == latents
        assert all(found.states[v] == 3 for v in found.latent)
        above = found.parents()
        assert all(len(above[v]) == 1 for v in found.observed)

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_column_once_and_in_order(self, kind):
        for seed in range(5):
            plan = make_plan(random_graph(np.random.default_rng(seed), kind))
            graph = positive_network(plan).graph
            assert tuple(graph.names[v] for v in graph.observed) == plan.columns

    def test_the_diamond_ties_what_its_collider_ties(self):
        plan = make_plan(
            "A->B,C; B,C->F; B->D; C->E; F->G,H", dict.fromkeys("ABCF", 3), dict.fromkeys("DEGH", 5)
        )
        graph = positive_network(plan).graph
        b, c = (graph.index(x) for x in "BC")  # a separator of one latent has its name
        assert b in graph.parents()[c] or c in graph.parents()[b]


@pytest.mark.parametrize("kind", DIRECTED)
def test_always_a_distribution(kind):
    """Answers over all states sum to one, none is negative; the path of the climb never falls."""
    rng = np.random.default_rng(5)
    plan = make_plan(random_graph(rng, kind, observed_limit=3000))
    table = brute_force(random_model(plan.graph, rng))
    source = counted(table, 2000, rng)
    operators = PBP(refine=True).learn(plan, source)
    joint = joint_of(operators, table)
    assert (joint >= 0).all()
    assert joint.sum() == pytest.approx(1.0, abs=1e-9)
    (path,) = operators.provenance.ascent.paths
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(path))


@pytest.mark.parametrize(
    "graph",
    [templates.latent_class(6, 3), templates.hidden_markov(6, 3)],
    ids=["class", "chain"],
)
def test_refined_beats_the_closed_form_at_ten_thousand_rows(graph):
    """Median over 24 models of KL(truth ‖ model), both floored alike; of few it is mostly noise."""
    columns = [graph.names[v] for v in graph.observed]
    plan = make_plan(graph, states=dict.fromkeys(columns, 3))
    ratios = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        table = brute_force(random_model(plan.graph, rng, 0.4))
        source = counted(table, 10_000, rng)
        kl = []
        for learner in (PBP(refine=False), PBP(refine=True)):
            joint = np.maximum(joint_of(learner.learn(plan, source), table), 1e-9)
            joint = joint / joint.sum()
            kl.append(float((table * np.log(np.maximum(table, 1e-300) / joint)).sum()))
        ratios.append(kl[1] / kl[0])
    assert np.median(ratios) < 0.95


def test_the_same_seed_gives_the_same_tables():
    rng = np.random.default_rng(0)
    plan = make_plan(templates.hidden_markov(5, 2), states={f"X{t}": 3 for t in range(5)})
    source = counted(brute_force(random_model(plan.graph, rng)), 3000, rng)
    one, two = (PBP(refine=True, random_state=1).learn(plan, source) for _ in range(2))
    for a, b in zip(one.leaves, two.leaves, strict=True):
        np.testing.assert_array_equal(a, b)


def test_many_different_rows_climb_on_fewer_first(monkeypatch):
    rng = np.random.default_rng(0)
    plan = make_plan(templates.hidden_markov(8, 2), states={f"X{t}": 4 for t in range(8)})
    model = random_model(plan.graph, rng, 0.4)
    source = LocalRows(Rows(tuple(model.sample(4000, rng).T.astype(np.int8))))
    found = gather_statistics(plan, source)
    whole = refine_closed_form(found, source, np.random.default_rng(0))
    monkeypatch.setattr("latentia.networks.discrete_network.MOST_KEPT", 800)
    first = refine_closed_form(found, source, np.random.default_rng(0))
    last = [each.provenance.ascent.paths[0][-1] for each in (first, whole)]
    assert last[0] == pytest.approx(last[1], abs=0.01)


def test_memberships_are_shares():
    rng = np.random.default_rng(0)
    plan = make_plan(templates.latent_class(5, 3), states={f"X{i}": 3 for i in range(5)})
    source = counted(brute_force(random_model(plan.graph, rng, 0.3)), 1000, rng)
    found = gather_statistics(plan, source)
    network = positive_network(plan)
    values = evaluator(found.layout, found.basis, leaves_too=True)(source.rows)
    parts = shared_parts(found.basis, network, values)
    for seed in (None, np.random.default_rng(0)):
        for soft in memberships(network, parts, source.rows, seed).values():
            assert (soft >= 0).all()
            np.testing.assert_allclose(soft.sum(axis=0), 1.0)


def test_in_latent_model():
    rng = np.random.default_rng(0)
    graph = templates.latent_class(["a", "b", "c", "d"], 2)
    truth = random_model(graph.with_states(dict.fromkeys("abcd", 3)), rng, 0.3)
    rows = truth.sample(3000, rng)
    model = LatentModel(
        graph, learner=PBP(refine=True), state_names=dict.fromkeys("abcd", range(3))
    ).fit(rows)
    states = np.array(list(itertools.product(range(3), repeat=4)))
    assert np.exp(model.score_samples(states)).sum() == pytest.approx(1.0, abs=1e-9)
    assert model.query("a", {"b": 0}).clipped == 0
    assert "converged" in repr(model.diagnostics_)
    own = TabularModel(model.plan_.graph, model.cpts_)
    np.testing.assert_allclose(np.asarray(model.query("H")), own.query("H"), rtol=1e-9)


def test_files_keep_the_network(tmp_path):
    rng = np.random.default_rng(1)
    graph = templates.hidden_markov(5, 2).with_states({f"X{t}": 3 for t in range(5)})
    rows = random_model(graph, rng, 0.4).sample(2000, rng)
    model = LatentModel(graph, learner=PBP(refine=True)).fit(rows)
    model.save(tmp_path / "m.latentia")
    again = load(tmp_path / "m.latentia")
    np.testing.assert_array_equal(model.score_samples(rows), again.score_samples(rows))
    assert again.learner.refine
    assert again.plan_.graph.names == model.plan_.graph.names

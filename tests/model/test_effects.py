"""Interventions: against enumeration, pgmpy, pyAgrum, and simulation from known networks."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import EffectWarning, EvidenceError, GraphError, NotLearnedError

EDGES = "h->x; h->y; x->m; m->y; z->x; z->y"
STATES = {"x": ["no", "yes"], "y": [0, 1, 2], "z": ["a", "b"], "m": [False, True]}


def confounded(seed=0):
    """A latent above x and y, a mediator, and a column that confounds."""
    rng = np.random.default_rng(seed)
    graph = lt.as_graph(EDGES, latents={"h": 2})
    sizes = {"h": 2, "x": 2, "y": 3, "m": 2, "z": 2}
    above = graph.parents()
    cpts = {}
    for v, name in enumerate(graph.names):
        shape = [sizes[graph.names[p]] for p in above[v]]
        cpts[name] = rng.dirichlet([1.0] * sizes[name], size=shape)
    return lt.TabularModel(graph, cpts, state_names=STATES)


def enumerated(model, target, given, do):
    """P(target | given, do) by the sum over all joint states."""
    names, states = model.names, model.states
    code = {}
    for name, state in {**given, **do}.items():
        labels = model.state_names.get(name, range(states[names.index(name)]))
        code[names.index(name)] = list(labels).index(state)
    t = names.index(target)
    found = np.zeros(states[t])
    for row in itertools.product(*(range(m) for m in states)):
        if any(row[v] != c for v, c in code.items()):
            continue
        p = 1.0
        for scope, table in model.tables.items():
            if names[scope[-1]] not in do:
                p *= table[tuple(row[v] for v in scope)]
        found[row[t]] += p
    return found / found.sum()


QUESTIONS = [
    ("y", {}, {"x": "yes"}),
    ("y", {"z": "a"}, {"x": "no"}),
    ("h", {"m": True, "y": 2}, {"x": "yes"}),
    ("x", {"y": 1}, {"m": False}),
    ("y", {"x": "yes"}, {"m": True, "z": "b"}),
    ("y", {}, {"h": 1}),
]


@pytest.mark.parametrize(("target", "given", "do"), QUESTIONS)
def test_a_network_with_given_tables_answers_as_enumeration_does(target, given, do):
    model = confounded()
    found = model.query(target, given, do=do)
    np.testing.assert_allclose(np.asarray(found), enumerated(model, target, given, do), atol=1e-12)
    assert found.do == do
    assert "do(" in found.title


def test_a_joint_answer_after_an_intervention():
    model = confounded()
    table = np.asarray(model.query(["y", "m"], {"z": "a"}, do={"x": "yes"}))
    np.testing.assert_allclose(
        table.sum(axis=1), enumerated(model, "y", {"z": "a"}, {"x": "yes"}), atol=1e-12
    )


def test_the_effect_of_every_state_with_what_was_seen():
    model = confounded(3)
    effect = model.effect("x", "y", {"z": "b"})
    for k, state in enumerate(["no", "yes"]):
        np.testing.assert_allclose(
            effect.table[k], enumerated(model, "y", {"z": "b"}, {"x": state}), atol=1e-12
        )
        np.testing.assert_allclose(
            effect.seen[k], enumerated(model, "y", {"z": "b", "x": state}, {}), atol=1e-12
        )
    means = effect.table @ [0, 1, 2]
    assert effect.means == pytest.approx(dict(zip(["no", "yes"], means, strict=True)))
    assert effect.average == pytest.approx({"no": 0.0, "yes": means[1] - means[0]})
    other = model.effect("x", "y", {"z": "b"}, baseline="yes")
    assert other.average == pytest.approx({"no": means[0] - means[1], "yes": 0.0})
    assert "the mean changes by" in repr(effect)
    frame = pd.DataFrame(effect.frame())
    assert list(frame.columns) == ["x", "y", "set", "seen"]
    np.testing.assert_allclose(frame["set"], effect.table.ravel())


def test_an_outcome_of_words_changes_by_probability():
    model = confounded(3)
    effect = model.effect("y", "z")
    change = effect.table - effect.table[0]
    for k, state in enumerate([0, 1, 2]):
        assert effect.average[state] == pytest.approx(
            dict(zip(["a", "b"], change[k], strict=True)), abs=1e-12
        )
    assert "no arrows lead from y to z" in repr(effect)
    with pytest.raises(EvidenceError, match="no mean"):
        _ = effect.means


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of pgmpy about itself
def test_random_networks_agree_with_pgmpy(seed):
    pytest.importorskip("pgmpy")
    from pgmpy.inference import CausalInference

    rng = np.random.default_rng(seed)
    names = list("abcdefg")
    graph = {
        name: [above for above in names[:k] if rng.random() < 0.4] for k, name in enumerate(names)
    }
    cpts = {name: rng.dirichlet([1, 1, 1], size=(3,) * len(above)) for name, above in graph.items()}
    model = lt.TabularModel(graph, cpts)
    x, y = rng.choice(len(names), 2, replace=False)
    other = lt.to_pgmpy(model)
    try:
        expected = CausalInference(other).query([names[y]], do={names[x]: 0}, show_progress=False)
    except ValueError:
        pytest.skip("pgmpy wants an adjustment set here")
    found = model.query(names[y], do={names[x]: 0})
    np.testing.assert_allclose(np.asarray(found), expected.values, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_networks_of_columns_agree_with_pyagrum(seed):
    gum = pytest.importorskip("pyagrum")
    rng = np.random.default_rng([7, seed])
    graph = lt.as_graph("z->x; z->y; x->m; m->y; w->x; w->m")
    cpts = {
        name: rng.dirichlet([1, 1, 1], size=(3,) * len(above))
        for name, above in zip(graph.names, graph.parents(), strict=True)
    }
    model = lt.TabularModel(graph, cpts)
    causal = gum.CausalModel(lt.to_pyagrum(model))
    told = gum.causalImpact(causal, on="y", doing="x")[1]
    effect = model.effect("x", "y")
    for k in range(3):
        np.testing.assert_allclose(effect.table[k], told[{"x": k}], atol=1e-9)
    assert set(effect.identification.back_door) in ({"z", "w"}, {"z"})


def test_simulation_with_the_arrows_cut():
    """10^6 rows of a world in which x is set: three standard errors of a share of them."""
    model = confounded(5)
    rows = model.set_by_hand({"x": "yes"}).sample(10**6, 0)
    names = [model.names[v] for v in model.graph.observed]
    shares = np.bincount(rows[:, names.index("y")], minlength=3) / len(rows)
    found = model.effect("x", "y").table[1]
    np.testing.assert_allclose(found, shares, atol=3 * 0.5 / 10**3)


# --- learned models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured():
    """A latent cause that three columns tell, above a treatment and its outcome."""
    graph = "h->a; h->b; h->c; h->x; h->y; x->y"
    cpts = {
        "h": [0.5, 0.5],
        "a": [[0.9, 0.1], [0.2, 0.8]],
        "b": [[0.8, 0.2], [0.1, 0.9]],
        "c": [[0.85, 0.15], [0.15, 0.85]],
        "x": [[0.8, 0.2], [0.3, 0.7]],
        "y": [[[0.9, 0.1], [0.7, 0.3]], [[0.5, 0.5], [0.2, 0.8]]],
    }
    truth = lt.TabularModel(graph, cpts, latents=["h"])
    rows = truth.sample(20_000, 1)
    table = pd.DataFrame(rows, columns=[truth.names[v] for v in truth.graph.observed])
    learner = lt.EM(restarts=2, random_state=0)
    model = lt.LatentModel(graph, latents={"h": 2}, learner=learner).fit(table, error_bars=True)
    return truth, table, model


def test_a_latent_confounder_is_accounted_for(measured):
    truth, _, model = measured
    with pytest.warns(EffectWarning, match="because of the latent h"):
        effect = model.effect("x", "y", confidence=0.9)
    expected = truth.effect("x", "y")
    # four standard errors of a difference of shares of some 10^4 rows each
    assert effect.average[1] == pytest.approx(expected.average[1], abs=4 * 0.5 / 70)
    naive = expected.seen[1, 1] - expected.seen[0, 1]
    assert naive > expected.average[1] + 0.1  # what is seen is far off
    lower, upper = effect.average_intervals[1]
    assert lower < expected.average[1] < upper
    assert upper - lower < 0.1
    ends = effect.intervals
    assert (ends[0] <= effect.table).all()
    assert (effect.table <= ends[1]).all()


def test_questions_with_do_agree_with_each_other(measured):
    _, table, model = measured
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EffectWarning)
        one = model.query("y", {"a": 1}, do={"x": 1})
        effect = model.effect("x", "y", {"a": 1})
        np.testing.assert_allclose(effect.table[1], np.asarray(one), atol=1e-12)
        rows = table.head(50)
        both = model.predict_proba(rows, "y", do={"x": 1})
        best = model.predict(rows, "y", do={"x": 1})
        hidden = model.predict_proba(rows, "h", do={"x": 1})
        for i in range(5):
            row = rows.iloc[i].drop(["x", "y"]).to_dict()
            np.testing.assert_allclose(
                both.iloc[i], np.asarray(model.query("y", row, do={"x": 1})), atol=1e-12
            )
            row = rows.iloc[i].drop("x").to_dict()
            np.testing.assert_allclose(
                hidden.iloc[i], np.asarray(model.query("h", row, do={"x": 1})), atol=1e-12
            )
        assert (best.to_numpy() == both.to_numpy().argmax(axis=1)).all()
        assert list(both.columns) == [0, 1]
        p, lower, upper = model.predict_proba(rows, "y", do={"x": 1}, confidence=0.9)
        np.testing.assert_allclose(p, both, atol=1e-12)
        assert (lower <= p).all().all()
        assert (p <= upper).all().all()
        bars = model.query("y", do={"x": 1}, confidence=0.9)
        assert (bars.lower <= bars.table).all()
        assert (bars.table <= bars.upper).all()


def test_an_identified_effect_is_no_reason_to_warn():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=3000)
    x = (rng.random(3000) < 0.2 + 0.6 * z) * 1
    y = (rng.random(3000) < 0.1 + 0.3 * x + 0.4 * z) * 1
    model = lt.LatentModel("z->x; z->y; x->y", learner="tables").fit({"x": x, "y": y, "z": z})
    with warnings.catch_warnings():
        warnings.simplefilter("error", EffectWarning)
        effect = model.effect("x", "y")
    assert effect.identification.back_door == ("z",)
    shares = np.array([[np.mean(y[(x == i) & (z == k)]) for k in (0, 1)] for i in (0, 1)])
    expected = shares @ [np.mean(z == 0), np.mean(z == 1)]
    # tables are smoothed by about one row in the fewest hundreds of a cell
    np.testing.assert_allclose(effect.table[:, 1], expected, atol=0.01)


def test_clear_errors():
    model = confounded()
    with pytest.raises(EvidenceError, match="set at once"):
        model.query("y", do={"y": 1})
    with pytest.raises(EvidenceError, match="observed and set"):
        model.query("y", {"x": "no"}, do={"x": "yes"})
    with pytest.raises(EvidenceError, match="expected do="):
        model.query("y", do={})
    with pytest.raises(KeyError, match="'no', 'yes'"):
        model.query("y", do={"x": "maybe"})
    with pytest.raises(EvidenceError, match="expected a state of 'x'"):
        model.query("y", do={"x": None})
    with pytest.raises(EvidenceError, match="twice"):
        model.effect("x", "x")
    with pytest.raises(KeyError, match="state of 'x'"):
        model.effect("x", "y", baseline="maybe")
    field = lt.TabularModel("a--b", {("a", "b"): [[0.5, 1.0], [1.0, 2.0]]})
    with pytest.raises(GraphError, match="directed graph"):
        field.query("a", do={"b": 1})
    with pytest.raises(GraphError, match="directed graph"):
        field.effect("a", "b")


def test_covariates_of_a_logit_are_not_left_out_silently():
    rng = np.random.default_rng(0)
    age = rng.normal(size=1000)
    h = (rng.random(1000) < 1 / (1 + np.exp(-2 * age))) * 1
    data = {c: np.where(rng.random(1000) < 0.8, h, 1 - h) for c in "xyz"}
    graph, learner = "age->H; H->x; H->y; H->z", lt.EM(restarts=1, random_state=0)
    model = lt.LatentModel(graph, {"H": 2}, learner, link={"H": "logit"}).fit({**data, "age": age})
    with pytest.raises(NotLearnedError, match="covariates"):
        model.predict_proba({"x": [1], "age": [0.5]}, "y", do={"x": 1})


def test_a_model_without_tables_says_what_to_do():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=3000)
    data = {c: np.where(rng.random(3000) < 0.8, h, 1 - h) for c in "xyz"}
    plain = lt.PBP(refine=False)
    model = lt.LatentModel("H->x; H->y; H->z", latents={"H": 2}, learner=plain).fit(data)
    with pytest.raises(NotLearnedError, match="learner='tables'"):
        model.effect("x", "y")
    lines = lt.LatentModel("x--y--z", learner=plain).fit(data)
    with pytest.raises(GraphError, match="undirected"):
        lines.query("y", do={"x": 1})

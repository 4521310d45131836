"""States that mean something: their order does not depend on chance, and they have names."""

import numpy as np
import pytest
from sklearn.base import clone

import latentia as lt
from latentia.errors import DataError, UnknownNameError
from latentia.networks.state_order import state_orders
from latentia.networks.tables import Tables

SIZES = (0.2, 0.5, 0.3)
GRAPH = "class->a,b,c,d,income"


def rows(n=4000, seed=0, sizes=SIZES):
    """Three classes; the middle one is the largest, and has the largest income."""
    rng = np.random.default_rng(seed)
    h = rng.choice(3, p=sizes, size=n)
    data = {c: np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n)) for c in "abcd"}
    data["income"] = np.clip(np.array([0, 4, 2])[h] + rng.integers(-1, 2, size=n), 0, 5)
    return data


def fitted(data, graph=GRAPH, learner="tables", **more):
    return lt.LatentModel(graph, {"class": 3}, learner=learner, **more).fit(data)


def profile(model, column="a"):
    """P(column | class), one row per class."""
    return model.cpts_[column]


@pytest.mark.parametrize("learner", ["tables", "em"])
def test_states_go_by_size(learner):
    learner = lt.EM(3, random_state=0) if learner == "em" else learner
    model = fitted(rows(), learner=learner)
    # three standard errors of a share of 4,000 rows, half as much again for what is hidden
    np.testing.assert_allclose(model.cpts_["class"], sorted(SIZES, reverse=True), atol=0.035)
    assert profile(model).argmax(axis=1).tolist() == [1, 2, 0]


def test_states_go_along_a_column():
    for given in ("income", {"class": "income"}):
        model = fitted(rows(), order_by=given)
        means = profile(model, "income") @ np.arange(6)
        assert (np.diff(means) > 1).all()
        assert profile(model).argmax(axis=1).tolist() == [0, 2, 1]
    by_size = fitted(rows(), order_by="size")
    np.testing.assert_array_equal(profile(by_size), profile(fitted(rows())))


def test_along_a_continuous_column():
    data = rows()
    data["income"] = data["income"] + np.random.default_rng(5).normal(size=4000) / 3
    for order, expected in (("income", [0, 2, 1]), (None, [1, 2, 0])):
        model = fitted(data, learner=lt.EM(3, random_state=0), order_by=order)
        assert profile(model).argmax(axis=1).tolist() == expected
        leaf = model.cpts_["income"]  # numbered as the tables are
        truth = np.array([0, 4, 2])[expected]
        assert np.argsort(leaf.means[:, 0]).tolist() == np.argsort(truth).tolist()
        # … and so are answers about rows
        found = np.stack(list(model.predict_proba(data, "class").values()))
        np.testing.assert_allclose(found.mean(axis=1), model.cpts_["class"], atol=1e-3)


@pytest.mark.parametrize("sizes", [SIZES, (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("learner", ["tables", "em"])
def test_the_order_is_stable(learner, sizes):
    """Over seeds, shuffled rows, renamed columns and resamples; equal sizes go by content."""
    data, rng = rows(sizes=sizes), np.random.default_rng(1)

    def order(table, graph=GRAPH, column="a", seed=0):
        made = lt.EM(4, random_state=seed) if learner == "em" else Tables(random_state=seed)
        return profile(fitted(table, graph, made), column).argmax(axis=1).tolist()

    first = order(data)
    for seed in range(1, 4):
        shuffle = rng.permutation(4000)
        assert order({c: x[shuffle] for c, x in data.items()}, seed=seed) == first
        again = rng.integers(4000, size=4000)
        assert order({c: x[again] for c, x in data.items()}, seed=seed) == first
    renamed = {f"{chr(122 - k)}_{c}": x for k, (c, x) in enumerate(data.items())}
    assert order(renamed, "class->" + ",".join(renamed), next(iter(renamed))) == first


def test_the_order_of_columns_does_not_matter():
    """States of nearly the same size go by all columns together; a clear size goes first."""
    rng = np.random.default_rng(3)
    names = [f"x{i}" for i in range(7)]
    told = {x: rng.dirichlet(np.ones(3), size=5) for x in names}

    def order(columns, sizes, weight):
        graph = lt.as_graph([("h", x) for x in columns], {"h": 5})
        graph = graph.with_states(dict.fromkeys(columns, 3))
        tables = {"h": np.array(sizes), **told}
        own = {v: tables[name] for v, name in enumerate(graph.names)}
        return state_orders(graph, own, weight=weight)[graph.index("h")].tolist()

    score = np.mean([t @ [0, 0.5, 1] for t in told.values()], axis=0)
    near, clear = [0.2, 0.21, 0.19, 0.195, 0.205], [0.2, 0.1, 0.19, 0.21, 0.3]
    for _ in range(5):
        columns = rng.permutation(names).tolist()
        assert order(columns, near, 1e6) == np.argsort(score).tolist()
        first, *middle, last = order(columns, clear, 1e6)
        assert (first, last) == (4, 1)
        assert middle == sorted([0, 2, 3], key=lambda s: score[s])
    # of few rows larger differences are chance, but none that a reader sees
    some = [0.22, 0.2, 0.18, 0.24, 0.16]
    assert order(names, some, 500) == np.argsort(score).tolist()
    seen = [0.3, 0.24, 0.18, 0.12, 0.16]
    assert order(names, seen, 50)[:3] == [0, 1, *sorted([2, 4, 3], key=lambda s: score[s])[:1]]


def test_the_default_finds_the_same_classes_whatever_the_order_of_columns():
    """With one start, that of the closed form, it stayed 145 nats below the maximum."""
    rng = np.random.default_rng(5)
    member = rng.choice(5, size=2000, p=rng.dirichlet(np.full(5, 5.0)))
    tables = rng.dirichlet(np.ones(3), size=(9, 5)).cumsum(-1)
    data = {
        f"x{i}": (rng.random(2000)[:, None] > t[member]).sum(1).clip(0, 2)
        for i, t in enumerate(tables)
    }
    fits = [
        lt.LatentModel([("class", x) for x in columns], {"class": 5}).fit(
            {x: data[x] for x in columns}
        )
        for columns in (list(data), list(data)[::-1])
    ]
    labels = [np.asarray(model.predict(data, "class")) for model in fits]
    assert (labels[0] == labels[1]).mean() > 0.99  # all but rows on the border of two classes
    assert abs(fits[0].score(data) - fits[1].score(data)) * 2000 < 1


def test_the_distribution_is_the_same_in_any_order():
    data = rows(1000)
    plain, along = fitted(data), fitted(data, order_by="income")
    np.testing.assert_allclose(plain.score_samples(data), along.score_samples(data), atol=1e-9)
    em = [fitted(data, learner=lt.EM(2, random_state=0), order_by=o) for o in (None, "income")]
    np.testing.assert_allclose(em[0].score_samples(data), em[1].score_samples(data), atol=1e-9)
    np.testing.assert_allclose(
        np.asarray(em[0].query("a", {"b": 1})), np.asarray(em[1].query("a", {"b": 1})), atol=1e-12
    )


def test_known_and_tied_tables_keep_their_numbers():
    data = {c: x for c, x in rows().items() if c in "abc"}
    known = {"a": np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])}
    for learner in (lt.EM(2, known=known, random_state=0), Tables(known=known)):
        model = fitted(data, "class->a,b,c", learner)
        np.testing.assert_array_equal(model.cpts_["a"], known["a"])
    rng = np.random.default_rng(3)
    first = rng.choice(2, p=[0.2, 0.8], size=3000)
    second = np.where(rng.random(3000) < 0.3, first, 0)
    h = {"H0": first, "H1": second}
    chain = {
        f"{c}{t}": np.where(rng.random(3000) < 0.85, h[f"H{t}"], 1 - h[f"H{t}"])
        for t in range(2)
        for c in "xyz"
    }
    tied = [[f"{c}{t}" for t in range(2)] for c in "xyz"]
    graph = "H0->H1; H0->x0,y0,z0; H1->x1,y1,z1"
    model = lt.LatentModel(graph, {"H0": 2, "H1": 2}, learner=lt.EM(3, tied=tied, random_state=0))
    tables = model.fit(chain).cpts_
    np.testing.assert_array_equal(tables["x0"], tables["x1"])


# --- names ----------------------------------------------------------------------------------------

NAMES = {"class": ["many", "some", "few"]}


def test_names_are_used_everywhere(tmp_path):
    data = rows(800)
    for model in (fitted(data, name_states=NAMES), fitted(data).with_state_names(NAMES)):
        assert model.query("class").states == (("many", "some", "few"),)
        assert model.query("a", {"class": "few"}).mode == 0
        assert set(model.predict(data, "class")) == {"many", "some", "few"}
        assert list(model.predict_proba(data, "class")) == ["many", "some", "few"]
        assert model.map_query(["class", "a"])["class"] == "many"
        model.save(tmp_path / "m")
        again = lt.load(tmp_path / "m")
        assert again.name_states == NAMES
        assert again.query("class").probabilities == model.query("class").probabilities
    model.with_state_names({})
    assert model.query("class").states == ((0, 1, 2),)


def test_they_are_parameters_like_others(tmp_path):
    model = lt.LatentModel(GRAPH, {"class": 3}, order_by="income", name_states=NAMES)
    again = clone(model)
    assert again.get_params()["name_states"] == NAMES
    assert again.get_params()["order_by"] == "income"
    found = again.set_params(learner="tables").fit(rows(500))
    found.set_params(name_states={"class": ["x", "y", "z"]})  # names are for answers alone
    assert found.query("class").states == (("x", "y", "z"),)
    found.save(tmp_path / "m")
    assert lt.load(tmp_path / "m").order_by == "income"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"name_states": {"klass": ["a", "b", "c"]}}, UnknownNameError, "latent .in name_states"),
        ({"name_states": {"class": ["a", "b"]}}, DataError, "has 3 states, got 2 names"),
        ({"name_states": {"class": ["a", "b", "b"]}}, DataError, "different names"),
        ({"name_states": ["a", "b", "b"]}, DataError, "dict of latent"),
        ({"order_by": "wealth"}, UnknownNameError, "column .in order_by"),
        ({"order_by": {"klass": "income"}}, UnknownNameError, "latent .in order_by"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_learned(given, error, said):
    with pytest.raises(error, match=said):
        fitted(rows(200), **given)

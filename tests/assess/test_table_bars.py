"""Tables without a group of rows, against tables learned without it; and intervals of latents."""

import numpy as np
import pytest

import latentia as lt
from latentia.assess import climbed_bars
from latentia.assess.jackknife import in_groups
from latentia.assess.table_bars import own_tables_without, tables_with_and_without
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import NotLearnedError
from latentia.exact.table_answers import TableAnswers
from latentia.networks.knowledge import Knowledge, read_knowledge
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings

GRAPH = "x->H; H->a,b,c; a->d; H->d; x->e; e->f"


def truth():
    tables = {
        "x": [0.4, 0.6],
        "H": [[0.7, 0.3], [0.25, 0.75]],
        "a": [[0.9, 0.1], [0.2, 0.8]],
        "b": [[0.8, 0.2], [0.15, 0.85]],
        "c": [[0.85, 0.15], [0.3, 0.7]],
        "d": [[[0.7, 0.3], [0.2, 0.8]], [[0.4, 0.6], [0.1, 0.9]]],
        "e": [[0.6, 0.4], [0.3, 0.7]],
        "f": [[0.9, 0.1], [0.5, 0.5]],
    }
    return TableAnswers(GRAPH, tables, latents=["H"])


def source_of(answers, n=4000, seed=0, holes=0.0):
    codes = answers.sample(n, seed)
    gone = np.random.default_rng(seed).random(codes.shape) < holes
    codes = np.where(gone, -1, codes)
    return LocalRows(Rows(tuple(np.ascontiguousarray(c) for c in codes.T)))


@pytest.mark.parametrize("climbing", [True, False])
@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_tables_move_as_those_learned_without_the_group(holes, climbing, monkeypatch):
    if not climbing:
        monkeypatch.setattr(climbed_bars, "MOST_WORK", 0)
    answers = truth()
    source = source_of(answers, holes=holes)
    settings = TableSettings(smoothing=1e-3)
    learned = learn_tables(answers.graph, source, settings, 0)
    tables, groups = dict(learned.tables), 10
    found = tables_with_and_without(answers.graph, tables, source, groups, 3, smoothing=1e-3)
    tables, found = found[0], found[1:]
    parts = in_groups(source.rows, groups, 3)
    steps, expected = [], []
    for g in (0, 4, 7):
        rest = [p for k, p in enumerate(parts) if k != g]
        codes = [np.concatenate([p.codes[i] for p in rest]) for i in range(len(rest[0].codes))]
        again = learn_tables(answers.graph, LocalRows(Rows(tuple(codes))), settings, 0).tables
        h = answers.graph.index("H")
        if np.abs(again[h] - tables[h]).max() > 0.2:  # numbered the other way round
            pytest.fail("states have changed places")
        for v in tables:
            steps.append((found[g][v] - tables[v]).ravel())
            expected.append((again[v] - tables[v]).ravel())
    ours, theirs = np.concatenate(steps), np.concatenate(expected)
    # climbs rest at 1e-3 of a nat for each parameter: a tenth of a step. One step of Newton's in
    # place of a climb is off by the size of the step squared
    assert np.corrcoef(ours, theirs)[0, 1] > 0.99
    assert np.abs(ours - theirs).max() < (0.1 if climbing else 0.15) * np.abs(theirs).max()


def test_known_cells_stay_and_ties_hold():
    answers = truth()
    source = source_of(answers, 2000)
    known = {"b": np.array([[0.8, 0.2], [np.nan, np.nan]])}
    knowledge = read_knowledge(answers.graph, known, [["a", "c"]])
    tables = dict(answers.tables)
    number = answers.graph.index
    tables[number("c")] = tables[number("a")]
    for each in own_tables_without(answers.graph, tables, source, 5, 0, knowledge):
        np.testing.assert_allclose(each[number("b")][0], [0.8, 0.2])
        np.testing.assert_allclose(each[number("a")], each[number("c")])
        assert all(np.allclose(t.sum(axis=-1), 1.0) for t in each.values())
    assert Knowledge().empty


def rows(n=1500, seed=0):
    answers = truth()
    codes = answers.sample(n, seed)
    return dict(zip([answers.names[v] for v in answers.graph.observed], codes.T, strict=True))


@pytest.fixture(scope="module", params=["tables", "em", "pbp"])
def model(request):
    graph = GRAPH if request.param != "pbp" else "H->a,b,c,d"
    data = {c: x for c, x in rows().items() if c in graph}
    learner = lt.EM(2, random_state=0) if request.param == "em" else request.param
    names = {"H": ["one", "two"]}
    return lt.LatentModel(graph, {"H": 2}, learner=learner, name_states=names).fit(
        data, error_bars=10
    )


def test_latents_have_intervals(model, tmp_path):
    data = {c.name: rows(30, 1)[c.name] for c in model.columns_}
    found = model.query("H", {"a": 1}, confidence=0.9)
    assert (found.lower < found.table).all()
    assert (found.table < found.upper).all()
    assert found.states == (("one", "two"),)
    both = model.query(["H", "b"], confidence=0.5)
    assert both.lower.shape == (2, 2)
    wide = model.query(["H", "b"], confidence=0.95)
    assert (wide.upper - wide.lower > both.upper - both.lower).all()
    bars = model.predict_proba(data, "H", confidence=0.9)
    for k in ("one", "two"):
        assert (bars.lower[k] <= bars.proba[k]).all()
        assert (bars.proba[k] <= bars.upper[k]).all()
        assert (bars.upper[k] - bars.lower[k]).max() > 0.01
    profile = model.profile("H")
    assert (profile.errors > 0).all()
    assert (profile["a"].errors > 0).all()
    assert "±" in repr(profile)
    assert "± one" in profile.to_dict()
    model.save(tmp_path / "m")
    again = lt.load(tmp_path / "m")
    same = again.query("H", {"a": 1}, confidence=0.9)
    np.testing.assert_array_equal(same.lower, found.lower)
    np.testing.assert_array_equal(again.profile("H").errors, profile.errors)


def test_columns_of_tables_have_intervals_too():
    model = lt.LatentModel(GRAPH, {"H": 2}, learner="tables").fit(rows(), error_bars=True)
    found = model.query("e", {"x": 1}, confidence=0.9)
    share = np.mean(rows()["e"][rows()["x"] == 1])
    count = (rows()["x"] == 1).sum()
    half = 1.729 * np.sqrt(share * (1 - share) / count)  # Student's t of 20 groups
    # of 20 groups an error is known to 16 %: three of these
    assert (found.upper - found.lower)[1] / 2 == pytest.approx(half, rel=0.5)


def test_without_error_bars_it_is_said():
    model = lt.LatentModel(GRAPH, {"H": 2}, learner="tables").fit(rows())
    with pytest.raises(NotLearnedError, match="error_bars=True"):
        model.query("H", confidence=0.9)
    with pytest.raises(NotLearnedError, match="error_bars=True"):
        model.predict_proba(rows(), "H", confidence=0.9)
    assert model.profile("H").errors is None


def test_intervals_cover_the_truth():
    """90 % intervals of sizes and tables of a latent class, over 25 tables of 1,000 rows."""
    tables = {"H": [0.6, 0.4]} | {c: [[0.85, 0.15], [0.25, 0.75]] for c in "abcde"}
    answers = TableAnswers("H->a,b,c,d,e", tables, latents=["H"])
    hits = []
    for seed in range(25):
        data = dict(zip("abcde", answers.sample(1000, seed).T, strict=True))
        learner = lt.EM(init=answers.cpts, tol=1e-7, max_iter=1000)
        model = lt.LatentModel(answers.graph, learner=learner, order_by="a").fit(
            data, error_bars=True
        )
        size = model.query("H", confidence=0.9)
        hits += [size.lower[0] <= 0.6 <= size.upper[0]]
        for c in "ac":
            for k, p in enumerate((0.15, 0.75)):
                one = model.query(c, {"H": k}, confidence=0.9)
                hits.append(one.lower[1] <= p <= one.upper[1])
    # 125 answers, those of one fit tied to each other: three standard errors are about 10 %
    assert 0.8 < np.mean(hits) < 0.985


def test_intervals_cover_the_truth_in_spite_of_a_prior():
    """A column that is rarely 0 and tables near zero: pseudo-counts tell, and intervals know it."""
    tables = {
        "x": [0.02, 0.98],
        "H": [[0.1, 0.9], [0.5, 0.5]],
        "a": [[0.9, 0.1], [0.02, 0.98]],
        "b": [[0.1, 0.9], [0.95, 0.05]],
        "c": [[0.9, 0.1], [0.15, 0.85]],
    }
    answers = TableAnswers("x->H; H->a,b,c", tables, latents=["H"])
    names = [answers.names[v] for v in answers.graph.observed]
    hits = []
    for seed in range(15):
        data = dict(zip(names, answers.sample(1000, seed).T, strict=True))
        model = lt.LatentModel(answers.graph).fit(data, error_bars=True)
        assert model.operators_.network is not None
        for name, given in [("a", {"b": 0}), ("x", {"a": 1, "b": 1, "c": 1}), ("c", {"x": 0})]:
            found = model.query(name, given, confidence=0.9)
            share = float(answers.query(name, given)[0])
            hits.append(found.lower[0] <= share <= found.upper[0])
    # 45 answers: three standard errors are 13 %
    assert np.mean(hits) > 0.77

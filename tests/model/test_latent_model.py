"""LatentModel: the contract of scikit-learn, every kind of frame, and errors that teach."""

import enum
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import latentia as lt
from latentia.errors import (
    ColumnWarning,
    DataError,
    EvidenceError,
    FrameError,
    IdentifiabilityWarning,
    LatentiaError,
    UnknownNameError,
    WeightWarning,
)

GRAPH = "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H"
LATENTS = {"A": 3, "B": 3, "C": 3, "F": 3}
TRUTH = lt.testing.random_model(
    lt.as_graph(GRAPH, LATENTS, dict.fromkeys("DEGH", 4)), np.random.default_rng(3), 0.3
)
ROWS = TRUTH.sample(6000, np.random.default_rng(4))
NAMES = {
    "D": ["low", "mid", "high", "top"],
    "E": [0, 1, 2, 3],
    "G": [10, 20, 30, 40],
    "H": ["a", "b", "c", "d"],
}
FRAME = pd.DataFrame(
    {name: np.array(NAMES[name], dtype=object)[ROWS[:, i]] for i, name in enumerate("DEGH")}
).astype({"E": int, "G": int, "D": "str", "H": "str"})


@pytest.fixture(scope="module")
def model():
    return lt.LatentModel(GRAPH, LATENTS, state_names={"D": NAMES["D"]}).fit(FRAME)


LATENT_CLASS = lt.LatentModel("class")


class ChainOver:
    """A graph for any columns: scikit-learn's checks bring tables of many widths."""

    def __call__(self, names):
        return lt.templates.hidden_markov(len(names), 2, names)

    def __repr__(self):  # test names must not carry addresses
        return "chain"


WITH_GRAPH = lt.LatentModel(ChainOver())


@pytest.mark.usefixtures("quick_fits")
@parametrize_with_checks([LATENT_CLASS, WITH_GRAPH, lt.LatentModel()])
def test_scikit_learn_checks(estimator, check, monkeypatch):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):  # 30 columns, 15 rows
        # names of 30 latents are learned beside the model: ten seconds, and nobody asks for them
        monkeypatch.setattr(lt.LatentModel, "_needs_names", lambda *_: False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
        check(estimator)


FRAMES = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "arrow": pa.Table.from_pandas(FRAME),
    "dict": {name: FRAME[name].to_numpy() for name in FRAME},
    "categorical": FRAME.astype("category"),
    "shuffled": FRAME[["H", "D", "G", "E"]],
}


class TestFrames:
    """The same answers whatever the frame, and the same kind of frame back."""

    @pytest.mark.parametrize("kind", FRAMES)
    def test_same_answers(self, model, kind):
        frame = FRAMES[kind]
        other = lt.LatentModel(GRAPH, LATENTS, state_names={"D": NAMES["D"]}).fit(frame)
        np.testing.assert_allclose(
            np.asarray(other.query("D", {"G": 20, "H": "a"})),
            np.asarray(model.query("D", {"G": 20, "H": "a"})),
        )
        assert other.query("D").probabilities.keys() == dict.fromkeys(NAMES["D"]).keys()

    @pytest.mark.parametrize(
        ("kind", "frame_type", "column_type"),
        [
            ("pandas", pd.DataFrame, pd.Series),
            ("polars", pl.DataFrame, pl.Series),
            ("arrow", pa.Table, pa.ChunkedArray),
            ("dict", dict, np.ndarray),
        ],
    )
    def test_same_kind_back(self, model, kind, frame_type, column_type):
        frame = FRAMES[kind]
        assert isinstance(model.predict_proba(frame, target="D"), frame_type)
        assert isinstance(model.predict(frame, target="D"), column_type)
        assert isinstance(model.predict(frame), frame_type)
        assert all(isinstance(m, frame_type) for m in model.marginals(frame).values())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lt.errors.EvidenceWarning)
            assert isinstance(model.score_samples(frame), np.ndarray)

    def test_numpy_goes_by_graph_order(self):
        model = lt.LatentModel(GRAPH, LATENTS).fit(ROWS)
        assert list(model.feature_names_in_) == list("DEGH")
        assert model.predict_proba(ROWS[:7], target="D").shape == (7, 4)
        assert model.predict(ROWS[:7], target="D").dtype.kind == "i"
        np.testing.assert_array_equal(model.predict(ROWS[:7]), ROWS[:7])

    def test_pandas_index_is_kept(self, model):
        frame = FRAME.iloc[5:9].set_axis(list("wxyz"))
        assert list(model.predict_proba(frame, target="D").index) == list("wxyz")
        assert model.predict(frame, target="D").name == "D"

    def test_labels_and_states_of_any_kind(self):
        class Colour(enum.Enum):
            RED = 1
            BLUE = 2

        rng = np.random.default_rng(0)
        h = rng.integers(2, size=200)
        one, two, three = (np.where(rng.random(200) < 0.8, h, 1 - h) for _ in range(3))
        colours = np.array([Colour.RED, Colour.BLUE], dtype=object)
        data = {1: one, ("t", 2): two == 1, "c": colours[three]}
        graph = [("h", 1), ("h", ("t", 2)), ("h", "c")]
        model = lt.LatentModel(graph, {"h": 2}).fit(data)
        assert model.query(("t", 2)).probabilities.keys() == {False, True}
        assert model.query("c", {1: 0}).probabilities.keys() == {Colour.RED, Colour.BLUE}
        assert model.query([1, ("t", 2)]).table.shape == (2, 2)

    @pytest.mark.parametrize(
        "hole", [None, np.nan, pd.NA, pd.NaT], ids=["None", "nan", "NA", "NaT"]
    )
    def test_holes_are_missing_whatever_they_are(self, hole):
        frame = FRAME.astype(object).copy()
        frame.loc[frame.index % 3 == 0, "D"] = hole
        model = lt.LatentModel(GRAPH, LATENTS).fit(frame)
        assert model.diagnostics_.missing["D"] == pytest.approx(1 / 3)
        assert set(model.columns_[0].states) == set(NAMES["D"])

    def test_columns_that_the_frame_lacks_are_not_observed(self, model):
        alone = model.predict_proba(FRAME[["G"]], target="D").to_numpy()[0]
        np.testing.assert_allclose(
            alone, np.asarray(model.query("D", {"G": FRAME["G"].iloc[0]})), atol=1e-12
        )

    def test_declared_categories_keep_their_order(self):
        order = ["top", "high", "low", "mid", "never"]
        for frame in (
            FRAME.assign(D=pd.Categorical(FRAME["D"], categories=order)),
            pl.from_pandas(FRAME).with_columns(pl.col("D").cast(pl.Enum(order))),
        ):
            model = lt.LatentModel(GRAPH, LATENTS).fit(frame)
            assert list(model.query("D").probabilities) == order

    def test_integers_with_holes_are_the_same_states(self):
        holes = FRAME.astype({"G": float}).copy()
        holes.loc[0, "G"] = np.nan
        model = lt.LatentModel(GRAPH, LATENTS).fit(holes)
        assert model.query("G").probabilities.keys() == {10, 20, 30, 40}
        assert lt.LatentModel(GRAPH, LATENTS).fit(FRAME).predict(holes, target="D").size == 6000


class TestAnswers:
    def test_close_to_the_truth(self, model):
        exact = TRUTH.query("D", {"G": 1, "H": 0})
        assert np.abs(np.asarray(model.query("D", {"G": 20, "H": "a"})) - exact).max() < 0.05

    def test_batch_equals_query(self, model):
        row = {"E": 1, "G": 30, "H": "b"}
        batch = model.predict_proba(pd.DataFrame([row]), target="D").to_numpy()[0]
        np.testing.assert_allclose(batch, np.asarray(model.query("D", row)), atol=1e-12)
        everything = model.marginals(pd.DataFrame([row]))
        np.testing.assert_allclose(everything["D"].to_numpy()[0], batch, atol=1e-12)

    def test_evidence_order_does_not_matter(self, model):
        one = model.query("D", {"G": 30, "H": "b", "E": 2})
        two = model.query("D", {"E": 2, "H": "b", "G": 30})
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))

    def test_joint_sums_to_the_single_posteriors(self, model):
        joint = model.query(["D", "E"], {"G": 20})
        assert joint.table.sum() == pytest.approx(1)
        assert set(joint.probabilities) == {(d, e) for d in NAMES["D"] for e in NAMES["E"]}
        # both are repaired on their own, so that they agree up to the mass that was mixed in
        np.testing.assert_allclose(
            joint.table.sum(axis=1), np.asarray(model.query("D", {"G": 20})), atol=0.02
        )

    def test_soft_evidence_on_one_state_is_hard_evidence(self, model):
        hard = model.query("D", {"G": 20})
        soft = model.query("D", soft={"G": {20: 0.7}})
        np.testing.assert_allclose(np.asarray(soft), np.asarray(hard), atol=1e-12)
        assert soft.log_evidence == pytest.approx(hard.log_evidence + np.log(0.7))

    def test_missing_evidence_is_no_evidence(self, model):
        np.testing.assert_array_equal(
            np.asarray(model.query("D", {"G": None, "H": np.nan})), np.asarray(model.query("D"))
        )

    def test_most_probable_assignment(self, model):
        found = model.map_query(["D", "E"], {"G": 20})
        joint = model.query(["D", "E"], {"G": 20})
        assert found.exact
        assert (found["D"], found["E"]) == joint.mode
        assert found.probability == pytest.approx(joint[joint.mode])

    def test_search_beyond_the_limit_finds_the_same(self, model, monkeypatch):
        exact = model.map_query(["D", "E", "G"], {"H": "b"})
        monkeypatch.setattr("latentia.inference.joint.most_probable.__defaults__", (4,))
        found = model.map_query(["D", "E", "G"], {"H": "b"})
        assert not found.exact
        assert dict(found) == dict(exact)
        assert "by search" in repr(found)

    def test_predict_without_target_fills_holes(self, model):
        holes = FRAME.head(50).astype(object).copy()
        holes.loc[holes.index % 2 == 0, "D"] = None
        filled = model.predict(holes)
        assert not filled.isna().any().any()
        assert (filled["D"][1::2].to_numpy() == FRAME["D"][1:50:2].to_numpy()).all()
        assert (filled["E"].to_numpy() == FRAME["E"].head(50).to_numpy()).all()

    def test_scores(self, model):
        rows = model.score_samples(FRAME.head(100))
        assert model.score(FRAME.head(100)) == pytest.approx(rows.mean())
        weight = np.arange(100.0)
        assert model.score(FRAME.head(100), sample_weight=weight) == pytest.approx(
            np.average(rows, weights=weight)
        )

    def test_scores_of_a_valid_model_sum_to_one(self):
        """Two columns: the operator is a table of frequencies, shrunk, but hardly signed."""
        data = {"x": ROWS[:, 0], "y": ROWS[:, 1]}
        model = lt.LatentModel("H->x; H->y", {"H": 4}, learner=lt.PBP(regularize=False)).fit(data)
        states = pd.DataFrame(data).drop_duplicates()  # others have no probability
        total = np.exp(model.score_samples(states)).sum()
        assert total == pytest.approx(1, abs=1e-9)


class TestSampling:
    def test_samples_match_marginals_and_pairs(self, model):
        """Within six standard errors, and what the repair of each conditional moves (< .01)."""
        n = 40_000
        drawn = model.sample(n, random_state=0)
        for name in "DEGH":
            freq = np.array([(drawn[name] == s).mean() for s in model.query(name).states[0]])
            p = np.asarray(model.query(name))
            assert (np.abs(freq - p) < 6 * np.sqrt(p * (1 - p) / n) + 0.002).all()
        pair = model.query(["D", "G"])
        freq = np.array(
            [
                [((drawn["D"] == d) & (drawn["G"] == g)).mean() for g in NAMES["G"]]
                for d in NAMES["D"]
            ]
        )
        sd = np.sqrt(pair.table * (1 - pair.table) / n)
        assert (np.abs(freq - pair.table) < 6 * sd + 0.01).all()

    def test_a_seed_gives_the_same_rows(self, model):
        one, two = (pd.DataFrame(model.sample(50, random_state=7)) for _ in range(2))
        pd.testing.assert_frame_equal(one, two)
        legacy = model.sample(5, random_state=np.random.RandomState(0))
        assert set(legacy) == set("DEGH")

    def test_samples_of_forests_and_groups(self):
        data = pd.DataFrame({"x": [0, 1] * 50, "y": [0, 1] * 50, "z": [0, 0, 1, 1] * 25})
        model = lt.LatentModel("h->x; h->y; z", {"h": 2}).fit(data)
        drawn = pd.DataFrame(model.sample(4000, random_state=1))
        assert abs(drawn["x"].corr(drawn["y"])) > 0.8
        assert abs(drawn["x"].corr(drawn["z"])) < 0.1


class TestContract:
    def test_clone_and_parameters(self, model):
        copy = clone(model)
        assert not hasattr(copy, "operators_")
        assert copy.get_params(deep=False).keys() == {
            "graph",
            "latents",
            "learner",
            "kinds",
            "state_names",
            "order_by",
            "name_states",
            "link",
            "mechanism",
        }

    def test_grid_search_over_learners(self):
        search = GridSearchCV(
            lt.LatentModel(GRAPH, LATENTS),
            {"learner": [lt.PBP(), lt.PBP.paper()]},
            cv=3,
            error_score="raise",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
            search.fit(FRAME)
        assert search.best_score_ > -10

    def test_pipeline(self):
        steps = make_pipeline(FunctionTransformer(lambda x: x), lt.LatentModel(GRAPH, LATENTS))
        assert steps.fit(FRAME).predict(FRAME.head(3), target="D").shape == (3,)

    def test_pickle(self, model):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(
            again.predict_proba(FRAME, target="D"), model.predict_proba(FRAME, target="D")
        )

    def test_learned_attributes(self, model):
        assert model.n_features_in_ == 4
        assert model.ranks_[("D", "E")] == 3
        assert "separator" in repr(model.diagnostics_)
        closed = lt.LatentModel(GRAPH, LATENTS, learner=lt.PBP(refine=False)).fit(FRAME)
        assert closed.moments_.weight == 6000
        assert "multiplications" in str(model.plan_)

    def test_weights_are_frequencies(self):
        times = np.random.default_rng(0).integers(0, 3, size=len(FRAME))
        one = lt.LatentModel(GRAPH, LATENTS).fit(FRAME, sample_weight=times)
        two = lt.LatentModel(GRAPH, LATENTS).fit(FRAME.loc[FRAME.index.repeat(times)])
        np.testing.assert_allclose(
            np.asarray(one.query("D", {"G": 20})), np.asarray(two.query("D", {"G": 20}))
        )

    def test_states_named_but_never_seen_are_neutral(self):
        names = {"D": [*NAMES["D"], "never"]}
        model = lt.LatentModel(GRAPH, LATENTS, state_names=names).fit(FRAME)
        assert 0 < model.query("D")["never"] < 1e-3
        np.testing.assert_allclose(
            np.asarray(model.query("E", {"D": "never"})), np.asarray(model.query("E")), atol=0.01
        )

    def test_posteriors_print(self, model):
        found = model.query("D", {"G": 20})
        assert "P(D | G=20)" in repr(found)
        assert "█" in repr(found)
        assert "<table>" in found._repr_html_()
        assert "…" in repr(model.query(["D", "E", "G"]))
        with pytest.raises(KeyError, match="no state of"):
            found["nothing"]


class TestErrors:
    """Expected, got, what to do."""

    @pytest.mark.parametrize(
        ("ask", "error", "says"),
        [
            (lambda m: m.query("D", {"G": 99}), UnknownNameError, "10, 20, 30, 40.*marginalise"),
            (lambda m: m.query("Q"), UnknownNameError, "variable 'Q' is unknown.*'D'"),
            (lambda m: m.query("D", {"Q": 1}), UnknownNameError, "variable 'Q'"),
            (lambda m: m.query("D", {"D": "low"}), EvidenceError, "asked for and observed"),
            (lambda m: m.query("D", {"A": 99}), LatentiaError, "99"),
            (lambda m: m.query([]), EvidenceError, "at least one variable"),
            (lambda m: m.query(["D", "D"]), EvidenceError, "twice"),
            (lambda m: m.query("D", soft={"G": {20: -1}}), EvidenceError, "not negative"),
            (lambda m: m.query("D", soft={"G": {20: 0}}), EvidenceError, "one must be positive"),
            (lambda m: m.query("D", {"G": 20}, {"G": {20: 1}}), EvidenceError, "hard and soft"),
            (lambda m: m.predict(pd.DataFrame({"z": [1]}), target="D"), UnknownNameError, "'z'"),
            (lambda m: m.predict_proba("text", target="D"), FrameError, "got str"),
            (lambda m: m.sample(0), DataError, "positive number"),
            (
                lambda m: m.predict(FRAME.assign(D="odd"), target="E"),
                UnknownNameError,
                "'D' .row 0. 'odd'",
            ),
        ],
    )
    def test_questions(self, model, ask, error, says):
        with pytest.raises(error, match=f"(?s){says}") as caught:
            ask(model)
        assert isinstance(caught.value, LatentiaError)

    def test_evidence_of_probability_zero(self):
        data = {"x": [0, 0, 1, 1] * 20, "y": [0, 0, 1, 1] * 20, "z": [0, 1] * 40}
        exact = lt.LatentModel("h->x; h->y; h->z", {"h": 2}, learner=lt.PBP(regularize=False))
        with pytest.raises(EvidenceError, match="probability zero"):
            exact.fit(data).query("z", {"x": 0, "y": 1})

    @pytest.mark.parametrize(
        ("fit", "error", "says"),
        [
            (lambda m: m.fit(FRAME.head(0)), DataError, "0 sample"),
            (lambda m: m.fit(FRAME.assign(A=1)), DataError, "'A' is latent in the graph"),
            (lambda m: m.fit(FRAME[["D", "E"]]), UnknownNameError, "column 'G'"),
            (lambda m: m.fit(7), FrameError, "got int"),
            (
                lambda m: m.set_params(learner="spectral").fit(
                    FRAME.assign(D=np.linspace(0, 1, 6000))
                ),
                DataError,
                "discrete columns only; 'D' is continuous",
            ),
            (
                lambda m: m.set_params(kinds={"D": "discrete"}).fit(
                    FRAME.assign(D=np.arange(6000))
                ),
                DataError,
                "6000 different values",
            ),
            (lambda m: m.fit(FRAME.assign(D=None)), DataError, "'D' has no value at all"),
            (lambda m: m.fit({"D": [1], "E": [1, 2]}), DataError, "different lengths"),
            (lambda m: m.fit(FRAME, sample_weight=[1.0]), DataError, "one weight per row"),
            (lambda m: m.fit(FRAME, sample_weight=np.full(6000, np.nan)), DataError, "finite"),
            (lambda m: m.fit(FRAME, sample_weight=-np.ones(6000)), DataError, "not negative"),
            (
                lambda m: m.fit(FRAME, sample_weight=np.zeros(6000)),
                DataError,
                "all weights are zero",
            ),
        ],
    )
    def test_fitting(self, fit, error, says):
        with pytest.raises(error, match=says):
            fit(lt.LatentModel(GRAPH, LATENTS))

    def test_wrong_settings(self):
        with pytest.raises(UnknownNameError, match=r"learner 'emm' is unknown.*'pbp'"):
            lt.LatentModel(GRAPH, LATENTS, learner="emm").fit(FRAME)
        with pytest.raises(DataError, match="expected a learner"):
            lt.LatentModel(GRAPH, LATENTS, learner=3).fit(FRAME)
        with pytest.raises(DataError, match="without a graph"):
            lt.LatentModel(latents={"A": 2}).fit(FRAME)
        with pytest.raises(UnknownNameError, match="kind of column 'D'"):
            lt.LatentModel(GRAPH, LATENTS, kinds={"D": "wavy"}).fit(FRAME)

    def test_unfitted(self):
        for ask in (
            lambda m: m.query("D"),
            lambda m: m.predict(FRAME, target="D"),
            lambda m: m.score(FRAME),
            lambda m: m.sample(3),
            lambda m: m.map_query("D"),
            lambda m: m.marginals(FRAME),
        ):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                ask(lt.LatentModel(GRAPH, LATENTS))

    def test_notices(self):
        with pytest.warns(ColumnWarning, match="ignored: extra"):
            lt.LatentModel(GRAPH, LATENTS).fit(FRAME.assign(extra=1))
        with pytest.warns(WeightWarning, match="look relative"):
            lt.LatentModel(GRAPH, LATENTS).fit(FRAME, sample_weight=np.full(6000, 1 / 6000))
        with pytest.warns(ColumnWarning, match=r"single value.*y"):
            lt.LatentModel("x; y").fit({"x": [0, 1] * 9, "y": [1] * 18})
        with pytest.warns(IdentifiabilityWarning, match="cannot be told apart"):
            lt.LatentModel("h->x; h->y", {"h": 3}).fit({"x": [0, 1] * 9, "y": [0, 1] * 9})

    def test_one_row_is_enough_for_an_answer(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
            model = lt.LatentModel(GRAPH, LATENTS).fit(FRAME.head(1))
        assert sum(model.query("D", {"G": FRAME["G"].iloc[0]}).probabilities.values()) == 1


class TestWithoutGraph:
    def test_states_of_the_class_come_from_the_data(self):
        """Three clear classes are found; independent columns need one."""
        rng = np.random.default_rng(0)
        h = rng.integers(3, size=3000)
        told = {
            f"x{i}": np.where(rng.random(3000) < 0.8, h, rng.integers(3, size=3000))
            for i in range(6)
        }
        alone = {f"x{i}": rng.integers(3, size=3000) for i in range(6)}
        with pytest.warns(lt.errors.IndependenceWarning):
            models = [lt.LatentModel("class").fit(data) for data in (told, alone)]
        for model, states in zip(models, (3, 1), strict=True):
            graph = model.plan_.graph
            assert [graph.states[v] for v in graph.latent] == [states]

    def test_a_structure_is_found_by_default(self):
        """Two groups of columns that have nothing to do with each other are kept apart."""
        rng = np.random.default_rng(1)
        data = {}
        for group in "ab":
            h = rng.integers(2, size=600)
            for i in range(3):
                data[f"{group}{i}"] = np.where(rng.random(600) < 0.85, h, 1 - h)
        model = lt.LatentModel().fit(data)
        alone = model.query("b0").table
        np.testing.assert_allclose(model.query("b0", {"a0": 1}).table, alone, atol=0.08)
        assert model.query("b0", {"b1": 1, "b2": 1})[1] > 0.75  # of .83
        with pytest.warns(lt.errors.IndependenceWarning, match="tell nothing"):
            lt.LatentModel().fit({c: rng.integers(3, size=600) for c in "xyz"})

    @pytest.mark.parametrize("seconds", [None, 0.01])
    def test_columns_that_others_tell_are_never_alone(self, seconds):
        """However small the budget, latents are tried; with holes a tree of columns cannot be."""
        rng = np.random.default_rng(3)
        h = rng.integers(2, size=300)
        data = {c: np.where(rng.random(300) < 0.85, h, 1 - h).astype(float) for c in "wxyz"}
        for c in "wx":
            data[c][::10] = np.nan
        found = lt.learn_structure(data, time_budget=seconds)
        assert found.latents

    def test_few_rows_and_other_learners_have_one_class(self):
        rng = np.random.default_rng(2)
        data = {c: rng.integers(2, size=300) for c in "xyz"}
        few = {c: x[:39] for c, x in data.items()}
        for model, rows in [(lt.LatentModel(), few), (lt.LatentModel(learner="em"), data)]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
                assert not hasattr(model.fit(rows), "structure_")


class TestTemplates:
    @pytest.mark.parametrize(
        ("graph", "latents", "columns"),
        [
            (lt.templates.latent_class(4, 3), 1, 4),
            (lt.templates.hidden_markov(5, 2), 5, 5),
            (lt.templates.factorial_markov(3, 2, 2), 6, 3),
            (lt.templates.latent_tree([["a", "b"], ["c", ["d", "e"]]], 2), 4, 5),
            (lt.templates.grid(2, 3, 2), 6, 6),
        ],
    )
    def test_shapes(self, graph, latents, columns):
        assert (len(graph.latent), len(graph.observed)) == (latents, columns)

    def test_names_do_not_clash(self):
        graph = lt.templates.latent_class(["H", "x"], 2)
        assert graph.names == ("H_", "H", "x")

    @pytest.mark.parametrize(
        "make",
        [
            lambda: lt.templates.hidden_markov(0, 2),
            lambda: lt.templates.hidden_markov(3, 2, columns=["a"]),
            lambda: lt.templates.latent_class([], 2),
            lambda: lt.templates.factorial_markov(2, 0, 2),
            lambda: lt.templates.grid(0, 2, 2),
            lambda: lt.templates.latent_tree([["a"], []], 2),
        ],
    )
    def test_errors(self, make):
        with pytest.raises(lt.errors.GraphError):
            make()


class TestJointsOfForests:
    """Components are independent, and one without evidence is no trouble."""

    def test_joint_across_components(self):
        data = {c: ROWS[:, i] for i, c in enumerate("abcd")} | {"e": ROWS[:, 0]}
        model = lt.LatentModel("H->a,b,c,d; e", {"H": 3}).fit(data)
        joint = model.query(["a", "e"])
        np.testing.assert_allclose(
            joint.table, np.outer(model.query("a"), model.query("e")), atol=1e-3
        )
        assert np.isfinite(model.query(["a", "b"], {"e": 0}).clipped)

    def test_evidence_never_seen_together(self):
        data = {"x": [0, 0, 1, 1] * 20, "y": [0, 0, 1, 1] * 20, "z": [0, 1] * 40, "w": [1, 0] * 40}
        model = lt.LatentModel("h->x,y,z,w", {"h": 2}, learner="paper").fit(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lt.errors.EvidenceWarning)
            found = model.query(["z", "w"], {"x": 0, "y": 1})
        assert found.table.sum() == pytest.approx(1)
        assert np.isfinite(found.clipped)

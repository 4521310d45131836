"""LatentClassifier: Bayes' rule over models of classes, and the contract of scikit-learn."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import latentia as lt
from latentia.errors import DataError, LatentiaError, LatentiaWarning, UnknownNameError
from latentia.kernels.embedding import sum_embedded

FEW = lt.KernelSettings(rank=8, features=60)


class ChainOver:
    """A graph for any columns."""

    def __call__(self, names):
        return lt.templates.hidden_markov(len(names), 2, names)

    def __repr__(self):
        return "chain"


@parametrize_with_checks(
    [lt.LatentClassifier(), lt.LatentClassifier(ChainOver(), learner=lt.PBP(kernel={"rank": 8}))]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        check(estimator)


def discrete_rows(n, seed=0):
    """Two classes whose columns hang together in different ways, but have the same margins."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    h = rng.integers(2, size=(2, n))
    which = {"a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 1)}  # latent by class
    table = {}
    for name, latent in which.items():
        own = h[np.array(latent)[y], np.arange(n)]
        table[name] = np.where(rng.random(n) < 0.85, own, 1 - own)
    return pd.DataFrame(table), np.array(["left", "right"])[y]


def mixed_rows(n, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    h = rng.integers(2, size=n)
    return (
        pd.DataFrame(
            {
                "u": y + h + 0.4 * rng.normal(size=n),
                "v": np.exp(0.5 * y - h + 0.3 * rng.normal(size=n)),
                "w": np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n)),
            }
        ),
        y,
    )


class TestBayes:
    """P(class | x) ∝ P(class) P(x | class), against its parts."""

    @pytest.mark.parametrize("learner", [lt.EM(random_state=0), lt.PBP(refine=True)])
    def test_posterior_is_bayes_rule_over_class_models(self, learner):
        X, y = discrete_rows(600)
        model = lt.LatentClassifier("H->a,b,c,d", {"H": 2}, learner=learner).fit(X, y)
        own = [
            lt.LatentModel("H->a,b,c,d", {"H": 2}, learner=learner).fit(X[y == c])
            for c in ("left", "right")
        ]
        share = [(y == c).mean() for c in ("left", "right")]
        joint = np.stack([p * np.exp(m.score_samples(X)) for p, m in zip(share, own, strict=True)])
        np.testing.assert_allclose(model.predict_proba(X), (joint / joint.sum(0)).T, atol=1e-9)
        assert list(model.classes_) == ["left", "right"]

    def test_what_margins_do_not_tell(self):
        X, y = discrete_rows(4000)
        test, truth = discrete_rows(2000, seed=1)
        model = lt.LatentClassifier().fit(X, y)
        assert model.score(test, truth) > 0.6  # independence gets .5
        np.testing.assert_allclose(
            np.log(model.predict_proba(test)), model.predict_log_proba(test), atol=1e-12
        )

    def test_priors(self):
        X, y = discrete_rows(500)
        even = lt.LatentClassifier(priors=[0.5, 0.5]).fit(X, y)
        odd = lt.LatentClassifier(priors={"right": 0.9, "left": 0.1}).fit(X, y)
        ratio = odd.predict_proba(X) / even.predict_proba(X)
        np.testing.assert_allclose(ratio[:, 1] / ratio[:, 0], 9.0)
        for priors, says in (([0.5], "each of the classes"), ([1, 1], "sum to one")):
            with pytest.raises(DataError, match=says):
                lt.LatentClassifier(priors=priors).fit(X, y)
        with pytest.raises(UnknownNameError, match="class in priors"):
            lt.LatentClassifier(priors={"left": 1.0}).fit(X, y)

    def test_a_cell_that_is_missing_is_no_evidence(self):
        X, y = mixed_rows(300)
        model = lt.LatentClassifier(kinds={"u": "continuous"}, learner=lt.PBP(kernel=FEW)).fit(X, y)
        holes = X.astype({"w": float})
        holes.loc[:, ["v", "w"]] = np.nan
        np.testing.assert_allclose(model.predict_proba(holes), model.predict_proba(X[["u"]]))
        nothing = model.predict_proba(holes.assign(u=np.nan))
        np.testing.assert_allclose(nothing, np.tile(model.priors_, (len(X), 1)), atol=1e-9)


class TestSharedColumns:
    def test_columns_are_those_of_all_rows(self):
        """A class's own range must not clip the others: far values tell classes apart."""
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1, 2], 100)
        X = pd.DataFrame({c: 10.0 * y + rng.normal(size=300) for c in "ab"})
        model = lt.LatentClassifier().fit(X, y)
        assert all(m.columns_ == model.columns_ for m in model.models_)
        assert (model.predict(X) == y).all()
        far = model.predict_proba(pd.DataFrame({"a": [0.0, 1e6], "b": [20.0, -1e6]}))
        assert np.isfinite(far).all()
        np.testing.assert_allclose(far.sum(axis=1), 1)

    def test_a_state_that_one_class_never_shows(self):
        X = pd.DataFrame({"a": list("xxyyzzzz"), "b": list("xyxyzxyz")})
        y = [0, 0, 0, 0, 1, 1, 1, 1]
        for learner in ("pbp", "em", "spectral"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LatentiaWarning)
                model = lt.LatentClassifier(learner=learner).fit(X, y)
            p = model.predict_proba(X)
            assert np.isfinite(p).all()
            assert (model.predict(X)[4:] == 1).all()

    def test_a_column_that_is_constant_in_a_class(self):
        X, y = mixed_rows(200, classes=2)
        X.loc[y == 0, "v"] = 1.0
        model = lt.LatentClassifier(learner=lt.PBP(kernel=FEW)).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.score(X, y) > 0.9


class TestSettings:
    def test_settings_are_chosen_once(self):
        X, y = mixed_rows(400)
        model = lt.LatentClassifier().fit(X, y)
        assert isinstance(model.settings_, lt.KernelSettings)
        again = lt.LatentClassifier(learner=lt.PBP(kernel=model.settings_)).fit(X, y)
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))
        assert again.settings_ is None

    def test_few_models_are_learned_to_choose(self, monkeypatch):
        """Each bandwidth once for every class, for all ridges; then one more of each for good."""
        learned = []

        def watched(plan, columns, found, rows, looked):
            learned.append((found.sides.maps[0].single, len(rows)))
            return sum_embedded(plan, columns, found, rows, looked)

        for module in ("choose_settings", "embedding"):
            monkeypatch.setattr(f"latentia.kernels.{module}.sum_embedded", watched)
        X, y = mixed_rows(1600, classes=2)
        model = lt.LatentClassifier().fit(X, y)
        rough = [rows for single, rows in learned if single]
        assert len(rough) <= 2 * 3
        assert sum(rough[:2]) <= 1000
        assert len(learned) - len(rough) == 2
        assert model.settings_.features < lt.KernelSettings().features  # of few rows
        asked = lt.LatentClassifier(learner=lt.PBP(kernel={"features": 40})).fit(X, y)
        assert asked.settings_.features == 40

    @pytest.mark.filterwarnings("ignore::latentia.errors.RepairWarning")
    def test_the_form_is_chosen_by_classes(self):
        X, y = discrete_rows(1000)
        graph, latents = "G->a; G->b; H->c; H->d; G->H", {"G": 2, "H": 2}
        model = lt.LatentClassifier(graph, latents).fit(X, y)
        found = model.class_losses_
        assert set(found) == {"auto", "closed"}
        assert all(0 < x < np.log(2) for x in found.values())
        refine = False if found["closed"] < found["auto"] else "auto"
        for label, own in zip(model.classes_, model.models_, strict=True):
            alone = lt.LatentModel(graph, latents, lt.PBP(refine=refine)).fit(X[y == label])
            np.testing.assert_allclose(own.score_samples(X), alone.score_samples(X))

    @pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")  # of EM's seeds
    @pytest.mark.parametrize("learner", ["em", lt.PBP(refine=False), lt.PBP(refine=True)])
    def test_nothing_to_choose(self, learner):
        X, y = discrete_rows(300)
        model = lt.LatentClassifier("H->a; H->b; H->c; H->d", {"H": 2}, learner).fit(X, y)
        assert model.class_losses_ == {}

    def test_too_few_rows_to_choose(self):
        X, y = discrete_rows(200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LatentiaWarning)
            model = lt.LatentClassifier("H->a; H->b; H->c; H->d", {"H": 2}).fit(X, y)
        assert model.class_losses_ == {}

    def test_held_out_rows_and_calibration(self):
        """Four copies of a column, said to be independent: a temperature of four mends it."""
        (X, y), (test, truth) = mixed_rows(500), mixed_rows(500, seed=1)
        X, test = (pd.DataFrame({f"u{i}": t["u"] for i in range(4)}) for t in (X, test))
        found = {}
        for calibrate in (False, True):
            model = lt.LatentClassifier(
                lambda names: "; ".join(map(str, names)),  # independent columns
                learner=lt.PBP(kernel=FEW),
                calibrate=calibrate,
            ).fit(X, y)
            found[calibrate] = log_loss(truth, model.predict_proba(test))
            assert model.temperature_ == 1.0 or 2.5 < model.temperature_ < 6
        assert found[True] < found[False] - 0.1

    def test_processes_give_the_same(self):
        X, y = mixed_rows(120)
        one, two = (
            lt.LatentClassifier(learner=lt.PBP(kernel=FEW), n_jobs=n).fit(X, y) for n in (None, 2)
        )
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))

    def test_learners_are_copied_for_each_class(self):
        X, y = discrete_rows(300)
        learner = lt.EM(random_state=0)
        model = lt.LatentClassifier("H->a,b,c,d", {"H": 2}, learner=learner).fit(X, y)
        assert len(model.models_) == 2
        assert clone(model).learner.get_params() == learner.get_params()

    def test_frames_and_cross_validation(self):
        X, y = discrete_rows(400)
        model = lt.LatentClassifier().fit(pl.from_pandas(X), pl.Series(y))
        np.testing.assert_array_equal(model.predict(X), model.predict(pl.from_pandas(X)))
        assert cross_val_score(lt.LatentClassifier(), X, y, cv=3).shape == (3,)


class TestErrors:
    @pytest.mark.parametrize(
        ("fit", "says"),
        [
            (lambda m, X, y: m.fit(X, None), "requires y"),
            (lambda m, X, y: m.fit(X, y[:-1]), "inconsistent numbers of samples"),
            (lambda m, X, y: m.fit(X, np.linspace(0, 1, len(X))), "Unknown label type"),
            (lambda m, X, y: m.fit(X.head(3), [0, 1, 1], [0, 0, 0]), "all weights are zero"),
            (lambda m, X, y: m.fit(X.assign(a=None), y), "'a' has no value at all"),
            (
                lambda m, X, y: m.set_params(calibrate=True).fit(X.head(3), [0, 1, 1]),
                "at least two rows of every class",
            ),
            (lambda m, X, y: m.fit(X, y).predict(pd.DataFrame({"z": [1]})), "'z' is unknown"),
            (lambda m, X, y: m.fit(X, y).predict(X.assign(a=7)), "state of 'a'"),
            (lambda m, X, y: m.set_params(learner="em2").fit(X, y), "learner 'em2' is unknown"),
        ],
    )
    def test_clear(self, fit, says):
        X, y = discrete_rows(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LatentiaWarning)
            with pytest.raises((ValueError, LatentiaError), match=says):
                fit(lt.LatentClassifier(), X, y)

    def test_not_fitted(self):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            lt.LatentClassifier().predict([[1]])

    def test_a_column_without_values_in_one_class(self):
        X, y = mixed_rows(100)
        X.loc[y == 1, "u"] = np.nan
        with pytest.raises(DataError, match=r"class .*1.* cannot be learned.*'u' has no value"):
            lt.LatentClassifier(learner=lt.PBP(kernel=FEW)).fit(X, y)

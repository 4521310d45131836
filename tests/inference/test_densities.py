"""Continuous columns: densities that are densities, units that do not matter, errors that teach."""

import warnings

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import densities
from latentia.errors import DataError, EvidenceError, LatentiaError, LatentiaWarning
from latentia.inference.evidence import read_evidence
from latentia.inference.evidence_level import component_evidence

pytestmark = pytest.mark.usefixtures("nameless")

GRAPH = "H->G; H->bounded,skewed,modes,D; G->heavy,zeros,counts"
LATENTS = {"H": 3, "G": 2}
FEW = {"rank": 6, "features": 60, "bandwidth": 0.65, "evidence": 0.25, "own": 0.1}
FEW |= {"ridge": (0.1, 0.6)}


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    h = rng.integers(3, size=n)
    g = np.where(rng.random(n) < 0.8, h > 0, rng.integers(2, size=n)).astype(int)
    return pd.DataFrame(
        {
            "bounded": np.clip(rng.beta(1 + h, 2, n) * 1.3 - 0.1, 0, 1),
            "skewed": rng.exponential(1.0 + h),
            "modes": np.where(rng.random(n) < 0.5, -3.0, 3.0) * (1 + h) + rng.normal(size=n),
            "D": np.array(["a", "b", "c"])[
                np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n))
            ],
            "heavy": rng.standard_cauchy(n) * (1 + 3 * g),
            "zeros": np.where(rng.random(n) < 0.4 - 0.3 * g, 0.0, rng.gamma(2 + g, size=n)),
            "counts": rng.poisson(40 + 30 * g),
        }
    )


DATA = rows()
KINDS = {"counts": "continuous"}
PLAIN = lt.PBP(refine=False, kernel=FEW)


def fit(data, learner=PLAIN, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        return lt.LatentModel(GRAPH, LATENTS, learner, kinds=KINDS, **more).fit(data)


@pytest.fixture(scope="module")
def model():
    return fit(DATA)


def test_kinds_are_what_they_should_be(model):
    grids = {c.name: c for c in model.columns_ if isinstance(c, ContinuousColumn)}
    assert set(grids) == set(DATA.columns) - {"D"}
    assert grids["heavy"].warped
    assert grids["zeros"].atoms == (0.0,)
    assert grids["bounded"].unscaled(np.array([grids["bounded"].low]))[0] == pytest.approx(0)


def random_evidence(rng, columns, asked, data):
    evidence = {}
    for c in columns:
        if c.name == asked or rng.random() < 0.4:
            continue
        value = data[c.name].iloc[int(rng.integers(len(data)))]
        if isinstance(c, ContinuousColumn) and rng.random() < 0.3:
            other = data[c.name].iloc[int(rng.integers(len(data)))]
            low, high = sorted([float(value), float(other)])
            evidence[c.name] = (low, None) if low == high else (low, high)
        elif isinstance(c, ContinuousColumn) and rng.random() < 0.1:
            evidence[c.name] = float(value) * 10  # perhaps outside of all that was seen
        else:
            evidence[c.name] = value
    return evidence


@pytest.mark.filterwarnings("ignore::latentia.errors.EvidenceWarning")
def test_a_thousand_densities_are_positive_and_normalised(model):
    rng = np.random.default_rng(1)
    names = [c.name for c in model.columns_ if isinstance(c, ContinuousColumn)]
    for k in range(1000):
        asked = names[k % len(names)]
        p = model.query(asked, random_evidence(rng, model.columns_, asked, DATA))
        column, masses = p.column, np.asarray(p)
        assert (masses > 0).all()
        # piecewise linear between grid points, constant beyond: the trapezoid rule is exact
        z = np.concatenate([[column.low], column.grid, [column.high]])
        x = column.unscaled(z)
        height = densities(column, masses, x) / column.slope(x)
        for a in column.atoms:
            inner = np.interp(z, column.grid, masses[: column.points]) / column.step
            height = np.where(x == a, inner, height)
        total = np.trapezoid(height, z) + masses[column.points :].sum()
        assert total == pytest.approx(1, abs=1e-9)
        assert float(p.cdf(1e9)) == pytest.approx(1, abs=1e-9)
        low, high = p.interval(0.9)
        assert low <= p.median <= high


@pytest.mark.filterwarnings("ignore::latentia.errors.EvidenceWarning")
def test_units_do_not_matter(model):
    """Scaled and shifted columns: the same probabilities, densities per unit."""
    scale, shift = {"skewed": 1000.0, "modes": -1.0, "heavy": 1e-6}, {"bounded": 50.0, "counts": -7}
    other = DATA.copy()
    for name, factor in scale.items():
        other[name] = other[name] * factor
    for name, by in shift.items():
        other[name] = other[name] + by
    moved = fit(other)
    np.testing.assert_allclose(
        moved.predict_proba(other, "D"), model.predict_proba(DATA, "D"), atol=2e-5
    )  # a column that is turned round is rounded otherwise; climbs then end 6e-6 apart
    p = model.query("skewed", {"modes": 2.0, "heavy": 1.5, "bounded": (0.2, 0.6), "counts": 60})
    q = moved.query(
        "skewed", {"modes": -2.0, "heavy": 1.5e-6, "bounded": (50.2, 50.6), "counts": 53}
    )
    assert q.mean == pytest.approx(1000 * p.mean, rel=1e-5)
    assert q.quantile(0.9) == pytest.approx(1000 * p.quantile(0.9), rel=1e-5)
    gain = -np.log(1000.0) - np.log(1e-6)  # densities are per unit
    np.testing.assert_allclose(
        moved.score_samples(other), model.score_samples(DATA) + gain, atol=5e-4
    )


def test_marginalising_is_integrating(model):
    """A leaf that is not observed = the sum over its grid of the joint, signed as it is."""
    operators = model.operators_
    place = {c.name: i for i, c in enumerate(model.columns_)}

    def joint(codes):
        parts = component_evidence(operators, read_evidence(operators.plan, codes))
        return np.prod([p.value * np.exp(p.log + p.alone) for p in parts], axis=0)

    for name in ("skewed", "zeros", "modes", "counts"):
        cells = model.columns_[place[name]].cells
        codes = [None] * len(place)
        codes[place["bounded"]], codes[place["D"]] = np.array([40.3]), np.array([1])
        many = [None if c is None else np.repeat(c, cells) for c in codes]
        many[place[name]] = np.arange(cells, dtype=float)
        assert joint(many).sum() == pytest.approx(float(joint(codes)[0]), rel=1e-10)


class TestErrors:
    @pytest.mark.parametrize(
        ("ask", "says"),
        [
            (lambda m: m.query("modes", {"skewed": "red"}), "expected a number, or an interval"),
            (lambda m: m.query("modes", {"skewed": np.inf}), "finite number"),
            (lambda m: m.query("modes", {"skewed": (1, 2, 3)}), "an interval"),
            (lambda m: m.query("modes", {"skewed": (2, 1)}), "low < high"),
            (lambda m: m.query("modes", {"skewed": ("a", 2)}), "an interval"),
            (lambda m: m.query("modes", {"skewed": (1e6, 2e6)}), "lies outside"),
            (lambda m: m.query("modes", soft={"skewed": {1: 0.5}}), "function of its values"),
            (lambda m: m.query("modes", soft={"skewed": lambda x: -x}), "not negative"),
            (lambda m: m.query("modes", soft={"D": 3}), "'D' is likelihoods"),
            (lambda m: m.query("modes", {"D": 1.5}), "state of 'D'"),
            (lambda m: m.predict_proba(DATA, "modes"), "no list of states"),
            (lambda m: m.predict_quantiles(DATA, "D"), "discrete"),
            (lambda m: m.predict_quantiles(DATA, "modes", [1.5]), "between 0 and 1"),
            (lambda m: m.predict(DATA.assign(skewed="red"), "D"), "expected numbers, got 'red'"),
            (lambda m: m.predict(DATA.assign(skewed=np.inf), "D"), "infinity"),
            (lambda m: m.query("modes").quantile(2), "between 0 and 1"),
        ],
    )
    def test_questions(self, model, ask, says):
        with pytest.raises(LatentiaError, match=f"(?s){says}") as caught:
            ask(model)
        assert isinstance(caught.value, ValueError | KeyError | TypeError)

    @pytest.mark.parametrize(
        ("data", "learner", "says"),
        [
            (DATA, "spectral", "discrete columns only"),
            (DATA.assign(modes=np.inf), PLAIN, "infinity"),
            (DATA.assign(counts=7), PLAIN, "'counts' has a single value"),
            (DATA.assign(counts="many"), PLAIN, "'counts' is said to be continuous"),
            (DATA.assign(modes=np.nan), PLAIN, "'modes' has no value at all"),
            (DATA.head(1), PLAIN, "single value"),
        ],
    )
    def test_fitting(self, data, learner, says):
        with pytest.raises(DataError, match=says):
            fit(data, learner)

    def test_two_rows_are_enough_for_an_answer(self):
        data = pd.DataFrame({"x": [0.5, 1.5], "y": [1.0, 2.0]})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LatentiaWarning)
            model = lt.LatentModel("H->x,y", {"H": 2}, kinds=dict.fromkeys("xy", "continuous"))
            p = model.fit(data).query("x", {"y": 1.0})
        assert np.asarray(p).sum() == pytest.approx(1)

    def test_cells_of_objects_and_missing_columns(self, model):
        objects = DATA.head(5).astype(object)
        objects.loc[2, "skewed"] = None
        found = model.predict(objects, "D")
        holes = DATA.head(5).copy()
        holes.loc[2, "skewed"] = np.nan
        assert list(found) == list(model.predict(holes, "D"))
        nothing = pd.DataFrame({"skewed": [None, None], "modes": [np.nan, np.nan]})
        np.testing.assert_allclose(
            model.predict_proba(nothing, "D").to_numpy()[0], np.asarray(model.query("D")), atol=1e-9
        )


def test_without_graph_the_states_need_no_number():
    model = lt.LatentModel(learner=PLAIN, kinds=KINDS).fit(DATA)
    assert model.query("skewed", {"modes": 9.0}).mean > model.query("skewed", {"modes": 3.0}).mean
    with pytest.raises(EvidenceError, match="latent"):
        model.query("H")

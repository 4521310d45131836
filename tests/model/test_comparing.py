"""Candidates side by side: figures against other libraries, numbers against criteria."""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.assess.comparison import Candidate, Comparison
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, IgnoredColumnWarning
from latentia.networks.candidates import fit_candidate, split_starts, split_state
from latentia.networks.piece_learning import TableSettings
from latentia.structure.templates import latent_class

SHARED = Path(os.environ.get("LATENTIA_DATA") or "nowhere")


def survey(seed=0, n=800, items=7, classes=3, holes=0.0, sharp=0.15):
    rng = np.random.default_rng(seed)
    member = rng.integers(classes, size=n)
    yes = np.where(rng.random((items, classes)) < 0.5, sharp, 1 - sharp)
    yes[:classes, :] = np.where(np.eye(classes, dtype=bool), 1 - sharp, sharp)
    frame = pd.DataFrame(
        {f"x{i}": (rng.random(n) < p[member]).astype(float) for i, p in enumerate(yes)}
    )
    return frame.mask(rng.random(frame.shape) < holes)


@pytest.fixture(scope="module")
def three():
    return lt.compare(survey(), latents={"class": range(1, 6)})


def test_recommends_what_is_there(three):
    assert three.recommended == {"class": 3}
    assert [c.states["class"] for c in three.candidates] == [1, 2, 3, 4, 5]
    assert "Take class: 3" in three.why


def test_more_states_never_fit_less(three):
    levels = [c.log_likelihood for c in three.candidates]
    assert np.all(np.diff(levels) > -1e-3)


def test_figures_are_what_they_are_called(three):
    frame = survey()
    for c in three.candidates:
        k, log, n = c.states["class"], c.log_likelihood, len(frame)
        assert c.parameters == (k - 1) + 7 * k
        assert c.aic == pytest.approx(2 * c.parameters - 2 * log)
        assert c.bic == pytest.approx(c.parameters * math.log(n) - 2 * log)
        assert c.adjusted_bic == pytest.approx(c.parameters * math.log((n + 2) / 24) - 2 * log)
        assert 0 < c.smallest <= 1
        assert c.entropy <= 1
        assert c.held_out_error > 0
    table = three.to_frame()
    assert list(table["class"]) == [1, 2, 3, 4, 5]
    assert "p_value" not in table


def test_equals_a_model_of_maximum_likelihood(three):
    """The candidate of three classes is the model that `fit` finds; entropy by its memberships."""
    frame = survey()
    graph = "; ".join(f"class -> {c}" for c in frame)
    model = lt.LatentModel(graph, {"class": 3}, learner=lt.Tables(smoothing=0)).fit(frame)
    found = three.candidates[2]
    assert found.log_likelihood == pytest.approx(model.score(frame) * len(frame), abs=1e-3)
    assert found.bic == pytest.approx(model.bic(frame), abs=2e-3)
    p = np.asarray(model.predict_latent(frame, "class"))
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum()
    assert found.entropy == pytest.approx(1 - entropy / (len(frame) * math.log(3)), abs=1e-4)
    assert found.smallest == pytest.approx(model.cpts_["class"].min(), abs=1e-4)


def test_equals_stepmix_with_holes():
    stepmix = pytest.importorskip("stepmix", reason="needs the rival: pip install stepmix")
    frame = survey(seed=3, n=400, holes=0.1)
    found = lt.compare(frame, latents={"class": [3]}).candidates[0]
    rival = stepmix.StepMix(
        3, measurement="binary_nan", n_init=5, abs_tol=1e-9, rel_tol=0, max_iter=3000,
        random_state=0, verbose=0, progress_bar=0,
    ).fit(frame)  # fmt: skip
    assert found.log_likelihood == pytest.approx(rival.score(frame) * 400, abs=1e-3)
    assert found.bic == pytest.approx(rival.bic(frame), abs=1e-2)
    assert found.aic == pytest.approx(rival.aic(frame), abs=1e-2)
    assert found.entropy == pytest.approx(rival.relative_entropy(frame), abs=1e-3)


def test_continuous_columns_equal_gaussian_mixtures():
    from sklearn.mixture import GaussianMixture

    rng = np.random.default_rng(1)
    member = rng.integers(2, size=300)
    frame = pd.DataFrame({"a": rng.normal(3.0 * member), "b": rng.normal(-2.0 * member)})
    found = lt.compare(frame, latents={"class": [1, 2, 3]})
    assert found.recommended == {"class": 2}
    theirs = GaussianMixture(
        2, covariance_type="diag", tol=1e-9, reg_covar=0, max_iter=2000, n_init=3, random_state=0
    ).fit(frame)
    c = found.candidates[1]
    assert c.log_likelihood == pytest.approx(theirs.score(frame) * 300, abs=1e-2)
    assert c.bic == pytest.approx(theirs.bic(frame), abs=2e-2)
    with pytest.raises(DataError, match="bootstrap"):
        lt.compare(frame, latents={"class": [1, 2]}, bootstrap=3)


def test_any_table_and_any_names(tmp_path, three):
    """A file is read like a frame; names, and the order of rows, say nothing."""
    frame = survey()
    frame.to_parquet(tmp_path / "rows.parquet")
    found = lt.compare(str(tmp_path / "rows.parquet"), latents={"class": range(1, 6)})
    for ours, theirs in zip(found.candidates, three.candidates, strict=True):
        assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=1e-3)
        assert ours.held_out == pytest.approx(theirs.held_out, abs=1e-6)
    renamed = frame.rename(columns=lambda c: f"q{9 - int(c[1:])}").replace({0.0: "no", 1.0: "yes"})
    other = lt.compare(renamed.sample(frac=1, random_state=0), latents={"kind": range(1, 6)})
    assert other.recommended == {"kind": 3}
    for ours, theirs in zip(other.candidates, three.candidates, strict=True):
        assert ours.held_out == pytest.approx(theirs.held_out, abs=0.02)


def test_bootstrap_tells_what_is_needed():
    found = lt.compare(survey(n=300), latents={"class": [2, 3, 4]}, bootstrap=19)
    values = [c.p_value for c in found.candidates]
    assert values[0] is None
    assert values[1] == pytest.approx(0.05)  # the least that 19 draws can say
    assert values[2] > 0.05
    assert "p_value" in found.to_frame()


def test_several_latents():
    rng = np.random.default_rng(2)
    g = rng.integers(2, size=1000)
    h = np.where(rng.random(1000) < 0.8, g, 1 - g)

    def flip(x):
        return np.where(rng.random(1000) < 0.85, x, 1 - x)

    frame = pd.DataFrame(
        {**{f"a{i}": flip(g) for i in range(3)}, **{f"b{i}": flip(h) for i in range(3)}}
    )
    graph = "G->H; " + "; ".join(f"G->a{i}; H->b{i}" for i in range(3))
    found = lt.compare(frame, graph, latents={"G": [1, 2], "H": [1, 2]})
    assert [tuple(c.states.values()) for c in found.candidates] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert found.recommended == {"G": 2, "H": 2}
    assert found.candidates[0].log_likelihood == pytest.approx(
        sum(
            float(np.log(frame[c].value_counts(normalize=True)).reindex(frame[c]).sum())
            for c in frame
        )
    )


@pytest.mark.parametrize(
    ("latents", "graph", "words"),
    [
        ({"class": range(3)}, None, "from 1 on, got 0"),
        ({"class": []}, None, "got none"),
        ({"class": "abc"}, None, "got 'abc'"),
        (["class"], None, "as a dict"),
        ({"a": [1], "b": [2]}, None, "without a graph there is one latent"),
        ({"x0": [2]}, None, "and so is a column"),
        ({"G": range(1, 20), "H": range(1, 20)}, "G->x0; H->x1", "too many to compare"),
    ],
)
def test_errors_say_what_to_do(latents, graph, words):
    with pytest.raises(DataError, match=words):
        lt.compare(survey(), graph, latents)


def test_shows_itself(three, tmp_path):
    assert "→ 3" in repr(three)
    assert "<table>" in three._repr_html_()
    picture = three.plot()
    assert "BIC" in picture.svg
    assert picture.save(tmp_path / "criteria.svg").exists()


def test_prefers_fewer_of_equals():
    """Of candidates as good on held-out rows the one of least BIC, not the least loss."""
    small = Candidate({"c": 2}, -200.0, 5, 100.0, 1.0, 0.5, 2.01, 0.1, 0.01, 0.02, 0.0)
    large = Candidate({"c": 3}, -199.0, 8, 100.0, 1.0, 0.5, 2.00, 0.1, 0.00, 0.00, 0.0)
    assert Comparison((small, large), 100.0).recommended == {"c": 2}
    with pytest.raises(DataError, match="expected a criterion"):
        Comparison((small, large), 100.0).least("best")


def test_a_split_says_what_the_state_said():
    """Halves of a state, added up, tell the columns as before, but for the blur."""
    rng = np.random.default_rng(0)
    graph = latent_class(["x", "y"], 2).with_states({"x": 3, "y": 2})
    tables = {
        v: rng.dirichlet(np.ones(graph.states[v]), size=[graph.states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }
    latent = next(iter(graph.latent))
    split = split_state(graph.parents(), tables, latent, 1, rng)
    assert split[latent].shape == (3,)
    assert split[latent].sum() == pytest.approx(1.0)
    for v in graph.observed:
        np.testing.assert_allclose(split[v].sum(axis=-1), 1.0)
        assert not np.allclose(split[v][1], split[v][2])
    larger = graph.with_states({graph.names[latent]: 4})
    assert all(start[latent].shape == (4,) for start in split_starts(larger, tables, rng))


def test_a_candidate_is_not_worse_than_its_predecessor():
    """From splits alone, with one start of its own, it still climbs above the smaller one."""
    frame = survey(n=300)
    rows = LocalRows(Rows(tuple(frame[c].to_numpy().astype(np.int64) for c in frame)))
    settings = TableSettings(smoothing=0, closed_form=0, local=0, random=1, rounds=1)
    rng = np.random.default_rng(0)
    before = None
    for states in range(1, 6):
        graph = latent_class(list(frame), states).with_states(dict.fromkeys(frame, 2))
        found = fit_candidate(graph, rows, settings, rng, before)
        assert before is None or found.log_likelihood >= before.log_likelihood - 1e-6
        before = found


# --- numbers found by the data --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["carcinoma", "gss82"])
def test_few_rows_show_as_many_classes_as_bic(name):
    path = SHARED / "lca" / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"needs {name}.csv: set LATENTIA_DATA to a folder with lca/{name}.csv")
    frame = pd.read_csv(path)
    graph = "; ".join(f"class -> {c}" for c in frame)
    assert lt.LatentModel(graph, latents=["class"]).fit(frame).states_ == {"class": 3}
    assert lt.LatentModel("class").fit(frame).states_ == {"H": 3}


def test_more_than_ten_classes_are_found():
    """The closed form looks at ten directions; twelve classes, each with a column of its own."""
    rng = np.random.default_rng(0)
    member = rng.integers(12, size=4000)
    codes = [(member * k + k) % 12 % 4 for k in (1, 5, 7, 11)]
    codes += [member * k % 13 // 3 for k in (2, 3, 5, 6)]
    frame = pd.DataFrame(
        {f"x{i}": np.where(rng.random(4000) < 0.9, c, 0) for i, c in enumerate(codes)}
    )
    graph = "; ".join(f"class -> {c}" for c in frame)
    found = lt.LatentModel(graph, latents=["class"], learner="tables").fit(frame).states_["class"]
    assert 11 <= found <= 14


def test_columns_without_a_common_cause_have_one_class():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.integers(3, size=500) for i in range(5)})
    model = lt.LatentModel(
        "; ".join(f"c -> {x}" for x in frame), latents=["c"], learner="tables"
    ).fit(frame)
    assert model.states_ == {"c": 1}


def test_ids_are_left_out_of_a_class_of_all_columns():
    plain = survey(n=300)
    frame = pd.DataFrame({"id": [f"P{i:05d}" for i in range(len(plain))]}).join(plain)
    with pytest.warns(IgnoredColumnWarning, match="left out.*id"):
        found = lt.compare(frame, latents={"class": [2, 3]})
    alone = lt.compare(plain, latents={"class": [2, 3]})
    assert [c.log_likelihood for c in found.candidates] == pytest.approx(
        [c.log_likelihood for c in alone.candidates]
    )

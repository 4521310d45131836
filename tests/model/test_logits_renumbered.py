"""Logits of three classes: renumbered as another model has them, and with holes in covariates."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import NotLearnedError

YES = np.array(
    [[0.9, 0.85, 0.9, 0.2, 0.1], [0.2, 0.1, 0.2, 0.9, 0.8], [0.85, 0.8, 0.15, 0.85, 0.2]]
)
ITEMS = [f"q{i}" for i in range(5)]
SEEN = "; ".join(f"class->{q}" for q in ITEMS)
ONE, TWO = f"age->class; {SEEN}", f"age->class; z->class; {SEEN}"


def survey(n: int = 1000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, z = rng.normal(45, 12, n), rng.normal(size=n)
    score = np.column_stack([np.zeros(n), 0.06 * (age - 45) - 1.0, 0.8 * z - 0.5])
    shares = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    member = (shares.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    frame = pd.DataFrame({q: (rng.random(n) < YES[member, i]) * 1 for i, q in enumerate(ITEMS)})
    return frame.assign(age=age, z=z)


def holed(frame: pd.DataFrame, column: str = "age") -> pd.DataFrame:
    gone = np.random.default_rng(1).random(len(frame)) < 0.2
    return frame.assign(**{column: frame[column].mask(gone)})


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return survey()


@pytest.mark.parametrize("kind", ["tables", "default", "default with holes"])
def test_aligned_classes_keep_what_covariates_do_to_them(rows: pd.DataFrame, kind: str) -> None:
    """Sizes went by the new numbers, coefficients and P(class | age) by the old ones."""
    frame = rows.drop(columns="z")
    used = holed(frame) if kind == "default with holes" else frame
    more = {"learner": lt.Tables(random_state=0)} if kind == "tables" else {}
    model = lt.LatentModel(ONE, {"class": 3}, **more).fit(used)
    base = lt.LatentModel(SEEN, {"class": 3}, order_by="q2", learner="tables").fit(rows[ITEMS])
    found = base.align(model, frame)
    order = list(found.mapping["class"].values())
    assert order != [0, 1, 2]
    again = found.model
    old, new = model.coefficients("class"), again.coefficients("class")
    np.testing.assert_allclose(new.values, old.values[order] - old.values[order[0]], atol=1e-9)
    for given in ({"age": 60.0}, {"age": 30.0, "q0": 1}):
        was, now = (m.query("class", given).table for m in (model, again))
        np.testing.assert_allclose(now, was[order], atol=1e-9)
    was, now = (np.asarray(m.predict_proba(used.head(50), "class")) for m in (model, again))
    np.testing.assert_allclose(now, was[:, order], atol=1e-9)
    back = model.align(again, frame).model.coefficients("class", robust=True)
    there = model.coefficients("class", robust=True)
    np.testing.assert_allclose(back.values, there.values, atol=1e-8)
    np.testing.assert_allclose(back.errors, there.errors, rtol=1e-6)


@pytest.mark.parametrize("robust", [False, True])
def test_errors_are_those_of_a_fit_with_these_numbers(rows: pd.DataFrame, robust: bool) -> None:
    learner = lt.Tables(random_state=0)
    ones = [lt.LatentModel(TWO, {"class": 3}, order_by=q, learner=learner).fit(rows) for q in ITEMS]
    other = ones[3]
    for model in ones[:3]:
        told = model.coefficients("class", robust)
        again = model.align(other, rows).model.coefficients("class", robust)
        np.testing.assert_allclose(again.values, told.values, atol=2e-3)
        np.testing.assert_allclose(again.errors, told.errors, rtol=2e-3)


@pytest.mark.filterwarnings("ignore::latentia.errors.LeftOutWarning")  # cliques of covariates
def test_arrows_beside_are_not_aligned_and_say_so(rows: pd.DataFrame) -> None:
    base = lt.LatentModel(SEEN, {"class": 3}, learner="tables").fit(rows[ITEMS])
    with pytest.raises(NotLearnedError, match="align is not made for"):
        base.align(lt.LatentModel(TWO, {"class": 3}).fit(rows), rows)


@pytest.mark.filterwarnings("ignore::latentia.errors.LeftOutWarning")  # cliques of covariates
def test_the_default_tells_a_class_where_one_of_two_covariates_has_holes(
    rows: pd.DataFrame, tmp_path
) -> None:
    """It was refused: arrows know no holes of covariates."""
    frame = holed(rows)
    model = lt.LatentModel(TWO, {"class": 3}).fit(frame)
    tables = lt.LatentModel(TWO, {"class": 3}, learner=lt.Tables(1.0, random_state=0)).fit(frame)
    ours, theirs = model.coefficients("class"), tables.coefficients("class")
    assert ours.covariates == theirs.covariates
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-3)
    np.testing.assert_allclose(ours.errors, theirs.errors, rtol=1e-3)
    given = {"age": 60.0, "z": 1.0, "q0": 1}
    one, other = (m.query("class", given).table for m in (model, tables))
    np.testing.assert_allclose(one, other, atol=1e-3)
    np.testing.assert_allclose(model.query("class").table, tables.query("class").table, atol=0.02)
    some = frame.head(200)
    one, other = (np.asarray(m.predict_proba(some, "class")) for m in (model, tables))
    whole = some["age"].notna().to_numpy()
    np.testing.assert_allclose(one[whole], other[whole], atol=2e-3)
    np.testing.assert_allclose(one[~whole], other[~whole], atol=0.1)  # other ways to fill in
    assert set(model.map_query(["class", "q1"], {"z": 1.0})) == {"class", "q1"}
    assert len(model.sample(5, random_state=0, latents=True)["class"]) == 5
    assert model.query("age", {"class": 1}).std > 0
    assert "3 states" in str(model.profile("class"))
    assert 40 < model.query("age", {"q0": 1}).mean < 50  # columns stay columns
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    np.testing.assert_allclose(again.coefficients("class").errors, ours.errors)


@pytest.mark.filterwarnings("ignore::latentia.errors.LeftOutWarning")  # cliques of covariates
def test_so_it_does_with_holes_of_a_discrete_covariate(rows: pd.DataFrame) -> None:
    frame = rows.assign(city=np.array(["a", "b", "c"])[np.arange(len(rows)) * 7 % 11 % 3])
    frame["city"] = frame["city"].mask(np.arange(len(rows)) % 9 == 0)
    graph = f"{TWO}; city->class"
    model = lt.LatentModel(graph, {"class": 3}).fit(holed(frame))
    tables = lt.LatentModel(graph, {"class": 3}, learner=lt.Tables(1.0, random_state=0))
    theirs = tables.fit(holed(frame)).coefficients("class")
    ours = model.coefficients("class")
    assert ours.covariates == theirs.covariates
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-2)

"""A latent class of mixed columns whose other candidates are worse than the marginals."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.model import choice_mixed
from latentia.model.sought_class import sought_class
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph

KINDS = {"age": "continuous", "size": "discrete"}


def told_table(n: int, seed: int, classes: int = 4) -> pd.DataFrame:
    """A class tells words, sizes and an opinion; the age has nothing to do with it."""
    rng = np.random.default_rng(seed)
    h = rng.integers(classes, size=n)
    sizes = np.array([3750, 8750, 15000, 25000, 45000, 75000, 125000, 175000, 250000])
    told = rng.random((2, n)) < 0.6
    return pd.DataFrame(
        {
            "region": np.array(list("NCSMX"))[np.where(told[0], h, rng.integers(5, size=n))],
            "size": sizes[np.clip(2 * h + rng.integers(-1, 2, n), 0, 8)],
            "age": rng.integers(18, 70, n) * 1.0,
            "quo": np.round(rng.normal(size=n) + 0.8 * h, 4),
            "vote": np.array(list("YNUA"))[np.where(told[1], h, rng.integers(4, size=n))],
        }
    )


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    return lt.LatentModel("class", kinds=KINDS, order_by="quo").fit(told_table(80, seed=1))


def test_columns_that_tell_each_other_are_not_left_to_their_marginals(model):
    choice = model.operators_.provenance.choice
    assert choice.chosen == "tables"  # the marginals, with a warning, before
    assert choice.losses["tables"] < choice.losses["marginal"] - 0.5 < choice.losses["closed"]
    shares = model.query("H")
    means = [model.query("quo", {"H": h}).mean for h in range(len(shares))]
    assert len(means) > 1
    assert means == sorted(means)
    large, small = (model.query("quo", {"size": s}).mean for s in (175000, 3750))
    assert large - small > 1.0


def test_files_keep_it_and_rows_are_drawn(model, tmp_path):
    model.save(tmp_path / "m.latentia")
    again, frame = lt.load(tmp_path / "m.latentia"), told_table(80, seed=1)
    np.testing.assert_allclose(again.score_samples(frame), model.score_samples(frame))
    drawn = pd.DataFrame(model.sample(400, random_state=0))
    assert list(drawn.columns) == list(frame.columns)
    assert abs(drawn["quo"].mean() - frame["quo"].mean()) < 0.4  # standard deviation 1.4


def test_weights_count_as_rows_and_the_latent_keeps_its_name(model):
    frame = told_table(80, seed=1)
    rows = Rows(
        tuple(c.place(Values(frame[c.name].to_numpy())) for c in model.columns_), np.full(80, 2.0)
    )
    names = [c.name for c in model.columns_]
    states = {c.name: c.cells for c in model.columns_}
    graph = as_graph([("T", name) for name in names], latents={"T": 4}).with_states(states)
    found = sought_class(make_plan(graph), model.columns_, LocalRows(rows), rows.total)
    assert found is not None
    assert found.weight == 160.0
    own = found.model_graph
    (v,) = own.latent
    assert own.names[v] == "T"
    assert 1 < own.states[v] <= 4


def test_other_graphs_and_columns_that_tell_nothing_have_none(model):
    columns = model.columns_
    rng = np.random.default_rng(0)
    noise = Rows(tuple(rng.integers(c.cells, size=60).astype(np.int32) for c in columns))
    source, class_plan = LocalRows(noise), model.operators_.plan
    names = [c.name for c in columns]
    states = {c.name: c.cells for c in columns}
    tree = [("A", names[0]), ("A", names[1]), ("A", "B"), *(("B", x) for x in names[2:])]
    other = as_graph(tree, latents={"A": 2, "B": 2}).with_states(states)
    assert sought_class(make_plan(other), columns, source, 60.0) is None
    assert sought_class(class_plan, columns, source, 20.0) is None


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("found", [False, True])
def test_folds_without_a_class_answer_as_marginals(found, monkeypatch):
    """One of five folds had none: the marginals were kept, whatever the others said."""
    asked = []

    def sometimes(plan, columns, source, weight):
        asked.append(weight)
        return sought_class(plan, columns, source, weight) if len(asked) != 2 and found else None

    monkeypatch.setattr(choice_mixed, "sought_class", sometimes)
    model = lt.LatentModel("class", kinds=KINDS).fit(told_table(80, seed=1))
    choice = model.operators_.provenance.choice
    assert choice.chosen == ("tables" if found else "marginal")
    assert ("tables" in choice.losses) == found
    assert len(asked) == (6 if found else 5)

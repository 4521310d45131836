"""Explanations and sensitivities: against enumeration, and tables changed by hand."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import EvidenceError, GraphError, UnknownNameError
from latentia.testing.random_models import random_graph, random_model

YES = ["no", "yes"]
GRAPH = {"age": [], "flu": ["age"], "fever": ["flu"], "cough": ["flu"], "ache": ["flu", "age"]}
CPTS = {
    "age": [0.5, 0.3, 0.2],
    "flu": [[0.95, 0.05], [0.9, 0.1], [0.8, 0.2]],
    "fever": [[0.95, 0.05], [0.3, 0.7]],
    "cough": [[0.8, 0.2], [0.4, 0.6]],
    "ache": [[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [[0.2, 0.8], [0.2, 0.8], [0.1, 0.9]]],
}
STATES = {
    "age": ["young", "middle", "old"],
    **dict.fromkeys(["flu", "fever", "cough", "ache"], YES),
}
ROW = {"fever": "yes", "cough": "no", "ache": "yes", "age": "old"}


@pytest.fixture
def model():
    return lt.TabularModel(GRAPH, CPTS, latents=["flu"], state_names=STATES)


def log_odds(model, target, state, evidence):
    p = model.query(target, evidence)[state]
    return math.log(p / (1 - p))


def test_each_piece_left_out_and_in_order(model):
    found = model.explain("flu", ROW)
    assert found.state == "yes"
    whole = log_odds(model, "flu", "yes", ROW)
    seen = {}
    for piece, name in zip(found.pieces, ROW, strict=True):
        assert (piece.name, piece.value) == (name, ROW[name])
        fewer = {k: v for k, v in ROW.items() if k != name}
        assert piece.left_out == pytest.approx(whole - log_odds(model, "flu", "yes", fewer))
        before = log_odds(model, "flu", "yes", seen)
        seen[name] = ROW[name]
        assert piece.in_order == pytest.approx(log_odds(model, "flu", "yes", seen) - before)
    assert sum(p.in_order for p in found.pieces) == pytest.approx(found.moved)
    assert found.prior == pytest.approx(0.095)
    # children that flu alone explains say the same wherever they stand
    assert found.pieces[0].left_out == pytest.approx(math.log(0.7 / 0.05))


def test_words_frame_and_picture(model):
    found = model.explain("flu", ROW)
    said = repr(found)
    assert said.splitlines()[0] == "flu = yes: 0.0950 before, 0.7975 after"
    assert said.splitlines()[1].strip() == "fever = yes speaks for it: odds × 14."
    assert "cough = no speaks against it: odds ÷ 2." in said
    frame = pd.DataFrame(found.frame())
    assert list(frame["evidence"]) == list(ROW)
    svg = found.plot().svg
    for words in ("fever = yes", "+2.64", "0.797", "left out"):
        assert words in svg
    assert "<table>" in found._repr_html_()


def test_orders(model):
    strongest = [p.name for p in model.explain("flu", ROW, order="strength").pieces]
    assert strongest[0] == "fever"
    assert strongest[-1] == "age"
    mine = ["age", "cough", "fever", "ache"]
    assert [p.name for p in model.explain("flu", ROW, order=mine).pieces] == mine
    with pytest.raises(EvidenceError, match="expected order"):
        model.explain("flu", ROW, order=["age"])
    with pytest.raises(EvidenceError, match="expected order"):
        model.explain("flu", ROW, order="alphabet")


def test_rows_of_tables_are_read(model):
    wide = {"id": 7, **ROW, "cough": None, "flu": "no"}
    expected = model.explain("flu", {k: v for k, v in ROW.items() if k != "cough"}, state="no")
    frame = pd.DataFrame([wide])
    for row in (frame, frame.iloc[0], pl.DataFrame([wide])):
        found = model.explain("flu", row)
        assert found.state == "no"
        assert [p.name for p in found.pieces] == ["fever", "ache", "age"]
        for mine, other in zip(found.pieces, expected.pieces, strict=True):
            assert mine.left_out == pytest.approx(other.left_out)
    with pytest.raises(UnknownNameError, match="id"):  # a dict says what is known
        model.explain("flu", {"id": 7})
    with pytest.raises(EvidenceError, match="one row"):
        model.explain("flu", pd.DataFrame([wide, wide]))
    with pytest.raises(EvidenceError, match="or a row of a table"):
        model.explain("flu", 3)
    with pytest.raises(UnknownNameError, match="maybe"):
        model.explain("flu", ROW, state="maybe")


def test_what_is_certain_is_said_without_a_nan():
    model = lt.TabularModel(
        "h->x; h->y", {"h": [0.5, 0.5], "x": [[1, 0], [0.5, 0.5]], "y": [[1, 0], [0.4, 0.6]]}
    )
    found = model.explain("h", {"x": 1, "y": 1})
    assert (found.state, found.probability) == (1, 1.0)
    assert [p.in_order for p in found.pieces] == [math.inf, 0.0]
    assert [p.left_out for p in found.pieces] == [0.0, 0.0]  # one is enough
    assert found.moved == math.inf
    alone = model.explain("h", {"x": 1}, state=0)
    assert [p.in_order for p in alone.pieces] == [-math.inf]
    assert "makes it impossible" in repr(alone)
    assert "never" in alone.plot().svg


def test_a_learned_model_explains(model):
    rows = model.sample(3000, 0)
    names = ["age", "fever", "cough", "ache"]
    table = pd.DataFrame(rows, columns=names)
    learned = lt.LatentModel(
        model.graph, learner=lt.EM(restarts=1, max_iter=2000, random_state=0)
    ).fit(table)
    found = learned.explain("fever", table.iloc[0])
    others = {name: int(table.iloc[0][name]) for name in names if name != "fever"}
    answer = learned.query("fever", others)
    assert found.probability == pytest.approx(answer[int(table.iloc[0]["fever"])])
    assert len(found.pieces) == 3
    assert learned.explain("flu", {"fever": 1}).pieces[0].name == "fever"
    cells = learned.sensitivity("fever", {"cough": 1}, of="flu").cells
    assert {c.variable for c in cells} == {"flu"}


def test_the_most_probable_explanation(model):
    evidence = {"fever": "yes", "ache": "yes"}
    best = model.map_query(None, evidence)
    joint = model.query(["age", "flu", "cough"], evidence)
    assert tuple(best.values()) == joint.mode
    assert list(best) == ["age", "flu", "cough"]
    assert best.probability == pytest.approx(joint.table.max())
    some = model.map_query(["flu", "age"], evidence)
    assert tuple(some.values()) == model.query(["flu", "age"], evidence).mode
    rows = pd.DataFrame(model.sample(1000, 0), columns=["age", "fever", "cough", "ache"])
    learner = lt.EM(restarts=1, random_state=0, tol=1e-3)
    learned = lt.LatentModel(model.graph, learner=learner).fit(rows)
    found = learned.map_query(evidence={"fever": 1, "ache": 1})
    assert set(found) == {"age", "flu", "cough"}
    whole = learned.query(["age", "flu", "cough"], {"fever": 1, "ache": 1})
    assert found.probability == pytest.approx(whole.table.max())
    with pytest.raises(EvidenceError, match="everything is observed"):
        learned.map_query(evidence=dict.fromkeys(["age", "flu", "fever", "cough", "ache"], 1))
    field = lt.TabularModel("a--b", {("a", "b"): [[0.5, 1.0], [1.0, 2.0]]})
    with pytest.raises(GraphError, match="directed"):
        field.map_query("a")


# --- sensitivity ----------------------------------------------------------------------------------


def changed(model, name, place, value):
    """The model with one cell of a table changed, the rest of its row in proportion."""
    table = np.array(model.cpts[name])
    row = table[place[:-1]].copy()
    own = place[-1]
    rest = np.delete(row, own)
    rest = np.full(len(rest), 1 / len(rest)) if rest.sum() == 0 else rest / rest.sum()
    table[place[:-1]] = np.insert(rest * (1 - value), own, value)
    return lt.TabularModel(model.graph, {**model.cpts, name: table}, state_names=model.state_names)


def test_every_cell_as_if_the_table_were_changed(model):
    evidence = {"fever": "yes", "ache": "no"}
    found = model.sensitivity("flu", evidence, state="yes")
    assert len(found.cells) == sum(np.size(table) for table in CPTS.values())
    for cell in found.cells:
        place = (*(STATES[p].index(s) for p, s in cell.parents.items()),)
        place = (*place, STATES[cell.variable].index(cell.state))
        assert cell.value == pytest.approx(np.array(CPTS[cell.variable])[place])
        for value in (0.02, 0.5, 0.93):
            other = changed(model, cell.variable, place, value)
            assert cell.at(value) == pytest.approx(other.query("flu", evidence)["yes"], abs=1e-12)
        step = 1e-6  # central differences err by its square
        ends = [
            changed(model, cell.variable, place, cell.value + s).query("flu", evidence)["yes"]
            for s in (-step, step)
        ]
        assert cell.slope == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)
    slopes = [abs(c.slope) for c in found.cells]
    assert slopes == sorted(slopes, reverse=True)


def test_cells_of_zero_and_one_have_slopes():
    model = lt.TabularModel(
        "h->x; h->y", {"h": [0.6, 0.4], "x": [[1, 0], [0.3, 0.7]], "y": [[0.5, 0.5], [0.1, 0.9]]}
    )
    found = model.sensitivity("h", {"x": 0, "y": 1}, state=0)
    for cell in found.cells:
        place = (*cell.parents.values(), cell.state)
        for value in (0.25, 0.75):
            other = changed(model, cell.variable, place, value)
            expected = other.query("h", {"x": 0, "y": 1})[0]
            assert cell.at(value) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["tree", "loop"])
@pytest.mark.parametrize("seed", range(3))
def test_random_networks(kind, seed):
    rng = np.random.default_rng([seed, 5])
    model = random_model(random_graph(rng, kind), rng)
    target, seen = model.names[0], model.names[-1]
    found = model.sensitivity(target, {seen: 0}, state=0)
    for k in rng.choice(len(found.cells), 20):
        cell = found.cells[k]
        other = changed(model, cell.variable, (*cell.parents.values(), cell.state), 0.4)
        assert cell.at(0.4) == pytest.approx(other.query(target, {seen: 0})[0], abs=1e-10)


def test_the_value_that_turns_an_answer(model):
    found = model.sensitivity("flu", {"fever": "yes"}, state="yes")
    cell = found.cell("fever", "yes", {"flu": "no"})
    value = cell.reaches(0.5)
    assert cell.at(value) == pytest.approx(0.5)
    assert found.cell("cough", "yes", {"flu": "no"}).reaches(0.5) is None
    assert "P(fever=yes | flu=no)" in repr(found)
    assert pd.DataFrame(found.frame())["slope"].abs().is_monotonic_decreasing
    with pytest.raises(UnknownNameError, match="cell"):
        found.cell("fever", "yes")
    with pytest.raises(EvidenceError, match="between 0 and 1"):
        cell.at(1.5)


def test_errors_of_sensitivity(model):
    with pytest.raises(EvidenceError, match="open"):
        model.sensitivity("flu", {"flu": "yes"})
    with pytest.raises(UnknownNameError, match="maybe"):
        model.sensitivity("flu", {}, state="maybe")
    field = lt.TabularModel("a--b", {("a", "b"): [[0.5, 1.0], [1.0, 2.0]]})
    with pytest.raises(GraphError, match="undirected"):
        field.sensitivity("a")

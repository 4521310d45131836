"""Answers of a TabularModel by state name; evidence by name, soft, in batches; rounded tables."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.exact.tabular_model import TabularModel

H, X, Y = [0.3, 0.7], [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
STATES = {"x": ["no", "yes"], "y": [("low",), ("middle",), ("high",)]}


@pytest.fixture
def model():
    return TabularModel("h->x; h->y", {"h": H, "x": X, "y": Y}, ["h"], state_names=STATES)


def by_hand(x=None, y=None, likelihood=(1.0, 1.0)):
    """P(h | …) by enumeration."""
    joint = np.array(H) * (np.array(X) * np.array(likelihood)).sum(axis=1) if x is None else None
    joint = np.array(H) * np.array(X)[:, x] if x is not None else joint
    joint = joint * np.array(Y)[:, y] if y is not None else joint
    return joint / joint.sum(), np.log(joint.sum())


def test_an_answer_is_a_posterior_and_an_array(model):
    answer = model.query("h", {"x": "yes", "y": ("high",)})
    expected, log_evidence = by_hand(1, 2)
    assert isinstance(answer, lt.Posterior)
    np.testing.assert_allclose(np.asarray(answer), expected, rtol=1e-12)
    assert answer.probabilities == {0: answer[0], 1: answer[1]}
    assert answer.log_evidence == pytest.approx(log_evidence, abs=1e-12)
    assert answer.evidence == {"x": "yes", "y": ("high",)}
    assert answer.mode == 1
    assert "P(h | x=yes" in repr(answer)


def test_states_go_by_name_in_the_order_of_codes(model):
    joint = np.einsum("h,hx,hy->yx", H, X, Y)
    both = model.query(["y", "x"])
    assert both.states == (tuple(STATES["y"]), ("no", "yes"))
    for i, y in enumerate(STATES["y"]):
        for j, x in enumerate(STATES["x"]):
            assert both[y, x] == pytest.approx(joint[i, j], abs=1e-12)
    assert model.query("x")["yes"] == pytest.approx(joint[:, 1].sum(), abs=1e-12)
    assert model.query("x").evidence is None


def test_names_are_not_codes():
    """The states are numbers, in an order of their own: 0 is the name of code 1."""
    model = TabularModel("h->x", {"h": H, "x": X}, ["h"], state_names={"x": [1, 0]})
    np.testing.assert_allclose(np.asarray(model.query("h", {"x": 0})), by_hand(1)[0], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(model.query("h", {"x": 1})), by_hand(0)[0], rtol=1e-12)
    codes = np.array([[-1, 0]])  # an array holds codes
    np.testing.assert_allclose(np.asarray(model.query("h", codes)), by_hand(0)[0], rtol=1e-12)
    assert model.query("h", codes).evidence == {"x": 1}


def test_soft_evidence_by_name_and_by_place(model):
    expected, log_evidence = by_hand(likelihood=(0.2, 0.6))
    for soft in ({"x": [0.2, 0.6]}, {"x": {"yes": 0.6, "no": 0.2}}):
        answer = model.query("h", soft=soft)
        np.testing.assert_allclose(np.asarray(answer), expected, rtol=1e-12)
        assert answer.log_evidence == pytest.approx(log_evidence, abs=1e-12)
        assert answer.evidence == {"x": [0.2, 0.6]}


ROWS = {"x": ["yes", None, "no", "no"], "y": [("low",), ("high",), None, ("middle",)]}
CODES = [(1, 0), (None, 2), (0, None), (0, 1)]


@pytest.mark.parametrize(
    "batch",
    [
        ROWS,
        {"y": ROWS["y"], "x": np.array(ROWS["x"], dtype=object)},
        [dict(zip(ROWS, cells, strict=True)) for cells in zip(*ROWS.values(), strict=True)],
        [{"x": "yes", "y": ("low",)}, {"y": ("high",)}, {"x": "no"}, {"y": ("middle",), "x": "no"}],
        pd.DataFrame(ROWS)[["y", "x"]],
    ],
    ids=["dict", "dict of arrays", "rows", "short rows", "pandas"],
)
def test_batches_of_evidence_by_name(model, batch):
    found = model.posteriors(batch, ["h"])["h"]
    assert found.shape == (4, 2)
    for row, (x, y), level in zip(found, CODES, model.log_evidence(batch), strict=True):
        expected, log_evidence = by_hand(x, y)
        np.testing.assert_allclose(row, expected, rtol=1e-12)
        assert level == pytest.approx(log_evidence, abs=1e-12)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_go_by_name_and_holes_are_unobserved(frame):
    """Without names of states: codes, which holes turn into floats."""
    model = TabularModel("h->x; h->y", {"h": H, "x": X, "y": Y}, ["h"])
    batch = frame({"y": [0, 2, None, 1], "x": [1, None, 0, 0]})
    found = model.posteriors(batch, ["h"])["h"]
    for row, (x, y) in zip(found, CODES, strict=True):
        np.testing.assert_allclose(row, by_hand(x, y)[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("evidence", "soft", "error", "message"),
    [
        ({"x": "maybe"}, None, UnknownNameError, "state of 'x' 'maybe' is unknown.*'no', 'yes'"),
        ({"x": 1}, None, UnknownNameError, "state of 'x' 1 is unknown"),
        ({"x": ["yes", "perhaps"]}, None, UnknownNameError, "'perhaps' is unknown"),
        ({"x": [["yes"]]}, None, UnknownNameError, "is unknown"),
        ({"x": ["yes"], "y": [None, None]}, None, EvidenceError, r"lists of \[1, 2\]"),
        ([{"x": "yes"}, "no"], None, EvidenceError, "in row 1, got 'no'"),
        ([{"x": ["yes", "no"]}], None, EvidenceError, "as many states"),
        ([{"z": "yes"}], None, UnknownNameError, "'z' is unknown"),
        (pd.DataFrame({"z": ["yes"]}), None, UnknownNameError, "'z' is unknown"),
        ({"h": 0.5}, None, EvidenceError, "code of a state of 'h'"),
        (None, {"x": {"yes": 1.0}}, EvidenceError, "a likelihood for each of its states"),
        (None, {"x": {"yes": 1.0, "no": 0.5, "so": 1}}, EvidenceError, "each of its states"),
    ],
)
def test_wrong_names_are_refused(model, evidence, soft, error, message):
    with pytest.raises(error, match=message):
        model.log_evidence(evidence, soft)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"x": ["a"]}, DataError, "expected 2 different names for the states of 'x'"),
        ({"x": ["a", "a"]}, DataError, "expected 2 different names"),
        ({"x": "ab"}, DataError, "expected 2 different names"),
        ({"x": [["a"], ["b"]]}, DataError, "expected 2 different names"),
        ({"x": [1, True]}, DataError, "expected 2 different names"),
        ({"x": 2}, DataError, "expected 2 different names"),
        ({"z": ["a", "b"]}, UnknownNameError, "'z' is unknown"),
        (["a", "b"], DataError, "expected state_names as"),
    ],
)
def test_wrong_state_names_are_refused(names, error, message):
    with pytest.raises(error, match=message):
        TabularModel("h->x", {"h": H, "x": X}, state_names=names)


def test_a_text_is_one_variable_and_no_list_of_letters():
    model = TabularModel("a->b", {"a": H, "b": X})
    with pytest.raises(UnknownNameError, match="'ab' is unknown"):
        model.query("ab")


def test_names_of_states_survive_a_pickle(model):
    twin = pickle.loads(pickle.dumps(model))
    assert twin.state_names == model.state_names
    assert twin.query("x")["yes"] == model.query("x")["yes"]


# --- rounded tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [[0.333333] * 3, [0.5 + 1e-6, 0.5, 0.0], [0.142857] * 7])
def test_sums_off_by_a_millionth_are_normalised(table):
    model = TabularModel("x", {"x": table})
    np.testing.assert_allclose(model.cpts["x"], np.array(table) / np.sum(table), rtol=1e-15)
    assert abs(np.asarray(model.query("x")).sum() - 1) < 1e-15
    learner = lt.EM(known={"x": table})
    rows = {"x": np.arange(len(table) * 20) % len(table)}
    rows["x"] = np.where(np.array(table)[rows["x"]] > 0, rows["x"], 0)
    names = {"x": list(range(len(table)))}
    learned = lt.LatentModel("x", learner=learner, state_names=names).fit(rows)
    np.testing.assert_allclose(learned.cpts_["x"], model.cpts["x"], rtol=1e-12)


def test_a_row_further_off_is_named():
    table = np.full((2, 3, 2), 0.5)
    table[1, 2] = [0.5, 0.50001]
    cpts = {"a": H, "b": [0.2, 0.3, 0.5], "x": table}
    graph = {"b": [], "a": [], "x": ["a", "b"]}
    with pytest.raises(DataError, match=r"1\.00001 in the row of a=1, b=2.*axes are \(a, b, x\)"):
        TabularModel(graph, cpts)
    with pytest.raises(DataError, match=r"within 1e-6.*got 0\.99"):
        TabularModel("x", {"x": [0.5, 0.49]})
    rows = pd.DataFrame({"b": [0, 1, 2] * 4, "a": [0, 1] * 6, "x": [0, 1, 1] * 4})
    with pytest.raises(DataError, match=r"1\.00001 in the row of a=1, b=2"):
        lt.LatentModel(graph, learner=lt.EM(known={"x": table})).fit(rows)

"""Kinds of columns: one rule for all tables, that no odd row turns over."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold, cross_val_score

import latentia as lt
from latentia.data.columns.column import KINDS, share_missing
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discovering import (
    MANY_FINE,
    MANY_FLOATS,
    MANY_INTEGERS,
    MOST_STATES,
    discover_from_values,
)
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.values import Values
from latentia.data.sources.table import read_table
from latentia.errors import DataError
from latentia.inference.evidence import around

RNG = np.random.default_rng(0)


def kind_of(cells, kind=None, given=None):
    return discover_from_values("x", read_table({"x": cells}).column("x"), kind, given).kind


@pytest.mark.parametrize(
    ("unit", "limit", "times"),
    [
        (1.0, MANY_INTEGERS, 300),
        (0.5, MANY_FLOATS, 300),
        (np.pi, MANY_FINE, 4),
        (np.pi, MANY_FLOATS, 300),  # fine as they are, they come again
    ],
)
def test_the_number_of_different_values_decides(unit, limit, times):
    at = np.tile(np.arange(1, limit + 1), times)
    assert kind_of(at * unit) == "discrete"
    more = np.tile(np.arange(1, limit + 2), times)
    assert kind_of(more * unit) == "continuous"


def test_fine_decimals_that_come_again_stay_states_beside_an_odd_one():
    cells = np.tile(np.array([0.0004, 0.9604, 1.0404, 3.9204, 4.0804, 9.1204, 16.16]), 90)
    assert kind_of(cells) == "discrete"
    cells[17] = 2.25361
    assert kind_of(cells) == "discrete"


def test_a_decimal_among_many_integers_leaves_them_integers():
    cells = np.tile(np.arange(30.0), 400)
    assert kind_of(cells) == "discrete"
    cells[17] = 2.5
    assert kind_of(cells) == "discrete"
    cells[18] = np.pi
    assert kind_of(cells) == "discrete"
    cells[: len(cells) // 2] += 0.25  # half of them are decimals
    assert kind_of(cells) == "continuous"


def test_text_among_many_numbers_is_told_with_its_row():
    cells = [*RNG.normal(size=10_000).tolist()]
    cells[4321] = "n/a"
    with pytest.raises(DataError, match=r"row 4321 has 'n/a'.*missing.*kinds=.*'discrete'"):
        kind_of(cells)
    with pytest.raises(DataError, match=r"said to be continuous.*row 4321 has 'n/a'"):
        kind_of(cells, "continuous")
    cells[4321] = None
    assert kind_of(cells) == "continuous"


def test_text_among_few_numbers_is_a_state():
    column = discover_from_values("x", read_table({"x": [1, 2, "n/a"] * 50}).column("x"))
    assert column == DiscreteColumn("x", (1, 2, "n/a"))


def test_a_kind_that_is_given_wins():
    few = [0.0, 1.0, 2.0] * 10
    assert kind_of(few) == "discrete"
    assert kind_of(few, "continuous") == "continuous"
    many = RNG.normal(size=100)
    assert kind_of(many, "discrete") == "discrete"
    assert kind_of([1, 2, 3], given=[1, 2, 3, 4]) == "discrete"
    assert kind_of(many, given=sorted(many.tolist())) == "discrete"
    with pytest.raises(DataError, match="states were given"):
        kind_of(many, "continuous", [1, 2])


@pytest.mark.parametrize("n", [30, 5000])
def test_every_table_has_the_same_columns(n):
    x = RNG.lognormal(size=n)
    x[3] = np.nan
    i = RNG.integers(0, 9, n)
    tables = {
        "pandas": pd.DataFrame({"x": x, "i": i}),
        "polars": pl.DataFrame({"x": pl.Series(x).fill_nan(None), "i": i}),
        "arrays": {"x": x, "i": i},
        "lists": {"x": [None if v != v else v for v in x.tolist()], "i": i.tolist()},
        "rows": np.column_stack([x, i.astype(float)]),
        "objects": np.column_stack([x.astype(object), i.astype(object)]),
    }
    found = {
        name: [discover_from_values(c, read_table(t, ["x", "i"]).column(c)) for c in ("x", "i")]
        for name, t in tables.items()
    }
    assert found["pandas"][0].kind == "continuous"
    assert found["pandas"][1].states == tuple(range(9))
    for columns in found.values():
        assert columns == found["pandas"]


def test_too_many_states_are_refused_with_what_they_look_like():
    ids = [f"{k}" for k in range(MOST_STATES + 200)]
    with pytest.raises(DataError, match=r"more than 1000 different values.*numbers as text"):
        kind_of(ids)
    with pytest.raises(DataError, match="more than 1000 different values"):
        kind_of([f"id {k}" for k in ids])
    with pytest.raises(DataError, match="1200 different values"):
        kind_of(np.arange(1200), "discrete")
    assert kind_of(np.arange(1200), given=range(1200)) == "discrete"


def test_large_integers_that_decimals_cannot_tell_apart_are_not_measured():
    cells = 2**60 + np.arange(100)
    with pytest.raises(DataError, match=r"Subtract 1152921504606846976.*'discrete'"):
        kind_of(cells)
    assert kind_of(cells - 2**60) == "continuous"
    assert kind_of(cells, "discrete") == "discrete"
    assert kind_of(2**40 * np.arange(1, 2**20, 2**12)) == "continuous"


def test_infinities_are_refused_where_numbers_are_measured():
    with pytest.raises(DataError, match="infinity"):
        kind_of([1.0, np.inf])
    with pytest.raises(DataError, match="infinity"):
        kind_of([1.0, 2.0, -np.inf, None], "continuous")
    many = [*RNG.normal(size=100).tolist(), np.inf, None]
    with pytest.raises(DataError, match="row 100 has inf"):
        kind_of(many)
    assert kind_of([1.0, 2.0, -np.inf, None]) == "discrete"  # among objects it is a state


# --- the protocol ---------------------------------------------------------------------------------

CELLS = Values(np.array([0.2, np.nan, 3.1, 0.0]), np.array([False, True, False, False]))
COLUMNS = [
    ContinuousColumn("x", 0.0, 1.0, False, 0.0, 4.0, 1.0, points=4, atoms=(0.0,)),
    DiscreteColumn("x", (0.0, 0.2, 3.1)),
]


@pytest.mark.parametrize("column", COLUMNS, ids=KINDS[::-1])
def test_what_every_column_can_do(column):
    places = column.place(CELLS)
    assert column.kind in KINDS
    assert column.continuous == (column.kind == "continuous")
    assert len(column.labels) == column.cells
    assert column.present(places).tolist() == [True, False, True, True]
    assert not column.present(column.nothing(3)).any()
    assert share_missing(column, places, None) == 0.25
    assert share_missing(column, places, np.array([1.0, 2.0, 0.0, 1.0])) == 0.5
    cells, weights = column.corners(places)
    expected = around(places, column.cells, 4)
    assert np.array_equal(cells, expected[0])
    assert np.array_equal(weights, expected[1])
    assert column.nearest(places).tolist()[1] == -1
    p = RNG.dirichlet(np.ones(column.cells), 3).T
    assert column.summary(p).shape == (len(column.summary_names), 3)
    assert column.best(p).shape == (3,)
    assert len(column.answers(column.best(p))) == 3
    filled = column.filled(CELLS, np.zeros(4))
    assert filled.tolist() == [0.2, 0.0, 3.1, 0.0]
    assert column.log_factor(CELLS).shape == (4,)
    assert column.log_factor(CELLS)[1] == 0
    drawn = column.draw(np.array([0, column.cells - 1]), RNG)
    assert drawn.dtype.kind == "f"
    assert column.answer_type is float


def test_a_continuous_column_places_numbers_only():
    cells = np.array([1.0, None, "x"], dtype=object)
    with pytest.raises(DataError, match=r"got 'x' \(row 2\)"):
        COLUMNS[0].place(Values(cells, np.array([False, True, False])))


def test_numbers_keep_their_kind_in_every_fold():
    """Iris: a decimal, 19 to 23 different widths; some are seen once, and others will come."""
    X, y = load_iris(return_X_y=True)
    for seed in range(20):
        for rows, _ in KFold(5, shuffle=True, random_state=seed).split(X):
            assert [kind_of(column) for column in X[rows].T] == ["continuous"] * 4
    folds = KFold(3, shuffle=True, random_state=0)
    learner = lt.PBP(refine=False)
    found = cross_val_score(
        lt.LatentClassifier(learner=learner), X, y, cv=folds, error_score="raise"
    )
    assert found.mean() > 0.9


def test_few_numbers_seen_often_are_states():
    rng = np.random.default_rng(0)
    assert kind_of(rng.permutation(np.repeat(np.arange(10) / 2, 4))) == "discrete"
    assert kind_of(rng.permutation(np.repeat(np.arange(35), 4))) == "discrete"
    assert kind_of(np.arange(21)) == "continuous"
    assert kind_of(np.arange(20)) == "discrete"


def test_decimal_commas_are_no_states(tmp_path):
    """A file of a land where decimals have commas: 60 numbers became 60 states."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60).round(3), "b": rng.integers(2, size=60)})
    frame.to_csv(tmp_path / "rows.csv", sep=";", decimal=",", index=False)
    model = lt.LatentModel("H->x,b", {"H": 2}, "em")
    with pytest.raises(DataError, match="column 'x' holds numbers with decimal commas as text"):
        model.fit(tmp_path / "rows.csv")
    text = frame.assign(x=frame["x"].astype(str).str.replace(".", ","))
    with pytest.raises(DataError, match="decimal commas"):
        model.fit(text)
    few = text.assign(x=np.where(frame["b"], "0,5", "1,5"))
    assert model.fit(few).columns_[0].states == ("0,5", "1,5")
    named = lt.LatentModel("H->x,b", {"H": 2}, "em", kinds={"x": "discrete"}).fit(text)
    assert named.columns_[0].cells == text["x"].nunique()

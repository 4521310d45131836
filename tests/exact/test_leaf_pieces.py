"""Columns in pieces: what is taken apart and joined again is the same."""

import numpy as np

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.rows import Rows
from latentia.exact.leaf_pieces import cell_masses, widened


def wide_graph():
    column = ContinuousColumn(
        "x", 0.0, 1.0, False, -4.0, 4.0, 1.0, 8, (9.0, -9.0), cuts=(-1.0, 2.0)
    )
    graph = lt.as_graph("h->x", {"h": 2}, {"x": column.cells})
    return widened(graph, [column])


def test_rows_tell_their_piece():
    wide = wide_graph()
    own = wide.pieces[1]
    places = np.array([0.0, 2.4, 2.6, 5.4, 5.6, 7.0, 8.0, 9.0, np.nan])  # z = -1 is place 2.5
    rows = wide.rows(Rows((places,)))
    codes = dict(zip(wide.wide.observed, rows.codes, strict=True))
    assert codes[own.kind].tolist() == [0, 0, 1, 1, 2, 2, 3, 4, -1]
    for k, part in enumerate(own.parts):
        np.testing.assert_array_equal(codes[part], np.where(codes[own.kind] == k, places, np.nan))


def test_joined_and_apart():
    rng, wide = np.random.default_rng(0), wide_graph()
    own = wide.pieces[1]
    tables = {0: np.array([0.5, 0.5]), own.kind: rng.dirichlet(np.ones(5), size=2)}
    for part in own.parts:
        tables[part] = rng.uniform(0.5, 2.0, size=(2, 3, 3))
        tables[part][..., 0] = rng.dirichlet(np.ones(3), size=2)
    joined = wide.joined(tables)
    assert set(joined) == {0, 1}
    np.testing.assert_allclose(joined[1][..., 0].sum(axis=-1), 1.0)
    again = wide.apart(joined)
    for v, table in tables.items():
        np.testing.assert_allclose(again[v], table)
    masses = cell_masses(joined[1], own, 10)
    np.testing.assert_allclose(masses.sum(axis=-1), 1.0)
    np.testing.assert_allclose(masses[:, 8:], tables[own.kind][:, 3:])


def test_plain_columns_are_left_alone():
    column = ContinuousColumn("x", 0.0, 1.0, False, -4.0, 4.0, 1.0, 8)
    graph = lt.as_graph("h->x", {"h": 2}, {"x": 8})
    wide = widened(graph, [column])
    assert wide.wide is graph
    rows = Rows((np.zeros(3),))
    assert wide.rows(rows) is rows

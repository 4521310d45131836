"""Joint states of families, counted by the kernel and by numpy: against a loop over the rows."""

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.native.loading import kernel
from latentia.networks.compiled_counts import count_joint_states, joint_states_and_holes
from latentia.networks.em_problem import count_columns
from latentia.structure.reading_graphs import as_graph

SIZES = (3, 1, 40, 7, 2)
FAMILIES = ((0,), (2, 0), (4, 2, 3, 0), (3, 1), (2, 3, 2))


def slowly(columns, family, weight):
    counts = np.zeros([SIZES[i] for i in family])
    for n, row in enumerate(zip(*(columns[i].tolist() for i in family), strict=True)):
        if min(row) >= 0:
            counts[row] += 1.0 if weight is None else weight[n]
    return counts


@pytest.mark.parametrize("rows", [1, 70, 9001])  # the last: three blocks of the kernel
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_counts_are_those_of_a_loop(kernel_level, rows, holes):
    rng = np.random.default_rng(rows)
    kinds = (np.int8, np.int16, np.int32, np.int64, np.int8)
    columns = []
    for size, kind in zip(SIZES, kinds, strict=True):
        codes = rng.integers(0, size, rows).astype(kind)
        columns.append(np.where(rng.random(rows) < holes, -1, codes).astype(kind))
    columns[0] = np.repeat(columns[0], 2)[::2]  # not in one stretch
    for weight in (None, rng.random(rows)):
        found = count_joint_states(columns, SIZES, FAMILIES, weight)
        for counts, family in zip(found, FAMILIES, strict=True):
            assert counts.dtype == float
            np.testing.assert_allclose(counts, slowly(columns, family, weight), rtol=1e-12)


def test_no_rows_and_no_families(kernel_level):
    nothing = np.zeros(0, dtype=np.int8)
    assert count_joint_states([nothing], [3], [(0,)])[0].tolist() == [0, 0, 0]
    assert count_joint_states([nothing], [3], []) == []


def test_a_code_out_of_bounds_is_noticed(kernel_level):
    if kernel() is None:
        pytest.skip("numpy notices when it gives the counts their shape")
    with pytest.raises(IndexError):
        count_joint_states([np.array([0, 3], dtype=np.int8)], [3], [(0,)])


def test_holes_are_rows_whatever_their_weight(kernel_level):
    graph = as_graph("a -> b", states={"a": 2, "b": 2})
    rows = Rows((np.array([0, -1, -1]), np.array([1, 1, 0])), np.array([2.0, 0.0, 0.5]))
    sums = count_columns(graph, rows).sums
    assert sums["holes/0"].tolist() == [2]
    assert sums["holes/1"].tolist() == [0]
    assert sums["column/0"].tolist() == [2.0, 0.0]
    assert sums["column/1"].tolist() == [0.5, 2.0]


def test_columns_are_counted_from_families_where_no_member_lacks():
    """What a family tells of a column is not counted again, and is the same."""
    rng = np.random.default_rng(5)
    graph = as_graph("a -> b; a -> c; b -> c; d", states={"a": 2, "b": 3, "c": 4, "d": 2})
    codes = [rng.integers(0, n, 500) for n in (2, 3, 4, 2)]
    codes[2][::7] = -1  # families without it still tell of a and b
    for weight in (None, rng.random(500)):
        rows = Rows(tuple(codes), weight)
        plain, found = count_columns(graph, rows).sums, count_columns(graph, rows, (0, 1, 2)).sums
        assert found.keys() == plain.keys() | {"counts/0", "counts/1", "counts/2"}
        for name, n in plain.items():
            np.testing.assert_allclose(found[name], n, rtol=1e-12)
        whole = [(0,), (0, 1), (0, 1, 2)]
        for v, n in enumerate(count_joint_states(codes, [2, 3, 4, 2], whole, weight)):
            np.testing.assert_array_equal(found[f"counts/{v}"], n)


def test_members_that_lack_a_cell_are_told(kernel_level):
    one, holed = np.array([0, 1, 1]), np.array([0, -1, 1], dtype=np.int8)
    _, lacking = joint_states_and_holes([one, holed, one], [2, 2, 2], [(0, 1), (2,)])
    assert lacking == {1}
    assert joint_states_and_holes([one, holed], [2, 2], [(0,)])[1] == frozenset()

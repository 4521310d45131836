"""A pool in a file: what other models say beside the joint one, as JSON values and arrays.

Whole numbers of trees are packed, several to a number of 64 bits: they are most of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latentia.data.columns.column import Column
from latentia.errors import StoreError
from latentia.pooling.cell_scores import CellScores, TableScores
from latentia.pooling.column_pool import ColumnPool, LogitMember, Pool
from latentia.pooling.gaussian_scores import GaussianScores
from latentia.pooling.leaf_forest import LeafForest
from latentia.store.array_table import Name, Shape, Written, check_sizes, numbered, of_kind
from latentia.store.plain import LARGEST_COUNT, fields, items, number, whole, wholes
from latentia.typing import Array, Codes, Given

POOL = "pool"
EXACT_BITS = 52  # of a number that are whole


# -- whole numbers ---------------------------------------------------------------------------------


def _held(below: int) -> tuple[int, int]:
    """Bits of a whole number, and how many of them a 64-bit number holds."""
    bits = max(int(below - 1).bit_length(), 1)
    return bits, EXACT_BITS // bits


def packed_wholes(values: Codes, below: int) -> Array:
    """Whole numbers from 0 to below - 1, several in each number.

    >>> packed_wholes(np.array([3, 1, 2]), 4)
    array([39.])
    """
    bits, many = _held(below)
    wide = np.zeros(-(-len(values) // many) * many, dtype=np.int64)
    wide[: len(values)] = values
    return np.asarray((wide.reshape(-1, many) << (bits * np.arange(many))).sum(axis=1), dtype=float)


def unpacked_wholes(packed: Array, count: int, below: int) -> Codes:
    """What `packed_wholes` was given."""
    bits, many = _held(below)
    if not (packed >= 0).all() or not (packed < 2.0**EXACT_BITS).all():
        raise StoreError("expected whole numbers in the trees of a pool.")
    own = packed.astype(np.int64)[:, None] >> (bits * np.arange(many))
    found = (own & ((1 << bits) - 1)).ravel()[:count]
    if (found >= below).any():
        raise StoreError(f"expected whole numbers below {below} in the trees of a pool.")
    return np.asarray(found)


def packed_shape(count: int, below: int) -> Shape:
    """Of what `packed_wholes` gives."""
    return (-(-count // _held(below)[1]),)


# -- writing ---------------------------------------------------------------------------------------


def write_pool(pool: Pool) -> Written:
    """JSON values, and arrays in the order of `pool_shapes`."""
    arrays: list[Array] = [pool.gaussian.mean, pool.gaussian.precision]
    columns = []
    for scores, own in zip(pool.scores.columns, pool.columns, strict=True):
        record: dict[str, Given] = {
            "indicators": list(scores.states),
            "weights": list(own.weights),
            "spread": own.spread,
            "logit": None,
            "forest": None,
            "sharpness": own.sharpness,
        }
        arrays += [scores.middle, scores.above, scores.below, scores.centre, scores.scale]
        if own.logit is not None:
            record["logit"] = list(own.logit.states)
            arrays += [own.logit.intercept, own.logit.slopes]
        if own.forest is not None:
            record["forest"] = [own.forest.trees, len(own.forest.feature), len(own.forest.cells)]
            arrays += _forest_arrays(own.forest, pool.scores.width)
        columns.append(record)
    return {"columns": columns, "most_missing": int(pool.most_missing)}, arrays


def _forest_arrays(forest: LeafForest, width: int) -> list[Array]:
    nodes = len(forest.feature)
    return [
        packed_wholes(forest.roots, nodes),
        packed_wholes(forest.feature, width),
        forest.threshold,
        packed_wholes(forest.left, nodes),
        packed_wholes(forest.right, nodes),
        packed_wholes(np.diff(forest.start), len(forest.cells) + 1),
        packed_wholes(forest.cells, forest.states),
        forest.share,
    ]


# -- reading ---------------------------------------------------------------------------------------


def pool_shapes(record: object, columns: Sequence[Column]) -> dict[Name, Shape]:
    """Of all arrays, by what the record says of columns and trees."""
    own, _ = fields(record, "columns", "most_missing")
    parts = [_read_column(each) for each in items(own, len(columns))]
    width = sum(_width(c, p) for c, p in zip(columns, parts, strict=True))
    shapes: list[Shape] = [(width,), (width, width)]
    for column, part in zip(columns, parts, strict=True):
        cells, wide = (column.cells if column.continuous else 0), _width(column, part)
        shapes += [(cells,), (cells,), (cells,), (wide,), (wide,)]
        if part["logit"] is not None:
            states = len(part["logit"])
            shapes += [(states,), (states, width - wide)]
        if part["forest"] is not None:
            shapes += _forest_shapes(part["forest"], column.cells, width)
    return numbered(POOL, shapes)


def _forest_shapes(sizes: Sequence[int], states: int, width: int) -> list[Shape]:
    trees, nodes, held = sizes
    many = packed_shape(nodes, nodes)
    return [
        packed_shape(trees, nodes),
        packed_shape(nodes, width),
        (nodes,),
        many,
        many,
        packed_shape(nodes, held + 1),
        packed_shape(held, states),
        (held,),
    ]


def _read_column(record: object) -> dict[str, Given]:
    names = ("indicators", "weights", "spread", "logit", "forest", "sharpness")
    if isinstance(record, dict):
        record = {"sharpness": 1.0, **record}  # older files have none
    indicators, weights, spread, logit, forest, sharpness = fields(record, *names)
    shares = [number(w, 0.0, 1.0) for w in items(weights, 3)]
    if not abs(sum(shares) - 1.0) <= 1e-9:
        raise StoreError(f"expected the weights of a pool to sum to one, got {shares}.")
    return {
        "indicators": wholes(indicators, LARGEST_COUNT),
        "weights": shares,
        "spread": number(spread, 0.0, 1e6),
        "logit": None if logit is None else wholes(logit, LARGEST_COUNT),
        "forest": None if forest is None else wholes(forest, LARGEST_COUNT, 1, 3),
        "sharpness": number(sharpness, 1e-3, 1e3),
    }


def _width(column: Column, part: Mapping[str, Given]) -> int:
    return 1 if column.continuous else len(part["indicators"])


def read_pool(record: object, columns: Sequence[Column], arrays: Mapping[Name, Array]) -> Pool:
    """The pool, checked: trees end, cells are the columns', shares sum to one."""
    own, missing = fields(record, "columns", "most_missing")
    left = list(of_kind(arrays, POOL).values())
    check_sizes([a for a in left if a.size], "a pool")
    mean, precision = left.pop(0), left.pop(0)
    scores, pools = [], []
    for column, each in zip(columns, items(own), strict=True):
        part = _read_column(each)
        middle, above, below, centre, scale = (left.pop(0) for _ in range(5))
        states = part["indicators"]
        if not (scale > 0).all() or any(s >= column.cells for s in states):
            raise StoreError("expected the scores of a pool to be those of its columns.")
        points = getattr(column, "points", 0)
        scores.append(CellScores(middle, above, below, points, states, centre, scale))
        logit, forest = None, None
        if part["logit"] is not None:
            if any(s >= column.cells for s in part["logit"]):
                raise StoreError("expected a logit of states of its column.")
            logit = LogitMember(part["logit"], left.pop(0), left.pop(0))
        if part["forest"] is not None:
            forest = _read_forest(part["forest"], left, column.cells, len(mean))
        first, second, third = part["weights"]
        lacks = (third > 0 and forest is None) or (
            second > 0 and logit is None and not column.continuous
        )
        if lacks:
            raise StoreError("expected every member of a pool that has a weight.")
        shares = (first, second, third)
        pools.append(ColumnPool(shares, part["spread"], logit, forest, part["sharpness"]))
    gaussian = GaussianScores(mean, _positive(precision))
    found = TableScores(tuple(scores))
    return Pool(found, gaussian, tuple(pools), whole(missing, LARGEST_COUNT))


def _positive(precision: Array) -> Array:
    try:
        np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        raise StoreError("expected a positive precision of a pool's scores.") from None
    return precision


def _read_forest(sizes: Sequence[int], left: list[Array], states: int, width: int) -> LeafForest:
    trees, nodes, held = sizes
    roots = unpacked_wholes(left.pop(0), trees, nodes)
    feature = unpacked_wholes(left.pop(0), nodes, width)
    threshold = left.pop(0)
    lower, upper = (unpacked_wholes(left.pop(0), nodes, nodes) for _ in range(2))
    start = np.concatenate([[0], np.cumsum(unpacked_wholes(left.pop(0), nodes, held + 1))])
    cells, share = unpacked_wholes(left.pop(0), held, states), left.pop(0)
    own = np.arange(nodes)
    leaf = lower == own
    onwards = (lower >= own).all() and (upper >= own).all() and (leaf == (upper == own)).all()
    total = np.bincount(np.repeat(own, np.diff(start)), share, nodes) if start[-1] == held else own
    fine = onwards and start[-1] == held and share.min() >= 0
    if not fine or not np.allclose(total[leaf], 1.0, rtol=0, atol=1e-6):
        raise StoreError("expected trees of a pool whose leaves hold probabilities.")
    return LeafForest(roots, feature, threshold, lower, upper, start, cells, share, states)

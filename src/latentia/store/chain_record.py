"""A chain that draws rows, in a file: sizes as JSON, and arrays of trees, lines and heaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latentia.data.columns.column import Column
from latentia.errors import StoreError
from latentia.pooling.cell_scores import TableScores
from latentia.pooling.node_rows import NodeRows
from latentia.pooling.row_chain import ChainLink, Heaps, RowChain
from latentia.store.array_table import Name, Shape, Written, check_sizes, numbered, of_kind
from latentia.store.plain import LARGEST_COUNT, fields, items, number, whole, wholes
from latentia.store.pool_record import packed_shape, packed_wholes, unpacked_wholes
from latentia.typing import Array

CHAIN = "chain"
LARGEST_STEP = 1e12


def write_chain(chain: RowChain) -> Written:
    """JSON values, and arrays in the order of `chain_shapes`."""
    arrays: list[Array] = []
    heaps = []
    for own in chain.heaps:
        heaps.append([len(own.values), float(own.step), float(own.share)])
        arrays += [own.values, own.low, own.high, own.chance]
    links = []
    for link in chain.links:
        forest = link.forest
        nodes, held = len(forest.feature), len(forest.held)
        line = 0 if link.line is None else len(link.line)
        width = int(forest.feature.max()) + 1
        links.append([forest.trees, nodes, held, int(link.least), line, width])
        arrays += [
            packed_wholes(forest.roots, nodes),
            packed_wholes(forest.feature, width),
            forest.threshold,
            packed_wholes(forest.left, nodes),
            packed_wholes(forest.right, nodes),
            packed_wholes(forest.first, held),
            packed_wholes(forest.size, held + 1),
            forest.held,
        ]
        if link.line is not None:
            arrays.append(link.line)
    return {"heaps": heaps, "links": links, "least": int(chain.least)}, arrays


def chain_shapes(record: object) -> dict[Name, Shape]:
    """Of all arrays, by what the record says."""
    heaps, links, _ = fields(record, "heaps", "links", "least")
    shapes: list[Shape] = []
    for own in items(heaps):
        count, _, _ = _read_heap(own)
        shapes += [(count,)] * 4
    for own in items(links):
        trees, nodes, held, _, line, width = wholes(own, LARGEST_COUNT, 0, 6)
        many = packed_shape(nodes, nodes)
        shapes += [packed_shape(trees, nodes), packed_shape(nodes, width), (nodes,), many, many]
        shapes += [packed_shape(nodes, held), packed_shape(nodes, held + 1), (held,)]
        shapes += [(line,)] if line else []
    return numbered(CHAIN, shapes)


def _read_heap(record: object) -> tuple[int, float, float]:
    count, step, share = items(record, 3)
    return whole(count, LARGEST_COUNT), number(step, 0.0, LARGEST_STEP), number(share, 0.0, 1.0)


def read_chain(
    record: object, columns: Sequence[Column], scores: TableScores, arrays: Mapping[Name, Array]
) -> RowChain:
    """The chain, checked: trees end, nodes have rows, what they hold is of their column."""
    heaps, links, least = fields(record, "heaps", "links", "least")
    left = list(of_kind(arrays, CHAIN).values())
    check_sizes([a for a in left if a.size], "a chain")
    found = []
    for own in items(heaps, len(columns)):
        _, step, share = _read_heap(own)
        values, low, high, chance = (left.pop(0) for _ in range(4))
        if not (np.diff(values) > 0).all() or not (np.diff(low) > 0).all():
            raise StoreError("expected the values of a chain that come again to rise.")
        found.append(Heaps(values, low, high, chance, step, share))
    parts = items(links)
    if parts and len(parts) != len(columns):
        raise StoreError(f"expected a link of a chain for each of {len(columns)} columns.")
    made, wide = [], 1
    for column, own, each in zip(columns, scores.columns, parts, strict=bool(parts)):
        made.append(_read_link(column, each, wide, left))
        wide += own.width
    return RowChain(tuple(found), tuple(made), whole(least, LARGEST_COUNT))


def _read_link(column: Column, record: object, wide: int, left: list[Array]) -> ChainLink:
    trees, nodes, held, least, line, width = wholes(record, LARGEST_COUNT, 0, 6)
    if not trees or not nodes or not held or width > wide or line not in (0, wide + 1):
        raise StoreError("expected trees and lines of a chain over the columns before each.")
    roots = unpacked_wholes(left.pop(0), trees, nodes)
    feature = unpacked_wholes(left.pop(0), nodes, width)
    threshold = left.pop(0)
    lower, upper = (unpacked_wholes(left.pop(0), nodes, nodes) for _ in range(2))
    first = unpacked_wholes(left.pop(0), nodes, held)
    size = unpacked_wholes(left.pop(0), nodes, held + 1)
    values = left.pop(0)
    slopes = left.pop(0) if line else None
    own = np.arange(nodes)
    leaf = lower == own
    onwards = (lower >= own).all() and (upper >= own).all() and (leaf == (upper == own)).all()
    if not onwards or size.min() < 1 or (first + size > held).any():
        raise StoreError("expected trees of a chain that end, whose nodes have rows.")
    known = slopes is not None or (values.min() >= 0 and values.max() <= column.cells - 1)
    if not known or (slopes is not None and not column.continuous):
        raise StoreError("expected nodes of a chain to hold cells of their column.")
    forest = NodeRows(roots, feature, threshold, lower, upper, first, size, values)
    return ChainLink(forest, least, slopes)

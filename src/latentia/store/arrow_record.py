"""Records of networks of arrows: tables, logits and lines of mixed columns, and their errors."""

from __future__ import annotations

import math

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import LatentiaError, StoreError
from latentia.exact.arrows import (
    Arrow,
    ArrowNetwork,
    LineArrow,
    LogitArrow,
    TableArrow,
    blank_arrow,
)
from latentia.model.arrow_learning import ArrowModel
from latentia.networks.arrow_errors import ArrowErrors
from latentia.store.column_record import read_column, write_column
from latentia.store.plain import fields, items, number, whole, wholes
from latentia.store.structure_record import read_graph, write_graph
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Given

MOST_SAMPLE = 10**6
MOST_CELLS = 10**7  # of an array
LARGEST = 1e100


def write_arrows(model: ArrowModel) -> dict[str, Given]:
    network, graph = model.network, model.graph
    return {
        "graph": write_graph(graph),
        "columns": [write_column(model.variables[v]) for v in graph.observed],
        "given": list(network.given),
        "linked": sorted(network.linked),
        "arrows": [[v, _write_arrow(a)] for v, a in sorted(network.arrows.items())],
        "sample": network.sample.tolist(),
        "errors": [
            [v, e.plain.tolist(), e.robust.tolist()] for v, e in sorted(model.errors.items())
        ],
        "weight": float(model.weight),
        "log_likelihood": float(model.log_likelihood),
        "converged": model.converged,
        "alone": model.alone,
    }


def _write_arrow(arrow: Arrow) -> list[Given]:
    if isinstance(arrow, TableArrow):
        return [arrow.table.ravel().tolist()]
    if isinstance(arrow, LogitArrow):
        return [arrow.B.ravel().tolist()]
    return [arrow.lines.ravel().tolist(), arrow.variances.ravel().tolist()]


def read_arrows(record: object) -> ArrowModel:
    (drawn, columns, given, linked, arrows, sample, errors, weight, log, converged, alone) = fields(
        record, "graph", "columns", "given", "linked", "arrows", "sample", "errors", "weight",
        "log_likelihood", "converged", "alone",
    )  # fmt: skip
    graph = read_graph(drawn)
    count = len(graph.names)
    observed = graph.observed
    own: dict[int, Column] = {
        v: read_column(each, graph.names[v], graph.states[v] or 0)
        for v, each in zip(observed, items(columns, len(observed)), strict=True)
    }
    dense = frozenset(v for v, c in own.items() if c.continuous)
    links = frozenset(wholes(linked, count))
    fixed = wholes(given, count)
    found = {
        whole(v, count): _read_arrow(graph, dense, links, whole(v, count), each)
        for v, each in (items(pair, 2) for pair in items(arrows, count - len(fixed)))
    }
    rows = items(sample)
    if not 0 < len(rows) <= MOST_SAMPLE:
        raise StoreError(f"expected rows of covariates, got {len(rows)}.")
    table = np.array([[number(x, -LARGEST, LARGEST) for x in items(r, len(fixed))] for r in rows])
    grids = {
        v: (float(c.grid[0]), c.step, c.points)
        for v, c in own.items()
        if isinstance(c, ContinuousColumn)
    }
    try:
        network = ArrowNetwork(
            graph, dense, fixed, found, grids, table.reshape(len(rows), len(fixed)), links
        )
    except LatentiaError as error:
        raise StoreError(f"the file holds no network of arrows: {error}") from error
    told = {
        whole(v, count): ArrowErrors(_square(plain), _square(robust))
        for v, plain, robust in (items(each, 3) for each in items(errors))
    }
    variables = tuple(
        own[v] if v in own else DiscreteColumn(name, tuple(range(graph.states[v] or 1)))
        for v, name in enumerate(graph.names)
    )
    flags = (_flag(converged), _flag(alone))
    return ArrowModel(network, variables, told, number(weight), number(log), *flags)


def _read_arrow(
    graph: LatentGraph, dense: frozenset[int], linked: frozenset[int], v: int, record: object
) -> Arrow:
    like = blank_arrow(graph, dense, v, linked)
    if isinstance(like, LineArrow):
        lines, variances = items(record, 2)
        spread = _array(variances, like.variances.shape)
        if not (spread > 0).all():
            raise StoreError("expected positive variances.")
        return LineArrow(_array(lines, like.lines.shape), spread)
    (numbers,) = items(record, 1)
    if isinstance(like, LogitArrow):
        return LogitArrow(_array(numbers, like.B.shape))
    table = _array(numbers, like.table.shape)
    if table.min(initial=0.0) < 0 or not np.abs(table.sum(axis=-1) - 1.0).max() <= 1e-6:
        raise StoreError("expected tables of probabilities.")
    return TableArrow(table)


def _array(record: object, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    if size > MOST_CELLS:
        raise StoreError(f"expected at most {MOST_CELLS} numbers, got {size}.")
    found = [number(x, -LARGEST, LARGEST) for x in items(record, size)]
    return np.array(found, dtype=float).reshape(shape)


def _square(record: Given) -> Array:
    count = len(items(record))
    rows = [[number(x, -LARGEST, LARGEST) for x in items(r, count)] for r in record]
    return np.array(rows, dtype=float).reshape(count, count)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise StoreError(f"expected true or false, got {value!r:.80}.")
    return value

"""Errors of logits and lines: the observed information of all parameters of a network of arrows.

Scores of rows are expectations of those of complete rows (Fisher's identity); the information is
their derivative, by central differences. Cells of tables at 0 or 1 are held; so are tables of
families that every row has whole, which tell nothing of others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.announcing import warn
from latentia.errors import LeftOutWarning
from latentia.exact.arrows import (
    Arrow,
    ArrowNetwork,
    LineArrow,
    LogitArrow,
    TableArrow,
)
from latentia.linear_algebra import symmetric_inverse
from latentia.networks.arrow_blocks import ArrowRows, Block, family_of
from latentia.networks.arrow_climb import block_beliefs, configuration_weights, logit_rows
from latentia.networks.logit import RIDGE, shares_of
from latentia.typing import Array

SURE = 1e-6  # probabilities nearer to 0 or 1 are held fixed
STEP = 1e-4  # of derivatives
MOST_ROWS = 5000  # by which the information is told; that of more rows is so much larger
MOST_MOVED = 1000  # parameters whose information is told, a pass over rows for each


@final
@dataclass(frozen=True, slots=True)
class ArrowErrors:
    """Covariance of the coefficients of one arrow: by the information, and of the sandwich form."""

    plain: Array
    robust: Array


def arrow_errors(network: ArrowNetwork, rows: ArrowRows) -> dict[int, ArrowErrors]:
    """Of every logit (all states but the first) and every line (levels and slopes, then spreads).

    Logarithms of variances come after the lines, in the order of the discrete parents' states.
    """
    blocks, scale = _some(rows)
    spans, size = _moving(network, blocks)
    H = np.zeros((size, size))
    for k in range(size):
        step = np.zeros(size)
        step[k] = STEP
        ahead, behind = (_moved(network, spans, sign * step) for sign in (1, -1))
        for block in blocks:
            gain = block.weight @ (_scores(ahead, block, spans, size, network))
            H[:, k] += gain - block.weight @ _scores(behind, block, spans, size, network)
    H = -scale * (H + H.T) / (4 * STEP)
    if rows.smoothing:
        H += np.diag(_ridge(network, spans, size) * rows.smoothing)
    back = symmetric_inverse(H, 1e-12)
    S = np.zeros((size, size))
    for block in blocks:
        each = _scores(network, block, spans, size, network) * block.weight[:, None]
        S += scale * each.T @ each
    robust = back @ S @ back
    return {
        v: ArrowErrors(back[span, span], robust[span, span])
        for v, span in spans.items()
        if not isinstance(network.arrows[v], TableArrow)
        and span.stop - span.start == _width(network.arrows[v])
    }


def _moving(network: ArrowNetwork, blocks: Sequence[Block]) -> tuple[dict[int, slice], int]:
    """Places of the parameters that move: without tables that tell nothing of logits and lines."""
    parents = network.graph.parents()
    tables = {v for v, arrow in network.arrows.items() if isinstance(arrow, TableArrow)}
    whole = {v for v in tables if all({v, *parents[v]} <= set(b.seen) for b in blocks)}
    spans, size = _spans(network, whole)
    if size <= MOST_MOVED:
        return spans, size
    large = {v for v, own in spans.items() if own.stop - own.start > MOST_MOVED} - tables
    names = ", ".join(str(network.graph.names[v]) for v in sorted(large))
    told = f" Those of {names} are not told." if large else ""
    warn(
        f"{size:,} parameters hang together; errors are told of {MOST_MOVED:,} at most, so that "
        f"those of coefficients take tables as known, and are too small.{told} Give latents fewer "
        "states, or drop edges, to avoid it.",
        LeftOutWarning,
    )
    return _spans(network, tables | large)


def _some(rows: ArrowRows) -> tuple[list[Block], float]:
    count = sum(len(b.weight) for b in rows.blocks)
    if count <= MOST_ROWS:
        return list(rows.blocks), 1.0
    rng, found = np.random.default_rng(0), []
    for block in rows.blocks:
        kept = rng.random(len(block.weight)) < MOST_ROWS / count
        seen = {v: x[kept] for v, x in block.seen.items()}
        if kept.any():
            part = replace(block, seen=seen, weight=block.weight[kept], families={}, kept={})
            found.append(part)
    return found, rows.total / float(sum(b.weight.sum() for b in found))


def _spans(network: ArrowNetwork, held: Collection[int] = ()) -> tuple[dict[int, slice], int]:
    """Where the parameters of each arrow lie, and how many there are; those `held` have none."""
    found, at = {}, 0
    for v, arrow in network.arrows.items():
        width = 0 if v in held else _width(arrow)
        found[v] = slice(at, at + width)
        at += width
    return found, at


def _width(arrow: Arrow) -> int:
    """Its parameters."""
    if isinstance(arrow, LogitArrow):
        return arrow.B[1:].size
    if isinstance(arrow, LineArrow):
        return arrow.lines.size + arrow.variances.size
    return len(_free_cells(arrow.table))


def _free_cells(table: Array) -> list[tuple[int, int]]:
    """Rows and cells of a table that can move: all but the largest of a row."""
    flat = table.reshape(-1, table.shape[-1])
    return [
        (c, k)
        for c, row in enumerate(flat)
        for k, p in enumerate(row)
        if k != int(row.argmax()) and SURE < p < 1 - SURE
    ]


def _ridge(network: ArrowNetwork, spans: Mapping[int, slice], size: int) -> Array:
    """What a pseudo-count adds to the information of logits."""
    found = np.zeros(size)
    for v, arrow in network.arrows.items():
        if isinstance(arrow, LogitArrow) and spans[v].start < spans[v].stop:
            kept = np.arange(arrow.B.shape[1]) > 0
            found[spans[v]] = RIDGE * np.tile(kept, len(arrow.B) - 1)
    return found


def _moved(network: ArrowNetwork, spans: Mapping[int, slice], step: Array) -> ArrowNetwork:
    arrows: dict[int, Arrow] = {}
    for v, arrow in network.arrows.items():
        own = step[spans[v]]
        if not own.any():
            arrows[v] = arrow
        elif isinstance(arrow, LogitArrow):
            B = arrow.B.copy()
            B[1:] += own.reshape(B[1:].shape)
            arrows[v] = LogitArrow(B)
        elif isinstance(arrow, LineArrow):
            lines = arrow.lines + own[: arrow.lines.size].reshape(arrow.lines.shape)
            grown = np.exp(own[arrow.lines.size :]).reshape(arrow.variances.shape)
            arrows[v] = LineArrow(lines, arrow.variances * grown)
        else:
            flat = arrow.table.reshape(-1, arrow.table.shape[-1]).copy()
            for (c, k), x in zip(_free_cells(arrow.table), own, strict=True):
                flat[c, k] *= math.exp(x)
            flat /= flat.sum(axis=1, keepdims=True)
            arrows[v] = TableArrow(flat.reshape(arrow.table.shape))
    return replace(network, arrows=arrows)


def _scores(
    network: ArrowNetwork,
    block: Block,
    spans: Mapping[int, slice],
    size: int,
    first: ArrowNetwork,
) -> Array:
    """d log P(row) / d parameters, (rows, parameters); `first` tells which cells are free."""
    told, _ = block_beliefs(network, block)
    found = np.zeros((len(block.weight), size))
    for v in block.relevant:
        arrow = network.arrows[v]
        if spans[v].start == spans[v].stop:
            continue
        if isinstance(arrow, LogitArrow):
            found[:, spans[v]] = _logit_scores(network, v, arrow, block, told[v])
        elif isinstance(arrow, LineArrow):
            if v in block.seen:
                found[:, spans[v]] = _line_scores(network, v, arrow, block, told[v])
        else:
            was = first.arrows[v]
            assert isinstance(was, TableArrow)
            free = _free_cells(was.table)
            found[:, spans[v]] = _table_scores(network, v, arrow, block, told[v], free)
    return found


def _table_scores(
    network: ArrowNetwork,
    v: int,
    arrow: TableArrow,
    block: Block,
    share: Array,
    free: list[tuple[int, int]],
) -> Array:
    shape, n = arrow.table.shape, len(share)
    flat = family_of(network, v, block).cells * n
    flat = flat + np.arange(n).reshape(-1, *(1 for _ in share.shape[1:]))
    cells = np.bincount(flat.ravel(), share.ravel(), arrow.table.size * n)
    cells = cells.reshape(-1, shape[-1], n)
    p = arrow.table.reshape(-1, shape[-1])
    rows = [cells[c, k] - p[c, k] * cells[c].sum(axis=0) for c, k in free]
    return np.stack(rows, axis=1) if rows else np.zeros((n, 0))


def _logit_scores(
    network: ArrowNetwork, v: int, arrow: LogitArrow, block: Block, share: Array
) -> Array:
    X, own = logit_rows(network, v, block, share)
    gap = (own - shares_of(arrow.B, X) * own.sum(axis=1, keepdims=True))[:, 1:]
    each = (gap[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    return np.asarray(each.reshape(len(block.weight), -1, each.shape[1]).sum(axis=1))


def _line_scores(
    network: ArrowNetwork, v: int, arrow: LineArrow, block: Block, share: Array
) -> Array:
    lines = [u for u in network.graph.parents()[v] if u in network.dense]
    weights = configuration_weights(network, v, block, share)  # (states, rows)
    Z = np.column_stack([np.ones(len(share)), *(block.seen[u] for u in lines)])
    b, variance = arrow.lines.reshape(-1, Z.shape[1]), arrow.variances.reshape(-1)
    gap = block.seen[v] - b @ Z.T  # (states, rows)
    pull = weights * gap / variance[:, None]
    slopes = (pull[:, :, None] * Z).transpose(1, 0, 2).reshape(len(Z), -1)
    spreads = (0.5 * weights * (gap**2 / variance[:, None] - 1.0)).T
    return np.concatenate([slopes, spreads], axis=1)

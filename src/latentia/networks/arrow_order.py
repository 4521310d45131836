"""States of latents in a network of arrows: how they are numbered, and the network renumbered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from latentia.exact.arrow_answers import log_joint, posterior_shares
from latentia.exact.arrows import (
    Arrow,
    ArrowNetwork,
    LineArrow,
    LogitArrow,
    TableArrow,
    feature_spans,
)
from latentia.networks.arrow_errors import ArrowErrors
from latentia.networks.state_order import state_orders
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

BINS = 10  # of a continuous column, by which states of the same size are told apart


def in_order(
    network: ArrowNetwork, cells: Array, weight: Array, along: Mapping[int, int]
) -> ArrowNetwork:
    """States by size, the largest first, or along a column."""
    for h in sorted(network.graph.latent):
        share = posterior_shares(log_joint(network, cells, (h,)))[0] * weight[:, None]
        network = renumbered_arrows(network, h, _order(network, h, cells, share, along.get(h)))
    return network


def _order(network: ArrowNetwork, h: int, cells: Array, share: Array, along: int | None) -> Codes:
    """By tables of a star: the latent in the middle, columns around it, in bins."""
    below = {b for a, b in network.graph.edges if a == h}
    columns = [v for v in network.graph.observed if v in below]
    columns += [v for v in network.graph.observed if v not in below]
    size, names = share.sum(axis=0), ("latent", *columns)
    tables, values = {0: size / size.sum()}, {}
    for k, v in enumerate(columns, 1):
        codes, own = _binned(cells[:, v], v in network.dense, network.graph.states[v])
        there = codes >= 0
        counts = np.stack(
            [np.bincount(codes[there], s[there], minlength=len(own)) for s in share.T]
        )
        tables[k] = (counts + 1e-9) / (counts + 1e-9).sum(axis=1, keepdims=True)
        values[k] = own
    states = tuple(t.shape[-1] for t in tables.values())
    edges = tuple((0, k) for k in range(1, len(names)))
    star = LatentGraph(names, edges, frozenset({0}), states)
    wanted = None if along is None else {0: 1 + columns.index(along)}
    return state_orders(star, tables, wanted, values, float(size.sum()))[0]


def _binned(x: Array, dense: bool, states: int | None) -> tuple[Codes, Array]:
    """Codes, -1 where missing, and the value of each."""
    there = ~np.isnan(x)
    if not dense:
        return np.where(there, np.nan_to_num(x), -1).astype(int), np.arange(float(states or 1))
    cuts = np.quantile(x[there], np.arange(1, BINS) / BINS) if there.any() else np.zeros(BINS - 1)
    codes = np.where(there, np.searchsorted(cuts, np.nan_to_num(x)), -1)
    means = [x[codes == k].mean() if (codes == k).any() else 0.0 for k in range(BINS)]
    return codes, np.array(means)


def renumbered_arrows(network: ArrowNetwork, h: int, order: Codes) -> ArrowNetwork:
    """The same network with the states of a latent in another order."""
    arrows = {v: _renumbered(network, v, arrow, h, order) for v, arrow in network.arrows.items()}
    return replace(network, arrows=arrows)


def renumbered_errors(
    network: ArrowNetwork, errors: Mapping[int, ArrowErrors], h: int, order: Codes
) -> dict[int, ArrowErrors]:
    """Errors of its coefficients then: what becomes of each of them, one by one."""
    found = {}
    for v, own in errors.items():
        if v != h and h not in network.graph.parents()[v]:
            found[v] = own
            continue
        T = np.column_stack(
            [
                _numbers(_renumbered(network, v, _arrow(network.arrows[v], unit), h, order))
                for unit in np.eye(len(own.plain))
            ]
        )
        found[v] = ArrowErrors(T @ own.plain @ T.T, T @ own.robust @ T.T)
    return found


def _numbers(arrow: Arrow) -> Array:
    """Its coefficients, as errors have them."""
    if isinstance(arrow, LogitArrow):
        return arrow.B[1:].ravel()
    assert isinstance(arrow, LineArrow)
    return np.concatenate([arrow.lines.ravel(), arrow.variances.ravel()])


def _arrow(like: Arrow, numbers: Array) -> Arrow:
    """An arrow of the same shape with such coefficients."""
    if isinstance(like, LogitArrow):
        B = np.zeros(like.B.shape)
        B[1:] = numbers.reshape(B[1:].shape)
        return LogitArrow(B)
    assert isinstance(like, LineArrow)
    cut = like.lines.size
    lines = numbers[:cut].reshape(like.lines.shape)
    return LineArrow(lines, numbers[cut:].reshape(like.variances.shape))


def _renumbered(network: ArrowNetwork, v: int, arrow: Arrow, h: int, order: Codes) -> Arrow:
    """The arrow of a variable, with the states of a latent in another order."""
    above = network.graph.parents()[v]
    if v != h and h not in above:
        return arrow
    if isinstance(arrow, LogitArrow):
        B = arrow.B
        if v == h:
            return LogitArrow(B[order] - B[order[0]])
        span = feature_spans(network, v)[h]
        effect = np.concatenate([np.zeros((len(B), 1)), B[:, span]], axis=1)[:, order]
        B = B.copy()
        B[:, 0] += effect[:, 0]
        B[:, span] = effect[:, 1:] - effect[:, :1]
        return LogitArrow(B)
    if isinstance(arrow, TableArrow):
        return TableArrow(np.take(arrow.table, order, axis=(*above, v).index(h)))
    assert isinstance(arrow, LineArrow)
    axis = [u for u in above if u not in network.dense].index(h)
    lines = np.take(arrow.lines, order, axis=axis)
    return LineArrow(lines, np.take(arrow.variances, order, axis=axis))

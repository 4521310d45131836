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
    parents = network.graph.parents()
    arrows: dict[int, Arrow] = {}
    for v, arrow in network.arrows.items():
        if v != h and h not in parents[v]:
            arrows[v] = arrow
            continue
        if isinstance(arrow, LogitArrow):
            B = arrow.B
            if v == h:
                B = B[order] - B[order[0]]
            else:
                span = feature_spans(network, v)[h]
                effect = np.concatenate([np.zeros((len(B), 1)), B[:, span]], axis=1)[:, order]
                B = B.copy()
                B[:, 0] += effect[:, 0]
                B[:, span] = effect[:, 1:] - effect[:, :1]
            arrows[v] = LogitArrow(B)
            continue
        if isinstance(arrow, TableArrow):
            axis = (*parents[v], v).index(h)
            arrows[v] = TableArrow(np.take(arrow.table, order, axis=axis))
            continue
        assert isinstance(arrow, LineArrow)
        axis = [u for u in parents[v] if u not in network.dense].index(h)
        lines = np.take(arrow.lines, order, axis=axis)
        arrows[v] = LineArrow(lines, np.take(arrow.variances, order, axis=axis))
    return replace(network, arrows=arrows)

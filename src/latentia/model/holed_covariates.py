"""A latent class whose covariates have holes, as arrows: so that it can be asked for.

Arrows are climbed on rows that have all covariates. A latent class alone has a logit that sums over
what rows lack (links.py); here its coefficients and tables become arrows, in their units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import dense_columns
from latentia.data.columns.discrete import DiscreteColumn
from latentia.exact.arrows import Arrow, ArrowNetwork, LogitArrow, TableArrow, feature_spans
from latentia.model.arrow_learning import (
    ArrowModel,
    blank_network,
    codes_in_memory,
    straight_columns,
)
from latentia.model.links import design_matrix, learn_linked
from latentia.model.opened_table import Opened
from latentia.model.state_names import OrderBy
from latentia.networks.arrow_errors import ArrowErrors
from latentia.networks.covariate_holes import draw_donors, with_copies
from latentia.structure.graph import LatentGraph
from latentia.typing import Array


def class_arrows(opened: Opened, h: int, order_by: OrderBy = None) -> ArrowModel:
    """The network of a class with covariates, by its logit of largest likelihood."""
    graph, given = opened.graph, opened.graph.parents()[h]
    learned, link, _, fit = learn_linked(opened, h, 1.0, 0, order_by)
    columns = straight_columns(opened)
    codes, weight = codes_in_memory(opened, columns)
    graph = graph.with_states({c.name: c.cells for c in columns})
    own = dict(zip(graph.observed, columns, strict=True))
    place = {v: i for i, v in enumerate(graph.observed)}
    X = design_matrix([own[u] for u in given], [codes[place[u]] for u in given])
    cells = np.full((len(weight), len(graph.names)), np.nan)
    _fill(cells, graph, given, columns, _whole(X, weight))
    blank = blank_network(graph, columns, frozenset({h}), cells, weight)
    units = _units(blank, h, columns)
    arrows: dict[int, Arrow] = {h: LogitArrow(link.coefficients.values @ units)}
    for v in graph.observed:
        if v not in given:
            arrows[v] = TableArrow(learned.cpts[graph.names[v]])
    network = ArrowNetwork(
        graph, blank.dense, blank.given, arrows, blank.grids, blank.sample, blank.linked
    )
    both = np.kron(np.eye(len(link.coefficients.values) - 1), units)
    plain, robust = (both.T @ each.covariance @ both for each in (link.coefficients, link.robust))
    variables = tuple(
        own[v] if v in own else DiscreteColumn(name, tuple(range(graph.states[v] or 1)))
        for v, name in enumerate(graph.names)
    )
    errors = {h: ArrowErrors(plain, robust)}
    total = float(weight.sum())
    return ArrowModel(network, variables, errors, total, fit.log_likelihood, fit.converged, False)


def _whole(X: Array, weight: Array) -> Array:
    """Features of every row; one of its copies where a row lacks some."""
    copies = with_copies(X, draw_donors(X, weight))
    upto = np.cumsum(copies.share) - np.arange(len(X))[copies.origin]  # rows add up to 1
    drawn = np.random.default_rng(0).random(len(X))
    behind = np.bincount(copies.origin, upto <= drawn[copies.origin] - 1e-9).astype(np.int64)
    last = np.append(copies.first[1:], len(copies.X)) - 1
    return np.asarray(copies.X[np.minimum(copies.first + behind, last)])


def _fill(
    cells: Array, graph: LatentGraph, given: Sequence[int], columns: Sequence[Column], X: Array
) -> None:
    """Cells of covariates, in standard units, by their features."""
    own, at = dense_columns(graph.observed, columns), 1
    for u in given:
        if u in own:
            cells[:, u] = (X[:, at] - own[u].centre) / own[u].scale
            at += 1
            continue
        marks = X[:, at : at + (graph.states[u] or 1) - 1]
        cells[:, u] = marks @ np.arange(1, marks.shape[1] + 1)
        at += marks.shape[1]


def _units(network: ArrowNetwork, h: int, columns: Sequence[Column]) -> Array:
    """What turns coefficients in units of the columns into those of standard units."""
    own = dense_columns(network.graph.observed, columns)
    spans = feature_spans(network, h)
    found = np.eye(1 + sum(s.stop - s.start for s in spans.values()))
    for u, span in spans.items():
        if u in own:
            found[span.start, span.start], found[span.start, 0] = own[u].scale, own[u].centre
    return found

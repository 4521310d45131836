"""Links: a latent class that columns tell by a multinomial logit, learned from rows in memory.

Covariates take no table: P(class | x) is told by coefficients, and what is left, the class and the
columns below it, is a model of tables like any other whose class has the mean share over the rows.
A row's covariates are then evidence of the class, with likelihoods P(class | x) / P(class).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np

from latentia.data.columns.column import Column, Places
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.table import Table
from latentia.errors import DataError, GraphError, UnknownNameError
from latentia.model.coefficients import INTERCEPT, Coefficients
from latentia.model.opened_table import Opened
from latentia.model.state_names import OrderBy, checked_order
from latentia.networks.covariate_holes import draw_donors, with_copies
from latentia.networks.logit import (
    LogitFit,
    LogitRows,
    answers_of,
    check_covariates,
    climb_logit,
    covariances_of,
    mean_share,
    row_memberships,
    shares_of,
)
from latentia.networks.own_tables import LearnedTables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.state_order import state_orders
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Codes, Label, Seed

# which class is the first, the second, …, by P(state | class) of columns
Numbering: TypeAlias = Callable[[Mapping[Label, Array]], Codes]

LINKS = ("logit",)
RANDOM_STARTS = 8
KEPT_DONORS = 300  # rows of covariates in a model: holes of rows to come are filled in from them
FIRST_STEPS, FINALISTS = 25, 3  # steps of EM that all starts take, and those who go on
RACED = 4000  # rows, at most …
LATER_STEPS = 1000  # … on which these climb on, at most
ALIKE = 1e-2  # nats between climbs that came to the same place


@final
@dataclass(frozen=True, slots=True)
class LogitLink:
    """How covariates tell a latent: columns, and coefficients of their features."""

    latent: Label
    columns: tuple[Column, ...]
    coefficients: Coefficients
    robust: Coefficients  # the same with errors of the sandwich form
    share: Array  # P(state), the mean over the rows of training
    donors: Array | None = None  # features of some rows, by which holes are filled in

    @property
    def names(self) -> list[Label]:
        return [c.name for c in self.columns]

    def renumbered(self, order: Codes) -> LogitLink:
        """The same with classes in another order."""
        told = (self.coefficients.renumbered(order), self.robust.renumbered(order))
        return replace(self, coefficients=told[0], robust=told[1], share=self.share[order])

    def likelihoods(self, table: Table) -> Array:
        """P(state | x) / P(state) of every row, (n, states)."""
        lacking = [name for name in self.names if name not in table.names]
        if lacking:
            raise UnknownNameError(
                "column", lacking[0], table.names, f"It tells {self.latent!r}: add it."
            )
        places = [c.place(table.column(c.name)) for c in self.columns]
        return self.of_places(places)

    def of_places(self, places: Sequence[Places]) -> Array:
        """The same of codes and positions."""
        X, B = design_matrix(self.columns, places), self.coefficients.values
        if not np.isnan(X).any():
            return shares_of(B, X) / self.share
        if self.donors is None:
            raise DataError(
                f"some rows lack a covariate of {self.latent!r} ({', '.join(map(str, self.names))})"
                ", and this model, of an older file, cannot fill it in. Learn it again, or fill "
                "holes in before: lt.LatentImputer()."
            )
        copies = with_copies(X, self.donors)
        own = shares_of(B, copies.X) * copies.share[:, None]
        return np.asarray(np.add.reduceat(own, copies.first) / self.share)


def design_matrix(columns: Sequence[Column], places: Sequence[Places]) -> Array:
    """(n, features): 1, numbers in their own units, and marks of all states but the first."""
    features = [np.ones(len(places[0]))]
    for column, own in zip(columns, places, strict=True):
        if isinstance(column, ContinuousColumn):
            features.append(column.unscaled(column.of_places(own)))
            continue
        for k in range(1, column.cells):
            features.append(np.where(own < 0, np.nan, own == k))
    return np.column_stack(features)


def feature_names(columns: Sequence[Column]) -> list[str]:
    """As `design_matrix` has them."""
    found = [INTERCEPT]
    for column in columns:
        if column.continuous:
            found.append(str(column.name))
        else:
            found += [f"{column.name}={label}" for label in column.labels[1:]]
    return found


def linked_latents(
    graph: LatentGraph, columns: Sequence[Column], asked: ByName[str] | None, able: bool
) -> list[int]:
    """Latents that are told by a logit: as asked, and, if the learner is able, where they must."""
    hidden = {graph.names[v]: v for v in sorted(graph.latent)}
    for name, kind in (asked or {}).items():
        if name not in hidden:
            raise UnknownNameError("latent (in link)", name, hidden)
        if kind not in LINKS:
            raise UnknownNameError(f"link of {name!r}", kind, LINKS)
    dense = {v for v, c in zip(graph.observed, columns, strict=True) if c.continuous}
    found = {hidden[name] for name in asked or {}}
    if able:
        found |= {b for a, b in graph.edges if a in dense and b in graph.latent}
    return sorted(found)


def check_class(graph: LatentGraph, v: int, columns: Sequence[Column]) -> tuple[int, ...]:
    """The covariates of a latent class; an error for other graphs."""
    parents, name = graph.parents(), graph.names[v]
    above = parents[v]
    below = [b for a, b in graph.edges if a == v]
    dense = {u for u, c in zip(graph.observed, columns, strict=True) if c.continuous}
    odd = [b for b in below if parents[b] != (v,) or b in graph.latent or b in dense] + [
        u for u in above if u in graph.latent or parents[u]
    ]
    rest = set(range(len(graph.names))) - {v, *above, *below}
    tied = [(a, b) for a, b in graph.edges if v not in (a, b)]
    if odd or rest or tied or not above or not below:
        raise GraphError(
            f"a logit tells the classes of {name!r} where columns tell it, and it alone tells "
            f"discrete columns: x -> {name}; {name} -> a; {name} -> b. Cut the graph down to that, "
            "bin continuous parents (kinds={...: 'discrete'}), or use learner='pbp'."
        )
    return above


def is_linked_class(graph: LatentGraph, v: int, columns: Sequence[Column]) -> bool:
    """Whether a latent is told by covariates alone, and tells discrete columns alone."""
    try:
        return v in graph.latent and bool(check_class(graph, v, columns))
    except GraphError:
        return False


def learn_linked(
    opened: Opened,
    v: int,
    smoothing: float,
    seed: Seed,
    order_by: OrderBy = None,
    like: Numbering | None = None,
) -> tuple[LearnedTables, LogitLink, tuple[Column, ...], LogitFit]:
    """Coefficients and tables of largest likelihood; tables are of the graph without covariates.

    `like`: classes are numbered as it says, not by `order_by`.
    """
    graph, columns = opened.graph, dict(zip(opened.graph.observed, opened.columns, strict=True))
    above = check_class(graph, v, opened.columns)
    source = opened.rows.source(opened.columns, opened.seen, plain=True)
    if opened.rows.once or not isinstance(source, LocalRows):
        raise DataError(
            "covariates are read again and again: expected a table that fits into memory. Pass a "
            "sample of its rows."
        )
    place = {u: i for i, u in enumerate(graph.observed)}
    own = tuple(columns[u] for u in above)
    X = design_matrix(own, [source.rows.codes[place[u]] for u in above])
    names = feature_names(own)
    check_covariates(X, names)
    centre, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    centre[0], scale[0] = 0.0, 1.0
    small = _without(graph, above, {u: columns[u].cells for u in columns})
    kept = [u for u in graph.observed if u not in above]
    codes = [np.asarray(source.rows.codes[place[u]]) for u in kept]
    weight = source.rows.weights
    sizes = [columns[u].cells for u in kept]
    donors = draw_donors(X, weight)
    Z, given = (X - centre) / scale, (donors - centre) / scale
    rows = answers_of(codes, sizes, Z, weight, smoothing, given)
    few = rows
    if len(Z) > RACED:
        part = np.random.default_rng(0).choice(len(Z), RACED, replace=False)
        some = [c[part] for c in codes]
        few = answers_of(some, sizes, Z[part], weight[part], smoothing, given)
    alone = Rows(tuple(codes), source.rows.weight)
    fit = _best_fit(rows, few, small, alone, smoothing, seed)
    fit, tables = _in_order(rows, small, fit, order_by, like)
    share = mean_share(rows, fit)
    told = [_told(small, names, fit, V, centre, scale) for V in covariances_of(rows, fit)]
    learned = LearnedTables(small, tables, float(weight.sum()), fit.log_likelihood, ())
    kept_donors = donors[:: max(len(donors) // KEPT_DONORS, 1)][:KEPT_DONORS]
    link = LogitLink(graph.names[v], own, told[0], told[1], share, kept_donors)
    return learned, link, tuple(columns[u] for u in kept), fit


def _without(graph: LatentGraph, above: Sequence[int], cells: Mapping[int, int]) -> LatentGraph:
    """The graph without the covariates."""
    kept = [u for u in range(len(graph.names)) if u not in above]
    number = {u: k for k, u in enumerate(kept)}
    edges = tuple((number[a], number[b]) for a, b in graph.edges if a in number and b in number)
    states = tuple(cells.get(u, graph.states[u]) for u in kept)
    latent = frozenset(number[u] for u in graph.latent)
    return LatentGraph(tuple(graph.names[u] for u in kept), edges, latent, states)


def _best_fit(
    rows: LogitRows, few: LogitRows, graph: LatentGraph, codes: Rows, smoothing: float, seed: Seed
) -> LogitFit:
    """From the classes without covariates, and from tables drawn at random, raced on few rows."""
    rng = np.random.default_rng(seed)
    (v,) = graph.latent
    classes, D = graph.states[v] or 1, rows.X.shape[1]
    settings = TableSettings(smoothing=smoothing, precise=False)  # a start, no more
    alone = learn_tables(graph, LocalRows(codes), settings, rng).tables
    first = np.concatenate([alone[u] for u in graph.observed], axis=1)
    share = np.maximum(alone[v], 1e-6)
    B = np.zeros((classes, D))
    B[:, 0] = np.log(share / share[0])
    starts = [LogitFit(B, first, 0.0, False, 0)]
    for _ in range(RANDOM_STARTS):
        drawn = [rng.dirichlet(np.ones(k), size=classes) for k in rows.sizes]
        starts.append(
            LogitFit(np.zeros((classes, D)), np.concatenate(drawn, axis=1), 0.0, False, 0)
        )
    raced = [climb_logit(few, start, FIRST_STEPS) for start in starts]
    best = sorted(raced, key=lambda fit: -fit.log_likelihood)[:FINALISTS]
    if few is not rows:
        best = _apart(climb_logit(few, fit, LATER_STEPS) for fit in best)
    return max((climb_logit(rows, fit) for fit in best), key=lambda fit: fit.log_likelihood)


def _apart(fits: Iterable[LogitFit]) -> list[LogitFit]:
    """One of those that came to the same place."""
    found: list[LogitFit] = []
    for fit in sorted(fits, key=lambda fit: -fit.log_likelihood):
        if not found or found[-1].log_likelihood - fit.log_likelihood > ALIKE:
            found.append(fit)
    return found


def _in_order(
    rows: LogitRows,
    graph: LatentGraph,
    fit: LogitFit,
    order_by: OrderBy,
    like: Numbering | None,
) -> tuple[LogitFit, dict[int, Array]]:
    """Classes numbered as those of tables are; coefficients are told against the first."""
    (v,) = graph.latent
    parts = {u: fit.table[:, span] for u, span in zip(graph.observed, rows.spans, strict=True)}
    share = rows.weight @ row_memberships(rows, fit)[0]
    share = share / share.sum()
    each = 1.0 if rows.copies is None else rows.copies.share
    total = float((rows.weight * each).sum())
    if like is None:
        asked = checked_order(graph, order_by)
        order = state_orders(graph, {v: share, **parts}, asked, weight=total)[v]
    else:
        order = like({graph.names[u]: p for u, p in parts.items()})
    B = fit.B[order] - fit.B[order[0]]
    fit = LogitFit(B, fit.table[order], fit.log_likelihood, fit.converged, fit.steps)
    share = mean_share(rows, fit)
    tables = {u: np.ascontiguousarray(p[order]) for u, p in parts.items()}
    return fit, {u: share if u == v else tables[u] for u in range(len(graph.names))}


def _told(
    graph: LatentGraph, names: Sequence[str], fit: LogitFit, V: Array, centre: Array, scale: Array
) -> Coefficients:
    """Coefficients of features in their own units: β x = Σ b (x - m) / s."""
    (v,) = graph.latent
    D = len(names)
    J = np.diag(1.0 / scale)
    J[0, 1:] = -centre[1:] / scale[1:]
    whole = np.kron(np.eye(len(fit.B) - 1), J)
    classes = tuple(range(len(fit.B)))
    assert J.shape == (D, D)
    return Coefficients(graph.names[v], classes, tuple(names), fit.B @ J.T, whole @ V @ whole.T)

"""Mixed columns with any arrows: which graphs take them, learning from rows, and coefficients.

Latents and discrete columns below continuous ones are told by logits, continuous columns by lines
of their continuous parents. Columns without parents above a logit or a line are covariates: they
are taken as they are, and the likelihood is that of the others given them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np

from latentia.data.columns.column import Column, Places
from latentia.data.columns.continuous import ContinuousColumn, dense_columns
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, GraphError, UnknownNameError
from latentia.exact.arrows import ArrowNetwork, blank_arrow
from latentia.model.class_counts import counted_latents
from latentia.model.links import LINKS
from latentia.model.opened_table import Opened
from latentia.model.state_names import OrderBy, checked_order
from latentia.networks.arrow_blocks import pose_rows
from latentia.networks.arrow_errors import ArrowErrors, arrow_errors
from latentia.networks.arrow_order import in_order, renumbered_arrows
from latentia.networks.arrow_starts import best_climb
from latentia.networks.knowledge import least_smoothing
from latentia.networks.learner import Abilities, Learner
from latentia.networks.logit import check_covariates
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Codes, Label, Seed

SAMPLE = 2000  # rows of covariates that are kept
FINE = 0.08  # step of a grid, in deviations of the column
FEWEST_POINTS, MOST_POINTS = 100, 512
MARGIN = 1.0  # of a grid beyond the rows, in deviations


Numbering: TypeAlias = Callable[[ArrowNetwork, Sequence[Column], int], Codes]  # of a latent


@final
@dataclass(frozen=True, slots=True)
class ArrowModel:
    """What was learned: a network in standard units, its variables as columns, and errors."""

    network: ArrowNetwork
    variables: tuple[Column, ...]  # in the order of the graph; latents have numbers as states
    errors: Mapping[int, ArrowErrors]
    weight: float
    log_likelihood: float  # of the rows of training, given covariates
    converged: bool
    alone: bool  # nothing else answers for the columns

    @property
    def graph(self) -> LatentGraph:
        return self.network.graph

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.variables[v] for v in self.graph.observed)

    @property
    def covariates(self) -> list[Label]:
        return [self.graph.names[v] for v in self.network.given]

    @property
    def hidden(self) -> tuple[Label, ...]:
        return tuple(self.graph.names[v] for v in sorted(self.graph.latent))

    def unit_shift(self, seen: Sequence[int]) -> float:
        """What turns a density of standardised values into one of the columns' own units."""
        dense = dense_columns(seen, [self.variables[v] for v in seen])
        return -sum(math.log(c.scale) for v, c in dense.items() if v not in self.network.given)


def dense_parents(graph: LatentGraph, columns: Sequence[Column]) -> list[int]:
    """Continuous columns that are parents."""
    above = {a for a, _ in graph.edges} if graph.directed else set()
    own = zip(graph.observed, columns, strict=True)
    return [v for v, c in own if c.continuous and v in above]


def arrow_settings(learner: Learner) -> tuple[float, Seed]:
    """Smoothing and seed of a learner; an error for what arrows cannot take."""
    able: Abilities = learner.abilities
    if isinstance(able.smoothing, Mapping):
        raise DataError("expected one number as smoothing where continuous columns are parents.")
    asked = {"known": able.known, "tied": able.tied, "mixture": able.mixture > 1}
    for name, given in asked.items():
        if given:
            raise DataError(f"{name}=… is not made for graphs with continuous parents or logits.")
    seed = 0 if able.random_state is None else able.random_state
    return float(least_smoothing(able.smoothing)), seed


def asked_links(
    graph: LatentGraph, columns: Sequence[Column], asked: ByName[str] | None
) -> frozenset[int]:
    """Variables that are to have a logit, by number."""
    dense = {v for v, c in zip(graph.observed, columns, strict=True) if c.continuous}
    able = {graph.names[v]: v for v in range(len(graph.names)) if v not in dense}
    for name, kind in (asked or {}).items():
        if name not in able:
            raise UnknownNameError("latent or discrete column (in link)", name, able)
        if kind not in LINKS:
            raise UnknownNameError(f"link of {name!r}", kind, LINKS)
        if not graph.parents()[able[name]]:
            raise GraphError(f"a logit tells {name!r} by its parents, and it has none. Add some.")
    return frozenset(able[name] for name in asked or {})


def learn_arrows(
    opened: Opened,
    linked: frozenset[int],
    smoothing: float,
    seed: Seed,
    order_by: OrderBy = None,
    alone: bool = True,
    like: Numbering | None = None,
) -> ArrowModel:
    """The network of largest likelihood, states in order, and errors of its coefficients.

    `like`: its states are numbered as it says, not by `order_by`.
    """
    if not opened.graph.directed:
        raise GraphError("logits and lines need arrows: write ->, not --.")
    codes_in_memory(opened, opened.columns)  # an error for rows that cannot be read again
    first = opened.first(opened.columns)
    opened = replace(opened, graph=counted_latents(opened.graph, opened.columns, first))
    columns = straight_columns(opened)
    codes, weight = codes_in_memory(opened, columns)
    graph = opened.graph.with_states({c.name: c.cells for c in columns})
    cells = np.full((len(weight), len(graph.names)), np.nan)
    for v, column, own in zip(graph.observed, columns, codes, strict=True):
        cells[:, v] = column.of_places(own)
    blank = blank_network(graph, columns, linked, cells, weight)
    _check_cells(blank, cells)
    climbed, rows = best_climb(blank, cells, weight, smoothing, seed, beside=not alone)
    given = dict(zip(graph.observed, columns, strict=True))
    variables = tuple(
        given[v] if v in given else DiscreteColumn(name, tuple(range(graph.states[v] or 1)))
        for v, name in enumerate(graph.names)
    )
    network = climbed.network
    if like is None:
        network = in_order(network, cells, weight, checked_order(graph, order_by))
    else:
        for h in sorted(graph.latent):
            network = renumbered_arrows(network, h, like(network, variables, h))
    if network is not climbed.network:
        rows = pose_rows(network, cells, weight, smoothing)
    errors = arrow_errors(network, rows)
    shift = 0.0
    for v, column in dense_columns(graph.observed, columns).items():
        if v not in network.given:
            shift -= math.log(column.scale) * float(weight @ ~np.isnan(cells[:, v]))
    total, log = float(weight.sum()), climbed.log_likelihood + shift
    return ArrowModel(network, variables, errors, total, log, climbed.converged, alone)


def codes_in_memory(opened: Opened, columns: Sequence[Column]) -> tuple[Sequence[Places], Array]:
    source = opened.rows.source(columns, opened.seen, plain=True)
    if opened.rows.once or not isinstance(source, LocalRows):
        raise DataError(
            "continuous columns that are parents are read again and again: expected a table that "
            "fits into memory. Pass a sample of its rows."
        )
    return source.rows.codes, source.rows.weights


def straight_columns(opened: Opened) -> tuple[Column, ...]:
    """Continuous columns on straight grids that reach beyond the rows: lines need their units."""
    codes, weight = codes_in_memory(opened, opened.columns)
    found: list[Column] = []
    for column, own in zip(opened.columns, codes, strict=True):
        if not isinstance(column, ContinuousColumn):
            found.append(column)
            continue
        there = ~np.isnan(own)
        x = column.unscaled(column.of_places(own[there]))
        mean = float(np.average(x, weights=weight[there])) if len(x) else 0.0
        sd = math.sqrt(float(np.average((x - mean) ** 2, weights=weight[there]))) if len(x) else 0.0
        sd = sd if sd > 0 else 1.0
        low = float(x.min() - mean) / sd - MARGIN if len(x) else -MARGIN
        high = float(x.max() - mean) / sd + MARGIN if len(x) else MARGIN
        points = int(np.clip(math.ceil((high - low) / FINE), FEWEST_POINTS, MOST_POINTS))
        laid = ContinuousColumn(column.name, mean, sd, False, low, high, 1.0, points)
        found.append(column.on(laid))
    return tuple(found)


def blank_network(
    graph: LatentGraph,
    columns: Sequence[Column],
    linked: frozenset[int],
    cells: Array,
    weight: Array,
) -> ArrowNetwork:
    """A network that tells nothing yet: what is given, and the shapes of arrows."""
    own = dense_columns(graph.observed, columns)
    dense = frozenset(own)
    parents = graph.parents()
    told = {
        u
        for v, above in enumerate(parents)
        if v in linked or any(u in dense for u in above)
        for u in above
        if u in dense or v not in dense
    }
    given = tuple(u for u in sorted(told) if u in graph.observed and not parents[u])
    rng = np.random.default_rng(0)
    some = np.arange(len(cells))
    if len(cells) > SAMPLE or weight.min() != weight.max():
        some = rng.choice(len(cells), size=SAMPLE, p=weight / weight.sum())
    grids = {v: (float(c.grid[0]), c.step, c.points) for v, c in own.items()}
    arrows = {
        v: blank_arrow(graph, dense, v, linked) for v in range(len(graph.names)) if v not in given
    }
    return ArrowNetwork(graph, dense, given, arrows, grids, cells[some][:, list(given)], linked)


def _check_cells(network: ArrowNetwork, cells: Array) -> None:
    """Covariates and continuous parents must be there; those of a logit must tell apart."""
    names, parents = network.graph.names, network.graph.parents()
    above = {u for v in network.arrows for u in parents[v] if u in network.dense}
    for v in sorted(above | {*network.given}):
        gone = int(np.isnan(cells[:, v]).sum())
        if gone:
            raise DataError(
                f"{gone} rows lack {names[v]!r}, which tells other columns. Drop these rows, or "
                "fill them in before: lt.LatentImputer()."
            )
    for v in network.arrows:
        lines = [u for u in parents[v] if u in network.dense]
        if lines:
            X = np.column_stack([np.ones(len(cells)), *(cells[:, u] for u in lines)])
            check_covariates(X, ["(intercept)", *(str(names[u]) for u in lines)])

"""Arrows: P(variable | parents) of mixed columns, by a table, a multinomial logit or a regression.

A discrete variable below discrete ones has a table; one below continuous columns a logit, whose
features are 1, the parents' values, and marks of all states but the first of discrete parents. A
continuous column is normal around a line of its continuous parents, with a line and a spread for
every state of the discrete ones. Values are standardised by who makes the network.

Members of a family are arrays that broadcast against each other: what is seen along the rows, what
is open along an axis of its own. So one formula serves rows, grids and sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np
import scipy

from latentia.errors import LatentiaError
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, CellArray

LEAST = 1e-300


@final
@dataclass(frozen=True, slots=True)
class TableArrow:
    """P(variable | discrete parents)."""

    table: Array  # (parents …, states)


@final
@dataclass(frozen=True, slots=True)
class LogitArrow:
    """P(state k | parents) ∝ exp(B[k] · features)."""

    B: Array  # (states, features); zeros for the first state


@final
@dataclass(frozen=True, slots=True)
class LineArrow:
    """A normal column around a line, for every state of the discrete parents."""

    lines: Array  # (discrete parents …, 1 + continuous parents): the level first
    variances: Array  # (discrete parents …)


Arrow: TypeAlias = TableArrow | LogitArrow | LineArrow


@final
@dataclass(frozen=True, slots=True)
class ArrowNetwork:
    """A graph over mixed variables with an arrow for each, but for those that are taken as given.

    What is given (covariates: columns without parents above a logit or a line) has no
    distribution; `sample` has rows of it, over which answers are averaged that do not know it.
    """

    graph: LatentGraph
    dense: frozenset[int]  # continuous columns
    given: tuple[int, ...]
    arrows: Mapping[int, Arrow]
    grids: Mapping[int, tuple[float, float, int]]  # dense: first point, step and number of points
    sample: Array = field(default_factory=lambda: np.zeros((1, 0)))  # (rows, given)
    linked: frozenset[int] = frozenset()  # with a logit, though all parents are discrete

    def __post_init__(self) -> None:
        everyone = set(range(len(self.graph.names)))
        if {*self.arrows} | {*self.given} != everyone or {*self.arrows} & {*self.given}:
            raise LatentiaError("expected an arrow for every variable that is not given.")
        if self.sample.shape[1] != len(self.given) or not len(self.sample):
            raise LatentiaError("expected rows of what is given.")
        for v, arrow in self.arrows.items():
            if shape_of(self.graph, self.dense, v, self.linked) != _shape(arrow):
                raise LatentiaError(f"the arrow of variable {v} has another shape than its family.")

    def axis(self, v: int) -> CellArray:
        """The values that an open variable can have: codes, or points of its grid."""
        if v in self.dense:
            first, step, points = self.grids[v]
            return first + step * np.arange(points)
        return np.arange(self.graph.states[v] or 1)


def shape_of(
    graph: LatentGraph, dense: frozenset[int], v: int, linked: frozenset[int] = frozenset()
) -> tuple[int, ...]:
    """Of the arrow of a variable: table, coefficients of a logit, or lines."""
    above = graph.parents()[v]
    sizes = [graph.states[u] or 1 for u in above if u not in dense]
    lines = sum(u in dense for u in above)
    if v in dense:
        return (*sizes, 1 + lines)
    if lines or v in linked:
        return (graph.states[v] or 1, 1 + lines + sum(k - 1 for k in sizes))
    return (*sizes, graph.states[v] or 1)


def blank_arrow(
    graph: LatentGraph, dense: frozenset[int], v: int, linked: frozenset[int] = frozenset()
) -> Arrow:
    """An arrow that tells nothing yet."""
    shape = shape_of(graph, dense, v, linked)
    if v in dense:
        return LineArrow(np.zeros(shape), np.ones(shape[:-1]))
    if v in linked or any(u in dense for u in graph.parents()[v]):
        return LogitArrow(np.zeros(shape))
    return TableArrow(np.full(shape, 1.0 / shape[-1]))


def relevant_to(network: ArrowNetwork, wanted: Sequence[int]) -> tuple[int, ...]:
    """Variables with arrows among these and all above them."""
    parents, left = network.graph.parents(), list(wanted)
    found: set[int] = set()
    while left:
        v = left.pop()
        if v not in found:
            found.add(v)
            left += parents[v]
    return tuple(v for v in sorted(found) if v in network.arrows)


def _shape(arrow: Arrow) -> tuple[int, ...]:
    if isinstance(arrow, LineArrow):
        return arrow.lines.shape
    return arrow.B.shape if isinstance(arrow, LogitArrow) else arrow.table.shape


def family_values(
    network: ArrowNetwork, v: int, seen: Mapping[int, CellArray], scope: Sequence[int]
) -> dict[int, CellArray]:
    """Every member of a family, shaped to broadcast: (rows, one axis for each of the scope)."""
    found = {}
    for u in (*network.graph.parents()[v], v):
        shape = [1] * (len(scope) + 1)
        if u in scope:
            own = network.axis(u)
            shape[1 + scope.index(u)] = len(own)
        else:
            own = seen[u]
            shape[0] = len(own)
        found[u] = own.reshape(shape)
    return found


def log_factor(network: ArrowNetwork, v: int, seen: Mapping[int, CellArray]) -> Array:
    """log P(v | parents), (rows or 1, open members of the family in its order)."""
    scope = scope_of(network, v, seen)
    return log_of_values(network, v, scope, family_values(network, v, seen, scope))


def log_of_values(
    network: ArrowNetwork, v: int, scope: Sequence[int], values: Mapping[int, CellArray]
) -> Array:
    """The same of members that were shaped to broadcast."""
    arrow = network.arrows[v]
    if isinstance(arrow, TableArrow):
        places = tuple(values[u] for u in (*network.graph.parents()[v], v))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(arrow.table)[places])
    if isinstance(arrow, LogitArrow):
        return _log_logit(network, v, arrow.B, values, v in scope)
    mean, variance = line_moments(network, v, arrow, values)
    if v in scope:
        return _log_masses(network.grids[v], mean, variance, values[v])
    return np.asarray(-0.5 * (np.log(2 * math.pi * variance) + (values[v] - mean) ** 2 / variance))


def scope_of(network: ArrowNetwork, v: int, seen: Mapping[int, CellArray]) -> list[int]:
    """The open members of a family: parents in their order, then the variable."""
    return [u for u in (*network.graph.parents()[v], v) if u not in seen]


def _log_logit(
    network: ArrowNetwork, v: int, B: Array, values: Mapping[int, CellArray], is_open: bool
) -> Array:
    score: Array = B[:, 0]
    for u, span in feature_spans(network, v).items():
        if u in network.dense:
            score = score + values[u][..., None] * B[:, span.start]
        else:
            effect = np.concatenate([np.zeros((1, len(B))), B[:, span].T])  # (states of u, states)
            score = score + effect[values[u]]
    log = score - score.max(axis=-1, keepdims=True)
    log = log - np.log(np.exp(log).sum(axis=-1, keepdims=True))
    if is_open:  # the axis of v is the last one, and empty so far
        return np.asarray(log[..., 0, :])
    return np.asarray(np.take_along_axis(log, values[v][..., None], axis=-1)[..., 0])


def feature_spans(network: ArrowNetwork, v: int) -> dict[int, slice]:
    """Where the features of each parent are in a logit; the first one is 1."""
    found, at = {}, 1
    for u in network.graph.parents()[v]:
        width = 1 if u in network.dense else (network.graph.states[u] or 1) - 1
        found[u] = slice(at, at + width)
        at += width
    return found


def line_moments(
    network: ArrowNetwork, v: int, arrow: LineArrow, values: Mapping[int, CellArray]
) -> tuple[Array, Array]:
    """Mean and variance of a continuous column given the members of its family."""
    above = network.graph.parents()[v]
    places = tuple(values[u] for u in above if u not in network.dense)
    lines, variance = arrow.lines[places], arrow.variances[places]
    mean = lines[..., 0]
    for j, u in enumerate([u for u in above if u in network.dense], 1):
        mean = mean + lines[..., j] * values[u]
    return mean, variance


def _log_masses(
    grid: tuple[float, float, int], mean: Array, variance: Array, points: Array
) -> Array:
    """log of what a normal has in each cell of a grid; the outermost reach to infinity."""
    sd = np.sqrt(variance)
    low = (points - grid[1] / 2 - mean) / sd
    high = (points + grid[1] / 2 - mean) / sd
    first, last = grid[0], grid[0] + grid[1] * (grid[2] - 1)
    low = np.where(points <= first + grid[1] / 4, -np.inf, low)
    high = np.where(points >= last - grid[1] / 4, np.inf, high)
    flip = low > 0  # the upper tail by the lower one: differences keep their digits
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    mass = scipy.special.ndtr(b) - scipy.special.ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = scipy.special.log_ndtr(b) + np.log1p(
            -np.exp(scipy.special.log_ndtr(a) - scipy.special.log_ndtr(b))
        )
        return np.asarray(np.where(mass > 1e-12, np.log(np.maximum(mass, LEAST)), far))

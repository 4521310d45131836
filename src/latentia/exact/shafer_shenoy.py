"""Shafer-Shenoy: one sweep of messages up a junction tree that carries tables, and one down.

Messages are logs, summed state by state, so that no state is ever lost, and shifted to a largest
entry of 0 in every row. Arrays are (states of the variables …, rows), rows last; an axis of size
one stands for all that does not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.errors import PlanError
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree, clique_tree
from latentia.structure.triangulate import eliminate, log_states, moralise
from latentia.typing import Array

Scope: TypeAlias = tuple[int, ...]
Axes: TypeAlias = tuple[int, ...]
Inbox: TypeAlias = "tuple[dict[int, Array], ...]"

CLIQUE_LIMIT = 10**8  # joint states of a clique
AXES_LIMIT = 30  # variables of a clique: an array has only so many axes
BLOCK = 2**17  # numbers in the largest clique over a block of rows: what a cache holds
MEMORY = 2**23  # … and in all messages


@final
@dataclass(frozen=True, slots=True, eq=False)
class FactorNetwork:
    """A rooted junction tree whose cliques carry tables: P(x) ∝ exp Σ_i ψ_i(x on clique i)."""

    cliques: tuple[Scope, ...]  # variables in ascending order: the axes of ψ_i
    parent: tuple[int, ...]  # a root points at itself
    order: tuple[int, ...]  # parents before children
    homes: tuple[tuple[int, ...], ...]  # cliques that hold a variable, smallest first
    psi: tuple[Array, ...]  # log of the product of the tables at home here: (states …, 1)

    def home(self, scope: Scope) -> int:
        """A smallest clique that holds all of `scope`."""
        return _home(self.cliques, self.homes, scope)

    def rows_at_once(self) -> int:
        """How many rows of evidence to take together."""
        above = [self.cliques[up] for up in self.parent]
        numbers = 0  # in a row of all messages, up and down
        for clique, over, psi in zip(self.cliques, above, self.psi, strict=True):
            numbers += 2 * math.prod(
                n for v, n in zip(clique, psi.shape, strict=False) if v in over
            )
        return max(1, min(BLOCK // max(psi.size for psi in self.psi), MEMORY // numbers))


def wire(
    graph: LatentGraph, tables: Mapping[Scope, Array], order: str = "min_fill", root: Scope = ()
) -> FactorNetwork:
    """The junction tree of a graph, each table in a smallest clique, variables `root` on top."""
    tree = clique_tree(eliminate(moralise(graph, [root]), log_states(graph), order))
    sizes = _checked_sizes(graph, tree)
    found: list[list[int]] = [[] for _ in graph.names]
    for i in sorted(range(len(sizes)), key=lambda i: (sizes[i], i)):
        for v in tree.cliques[i]:
            found[v].append(i)
    homes = tuple(tuple(h) for h in found)
    if root:
        tree = _rooted_at(tree, _home(tree.cliques, homes, root))
    cliques = tuple(tuple(sorted(clique)) for clique in tree.cliques)
    psi = [np.zeros((1,) * (len(clique) + 1)) for clique in cliques]
    for scope, table in tables.items():
        i = _home(cliques, homes, scope)
        ascending = log(table).transpose(np.argsort(scope))[..., None]  # (states …, 1)
        psi[i] = psi[i] + _placed(ascending, scope, cliques[i])
    for i, clique in enumerate(cliques):
        psi[i] = np.broadcast_to(psi[i], (*(graph.states[v] or 1 for v in clique), 1))
        psi[i].flags.writeable = False
    return FactorNetwork(cliques, tree.parent, tuple(tree.order()), homes, tuple(psi))


def _checked_sizes(graph: LatentGraph, tree: JunctionTree) -> list[int]:
    """Joint states of every clique, none of them too many."""
    sizes = [math.prod(graph.states[v] or 1 for v in clique) for clique in tree.cliques]
    for size, clique in zip(sizes, tree.cliques, strict=True):
        if size > CLIQUE_LIMIT or len(clique) > AXES_LIMIT:
            names = [graph.names[v] for v in sorted(clique)]
            raise PlanError(
                f"exact inference needs a table over {len(names)} variables with {size:,} joint "
                f"states, expected at most {AXES_LIMIT} variables and {CLIQUE_LIMIT:,} states: "
                f"{names[:AXES_LIMIT]}. Try another elimination order (order=…), cut edges "
                "between them, give them fewer states, or ask for fewer variables together."
            )
    return sizes


def _rooted_at(tree: JunctionTree, root: int) -> JunctionTree:
    top = root
    while tree.parent[top] != top:
        top = tree.parent[top]
    return tree.rooted_at([root if i == top else i for i, up in enumerate(tree.parent) if up == i])


def _home(cliques: Sequence[Iterable[int]], homes: Sequence[Sequence[int]], scope: Scope) -> int:
    rarest = min(scope, key=lambda v: len(homes[v]))
    return next(i for i in homes[rarest] if set(scope) <= set(cliques[i]))


# --- messages -------------------------------------------------------------------------------------


def collect_evidence(network: FactorNetwork, evidence: Mapping[int, Array]) -> tuple[Inbox, Array]:
    """Up: μ_i(s) = log Σ exp(ψ_i + λ + Σ μ_child) over clique i without s; and log Σ_x of it all.

    Evidence: log λ of a variable, (states, rows). inbox[i][j] is what i got from j, on the axes of
    clique i; inbox[i][-1 - v] the evidence on v. The log total is (rows,), or (1,) for all rows.
    """
    log_total: Array = np.zeros(1)
    inbox: Inbox = tuple({} for _ in network.cliques)
    for v, likelihood in evidence.items():
        i = network.homes[v][0]
        inbox[i][-1 - v] = _placed(likelihood, (v,), network.cliques[i])
    for i in reversed(network.order):
        clique, up = network.cliques[i], network.parent[i]
        above = network.cliques[up] if up != i else ()
        message = log_sum(sum(inbox[i].values(), network.psi[i]), axes_without(clique, above))
        top = _finite(message.max(axis=tuple(range(message.ndim - 1))))  # (rows,)
        if up == i:
            log_total = log_total + message
        else:
            log_total = log_total + top
            inbox[up][i] = _placed(message - top, clique, above)
    return inbox, log_total


def distribute_evidence(network: FactorNetwork, inbox: Inbox) -> Inbox:
    """Down: to each child log Σ exp(ψ_i + λ + all messages but its own) over clique i without s."""
    inbox = tuple(dict(box) for box in inbox)
    for i in network.order:
        clique = network.cliques[i]
        children = [j for j in inbox[i] if j >= 0 and network.parent[j] == i]
        own = sum((x for j, x in inbox[i].items() if j not in children), np.zeros(1))
        rests = _all_but_one(own, [inbox[i][j] for j in children])
        for j, rest in zip(children, rests, strict=True):
            below = network.cliques[j]
            message = log_sum(network.psi[i] + rest, axes_without(clique, below))
            top = _finite(message.max(axis=tuple(range(message.ndim - 1))))
            inbox[j][i] = _placed(message - top, clique, below)
    return inbox


def infer(
    network: FactorNetwork, evidence: Mapping[int, Array], wanted: Sequence[Scope] = ()
) -> tuple[Array, list[Array]]:
    """log Σ_x exp(Σ ψ + Σ λ), and P(scope | evidence) for each wanted scope within a clique.

    Answers are (rows,) and (states, ascending variables …, rows), or have one row for all.
    """
    inbox, log_total = collect_evidence(network, evidence)
    asked: dict[int, list[int]] = {}
    for k, scope in enumerate(wanted):
        asked.setdefault(network.home(scope), []).append(k)
    if any(network.parent[i] != i for i in asked):
        inbox = distribute_evidence(network, inbox)
    answers = [np.zeros(1)] * len(wanted)
    for i, questions in asked.items():
        belief = sum(inbox[i].values(), network.psi[i])
        for k in questions:
            part = log_sum(belief, axes_without(network.cliques[i], wanted[k]))
            answers[k] = shares(part, tuple(range(part.ndim - 1)))
    return log_total, answers


def log_sum(x: Array, axes: Axes) -> Array:
    """log Σ exp x over axes; the largest of each sum is taken out first, and may be -inf."""
    top = _finite(x.max(axis=axes, keepdims=True))
    return np.asarray(log(np.exp(x - top).sum(axis=axes)) + np.squeeze(top, axis=axes))


def shares(x: Array, axes: Axes) -> Array:
    """exp x / Σ exp x over axes; zeros where all of x is -inf."""
    y = np.exp(x - _finite(x.max(axis=axes, keepdims=True)))
    total = y.sum(axis=axes, keepdims=True)
    return np.asarray(y / np.where(total > 0, total, 1.0))


def _all_but_one(first: Array, rest: Sequence[Array]) -> Iterator[Array]:
    """`first` plus all of `rest` but one, for each: two sweeps, as -inf cannot be subtracted."""
    behind = [np.zeros(1)]
    for x in reversed(rest[1:]):
        behind.append(behind[-1] + x)
    for x, after in zip(rest, reversed(behind), strict=False):
        yield first + after
        first = first + x


def _placed(x: Array, scope: Iterable[int], clique: Scope) -> Array:
    """(states of what scope and clique share …, rows) -> on the axes of the clique."""
    sizes, inside = iter(x.shape), set(scope)
    return x.reshape([next(sizes) if v in inside else 1 for v in clique] + [x.shape[-1]])


def axes_without(clique: Scope, scope: Iterable[int]) -> Axes:
    inside = set(scope)
    return tuple(k for k, v in enumerate(clique) if v not in inside)


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)


def log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)

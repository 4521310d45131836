"""TabularModel: known tables, exact answers (Shafer-Shenoy on the library's own junction trees).

One sweep of messages up the tree and one down. Inside, arrays are (states of the variables …,
rows), rows last; an axis of size one stands for anything that does not depend on it. Every message
is divided by its largest entry, row by row, and the log kept. Rows whose numbers still come near
underflow (states that differ by a factor of 1e100) are done again in logs, where nothing is lost.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.errors import DataError, EvidenceError, PlanError, UnknownNameError
from latentia.graph import GraphLike, LatentGraph, Latents, as_graph
from latentia.junction import JunctionTree, clique_tree
from latentia.triangulate import eliminate, log_states, moralise
from latentia.typing import Array, Label

__all__ = ["LOGS", "PLAIN", "Network", "TabularModel", "collect", "distribute", "infer", "wire"]

Scope: TypeAlias = tuple[int, ...]
Axes: TypeAlias = tuple[int, ...]
Flags: TypeAlias = NDArray[np.bool_]
States: TypeAlias = NDArray[np.int64]
Evidence: TypeAlias = "Mapping[Any, int] | NDArray[Any] | Sequence[Sequence[int]] | None"
Soft: TypeAlias = "Mapping[Any, Any] | None"

CLIQUE_LIMIT = 10**8  # joint states of a clique
AXES_LIMIT = 30  # variables of a clique: arrays have only so many axes
CACHE, MEMORY = 2**18, 2**23  # numbers in one clique, in all messages: decide the rows of a block
TINY = 1e-100  # products of two numbers above this cannot underflow


# --- two ways to calculate ------------------------------------------------------------------------


class Algebra(NamedTuple):
    """How to multiply, sum and rescale: in plain numbers, or in logs."""

    enter: Callable[[Array], Array]  # from plain numbers
    log: Callable[[Array], Array]
    times: Callable[[Array, Array], Array]
    total: Callable[[Array, Axes], Array]  # sum over axes
    scale: Callable[[Array], tuple[Array, Array, Flags]]  # largest = 1; its log; rows near underflow
    share: Callable[[Array, Axes], Array]  # plain numbers that sum to one over axes


def _log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _plain_total(x: Array, axes: Axes) -> Array:
    return np.asarray(x.sum(axis=axes))


def _plain_scale(x: Array) -> tuple[Array, Array, Flags]:
    axes = tuple(range(x.ndim - 1))
    top = x.max(axis=axes)  # (rows,)
    top = np.where(top > 0, top, 1.0)
    x = x / top
    return x, np.log(top), ((x > 0) & (x < TINY)).any(axis=axes)


def _plain_share(x: Array, axes: Axes) -> Array:
    total = x.sum(axis=axes, keepdims=True)
    return np.asarray(x / np.where(total > 0, total, 1.0))


def _log_total(x: Array, axes: Axes) -> Array:
    top = _finite(x.max(axis=axes, keepdims=True))  # of each sum, so that no state is ever lost
    return np.asarray(_log(np.exp(x - top).sum(axis=axes)) + np.squeeze(top, axis=axes))


def _log_scale(x: Array) -> tuple[Array, Array, Flags]:
    top = _finite(x.max(axis=tuple(range(x.ndim - 1))))  # (rows,)
    return x - top, top, np.zeros(top.shape, dtype=bool)


def _log_share(x: Array, axes: Axes) -> Array:
    return _plain_share(np.exp(x - _finite(x.max(axis=axes, keepdims=True))), axes)


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)


PLAIN = Algebra(np.asarray, _log, np.multiply, _plain_total, _plain_scale, _plain_share)
LOGS = Algebra(_log, np.asarray, np.add, _log_total, _log_scale, _log_share)


class _Ledger:
    """Multiplies and rescales; adds up the logs, remembers the rows that came near underflow."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.log: Array = np.zeros(1)  # (rows,)
        self.risky: Flags = np.zeros(1, dtype=bool)  # (rows,)

    def scaled(self, x: Array) -> Array:
        x, log, risky = self.algebra.scale(x)
        self.log, self.risky = self.log + log, self.risky | risky
        return x

    def product(self, factors: Iterable[Array | None]) -> Array | None:
        """∏ factors, rescaled after each; None stands for one."""
        result: Array | None = None
        for x in factors:
            if result is None or x is None:
                result = x if result is None else result
            else:
                result = self.scaled(self.algebra.times(result, x))
        return result

    def but_one(self, first: Array | None, rest: Sequence[Array]) -> Iterator[Array | None]:
        """∏ of `first` and all of `rest` but one, for each: two sweeps and no division."""
        behind: list[Array | None] = [None]
        for x in reversed(rest[1:]):
            behind.append(self.product([behind[-1], x]))
        for x, after in zip(rest, reversed(behind)):
            yield self.product([first, after])
            first = self.product([first, x])

    def whole(self, psi: Array, factors: Iterable[Array | None]) -> Array:
        """ψ ∏ factors, with all its axes."""
        inside = self.product(factors)
        return psi if inside is None else self.algebra.times(psi, inside)


# --- who sends to whom ----------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A rooted junction tree whose cliques carry tables: P(x) ∝ ∏_i ψ_i(x on clique i)."""

    cliques: tuple[Scope, ...]  # variables in ascending order: the axes of ψ_i
    parent: tuple[int, ...]  # a root points at itself
    order: tuple[int, ...]  # parents before children
    homes: tuple[tuple[int, ...], ...]  # cliques that hold a variable, smallest first
    tables: tuple[tuple[Array, ...], ...]  # what ψ_i is the product of
    plain: tuple[Array, ...]  # ψ_i: (states …, 1)
    safe: bool  # no ψ_i comes near underflow

    def potentials(self, algebra: Algebra) -> Sequence[Array]:
        """ψ_i of every clique: (states …, 1)."""
        if algebra is PLAIN:
            return self.plain
        both = zip(self.tables, self.plain, strict=True)
        return [_multiplied(tables, psi.shape, algebra) for tables, psi in both]

    def rows_at_once(self) -> int:
        """How many rows of evidence to work on together."""
        sizes = [psi.size for psi in self.plain]
        largest, messages = max(sizes), 2 * sum(math.isqrt(size) for size in sizes)
        return max(1, min(MEMORY // (messages + 4 * largest), max(256, CACHE // largest)))


def wire(
    graph: LatentGraph,
    tables: Mapping[Scope, Array],
    order: str = "min_fill",
    together: Scope = (),
) -> Network:
    """The junction tree of a graph, each table in a smallest clique; a root holds `together`."""
    tree = clique_tree(eliminate(moralise(graph, [together]), log_states(graph), order))
    sizes = _checked_sizes(graph, tree)
    found: list[list[int]] = [[] for _ in graph.names]
    for i in sorted(range(len(sizes)), key=lambda i: (sizes[i], i)):
        for v in tree.cliques[i]:
            found[v].append(i)
    homes = tuple(tuple(h) for h in found)
    if together:
        tree = _rooted_at(tree, _home(tree.cliques, homes, together))
    cliques = tuple(tuple(sorted(clique)) for clique in tree.cliques)
    shapes = [tuple(graph.states[v] or 1 for v in clique) for clique in cliques]
    held: list[list[Array]] = [[] for _ in cliques]
    for scope, table in tables.items():
        i = _home(tree.cliques, homes, scope)
        ascending = table.transpose(np.argsort(scope))[..., None]  # (states …, 1)
        held[i].append(_placed(ascending, scope, cliques[i]))
    return Network(
        cliques=cliques,
        parent=tree.parent,
        order=tuple(tree.order()),
        homes=homes,
        tables=tuple(tuple(h) for h in held),
        plain=tuple(
            _frozen(_multiplied(h, (*s, 1), PLAIN)) for h, s in zip(held, shapes, strict=True)
        ),
        safe=all(math.fsum(map(_log_range, h)) > math.log(TINY) for h in held),
    )


def _checked_sizes(graph: LatentGraph, tree: JunctionTree) -> list[int]:
    """Joint states of every clique, none of them too many."""
    sizes = [math.prod(graph.states[v] or 1 for v in clique) for clique in tree.cliques]
    for size, clique in zip(sizes, tree.cliques, strict=True):
        if size > CLIQUE_LIMIT or len(clique) > AXES_LIMIT:
            names = [graph.names[v] for v in sorted(clique)]
            raise PlanError(
                f"exact inference needs a table over {len(names)} variables together with {size:,} "
                f"joint states; expected at most {CLIQUE_LIMIT:,} and {AXES_LIMIT} variables: "
                f"{names[:AXES_LIMIT]}. Try another elimination order (order=…), drop edges between "
                "these variables, give them fewer states, or ask about fewer variables at once."
            )
    return sizes


def _rooted_at(tree: JunctionTree, root: int) -> JunctionTree:
    top = root
    while tree.parent[top] != top:
        top = tree.parent[top]
    return tree.rooted_at([root if i == top else i for i, up in enumerate(tree.parent) if up == i])


def _home(cliques: Sequence[Iterable[int]], homes: Sequence[Sequence[int]], scope: Scope) -> int:
    """A smallest clique that holds all of `scope`."""
    rarest = min(scope, key=lambda v: len(homes[v]))
    return next(i for i in homes[rarest] if set(scope) <= set(cliques[i]))


def _placed(x: Array, scope: Iterable[int], clique: Scope) -> Array:
    """(states of scope, ascending …, rows) -> the same on the axes of the clique, ones elsewhere."""
    sizes, inside = iter(x.shape), set(scope)
    return x.reshape([next(sizes) if v in inside else 1 for v in clique] + [x.shape[-1]])


def _axes_without(clique: Scope, scope: Iterable[int]) -> Axes:
    inside = set(scope)
    return tuple(k for k, v in enumerate(clique) if v not in inside)


def _multiplied(tables: Iterable[Array], shape: tuple[int, ...], algebra: Algebra) -> Array:
    product = algebra.enter(np.ones(1))
    for table in tables:
        product = algebra.times(product, algebra.enter(table))
    return np.broadcast_to(product, shape)


def _log_range(table: Array) -> float:
    """log(smallest positive entry / largest)."""
    positive = table[table > 0]
    return math.log(positive.min()) - math.log(positive.max())


def _frozen(x: Array) -> Array:
    x.flags.writeable = False
    return x


# --- messages -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """What has arrived where: inbox[i][j] is the message from j, inbox[i][-1-v] evidence on v."""

    inbox: tuple[dict[int, Array], ...]  # on the axes of clique i, largest entry 1
    log_total: Array  # log Σ_x ∏ ψ ∏ λ: (rows,), or (1,) if the same for all
    risky: Flags  # (rows,) or (1,): plain numbers came near underflow


def collect(
    network: Network, psi: Sequence[Array], likelihoods: Mapping[int, Array], algebra: Algebra
) -> Messages:
    """Up: μ_i(s) = Σ over clique i without s of ψ_i ∏ λ ∏ μ_child; λ of v is (states, rows)."""
    ledger = _Ledger(algebra)
    inbox: tuple[dict[int, Array], ...] = tuple({} for _ in network.cliques)
    for v, likelihood in likelihoods.items():
        i = network.homes[v][0]
        entered = ledger.scaled(algebra.enter(likelihood))
        inbox[i][-1 - v] = _placed(entered, (v,), network.cliques[i])
    for i in reversed(network.order):
        clique, up = network.cliques[i], network.parent[i]
        whole = ledger.whole(psi[i], inbox[i].values())
        if up == i:
            ledger.log = ledger.log + algebra.log(algebra.total(whole, _axes_without(clique, ())))
        else:
            above = network.cliques[up]
            message = ledger.scaled(algebra.total(whole, _axes_without(clique, above)))
            inbox[up][i] = _placed(message, set(clique) & set(above), above)
    return Messages(inbox, ledger.log, ledger.risky)


def distribute(
    network: Network, psi: Sequence[Array], up: Messages, algebra: Algebra
) -> Messages:
    """Down: to each child Σ over clique i without s of ψ_i ∏ λ ∏ of all messages but its own."""
    ledger = _Ledger(algebra)
    inbox = tuple(dict(box) for box in up.inbox)
    for i in network.order:
        clique = network.cliques[i]
        children = [j for j in inbox[i] if j >= 0 and network.parent[j] == i]
        first = ledger.product(x for j, x in inbox[i].items() if j not in children)
        rests = ledger.but_one(first, [inbox[i][j] for j in children])
        for j, rest in zip(children, rests, strict=True):
            below = network.cliques[j]
            whole = ledger.whole(psi[i], [rest])
            message = ledger.scaled(algebra.total(whole, _axes_without(clique, below)))
            inbox[j][i] = _placed(message, set(clique) & set(below), below)
    return Messages(inbox, up.log_total, up.risky | ledger.risky)


def infer(
    network: Network,
    likelihoods: Mapping[int, Array],
    wanted: Sequence[Scope] = (),
    algebra: Algebra | None = None,
) -> tuple[Array, list[Array]]:
    """log Σ ∏ ψ ∏ λ, and P(scope | evidence) for each wanted scope (ascending, in some clique).

    λ of v is (states, rows). Answers are (rows,) and (states …, rows), or have one row for all.
    """
    way = algebra or (PLAIN if network.safe else LOGS)
    psi = network.potentials(way)
    places = [_home(network.cliques, network.homes, scope) for scope in wanted]
    messages = collect(network, psi, likelihoods, way)
    if any(network.parent[i] != i for i in places):
        messages = distribute(network, psi, messages, way)
    ledger, answers, wholes = _Ledger(way), [], dict[int, Array]()
    for i, scope in sorted(zip(places, wanted, strict=True), key=lambda pair: pair[0]):
        if i not in wholes:
            wholes = {i: ledger.whole(psi[i], messages.inbox[i].values())}
        part = way.total(wholes[i], _axes_without(network.cliques[i], scope))
        answers.append(way.share(part, tuple(range(part.ndim - 1))))
    ranks = np.argsort(np.argsort(places, kind="stable"), kind="stable")
    answers = [answers[k] for k in ranks]
    risky = messages.risky | ledger.risky
    if algebra is not None or not risky.any():
        return messages.log_total, answers
    hard = {v: x[:, risky] if x.shape[1] == risky.size else x for v, x in likelihoods.items()}
    log_again, again = infer(network, hard, wanted, LOGS)
    pairs = zip([messages.log_total, *answers], [log_again, *again], strict=True)
    log_total, *answers = [_patched(x, risky, y) for x, y in pairs]
    return log_total, answers


def _patched(x: Array, rows: Flags, y: Array) -> Array:
    x = np.array(np.broadcast_to(x, (*x.shape[:-1], rows.size)))
    x[..., rows] = y
    return x

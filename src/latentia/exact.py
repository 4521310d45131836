"""TabularModel: known tables, exact answers (Shafer-Shenoy on the library's own junction trees).

One sweep of messages up the tree and one down. Messages are logs, summed state by state, so that no
state is ever lost, and shifted to a largest entry of 0 in every row. Inside, arrays are (states of
the variables …, rows), rows last; an axis of size one stands for all that does not depend on it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.errors import DataError, EvidenceError, PlanError, UnknownNameError
from latentia.graph import GraphLike, LatentGraph, Latents, as_graph
from latentia.junction import JunctionTree, clique_tree
from latentia.triangulate import eliminate, log_states, moralise
from latentia.typing import Array, Label

__all__ = ["Network", "TabularModel", "collect", "distribute", "infer", "wire"]

Scope: TypeAlias = tuple[int, ...]
Axes: TypeAlias = tuple[int, ...]
States: TypeAlias = NDArray[np.int64]
Evidence: TypeAlias = "Mapping[Any, int] | NDArray[Any] | Sequence[Sequence[int]] | None"
Soft: TypeAlias = "Mapping[Any, Any] | None"
Inbox: TypeAlias = "tuple[dict[int, Array], ...]"

CLIQUE_LIMIT = 10**8  # joint states of a clique
AXES_LIMIT = 30  # variables of a clique: an array has only so many axes
BLOCK = 2**17  # numbers in the largest clique over a block of rows: what a cache holds
MEMORY = 2**23  # … and in all messages
SUM_TOLERANCE = 1e-8  # rows of a CPT sum to one this well
ROUNDING = 1e-14  # … and are left as they are if they do so this well


# --- the tree -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class Network:
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
) -> Network:
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
        ascending = _log(table).transpose(np.argsort(scope))[..., None]  # (states …, 1)
        psi[i] = psi[i] + _placed(ascending, scope, cliques[i])
    for i, clique in enumerate(cliques):
        psi[i] = np.broadcast_to(psi[i], (*(graph.states[v] or 1 for v in clique), 1))
        psi[i].flags.writeable = False
    return Network(cliques, tree.parent, tuple(tree.order()), homes, tuple(psi))


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


def collect(network: Network, evidence: Mapping[int, Array]) -> tuple[Inbox, Array]:
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
        message = log_sum(sum(inbox[i].values(), network.psi[i]), _axes_without(clique, above))
        top = _finite(message.max(axis=tuple(range(message.ndim - 1))))  # (rows,)
        if up == i:
            log_total = log_total + message
        else:
            log_total = log_total + top
            inbox[up][i] = _placed(message - top, clique, above)
    return inbox, log_total


def distribute(network: Network, inbox: Inbox) -> Inbox:
    """Down: to each child log Σ exp(ψ_i + λ + all messages but its own) over clique i without s."""
    inbox = tuple(dict(box) for box in inbox)
    for i in network.order:
        clique = network.cliques[i]
        children = [j for j in inbox[i] if j >= 0 and network.parent[j] == i]
        own = sum((x for j, x in inbox[i].items() if j not in children), np.zeros(1))
        rests = _all_but_one(own, [inbox[i][j] for j in children])
        for j, rest in zip(children, rests, strict=True):
            below = network.cliques[j]
            message = log_sum(network.psi[i] + rest, _axes_without(clique, below))
            top = _finite(message.max(axis=tuple(range(message.ndim - 1))))
            inbox[j][i] = _placed(message - top, clique, below)
    return inbox


def infer(
    network: Network, evidence: Mapping[int, Array], wanted: Sequence[Scope] = ()
) -> tuple[Array, list[Array]]:
    """log Σ_x exp(Σ ψ + Σ λ), and P(scope | evidence) for each wanted scope within a clique.

    Answers are (rows,) and (states, ascending variables …, rows), or have one row for all.
    """
    inbox, log_total = collect(network, evidence)
    asked: dict[int, list[int]] = {}
    for k, scope in enumerate(wanted):
        asked.setdefault(network.home(scope), []).append(k)
    if any(network.parent[i] != i for i in asked):
        inbox = distribute(network, inbox)
    answers = [np.zeros(1)] * len(wanted)
    for i, questions in asked.items():
        belief = sum(inbox[i].values(), network.psi[i])
        for k in questions:
            part = log_sum(belief, _axes_without(network.cliques[i], wanted[k]))
            answers[k] = shares(part, tuple(range(part.ndim - 1)))
    return log_total, answers


def log_sum(x: Array, axes: Axes) -> Array:
    """log Σ exp x over axes; the largest of each sum is taken out first, and may be -inf."""
    top = _finite(x.max(axis=axes, keepdims=True))
    return np.asarray(_log(np.exp(x - top).sum(axis=axes)) + np.squeeze(top, axis=axes))


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


def _axes_without(clique: Scope, scope: Iterable[int]) -> Axes:
    inside = set(scope)
    return tuple(k for k, v in enumerate(clique) if v not in inside)


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)


def _log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


# --- the model ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TabularModel:
    """P(x) = ∏_v P(x_v | parents of v) from known CPTs, or P(x) ∝ ∏ potentials; exact inference.

    `cpts`, directed graph: {variable: array, axes (its parents in the graph's order, itself)}.
    Undirected: {tuple of variables that form a clique: array of potentials, an axis for each}.
    Evidence: codes (rows, variables), all variables in the graph's order with latents, -1 where
    unobserved; or {name: code} for one row; None for one row without any. `soft`: {name: likelihood
    of its states, (states,) or (rows, states)}, multiplied onto it.

    >>> model = TabularModel(
    ...     "H->X", {"H": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]]}, latents=["H"]
    ... )
    >>> model.query("H", {"X": 1}).round(3)
    array([0.111, 0.889])
    """

    graph: LatentGraph  # with the number of states of every variable
    tables: Mapping[Scope, Array]  # axes of a CPT: parents, variable
    order: str
    network: Network
    log_partition: float  # log Σ_x ∏ tables: 0 for a directed graph

    def __init__(
        self,
        graph: GraphLike,
        cpts: Mapping[Any, Any],
        latents: Latents = None,
        order: str = "min_fill",
    ) -> None:
        read, tables = _read_tables(as_graph(graph, latents), cpts)
        network = wire(read, tables, order)
        partition = 0.0 if read.directed else float(collect(network, {})[1][0])
        if partition == -math.inf:
            raise DataError(
                "the potentials contradict each other: every joint state has probability 0. "
                "Expected a state that all of them allow; look for zeros that exclude each other."
            )
        for name, value in (
            ("graph", read),
            ("tables", MappingProxyType(tables)),
            ("order", order),
            ("network", network),
            ("log_partition", partition),
        ):
            object.__setattr__(self, name, value)  # as a frozen dataclass does it

    def __reduce__(self) -> tuple[Any, ...]:
        return TabularModel, (self.graph, self.cpts, None, self.order)

    @property
    def names(self) -> tuple[Label, ...]:
        """All variables, latents too, in the graph's order: the columns of evidence."""
        return self.graph.names

    @property
    def states(self) -> tuple[int, ...]:
        """The number of states of every variable."""
        return tuple(count or 1 for count in self.graph.states)

    @property
    def cpts(self) -> dict[Any, Array]:
        """The tables by name, as the constructor takes them."""
        if self.graph.directed:
            return {self.names[scope[-1]]: table for scope, table in self.tables.items()}
        return {tuple(self.names[v] for v in s): table for s, table in self.tables.items()}

    def __repr__(self) -> str:
        kind, hidden = "directed" if self.graph.directed else "undirected", len(self.graph.latent)
        shown = str(self.graph)
        sizes = [psi.size for psi in self.network.psi]
        widest = self.network.cliques[sizes.index(max(sizes))]
        cells = sum(table.size for table in self.tables.values())
        return (
            f"TabularModel: {len(self.graph.observed)} observables, {hidden} latents, {kind}\n"
            f"  graph    {shown if len(shown) <= 400 else shown[:400] + ' …'}\n"
            f"  tables   {len(self.tables)} with {cells:,} cells\n"
            f"  cliques  {len(sizes)}, the largest with {max(sizes):,} joint states: "
            f"{', '.join(str(self.names[v]) for v in widest)}"
        )

    def log_evidence(self, evidence: Evidence = None, soft: Soft = None) -> Array:
        """log P(evidence), (rows,); -inf where it is impossible. Soft: log E[∏ likelihoods]."""
        return self._answer(self.network, evidence, soft, ())[0]

    def posteriors(
        self, evidence: Evidence = None, variables: Any = None, soft: Soft = None
    ) -> dict[Label, Array]:
        """P(variable | all evidence), {name: (rows, states)}; an observed one is certain."""
        asked = range(len(self.names)) if variables is None else self._numbers(variables)
        log_total, found = self._answer(self.network, evidence, soft, [(v,) for v in asked])
        _check_possible(log_total)
        return {self.names[v]: x for v, x in zip(asked, found, strict=True)}

    def joint(self, variables: Any, evidence: Evidence = None, soft: Soft = None) -> Array:
        """P(variables | evidence), (rows, states of the first, of the second, …)."""
        asked = self._numbers(variables)
        scope = tuple(sorted(asked))
        network = wire(self.graph, self.tables, self.order, root=scope)
        log_total, (table,) = self._answer(network, evidence, soft, [scope])
        _check_possible(log_total)
        return table.transpose([0, *(1 + scope.index(v) for v in asked)])

    def query(self, variables: Any, evidence: Evidence = None, soft: Soft = None) -> Array:
        """P(variables | one row of evidence), (states of the first, of the second, …)."""
        table = self.joint(variables, evidence, soft)
        if len(table) != 1:
            raise EvidenceError(
                f"query answers one row of evidence, got {len(table)}. Use joint or posteriors."
            )
        return np.asarray(table[0])

    def joint_table(self, variables: Any) -> Array:
        """P(variables), (states of the first, of the second, …)."""
        return self.query(variables)

    def sample(
        self, n: int, rng: np.random.Generator | int | None = None, latents: bool = False
    ) -> States:
        """n independent rows of codes: (n, observables), or (n, all variables)."""
        if n < 0:
            raise DataError(f"expected a number of rows of 0 or more, got {n}.")
        draw_all = _sample_ancestors if self.graph.directed else _sample_tree
        codes = draw_all(self, n, np.random.default_rng(rng))
        return codes if latents else codes[:, self.graph.observed]

    def evidence(self, columns: Any) -> States:
        """Codes (rows, observables), as `sample` gives them -> (rows, all variables)."""
        codes, observed = np.asarray(columns), self.graph.observed
        if codes.ndim != 2 or codes.shape[1] != len(observed):
            raise EvidenceError(
                f"expected codes of shape (rows, {len(observed)}), one column for each observable, "
                f"got {codes.shape}."
            )
        wide = np.full((len(codes), len(self.names)), -1, dtype=codes.dtype)
        wide[:, observed] = codes
        return _checked_codes(wide, self)

    def _numbers(self, variables: Any) -> list[int]:
        number = {name: v for v, name in enumerate(self.names)}
        try:
            given = [variables] if variables in number else list(variables)
        except TypeError:  # a list cannot be hashed
            given = list(variables) if isinstance(variables, Iterable) else [variables]
        for name in given:
            if name not in number:
                raise UnknownNameError("variable", name, self.names)
        if not given or len(set(given)) < len(given):
            raise EvidenceError(f"expected one or more different variables, got {given}.")
        return [number[name] for name in given]

    def _answer(
        self, network: Network, evidence: Evidence, soft: Soft, wanted: Sequence[Scope]
    ) -> tuple[Array, list[Array]]:
        """`infer` in blocks of rows, rows first."""
        codes, weights = _read_evidence(self, evidence, soft)
        step = network.rows_at_once()
        blocks = []
        for start in range(0, max(len(codes), 1), step):
            rows = slice(start, start + step)
            part = codes[rows]
            log_total, answers = infer(network, _log_likelihoods(self, part, weights, rows), wanted)
            found = [log_total - self.log_partition, *answers]
            blocks.append([np.broadcast_to(x, (*x.shape[:-1], len(part))) for x in found])
        joined = (np.concatenate(x, axis=-1) for x in zip(*blocks, strict=True))
        log_evidence, *tables = (np.ascontiguousarray(np.moveaxis(x, -1, 0)) for x in joined)
        return log_evidence, tables


def _check_possible(log_evidence: Array) -> None:
    impossible = np.flatnonzero(log_evidence == -np.inf)
    if impossible.size:
        raise EvidenceError(
            f"row {impossible[0]} of the evidence has probability 0 under the model "
            f"({impossible.size} such rows in all), so nothing follows from it. Drop these rows or "
            "leave some of their variables unobserved (-1); log_evidence shows which they are."
        )


# --- reading tables -------------------------------------------------------------------------------


def _read_tables(
    graph: LatentGraph, cpts: Mapping[Any, Any]
) -> tuple[LatentGraph, dict[Scope, Array]]:
    """The graph with all states known, and the tables by the numbers of their variables."""
    if not isinstance(cpts, Mapping):
        raise DataError(f"expected tables as {{variable: array}}, got {type(cpts).__name__}.")
    read = _directed_scopes if graph.directed else _undirected_scopes
    tables: dict[Scope, Array] = {}
    counts = list(graph.states)
    for scope, key in read(graph, cpts).items():
        table = tables[scope] = _checked_numbers(cpts[key], key, [graph.names[v] for v in scope])
        for v, count in zip(scope, table.shape, strict=True):
            if counts[v] not in (None, count):
                raise DataError(
                    f"{graph.names[v]!r} has {counts[v]} states in the graph or in another table, "
                    f"got {count} in the table of {key!r}. All must agree."
                )
            counts[v] = count
        if graph.directed:
            tables[scope] = table = _checked_sums(table, key)
        table.flags.writeable = False
    for name, count in zip(graph.names, counts, strict=True):
        if count is None:
            raise DataError(
                f"the number of states of {name!r} is unknown: no table holds it. Give a potential "
                "for it, or its number of states in the graph."
            )
    return replace(graph, states=tuple(counts)), tables


def _directed_scopes(graph: LatentGraph, cpts: Mapping[Any, Any]) -> dict[Scope, Any]:
    for key in cpts:
        if key not in graph.names:
            raise UnknownNameError("variable", key, graph.names, "Tables go by the graph's names.")
    missing = [name for name in graph.names if name not in cpts]
    if missing:
        raise DataError(f"expected a table for every variable, got none for {missing[:20]}.")
    above = graph.parents()
    return {(*above[v], v): name for v, name in enumerate(graph.names)}


def _undirected_scopes(graph: LatentGraph, cpts: Mapping[Any, Any]) -> dict[Scope, Any]:
    number = {name: v for v, name in enumerate(graph.names)}
    near, found = moralise(graph), dict[Scope, Any]()
    for key in cpts:
        names = (key,) if key in number or not isinstance(key, tuple) else key
        for name in names:
            if name not in number:
                raise UnknownNameError("variable", name, graph.names, f"In the potential {key!r}.")
        scope = tuple(number[name] for name in names)
        apart = [(a, b) for k, a in enumerate(scope) for b in scope[:k] if b not in near[a]]
        if apart or not scope:
            pairs = [(graph.names[b], graph.names[a]) for a, b in apart[:5]]
            raise DataError(
                f"the variables of the potential {key!r} must form a clique of the graph; these "
                f"are not tied: {pairs}. Add the edges, or split the potential."
            )
        if scope in found:
            raise DataError(f"the potential {key!r} is given twice. Multiply the two.")
        found[scope] = key
    return found


def _checked_numbers(table: Any, key: Any, axes: Sequence[Label]) -> Array:
    try:
        numbers = np.array(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"expected an array of numbers as table of {key!r}, got {table!r}."
        ) from None
    if numbers.ndim != len(axes):
        raise DataError(
            f"expected {len(axes)} axes in the table of {key!r}, one each for {list(axes)} in this "
            f"order, got shape {numbers.shape}."
        )
    if not np.isfinite(numbers).all() or (numbers < 0).any() or not numbers.any():
        raise DataError(
            f"expected finite numbers of 0 or more, not all 0, in the table of {key!r}, got "
            f"{numbers.size} cells between {numbers.min(initial=0)} and {numbers.max(initial=0)}."
        )
    return numbers


def _checked_sums(table: Array, key: Any) -> Array:
    sums = table.sum(axis=-1, keepdims=True)
    off = float(np.abs(sums - 1).max())
    if off > SUM_TOLERANCE:
        raise DataError(
            f"expected the last axis of the table of {key!r} to sum to 1 (within {SUM_TOLERANCE}), "
            f"got sums off by up to {off:.3g}. Its axes must be (parents in the graph's order, "
            "itself); if they are, divide by the sums."
        )
    return np.where(np.abs(sums - 1) > ROUNDING, table / sums, table)


# --- reading evidence -----------------------------------------------------------------------------


def _read_evidence(
    model: TabularModel, evidence: Evidence, soft: Soft
) -> tuple[States, dict[int, Array]]:
    """Codes (rows, variables), and likelihoods {variable: (rows or 1, states)}."""
    number = {name: v for v, name in enumerate(model.names)}
    for name in [*(evidence if isinstance(evidence, Mapping) else ()), *(soft or ())]:
        if name not in number:
            raise UnknownNameError("variable", name, model.names)
    if evidence is None or isinstance(evidence, Mapping):
        codes = np.full((1, len(number)), -1, dtype=np.int64)
        for name, code in (evidence or {}).items():
            try:
                codes[0, number[name]] = operator.index(code)
            except TypeError:
                raise EvidenceError(
                    f"expected the code of a state of {name!r}, a whole number, got {code!r}."
                ) from None
    else:
        codes = np.asarray(evidence)
    codes = _checked_codes(codes, model)
    weights = {
        number[name]: _checked_likelihood(x, name, model.states[number[name]])
        for name, x in (soft or {}).items()
    }
    rows = {len(codes), *(len(x) for x in weights.values())} - {1}
    if len(rows) > 1:
        raise EvidenceError(
            f"expected as many rows of soft evidence as of hard, or one, got {sorted(rows)}."
        )
    return np.broadcast_to(codes, (max(rows, default=1), codes.shape[1])), weights


def _checked_codes(codes: NDArray[Any], model: TabularModel) -> States:
    n = len(model.names)
    if codes.ndim != 2 or codes.shape[1] != n:
        raise EvidenceError(
            f"expected codes of shape (rows, {n}), one column for every variable, latents too, got "
            f"{codes.shape}. `evidence(columns)` of the model adds the latents to observables."
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise EvidenceError(
            f"expected whole numbers as codes, -1 where unobserved, got dtype {codes.dtype}. "
            "Number the states of each variable 0, 1, … and convert with astype(int)."
        )
    wrong = np.argwhere((codes < -1) | (codes >= np.array(model.states)))
    if len(wrong):
        row, v = wrong[0]
        raise EvidenceError(
            f"variable {model.names[v]!r} has states 0 to {model.states[v] - 1}, got "
            f"{codes[row, v]} in row {row}. Pass one of the states, or -1 to leave it unobserved."
        )
    return codes.astype(np.int64)


def _checked_likelihood(likelihood: Any, name: Label, states: int) -> Array:
    try:
        numbers = np.atleast_2d(np.asarray(likelihood, dtype=np.float64))  # (rows or 1, states)
    except (TypeError, ValueError):
        numbers = np.full((1, 1), np.nan)
    wanted = numbers.ndim == 2 and numbers.shape[1] == states
    if not wanted or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise EvidenceError(
            f"expected as soft evidence on {name!r} finite likelihoods of 0 or more, of shape "
            f"({states},) or (rows, {states}), got {likelihood!r}."
        )
    return numbers


def _log_likelihoods(
    model: TabularModel, codes: States, soft: Mapping[int, Array], rows: slice
) -> dict[int, Array]:
    """log λ of each variable with any evidence in this block of rows: (states, rows)."""
    found: dict[int, Array] = {}
    for v in np.flatnonzero((codes >= 0).any(axis=0)).tolist():
        column = codes[:, v]  # (rows,)
        agrees = (column == np.arange(model.states[v])[:, None]) | (column < 0)
        found[v] = np.where(agrees, 0.0, -np.inf)
    for v, likelihood in soft.items():
        part = likelihood if len(likelihood) == 1 else likelihood[rows]
        found[v] = found.get(v, np.zeros(1)) + _log(part.T)
    return found


# --- sampling -------------------------------------------------------------------------------------


def _sample_ancestors(model: TabularModel, n: int, rng: np.random.Generator) -> States:
    """Each variable given its parents, parents first."""
    codes = np.zeros((n, len(model.names)), dtype=np.int64)
    tables = {scope[-1]: (scope[:-1], table) for scope, table in model.tables.items()}
    waiting = {v: len(above) for v, (above, _) in tables.items()}
    below: list[list[int]] = [[] for _ in model.names]
    for a, b in model.graph.edges:
        below[a].append(b)
    ready = [v for v, count in waiting.items() if count == 0]
    for v in ready:
        above, table = tables[v]
        given = _flat(codes, above, model.states)
        codes[:, v] = _draw(table.reshape(-1, table.shape[-1]), given, rng)
        for child in below[v]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    return codes


def _sample_tree(model: TabularModel, n: int, rng: np.random.Generator) -> States:
    """Each clique given what it shares with its parent, from the roots down."""
    codes = np.zeros((n, len(model.names)), dtype=np.int64)
    network = model.network
    inbox, _ = collect(network, {})
    for i in network.order:
        clique, up = network.cliques[i], network.parent[i]
        shared = tuple(v for v in clique if up != i and v in network.cliques[up])
        fresh = tuple(v for v in clique if v not in shared)
        inside = sum(inbox[i].values(), network.psi[i])  # (states …, 1)
        table = shares(inside, _axes_without(clique, shared))[..., 0]
        ordered = table.transpose([clique.index(v) for v in (*shared, *fresh)])
        sizes = [model.states[v] for v in fresh]
        drawn = _draw(
            ordered.reshape(-1, math.prod(sizes)), _flat(codes, shared, model.states), rng
        )
        for v, column in zip(fresh, np.unravel_index(drawn, sizes), strict=True):
            codes[:, v] = column
    return codes


def _flat(codes: States, scope: Scope, states: Sequence[int]) -> States:
    """The joint state of some columns as one number: (rows,)."""
    flat = np.zeros(len(codes), dtype=np.int64)
    for v in scope:
        flat = flat * states[v] + codes[:, v]
    return flat


def _draw(table: Array, given: States, rng: np.random.Generator) -> States:
    """A state from row `given` of a table of P(state | row), for each: all in one search."""
    bounds = np.cumsum(table, axis=1)
    last = bounds[:, -1:]
    bounds = bounds / np.where(last > 0, last, 1.0) + np.arange(len(table))[:, None]
    wanted = np.minimum(given + rng.random(len(given)), np.nextafter(given + 1.0, 0.0))
    found = np.searchsorted(bounds.ravel(), wanted, side="right")
    return np.asarray(found - given * table.shape[1], dtype=np.int64)

"""Operators: what was learned. A tensor per clique, a table per leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from latentia.errors import LatentiaError
from latentia.inference.linear_part import Linear
from latentia.inference.provenance import Provenance
from latentia.inference.table_form import GraphTables, TableForm
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array

SMALL = 2**12  # numbers


@final
@dataclass(frozen=True, slots=True)
class Operators:
    """Everything that messages need.

    A leaf's table maps a state x to the functional t(x) with P(x | Ω) = t(x)ᵀ E[θ | Ω]; an inner
    tensor maps E[θ | Ω] to E[θ_1 ⊗ θ_2 | Ω]; a root's tensor is E[⊗ θ]. Learners of tables keep
    them, too: P(variable | parents) by number of the variable, (parents …, variable).
    """

    plan: Plan
    leaves: tuple[Array, ...]  # per leaf: (states, r)
    tensors: Mapping[int, Array]  # inner node: (r_1, r_2, r); root: (r_1, …, r_K)
    marginals: tuple[Array, ...]  # per leaf: P̂(x), (states,)
    weight: float  # N
    mix: float  # share of independence mixed into answers (design 6); 0: none
    tables: Mapping[int, Array] = field(default_factory=dict)
    # of continuous columns (design 7):
    targets: Mapping[int, Array] = field(default_factory=dict)  # column -> its leaf, as it answers
    raw: tuple[Array, ...] = ()  # leaves before smoothing
    blur: tuple[float, float] = (0.0, 0.0)  # bandwidths of evidence and of answers
    floor: float = 0.0  # least P̂(e) / Π P̂(e_i) in scores; 0: none
    gaussians: Mapping[int, Array] = field(
        default_factory=dict
    )  # leaves in grid steps (gaussian_leaves)
    # of the Gram form, instead of a tensor: T[a, …, a, c] = D[a, c], zero elsewhere; root: (N,)
    diagonals: Mapping[int, Array] = field(default_factory=dict)
    linear: Linear | None = None  # beside an embedding: what its answers lean on
    network: TableForm | None = None  # tables of the graph itself, which answer then …
    beside: GraphTables | None = None  # … or are kept for the sake of its latents only
    provenance: Provenance = field(default_factory=Provenance)  # what they were learned by

    def __post_init__(self) -> None:
        plan = self.plan
        if sorted([*self.tensors, *self.diagonals]) != sorted({*plan.inner, *plan.roots}):
            raise LatentiaError("there must be one tensor for every clique of the plan.")
        for x, states in enumerate(plan.leaf_states()):
            if self.leaves[x].shape[:1] != (states,) or self.marginals[x].shape != (states,):
                raise LatentiaError(f"leaf {x} has {states} states; its tables have others.")
        ranks = {k: self.leaves[x].shape[1] for x, k in enumerate(plan.leaves)}
        for k in sorted([*self.tensors, *self.diagonals], reverse=True):
            node = plan.nodes[k]
            below = tuple(ranks[c] for c in node.children)
            shape = self._shape(k)
            if shape[: len(below)] != below or len(shape) != len(below) + (node.parent != k):
                raise LatentiaError(f"the operator of node {k} has shape {shape}, not {below}…")
            ranks[k] = shape[-1]
        self._check_tables()
        for v, table in self.targets.items():
            home = next(x for x, k in enumerate(plan.leaves) if v in plan.nodes[k].columns)
            if table.shape != self.leaves[home].shape:
                raise LatentiaError(f"the table of column {v} has shape {table.shape}.")
            table.setflags(write=False)
        learned = (*self.tensors.values(), *self.diagonals.values(), *self.tables.values())
        arrays = (*self.leaves, *self.marginals, *learned)
        if not _finite(arrays):
            raise LatentiaError("an operator is not finite; the data or the plan is at fault.")
        for array in arrays:
            array.setflags(write=False)

    @property
    def valid(self) -> bool:
        """Are these the tables of a distribution, and not signed?"""
        return bool(self.tables) or self.network is not None

    @property
    def model_graph(self) -> LatentGraph:
        """The graph that tables are of."""
        return self.plan.graph if self.network is None else self.network.graph

    @property
    def model_tables(self) -> Mapping[int, Array]:
        """P(variable | parents) by variable of `model_graph`; none of a signed model."""
        return self.tables if self.network is None else self.network.tables

    def own_tables(self, graph: LatentGraph) -> tuple[LatentGraph, Mapping[int, Array]] | None:
        """Tables of the user's own graph, with the latents that it names; None: there are none.

        A refined network has tables, too, but of states of separators, which have no names.
        """
        own = self.beside if self.network is None else self.network
        if own is not None:
            return own.graph, own.tables
        if self.tables and self.plan.graph == graph:
            return self.plan.graph, self.tables
        return None

    @property
    def embedded(self) -> bool:
        """Are columns embedded by a kernel?"""
        return bool(self.raw or self.targets or self.diagonals)

    @property
    def independent(self) -> bool:
        """Were the plain marginals chosen?"""
        choice = self.provenance.choice
        return choice is not None and choice.chosen == "marginal"

    def told(self, **changes: Any) -> Operators:
        """The same operators, with more known of how they were learned."""
        return replace(self, provenance=replace(self.provenance, **changes))

    def _shape(self, k: int) -> tuple[int, ...]:
        """Of the tensor of node k, though it be a diagonal."""
        if k in self.tensors:
            return self.tensors[k].shape
        own = self.diagonals[k].shape
        return (own[0],) * len(self.plan.nodes[k].children) + own[1:]

    def _check_tables(self) -> None:
        graph = self.plan.graph
        if self.tables and {*self.tables} != {*range(len(graph.names))}:
            raise LatentiaError("there must be one table for every variable of the graph, or none.")
        by_states: dict[int, list[int]] = {}  # tables of equal rows are looked at together
        for v, above in enumerate(graph.parents() if self.tables else ()):
            shape = tuple([graph.states[u] or 1 for u in (*above, v)])
            if self.tables[v].shape != shape:
                raise LatentiaError(f"expected probabilities of shape {shape} for variable {v}.")
            by_states.setdefault(shape[-1], []).append(v)
        for count, some in by_states.items():
            rows = np.concatenate([self.tables[v].reshape(-1, count) for v in some])
            if rows.min(initial=0.0) >= 0 and _sum_to_one(rows):
                continue
            for v in some:
                if not self.tables[v].min(initial=0.0) >= 0:
                    raise LatentiaError(f"expected probabilities of variable {v}, none below zero.")
                if not _sum_to_one(self.tables[v]):
                    raise LatentiaError(f"the rows of the table of variable {v} do not sum to one.")


def _sum_to_one(rows: Array) -> bool:
    return bool(np.abs(rows.sum(axis=-1) - 1.0).max(initial=0.0) <= 1e-6)


def _finite(arrays: Sequence[Array]) -> bool:
    """Are all numbers finite? Small arrays together: one by one they would take their time."""
    small = [a.ravel() for a in arrays if a.size < SMALL]
    large = [a for a in arrays if a.size >= SMALL]
    return all(np.isfinite(a).all() for a in (*large, np.concatenate(small or [np.zeros(0)])))


def independent(plan: Plan, marginals: Sequence[Array], weight: float) -> Operators:
    """P(x) = Π P(x_i): every separator tells nothing, rank 1."""
    ranks = {k: (1,) * len(plan.tensor_shape(k)) for k in {*plan.inner, *plan.roots}}
    return Operators(
        plan=plan,
        leaves=tuple(mu[:, None].copy() for mu in marginals),
        tensors={k: np.ones(shape) for k, shape in ranks.items()},
        marginals=tuple(marginals),
        weight=weight,
        mix=0.0,
    )


def answered_marginal(operators: Operators, v: int) -> Array:
    """P(column) as the model answers it, (states,): of a leaf of several columns, this one's."""
    plan, states = operators.plan, operators.plan.graph.states
    leaf = next(x for x, k in enumerate(plan.leaves) if v in plan.nodes[k].columns)
    members = plan.nodes[plan.leaves[leaf]].columns
    table = operators.targets[v][:, 0] if v in operators.targets else operators.marginals[leaf]
    others = tuple(axis for axis, u in enumerate(members) if u != v)
    return np.asarray(table.reshape([states[u] or 1 for u in members]).sum(axis=others))


def smooth_unseen(mu: Array, N: float) -> Array:
    """Marginal of a column in which a state never seen counts as half a row.

    Such a state says nothing about the others: as evidence it is neutral, and not impossible.

    >>> smooth_unseen(np.array([1.0, 0.0]), 9.5)
    array([0.95, 0.05])
    """
    unseen = mu == 0
    counts = mu * N + 0.5 * unseen
    return np.asarray(counts / counts.sum(), dtype=float)

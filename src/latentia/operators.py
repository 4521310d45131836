"""Operators: what was learned. A tensor per clique, a table per leaf, and what went into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.errors import LatentiaError
from latentia.plan import Plan
from latentia.typing import Array

__all__ = ["Operators", "SeparatorReport", "smooth_unseen"]


@final
@dataclass(frozen=True, slots=True)
class SeparatorReport:
    """How a separator was learned: numbers to look at, not to compute with."""

    rank: int  # directions kept, the constant included
    wanted: int  # r(S) of the plan
    correlations: tuple[float, ...] = ()  # canonical correlations of the kept directions
    condition: float = float("nan")  # of what stage 2 inverted


@final
@dataclass(frozen=True, slots=True)
class Operators:
    """Everything that messages need.

    A leaf's table maps a state x to the functional t(x) with P(x | Ω) = t(x)ᵀ E[θ | Ω]; an inner
    tensor maps E[θ | Ω] to E[θ_1 ⊗ θ_2 | Ω]; a root's tensor is E[⊗ θ].
    """

    plan: Plan
    leaves: tuple[Array, ...]  # per leaf: (states, r)
    tensors: Mapping[int, Array]  # inner node: (r_1, r_2, r); root: (r_1, …, r_K)
    marginals: tuple[Array, ...]  # per leaf: P̂(x), (states,)
    weight: float  # N
    mix: float  # share of independence mixed into answers (design 6); 0: none
    reports: Mapping[int, SeparatorReport] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        if {*self.tensors} != {*plan.inner, *plan.roots}:
            raise LatentiaError("there must be one tensor for every clique of the plan.")
        for x, states in enumerate(plan.leaf_states()):
            if self.leaves[x].shape[:1] != (states,) or self.marginals[x].shape != (states,):
                raise LatentiaError(f"leaf {x} has {states} states; its tables have others.")
        ranks = {k: self.leaves[x].shape[1] for x, k in enumerate(plan.leaves)}
        for k in sorted(self.tensors, reverse=True):
            node = plan.nodes[k]
            below = tuple(ranks[c] for c in node.children)
            shape = self.tensors[k].shape
            if shape[: len(below)] != below or len(shape) != len(below) + (node.parent != k):
                raise LatentiaError(f"the operator of node {k} has shape {shape}, not {below}…")
            ranks[k] = shape[-1]
        for array in (*self.leaves, *self.tensors.values(), *self.marginals):
            if not np.isfinite(array).all():
                raise LatentiaError("an operator is not finite; the data or the plan is at fault.")
            array.setflags(write=False)


def smooth_unseen(mu: Array, N: float) -> Array:
    """Marginal of a column in which a state never seen counts as half a row.

    Such a state says nothing about the others: as evidence it is neutral, and not impossible.

    >>> smooth_unseen(np.array([1.0, 0.0]), 9.5)
    array([0.95, 0.05])
    """
    unseen = mu == 0
    counts = mu * N + 0.5 * unseen
    return np.asarray(counts / counts.sum(), dtype=float)

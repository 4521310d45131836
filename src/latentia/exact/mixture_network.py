"""Several networks over the same columns, mixed: P(row) = Σ_m w_m P_m(row).

Posteriors are those of the members, weighed by w_m P_m(evidence). The graph, its tables and its
latents are those of the heaviest member; they are its own, not the mixture's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import LatentiaError
from latentia.exact.own_network import OwnNetwork
from latentia.inference.evidence import Evidence
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Bools, Codes


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureNetwork:
    """Members, the heaviest first, and their weights."""

    members: tuple[OwnNetwork, ...]
    weights: Array  # (members,)

    def __post_init__(self) -> None:
        fine = len(self.weights) == len(self.members) > 0 and (self.weights > 0).all()
        if not fine or not np.isclose(self.weights.sum(), 1.0):
            raise LatentiaError(f"expected a positive weight for each member, got {self.weights}.")

    @property
    def graph(self) -> LatentGraph:
        return self.members[0].graph

    @property
    def tables(self) -> Mapping[int, Array]:
        return self.members[0].tables

    def given_others(
        self, evidence: Evidence, columns: Sequence[int]
    ) -> tuple[dict[int, Array], Bools]:
        found: dict[int, Array] = {}
        impossible = np.ones(evidence.rows, dtype=bool)
        told = [each.given_others(evidence, columns) for each in self.members]
        for i in columns:
            # P(x_i = s | others) ∝ Σ w_m P_m(others) P_m(s | others)
            logs = np.stack([each.log_others(evidence, i) for each in self.members])
            shares = shares_of_members(logs, self.weights)
            found[i] = sum(s * own[i] for s, (own, _) in zip(shares, told, strict=True))
        for _, marks in told:
            impossible &= marks
        return found, impossible

    def log_evidence(self, evidence: Evidence) -> Array:
        logs = np.stack([each.log_evidence(evidence) for each in self.members])
        return np.asarray(np.logaddexp.reduce(logs + np.log(self.weights)[:, None], axis=0))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Codes, ...]:
        which = rng.choice(len(self.members), size=n, p=self.weights)
        rows = [np.empty(n, dtype=np.int64) for _ in self.graph.observed]
        for m, each in enumerate(self.members):
            place = np.flatnonzero(which == m)
            if place.size:
                for own, drawn in zip(rows, each.sample(len(place), rng), strict=True):
                    own[place] = drawn
        return tuple(rows)


def shares_of_members(logs: Array, weights: Array) -> Array:
    """P(member | evidence), (members, n); the weights where no member thinks it possible."""
    joint = logs + np.log(weights)[:, None]
    top = joint.max(axis=0)
    with np.errstate(invalid="ignore"):
        shares = np.exp(joint - top)
    shares[:, top == -np.inf] = weights[:, None]
    return np.asarray(shares / shares.sum(axis=0))

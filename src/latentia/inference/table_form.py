"""The other form of what was learned: tables of the graph itself, which need no messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from latentia.inference.evidence import Evidence
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Bools, Codes


class GraphTables(Protocol):
    """P(x) = ∏ P(x_v | parents of v), latents too."""

    @property
    def graph(self) -> LatentGraph:
        """The user's own, with latents and numbers of states."""
        ...

    @property
    def tables(self) -> Mapping[int, Array]:
        """By variable of the graph: (parents …, variable)."""
        ...


class TableForm(GraphTables, Protocol):
    """Tables that answer; columns are numbered in the graph's order."""

    def given_others(
        self, evidence: Evidence, columns: Sequence[int]
    ) -> tuple[dict[int, Array], Bools]:
        """P(column | evidence on all others), (states, n) each; and which rows are impossible."""
        ...

    def log_evidence(self, evidence: Evidence) -> Array:
        """log P(evidence), (n,); -inf where it is impossible."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Codes, ...]:
        """Rows, one array of codes per column."""
        ...

"""The graph's own tables as a model is asked: evidence by column in, answers by column out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.data.columns.column import is_present
from latentia.errors import EvidenceError
from latentia.inference.evidence import Evidence
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Bools, Codes, Label

if TYPE_CHECKING:
    from latentia.exact.table_answers import TableAnswers


@final
@dataclass(frozen=True, slots=True)
class OwnNetwork:
    """Tables and their exact answers; column i is observable i of the graph."""

    answers: TableAnswers
    leaves: tuple[int, ...]  # the column of each leaf of the evidence

    @property
    def graph(self) -> LatentGraph:
        return self.answers.graph

    @property
    def tables(self) -> Mapping[int, Array]:
        return self.answers.tables

    def given_others(
        self, evidence: Evidence, columns: Sequence[int]
    ) -> tuple[dict[int, Array], Bools]:
        codes, soft = self._read(evidence)
        impossible = np.zeros(evidence.rows, dtype=bool)
        found: dict[int, Array] = {}
        for i in columns:
            found[i], marks = self.posterior(codes, soft, self.graph.observed[i])
            impossible |= marks
        return found, impossible

    def posterior(self, codes: Codes, soft: Mapping[Label, Array], v: int) -> tuple[Array, Bools]:
        """P(variable | all others seen), (states, n); its marginal where they are impossible."""
        name = self.graph.names[v]
        others = codes.copy()
        others[:, v] = -1
        likelihoods = {other: x for other, x in soft.items() if other != name}
        possible = np.ones(len(codes), dtype=bool)
        try:
            return self.answers.posteriors(others, [name], likelihoods)[name].T, ~possible
        except EvidenceError:  # one impossible row costs one row
            possible = np.isfinite(self.answers.log_evidence(others, likelihoods))
        alone = self.answers.posteriors(None, [name])[name]
        found = np.repeat(alone, len(codes), axis=0)
        if possible.any():
            kept = {other: x if len(x) == 1 else x[possible] for other, x in likelihoods.items()}
            found[possible] = self.answers.posteriors(others[possible], [name], kept)[name]
        return found.T, ~possible

    def log_others(self, evidence: Evidence, column: int) -> Array:
        """log P(evidence on all columns but one), (n,)."""
        codes, soft = self._read(evidence)
        v = self.graph.observed[column]
        codes[:, v] = -1
        kept = {name: x for name, x in soft.items() if name != self.graph.names[v]}
        return self.answers.log_evidence(codes, kept)

    def log_evidence(self, evidence: Evidence) -> Array:
        return self.answers.log_evidence(*self._read(evidence))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Codes, ...]:
        return tuple(self.answers.sample(n, rng).T)

    def _read(self, evidence: Evidence) -> tuple[Codes, dict[Label, Array]]:
        """Codes (rows, all variables), -1 where unknown; likelihoods by name, (n or 1, states)."""
        codes = np.full((evidence.rows, len(self.graph.names)), -1, dtype=np.int64)
        soft: dict[Label, Array] = {}
        for x, i in enumerate(self.leaves):
            v = self.graph.observed[i]
            own, likelihood = evidence.codes[x], evidence.likelihoods[x]
            if own is not None:
                codes[:, v] = np.where(is_present(own), own, -1)
            elif likelihood is not None:
                soft[self.graph.names[v]] = likelihood.T
            elif evidence.corners and (corners := evidence.corners[x]) is not None:
                (around,) = corners  # a leaf is a column
                soft[self.graph.names[v]] = between_cells(*around, self.graph.states[v] or 1)
        return codes, soft


def between_cells(cells: Codes, weights: Array, states: int) -> Array:
    """Likelihoods of grid cells around positions, (n, states); all one where nothing is seen."""
    found = np.zeros((cells.shape[1], states + 1))
    row = np.arange(len(found))
    for cell, weight in zip(cells, weights, strict=True):
        np.add.at(found, (row, cell), weight)
    found[found[:, states] > 0] = 1.0  # one cell beyond: missing
    return found[:, :states]

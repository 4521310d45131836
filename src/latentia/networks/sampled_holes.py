"""Holes that are too wide to sum over: they are drawn instead, sweep by sweep (design 13).

Every missing cell and every latent is drawn in turn given all others (Gibbs sampling), for all rows
at once. What a sweep counts is mixed into the counts so far with a weight that falls (stochastic
approximation EM), so that the noise of single draws averages out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.pieces import Piece
from latentia.networks.accelerate import Prior, Tables, normalised
from latentia.networks.knowledge import Knowledge
from latentia.typing import Array, Bools, Codes

MOST_ROWS = 50_000  # that are drawn for
SETTLING = 10  # sweeps under the first tables
RESTLESS = 20  # … and those that forget all counts before them
SWEEPS = 100  # in all, after settling
FORGETTING = 0.7  # power of the weight of later sweeps


@final
@dataclass(frozen=True, slots=True)
class SampledClimb:
    """Tables by the piece's own numbers, and a bound of the log-likelihood of the rows."""

    tables: dict[int, Array]
    sweeps: int
    rows: int
    bound: float  # Σ w E[log P(row, what was drawn)]: no more than the log-likelihood


@final
class _Cells:
    """Rows of a piece with all their cells filled in, and which of them are drawn."""

    def __init__(self, piece: Piece, rows: Rows, rng: np.random.Generator) -> None:
        graph = piece.graph
        self.states = [count or 1 for count in graph.states]
        self.codes = np.zeros((len(graph.names), len(rows)), dtype=np.int64)
        self.weight = rows.weights
        inner = {a for a, _ in graph.edges}
        column = dict(zip(graph.observed, rows.codes, strict=True))
        self.gone: dict[int, Codes] = {}  # rows in which a variable is drawn
        self.silent: dict[int, Bools] = {}  # rows that say nothing of a childless variable
        for v in range(len(graph.names)):
            own = column.get(v)
            missing = np.ones(len(rows), dtype=bool) if own is None else own < 0
            filled = rng.integers(0, self.states[v], len(rows)) if own is None else own.copy()
            if own is not None and missing.any() and not missing.all():
                filled[missing] = rng.choice(own[~missing], int(missing.sum()))
            self.codes[v] = np.maximum(filled, 0)
            if missing.any() and v in inner:
                self.gone[v] = np.flatnonzero(missing)
            elif missing.any():
                self.silent[v] = missing
        own_numbers = sorted(piece.inside(dict.fromkeys(piece.families)))
        parents = graph.parents()
        self.families = {k: (*parents[k], k) for k in own_numbers}
        self.around = {v: [k for k, f in self.families.items() if v in f] for v in self.gone}

    def sweep(self, logs: Mapping[int, Array], rng: np.random.Generator) -> None:
        """Every variable that is drawn, given all others."""
        for v, rows in self.gone.items():
            total = np.zeros((len(rows), self.states[v]))
            for k in self.around[v]:
                family = self.families[k]
                step = int(np.prod([self.states[u] for u in family[family.index(v) + 1 :]]))
                flat = self._flat(family, rows) - self.codes[v, rows] * step
                own = logs[k].ravel().take(flat[:, None] + step * np.arange(self.states[v]))
                if k in self.silent:
                    own = np.where(self.silent[k][rows, None], 0.0, own)
                total += own
            total += rng.gumbel(size=total.shape)  # the largest is a draw
            self.codes[v, rows] = total.argmax(axis=1)

    def counts(self) -> dict[int, Array]:
        """Of every table, (parents …, variable)."""
        found = {}
        for k, family in self.families.items():
            shape = [self.states[u] for u in family]
            weight = np.where(self.silent[k], 0.0, self.weight) if k in self.silent else self.weight
            flat = self._flat(family, slice(None))
            total = np.bincount(flat, weight, int(np.prod(shape))).astype(float)
            found[k] = total.reshape(shape)
        return found

    def _flat(self, family: Sequence[int], rows: Codes | slice) -> Codes:
        flat = self.codes[family[0], rows].copy()
        for u in family[1:]:
            flat *= self.states[u]
            flat += self.codes[u, rows]
        return np.asarray(flat)


def climb_sampled(
    piece: Piece,
    rows: Rows,
    weight: float,
    start: Tables,
    prior: Prior,
    knowledge: Knowledge,
    rng: np.random.Generator,
) -> SampledClimb:
    """From tables to tables; `rows` are those of the piece's columns, of `weight` in all."""
    cells = _Cells(piece, rows, rng)
    scale = weight / rows.total
    logs = _logs(start)
    for _ in range(SETTLING):
        cells.sweep(logs, rng)
    counts = cells.counts()
    tables = dict(start)
    for t in range(SWEEPS):
        share = 1.0 if t < RESTLESS else (t - RESTLESS + 1) ** -FORGETTING
        fresh = cells.counts()
        counts = {k: (1 - share) * n + share * fresh[k] for k, n in counts.items()}
        tables = _maximum({k: scale * n for k, n in counts.items()}, prior, knowledge)
        logs = _logs(tables)
        cells.sweep(logs, rng)
    bound = scale * sum(float((counts[k] * logs[k])[counts[k] > 0].sum()) for k in counts)
    return SampledClimb(tables, SETTLING + SWEEPS, len(rows), bound)


def _maximum(counts: Tables, prior: Prior, knowledge: Knowledge) -> dict[int, Array]:
    if knowledge.tied:  # their pseudo-counts add up, too
        whole = knowledge.pooled({k: n + prior.counts[k] for k, n in counts.items()})
        counts = {k: n - prior.counts[k] for k, n in whole.items()}
    tables = normalised(counts, prior)
    return knowledge.held(tables) if knowledge.cells else tables


def _logs(tables: Tables) -> dict[int, Array]:
    return {k: np.log(np.maximum(t, 1e-300)) for k, t in tables.items()}

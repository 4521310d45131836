"""Mini-batch EM on islands, watched on rows that it does not learn from (design 15).

    s ← (1 − γ_t) s + γ_t (n / batch) s(batch),   γ_t = (t + 4)^−.45,   M-step after every batch

A climb ends when rows held out gain nothing in `PATIENCE` rounds; its best tables are kept. What it
costs is counted in multiplications, as seconds of an ordinary core, so that the same rows give the
same model on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.discovery.island_features import Single
from latentia.discovery.island_network import (
    IslandCounts,
    IslandLayout,
    IslandRoom,
    IslandTables,
    island_counts,
    maximise_islands,
    random_islands,
    row_likelihoods,
)
from latentia.typing import Array, Codes

EXPONENT, DELAY = 0.45, 4  # of the step size
BATCH = (100, 500)  # rows, least and most
BATCHES = 16  # of a table, at least
UPDATES = 32  # M-steps between two looks at the rows held out, at least
PATIENCE = 3
GAIN = 2e-5  # of the log-likelihood: less is none
CHUNK = 1000  # rows at a time
FIXED = 2.5e6  # multiplications in the time that a step costs an island besides, about
RATE = 1.6e10  # multiplications a second, about, on one core
LINED = 1.5e6  # … that columns of one shape whose cells lie along a line cost …
BELL = 500.0  # … and in the time of a cell under a state's normal distribution


@final
@dataclass(frozen=True, slots=True)
class Known:
    """Rows as a matrix of codes, (n, columns), -1 where missing, with their weights."""

    codes: Codes
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def weights(self) -> Array:
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def mean(self, values: Array) -> float:
        return float(np.average(values, weights=self.weight))


def known_rows(rows: Rows) -> Known:
    """Rows in graph order as a matrix."""
    return Known(np.stack([np.asarray(c) for c in rows.codes], axis=1), rows.weight)


def column_marginals(sizes: Sequence[int], rows: Known) -> list[Array]:
    """P(state) of every column; flat where nothing was seen."""
    found = []
    for c, m in enumerate(sizes):
        codes, weight = rows.codes[:, c], rows.weights
        there = codes >= 0
        count = np.bincount(codes[there], weight[there], m) + 1e-9
        found.append(count / count.sum())
    return found


@final
class IslandClimb:
    """One climb: tables that get better round by round, and the best that were met."""

    def __init__(
        self,
        layout: IslandLayout,
        train: Known,
        phi: tuple[tuple[Single, ...], tuple[Single, ...]],
        held_out: Known,
        pseudo_count: float,
        seed: int,
    ) -> None:
        self.layout, self.train, self.held_out = layout, train, held_out
        self._room = IslandRoom()
        self.pseudo_count = pseudo_count
        self._phi, self._watched = phi
        self._rng = np.random.default_rng(seed)
        self._tables = random_islands(layout, column_marginals(layout.sizes, train), self._rng)
        self._weight = None if train.weight is None else train.weight.astype(np.float32)
        self._counts: IslandCounts | None = None
        self._steps = self._stale = 0
        self.rounds = self.best_round = 0
        self.best = -np.inf  # mean log-likelihood of rows held out
        self.best_counts: IslandCounts | None = None  # that gave its tables
        self.best_rows = np.empty(0)
        self.done = False

    @property
    def best_tables(self) -> IslandTables:
        """Those of the best round; of the start before any."""
        if self.best_counts is None:
            return self._tables
        return maximise_islands(self.layout, self.best_counts, self.pseudo_count)

    @property
    def batch(self) -> int:
        """Rows between two M-steps."""
        least, most = BATCH
        return min(max(len(self.train) // BATCHES, least), most)

    @property
    def epochs(self) -> int:
        """Passes over the rows a round."""
        return max(1, round(UPDATES / max(1, len(self.train) // self.batch)))

    @property
    def cost(self) -> float:
        """Seconds of a round, by its multiplications."""
        steps = self.epochs * max(1, len(self.train) // self.batch)
        learned = 2.0 * self.layout.cost * len(self.train) * self.epochs
        told = self.layout.cost * len(self.held_out)
        fixed = FIXED * len(self.layout.features)
        fixed += LINED * self.layout.lined + BELL * self.layout.bells
        return (learned + told + fixed * steps) / RATE

    @property
    def counts(self) -> IslandCounts:
        """Those of the last round."""
        return self._all_counts() if self._counts is None else self._counts

    def go_on_from(self, other: IslandClimb) -> None:
        """Start at the best tables of another climb, with steps as small as its were there."""
        self._tables = other.best_tables
        self._steps = other.best_round * other.epochs * max(1, len(other.train) // other.batch)

    def advance(self, rounds: int, watched: bool = True) -> float:
        """Some rounds more, looked at or not; what they cost in seconds, counted."""
        spent = 0.0
        for _ in range(rounds):
            if self.done:
                break
            if self._counts is None:
                self._counts = self._all_counts()
                self._tables = maximise_islands(self.layout, self._counts, self.pseudo_count)
                spent += 2.0 * self.layout.cost * len(self.train) / RATE
            for _ in range(self.epochs):
                self._epoch()
            spent += self.cost
            if watched:
                self._look()
        return spent

    def _look(self) -> None:
        found = likelihoods_of(self.layout, self._tables, self._watched)
        level = self.held_out.mean(found)
        self.rounds += 1
        self._stale = 0 if level > self.best + GAIN * abs(level) else self._stale + 1
        if level > self.best:
            self.best, self.best_rows, self.best_round = level, found, self.rounds
            self.best_counts = self._counts
        if self._stale >= PATIENCE:
            self.done, self._counts, self._room = True, None, IslandRoom()  # let the memory go

    def _epoch(self) -> None:
        n = len(self.train)
        parts, order = max(1, n // self.batch), self._rng.permutation(n)
        for some in [order] if parts == 1 else np.array_split(order, parts):
            weight = None if self._weight is None else self._weight[some]
            phi = [self._room.taken(i, own, some) for i, own in enumerate(self._phi)]
            counts, _ = island_counts(self.layout, self._tables, phi, weight, self._room)
            share = np.float32((self._steps + DELAY) ** -EXPONENT)
            assert self._counts is not None
            self._counts = self._counts.mixed(
                np.float32(1.0) - share, counts, share * np.float32(n / len(some))
            )
            self._tables = maximise_islands(self.layout, self._counts, self.pseudo_count)
            self._steps += 1

    def _all_counts(self) -> IslandCounts:
        found: IslandCounts | None = None
        for start in range(0, len(self.train), CHUNK):
            part = slice(start, start + CHUNK)
            weight = None if self._weight is None else self._weight[part]
            counts, _ = island_counts(
                self.layout, self._tables, [own[part] for own in self._phi], weight, self._room
            )
            found = counts if found is None else found + counts
        assert found is not None
        return found


def likelihoods_of(layout: IslandLayout, tables: IslandTables, phi: Sequence[Single]) -> Array:
    """log P(row), (n,), some rows at a time."""
    n, room = len(phi[0]), IslandRoom()
    parts = [
        row_likelihoods(layout, tables, [own[start : start + CHUNK] for own in phi], room)
        for start in range(0, n, CHUNK)
    ]
    return np.concatenate(parts) if parts else np.empty(0)

"""Mini-batch EM on islands, watched on rows that it does not learn from (design 15).

    s ← (1 − γ_t) s + γ_t (n / batch) s(batch),   γ_t = (t + 4)^−.45,   M-step after every batch

A climb ends when rows held out gain nothing in `PATIENCE` rounds; its best tables are kept. What it
costs is counted (island_prices.py), so that the same rows give the same model on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.discovery.island_network import (
    IslandCounts,
    IslandLayout,
    IslandTables,
    maximise_islands,
    random_islands,
)
from latentia.discovery.island_prices import EPOCH, WATCHED, batch_price, row_price
from latentia.discovery.island_steps import IslandSteps, Phi, island_steps
from latentia.typing import Array, Codes

EXPONENT, DELAY = 0.45, 4  # of the step size
BATCH = (100, 500)  # rows, least and most
BATCHES = 16  # of a table, at least
UPDATES = 32  # M-steps between two looks at the rows held out, at least
PATIENCE = 3
GAIN = 2e-5  # of the log-likelihood: less is none


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

    def marginals(self, sizes: Sequence[int]) -> list[Array]:
        """P(state) of every column; flat where nothing was seen."""
        found = []
        for c, m in enumerate(sizes):
            codes, weight = self.codes[:, c], self.weight
            there = codes >= 0
            own = codes[there], None if weight is None else weight[there]
            count = np.bincount(*own, m) + 1e-9
            found.append(count / count.sum())
        return found


def known_rows(rows: Rows) -> Known:
    """Rows in graph order as a matrix."""
    return Known(np.stack([np.asarray(c, np.int32) for c in rows.codes], axis=1), rows.weight)


@final
class IslandClimb:
    """One climb: tables that get better round by round, and the best that were met.

    `phi` may give features of rows that are known already (island_steps.py).
    """

    def __init__(
        self,
        layout: IslandLayout,
        train: Known,
        held_out: Known,
        pseudo_count: float,
        seed: int,
        phi: Callable[[IslandLayout], Phi] | None = None,
    ) -> None:
        self.layout, self.train, self.held_out = layout, train, held_out
        self.pseudo_count = pseudo_count
        self._phi = phi
        self._rng = np.random.default_rng(seed)
        self._first = random_islands(layout, train.marginals(layout.sizes), self._rng)
        self._going: IslandSteps | None = None
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
            return self._first
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
        """Seconds of a round, counted."""
        own, parts = row_price(self.layout), max(1, len(self.train) // self.batch)
        epoch = EPOCH + own * len(self.train) + batch_price(self.layout) * parts
        return self.epochs * epoch + WATCHED * own * len(self.held_out)

    @property
    def counts(self) -> IslandCounts:
        """Those of the last round; of the best one when it is done."""
        if self.done and self.best_counts is not None:
            return self.best_counts
        return self._begun().counts

    def go_on_from(self, other: IslandClimb) -> None:
        """Start at the best tables of another climb, with steps as small as its were there."""
        self._first = other.best_tables
        self._steps = other.best_round * other.epochs * max(1, len(other.train) // other.batch)

    def advance(self, rounds: int, watched: bool = True) -> float:
        """Some rounds more, looked at or not; what they cost in seconds, counted."""
        spent = 0.0
        for _ in range(rounds):
            if self.done:
                break
            if self._going is None:
                self._begun()
                spent += row_price(self.layout) * len(self.train)
            for _ in range(self.epochs):
                self._epoch()
            spent += self.cost
            if watched:
                self._look()
        return spent

    def settle(self) -> None:
        """A step of EM on all rows: of batches, the last ones weigh most, and chance with them."""
        self._begun().count_all()

    def likelihoods(self) -> Array:
        """log P(row) of the rows held out, after the last round."""
        return self._begun().likelihoods()

    def _begun(self) -> IslandSteps:
        """The steps; at first tables of all rows' counts."""
        if self._going is None:
            rows = (self.train.codes, self.train.weight, self.held_out.codes)
            self._going = island_steps(self.layout, *rows, self.pseudo_count, self._phi)
            self._going.start(self._first)
            self._going.count_all()
        return self._going

    def _look(self) -> None:
        going = self._begun()
        found = going.likelihoods()
        level = self.held_out.mean(found)
        self.rounds += 1
        self._stale = 0 if level > self.best + GAIN * abs(level) else self._stale + 1
        if level > self.best:
            self.best, self.best_rows, self.best_round = level, found, self.rounds
            self.best_counts = going.counts
        if self._stale >= PATIENCE:
            self.done, self._going = True, None  # let the memory go

    def _epoch(self) -> None:
        n = len(self.train)
        count, order = max(1, n // self.batch), self._rng.permutation(n)
        parts = [order] if count == 1 else np.array_split(order, count)
        shares = (self._steps + np.arange(count) + DELAY) ** -EXPONENT
        own = [np.float32(1.0) - np.float32(share) for share in shares]
        added = [
            np.float32(share) * np.float32(n / len(some))
            for share, some in zip(shares, parts, strict=True)
        ]
        self._begun().batches(parts, own, added)
        self._steps += count

"""How many states a latent class has: as many as predict rows best that were not learned from.

The closed form's count is quick and a good first guess where rows are many; few rows hide classes
from it, and it looks at ten directions only. From there candidates are tried one by one, upwards as
long as they gain, else downwards, and judged as `compare` judges them: of those that are as good as
the best on held-out rows, within one standard error, the one of least BIC.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from latentia.assess.comparison import mean_and_error
from latentia.closed_form.state_counts import binned, latent_states
from latentia.data.columns.column import Column
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import deal_rows
from latentia.errors import LatentiaError, PlanError
from latentia.model.judging import FOLDS, LIGHT
from latentia.model.learners import has_column_parents
from latentia.networks.accelerate import PSEUDO_COUNTS
from latentia.networks.candidates import Fitted, fit_candidate
from latentia.networks.piece_states import states_of_pieces
from latentia.structure.graph import LatentGraph
from latentia.typing import Array

CLASS_SAMPLE = 20_000  # rows by which the states of a latent class are counted
MOST_ROWS = 5000
MOST_CELLS = 250_000  # of the rows that tell: fewer of them where they are wide
FEWEST = 50  # rows, below which nothing is tried
FEW = 1000  # rows up to which each fold is held out once
MOST_STATES = 64
DRY = 2  # candidates in a row that are no better
NATS = 2.0  # of all held-out rows together: less tells nothing (a ratio at the usual 5 %)
QUICK = replace(
    LIGHT,
    smoothing=PSEUDO_COUNTS,
    local=1,
    random=2,
    enough=2e-2,
    closely=2e-2,
    precise=False,
)


def counted_class(graph: LatentGraph, v: int, source: Source, guess: int) -> int:
    """States of the latent `v` that predict best, tried from a first guess on."""
    rng = np.random.default_rng(0)
    most = max(500, min(MOST_ROWS, MOST_CELLS // max(len(graph.observed), 1)))
    pool = source.sample(most, rng)
    if pool.total < FEWEST or not all((c >= 0).any() for c in pool.codes):
        return guess
    deals = deal_rows(pool, FOLDS, rng)[: FOLDS if pool.total <= FEW else 1]
    deals = [deal for deal in deals if all((c >= 0).any() for c in deal[0].codes)]
    if not deals:
        return guess
    trials = _Trials(graph, v, deals)
    trials.climb(min(max(guess, 1), trials.most))
    return trials.best()


def counted_latents(graph: LatentGraph, columns: Sequence[Column], first: Source) -> LatentGraph:
    """Numbers of states of latents that have none, continuous columns counted in bins."""
    if all(graph.states[v] is not None for v in graph.latent):
        return graph
    some = first.sample(CLASS_SAMPLE, np.random.default_rng(0))
    rows, sizes = binned(some, [c.cells for c in columns])
    names = [graph.names[v] for v in graph.observed]
    known = graph.with_states(dict(zip(names, sizes, strict=True)))
    try:
        found = count_states(known, LocalRows(rows))
    except LatentiaError:  # too wide, or a column without a value in the sample
        found = known.with_states(
            {known.names[v]: known.states[v] or 2 for v in sorted(known.latent)}
        )
    (*unknown,) = [v for v in sorted(known.latent) if known.states[v] is None]
    counts = {known.names[v]: max(found.states[v] or 2, 2) for v in unknown}
    if len(unknown) == 1 and is_class(known, unknown[0]):
        (v,) = unknown
        best = counted_class(known, v, LocalRows(rows), counts[known.names[v]])
        counts[known.names[v]] = max(best, 2)
    return graph.with_states(counts)


def count_states(graph: LatentGraph, source: Source) -> LatentGraph:
    """Numbers of states of latents that have none: by ranks, or by fits of pieces.

    Pieces where columns are parents, as for the tables themselves, and where no plan can be made.
    """
    if not graph.directed:
        return latent_states(graph, source)
    if has_column_parents(graph):
        return states_of_pieces(graph, source)
    try:
        return latent_states(graph, source)
    except PlanError:
        return states_of_pieces(graph, source)


def is_class(graph: LatentGraph, v: int) -> bool:
    """Does the latent tell columns that nothing else tells, and is told by none?"""
    parents = graph.parents()
    children = [b for a, b in graph.edges if a == v]
    alone = all(parents[b] == (v,) and b not in graph.latent for b in children)
    inner = {a for a, _ in graph.edges}
    return graph.directed and not parents[v] and alone and not inner.intersection(children)


def tellable_states(sizes: Sequence[int]) -> int:
    """States of a class that columns can tell apart: the rank between two hands of them, at most.

    >>> tellable_states([2, 2, 2]), tellable_states([2, 2, 2, 2])
    (2, 4)
    """
    hands = [1, 1]
    for size in sorted(sizes, reverse=True):
        hands[int(hands[1] < hands[0])] *= size
    return min(hands)


@final
@dataclass(slots=True)
class _Trials:
    """Candidates that were tried: their losses on held-out rows, and BIC on the others."""

    graph: LatentGraph
    v: int
    deals: Sequence[tuple[Rows, Rows]]
    fits: dict[int, list[Fitted]] = field(default_factory=dict)
    losses: dict[int, Array] = field(default_factory=dict)

    def climb(self, first: int) -> None:
        """Upwards in growing steps while that gains; downwards if it does not from the start."""
        self.try_number(first)
        states, step, dry = first, 1, 0
        while dry < DRY and states + step <= self.most:
            states += step
            before = self.best()
            self.try_number(states)
            dry = 0 if self.best() != before else dry + 1
            step = step if dry else step + (states - first) // 3
        below = first - 1
        while below >= 1 and self.best() == below + 1:
            self.try_number(below)
            below -= 1
        self._between()

    def _between(self) -> None:
        """Numbers that growing steps left out, next to the best."""
        best = self.best()
        near = sorted(self.fits)
        low = max((k for k in near if k < best), default=best)
        for states in range(low + 1, best):
            self.try_number(states)

    @property
    def most(self) -> int:
        """States that so many rows can teach, and columns can tell apart."""
        rows = sum(large.total for large, _ in self.deals) / len(self.deals)
        told = tellable_states(
            [self.graph.states[b] or 1 for a, b in self.graph.edges if a == self.v]
        )
        return int(min(MOST_STATES, max(rows / 10, 2), told))

    def try_number(self, states: int) -> None:
        """Learn a candidate from all but each fold."""
        if states in self.fits:
            return
        sized = self.graph.with_states({self.graph.names[self.v]: states})
        smaller = max((k for k in self.fits if k < states), default=None)
        fits, losses = [], []
        for i, (large, held) in enumerate(self.deals):
            before = None if smaller is None else self.fits[smaller][i]
            rng = np.random.default_rng((states, i))
            found = fit_candidate(sized, LocalRows(large, threads=1), QUICK, rng, before)
            fits.append(found)
            losses.append(-found.log_rows(held))
        self.fits[states], self.losses[states] = fits, np.concatenate(losses)

    def best(self) -> int:
        """Of those within one standard error of the least loss, or two nats, that of least BIC.

        Candidates that are nearly the same have next to no error between them.
        """
        weight = np.concatenate([held.weights for _, held in self.deals])
        first = min(self.losses, key=lambda k: float(self.losses[k] @ weight))
        good = []
        for states, loss in self.losses.items():
            behind, error = mean_and_error(loss - self.losses[first], weight)
            if behind <= max(error, NATS / weight.sum()):
                good.append(states)
        return min(good, key=self._bic)

    def _bic(self, states: int) -> float:
        total = 0.0
        for fit, (large, _) in zip(self.fits[states], self.deals, strict=True):
            total += fit.parameters * math.log(large.total) - 2.0 * fit.log_likelihood
        return total / len(self.deals)

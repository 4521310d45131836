"""Candidates judged: by criteria on their own rows, and by what they lose on others (design 6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias, final

import numpy as np

from latentia.assess.comparison import Candidate, Comparison, mean_and_error
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import deal_rows
from latentia.errors import DataError
from latentia.model.candidates_mixed import MixedRoad
from latentia.networks.candidates import Fitted, bootstrap_ratios, fit_candidate
from latentia.networks.piece_learning import TableSettings
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label

Counts: TypeAlias = tuple[int, ...]

FOLDS = 5
FEW, SEVERAL = 2000, 8000  # rows: all folds are held out below, two of them, or one beyond
DRAWN_CLOSELY = 1e-5  # gain for each parameter still to come, on drawn rows
LIGHT = TableSettings(closed_form=0, local=2, random=3, later_local=1, later_random=4, rounds=1)


@final
@dataclass(frozen=True, slots=True)
class TableRoad:
    """Candidates by the graph's own tables."""

    graph: LatentGraph  # with the numbers of states of all columns
    settings: TableSettings
    held: TableSettings  # of candidates that are judged by other rows

    def sized(self, states: Mapping[Label, int]) -> LatentGraph:
        return self.graph.with_states(dict(states))

    def fit(
        self,
        states: Mapping[Label, int],
        source: Source,
        rng: np.random.Generator,
        before: Fitted | None,
        held: bool = False,
    ) -> Fitted:
        """One candidate, from splits of a smaller one and starts of its own."""
        return fit_candidate(
            self.sized(states), source, self.held if held else self.settings, rng, before
        )

    def ratios(
        self, small: Fitted, large: Fitted, rows: Rows, count: int, rng: np.random.Generator
    ) -> Array:
        """Likelihood ratios where the smaller candidate is true."""
        own, other = self.sized(small.states), self.sized(large.states)
        light = replace(self.settings, local=1, random=2, precise=False)
        settings = replace(light, closely=DRAWN_CLOSELY)
        return bootstrap_ratios((own, small), other, rows, count, settings, rng)


def judge(
    road: TableRoad | MixedRoad,
    ranges: Mapping[Label, Sequence[int]],
    source: Source,
    pool: Rows,
    bootstrap: int,
    rng: np.random.Generator,
) -> Comparison:
    """Every combination of numbers of states, smallest first."""
    names = list(ranges)
    counts = sorted(product(*ranges.values()), key=lambda c: (int(np.prod(c)), c))
    seconds = dict.fromkeys(counts, 0.0)
    fits = _path(names, counts, seconds, lambda n, b: road.fit(n, source, rng, b))
    losses, weight = held_out_losses(road, names, counts, seconds, pool, rng)
    best = min(counts, key=lambda c: float(losses[c] @ weight))
    found = []
    for c in counts:
        smaller = _smaller(c, counts)
        before = None if smaller is None else fits[smaller]
        started, p_value = time.perf_counter(), None
        if bootstrap and before is not None:
            drawn = road.ratios(before, fits[c], pool, bootstrap, rng)
            ratio = 2.0 * (fits[c].log_likelihood - before.log_likelihood)
            p_value = (1.0 + float((drawn >= ratio).sum())) / (bootstrap + 1.0)
        entropy = _entropy(fits[c], pool)
        seconds[c] += time.perf_counter() - started
        loss = mean_and_error(losses[c], weight)
        behind = mean_and_error(losses[c] - losses[best], weight)
        smallest = min((float(s.min()) for s in fits[c].shares), default=1.0)
        found.append(
            Candidate(
                dict(zip(names, c, strict=True)),
                fits[c].log_likelihood,
                fits[c].parameters,
                _weight(source),
                entropy,
                smallest,
                *loss,
                *behind,
                seconds[c],
                fits[c].converged,
                p_value,
            )
        )
    return Comparison(tuple(found), float(weight.sum()), _notes(found))


def _weight(source: Source) -> float:
    return source.fold(lambda rows: Moments("rows", rows.total, len(rows), {})).weight


def _notes(found: Sequence[Candidate]) -> tuple[str, ...]:
    still = [c.name for c in found if not c.converged]
    if not still:
        return ()
    return (f"not yet at rest, so that a little likelihood is missing: {', '.join(still)}.",)


def _path(
    names: Sequence[Label],
    counts: Sequence[Counts],
    seconds: dict[Counts, float],
    fit: Callable[[dict[Label, int], Fitted | None], Fitted],
) -> dict[Counts, Fitted]:
    """Every candidate, each after a smaller one."""
    fits: dict[Counts, Fitted] = {}
    for c in counts:
        started = time.perf_counter()
        smaller = _smaller(c, list(fits))
        before = None if smaller is None else fits[smaller]
        fits[c] = fit(dict(zip(names, c, strict=True)), before)
        seconds[c] += time.perf_counter() - started
    return fits


def _smaller(c: Counts, others: Iterable[Counts]) -> Counts | None:
    """The largest other with no latent of more states: whose states can be split."""
    below = [o for o in others if o != c and all(a <= b for a, b in zip(o, c, strict=True))]
    return max(below, key=lambda o: (int(np.prod(o)), o), default=None)


def held_out_losses(
    road: TableRoad | MixedRoad,
    names: Sequence[Label],
    counts: Sequence[Counts],
    seconds: dict[Counts, float],
    pool: Rows,
    rng: np.random.Generator,
) -> tuple[dict[Counts, Array], Array]:
    """-log P(row) of held-out rows by every candidate, and their weights.

    Rows fall to folds by their colours, whatever they and their states are called.
    """
    if pool.total < 2 * FOLDS:
        raise DataError(
            f"expected {2 * FOLDS} rows at least, so that some can be held out, got {pool.total:g}."
        )
    deals = deal_rows(pool, FOLDS, rng)
    few = FOLDS if pool.total <= FEW else 2 if pool.total <= SEVERAL else 1
    losses: dict[Counts, list[Array]] = {c: [] for c in counts}
    weights = []
    for large, held in deals[:few]:
        part, seed = LocalRows(large), rng.spawn(1)[0]
        fits = _path(names, counts, seconds, _fit_held(road, part, seed))
        for c in counts:
            losses[c].append(-fits[c].log_rows(held))
        weights.append(held.weights)
    return {c: np.concatenate(each) for c, each in losses.items()}, np.concatenate(weights)


def _fit_held(
    road: TableRoad | MixedRoad, part: Source, rng: np.random.Generator
) -> Callable[[dict[Label, int], Fitted | None], Fitted]:
    return lambda states, before: road.fit(states, part, rng, before, held=True)


def _entropy(fit: Fitted, rows: Rows) -> float:
    """R²: 1 - the mean entropy of the latents given a row, over that of knowing nothing."""
    most = float(sum(np.log(len(shares)) for shares in fit.shares))
    if not most > 0:
        return 1.0  # a single state is certain
    total = 0.0
    for p in fit.posteriors(rows):  # (n, states)
        total -= float((p * np.log(np.maximum(p, 1e-300))).sum(axis=1) @ rows.weights)
    return 1.0 - total / (rows.total * most)

"""Learning a pool: members of a part of the rows, weights by the rest, members of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.data.columns.column import Column, is_present
from latentia.data.columns.masses import cell_values
from latentia.data.rows import Rows
from latentia.data.sources.row_sample import split_rows
from latentia.inference.many_rows import Asked, every_column
from latentia.inference.operators import Operators
from latentia.linear_algebra import one_thread
from latentia.pooling.cell_scores import TableScores, score_columns
from latentia.pooling.column_pool import ColumnPool, LogitMember, Pool, ToldScores
from latentia.pooling.gaussian_scores import GaussianScores, fit_gaussian
from latentia.pooling.hole_odds import hole_odds
from latentia.pooling.leaf_forest import LeafForest, grow_forest
from latentia.pooling.learning_chain import heaps_alone, learn_row_chain, seconds_to_chain
from latentia.pooling.pool_weights import (
    DRAWN_POWER,
    DRAWN_SHARPNESS,
    chances_of,
    crps_form,
    least_form,
    likeliest,
    power_gains,
    settled_sharpness,
    sharpness_gains,
)
from latentia.pooling.state_logits import fit_logits
from latentia.time_left import FOREVER, Pace, TimeLeft
from latentia.typing import Array, Bools, CellArray, Codes

FEWEST_ROWS = 40  # so that some can be held out
MOST_COLUMNS = 100
WORK = 1.2e6  # rows times columns times columns, at most …
FEW_ROWS = 2000  # … but not fewer rows than this
HELD_OUT = (0.2, 0.3)  # of the rows, at least and at most …
ENOUGH = 150.0  # … so that there are as many as this
MOST_HELD_OUT = 400
TREES = (16, 40)  # least and most …
GROWN = 48_000  # … rows times trees, about
TRIAL_ROWS, TRIAL_TREES = 1500, 12  # of a forest that is weighed
MOST_TRIED = 10  # features that a split looks at, about
LIGHT = 0.25  # weight of a forest below which that of the trial is kept
SMALLEST, SMALLEST_OF_STATES = 3, 5  # rows of a leaf
MISSING = (0.99, 0.25)  # level of cells missing in training; share of the columns
SECONDS = 0.15, 0.008  # for each column, and each other one: a pool, about
LEAST_TIME = 0.1, 0.012  # seconds, and for each column, below which no pool is begun
FOR_CHAIN, WEIGHED = 0.27, 0.75  # of the time that is left: a chain; of the rest, weights
NO_CHAIN = "a chain that draws rows (sample draws from the joint model)"
FREEDOMS = (0.03, 1.0, 30.0)  # variance of a logit's slopes, rising; rows held out choose


def can_pool(columns: Sequence[Column], weight: float) -> bool:
    """Is the table mixed, large enough to hold rows out, and not too wide?"""
    mixed = any(c.continuous for c in columns)
    return mixed and weight >= FEWEST_ROWS and 2 <= len(columns) <= MOST_COLUMNS


def rows_to_pool(columns: int) -> int:
    """Rows that members beside the joint model learn from, at most."""
    return int(max(FEW_ROWS, WORK / columns**2))


def seconds_to_pool(columns: int) -> float:
    """That a pool takes, about, with its chain."""
    each, more = SECONDS
    return columns * (each + more * columns)


def least_to_pool(columns: int) -> float:
    """Seconds that are left, at least, where a pool is begun."""
    least, each = LEAST_TIME
    return least + each * columns


def learn_pool(
    columns: Sequence[Column],
    rows: Rows,
    joint: Callable[[Rows], Operators],
    seen: Sequence[Array],
    rng: np.random.Generator,
    left: TimeLeft = FOREVER,
) -> tuple[Pool | None, tuple[str, ...]]:
    """A pool beside a joint model that `joint` learns from rows; `seen`: values of columns.

    Beside it, what there was no time for.
    """
    if not left.fits(least_to_pool(len(columns))):
        return None, (f"models beside the joint one for {len(columns)} columns", NO_CHAIN)
    draws = left.fits(seconds_to_chain(len(columns)) / FOR_CHAIN)
    own = left.part(1.0 - FOR_CHAIN) if draws else left
    share = float(np.clip(ENOUGH / max(rows.total, 1.0), *HELD_OUT))
    large, small = split_rows(rows, share, rng)
    if len(small) > MOST_HELD_OUT:
        small = small[:MOST_HELD_OUT]
    scores = score_columns(columns, rows)
    with one_thread():
        trial = _Members(columns, scores, large[:TRIAL_ROWS], TRIAL_TREES)
        near = tuple(c.nearest(x) for c, x in zip(columns, small.codes, strict=True))
        said = every_column(joint(large), columns, Asked(len(small), near, None)).values
        weighed, no_weights = _weighed_in_time(trial, small, said, own.part(WEIGHED))
        trees = int(np.clip(GROWN / len(rows), *TREES))
        whole = _Members(columns, scores, rows, trees)
        pools, no_members = _learned_in_time(whole, weighed, own)
        chain = learn_row_chain(columns, scores, rows, seen, rng, left) if draws else None
        drawing = heaps_alone(columns, rows, seen) if chain is None else chain
    no_chain = (NO_CHAIN,) if chain is None else ()
    found = Pool(scores, whole.gaussian, tuple(pools), _most_missing(rows), drawing)
    return found, (*no_weights, *no_members, *no_chain)


def _weighed_in_time(
    trial: _Members, held: Rows, joint: Sequence[Array], left: TimeLeft
) -> tuple[list[_Weighed], tuple[str, ...]]:
    """Members of each column, weighed; where time is over, the joint model alone."""
    pace, found, many = Pace(left), list[_Weighed](), len(trial.columns)
    while len(found) < many and pace.goes_on():
        found.append(_weighed(trial, len(found), held, joint[len(found)]))
    short = many - len(found)
    found += [_Weighed(ColumnPool((1.0, 0.0, 0.0)))] * short
    return found, (f"models beside the joint one for {short} of {many} columns",) * (short > 0)


def _learned_in_time(
    whole: _Members, weighed: Sequence[_Weighed], left: TimeLeft
) -> tuple[list[ColumnPool], tuple[str, ...]]:
    """Members from all rows; where time is over, those of the trial."""
    pace, short = Pace(left), 0
    found = [_without_idle(own) for own in _sharpened(whole.columns, weighed)]
    for i, own in enumerate(found):
        if own.weights[0] == 1.0:
            continue
        if pace.goes_on():
            found[i] = whole.learned_again(i, own, weighed[i].freedom)
        else:
            short += 1
    word = f"models beside the joint one from all rows for {short} of {len(found)} columns"
    return found, (word,) * (short > 0)


def _without_idle(pool: ColumnPool) -> ColumnPool:
    """Members that count."""
    _, second, third = pool.weights
    logit = pool.logit if second > 0 else None
    return replace(pool, logit=logit, forest=pool.forest if third > 0 else None)


def _most_missing(rows: Rows) -> int:
    level, share = MISSING
    lacking = np.sum([~is_present(np.asarray(x)) for x in rows.codes], axis=0)
    return int(max(np.quantile(lacking, level), share * len(rows.codes)))


class _Members:
    """Members beside the joint model, learned from some rows."""

    def __init__(
        self, columns: Sequence[Column], scores: TableScores, rows: Rows, trees: int
    ) -> None:
        self.columns, self.scores, self.rows, self.trees = columns, scores, rows, trees
        self.features = scores.of_codes(rows.codes, len(rows))
        self.gaussian: GaussianScores = fit_gaussian(self.features, rows.weights)
        self._told: tuple[int, ToldScores] | None = None  # of the column that was asked for last

    def column_pool(
        self,
        place: int,
        weights: tuple[float, float, float],
        spread: float,
        freedom: float | None = None,
    ) -> ColumnPool:
        """The members of a column that count; a logit where it is told how free that is."""
        column = self.columns[place]
        logit, forest = None, None
        if weights[0] < 1.0:
            there = is_present(np.asarray(self.rows.codes[place]))
            told = self._told_of(place, there)
            kept = self.rows.where(there)
            if weights[1] > 0 and freedom is not None:
                logit = self.logits(place, [freedom])[0]
            if weights[2] > 0:
                forest = self._forest(column, kept, place, told)
        return ColumnPool(weights, spread, logit, forest)

    def logits(self, place: int, freedoms: Sequence[float]) -> list[LogitMember]:
        """Of states: on what the other columns' scores tell, drawn to zero."""
        there = is_present(np.asarray(self.rows.codes[place]))
        told, rows = self._told_of(place, there), self.rows.where(there)
        features = told.features[:, ~told.own]
        seen, codes = np.unique(np.asarray(rows.codes[place]), return_inverse=True)
        states, many = tuple(map(int, seen)), len(freedoms)
        if len(states) == 1:
            return [LogitMember(states, np.zeros(1), np.zeros((1, features.shape[1])))] * many
        found = fit_logits(features, codes, rows.weights, freedoms)
        return [LogitMember(states, own.intercept, own.slopes) for own in found]

    def odds_of_holes(self, place: int, asked: Array, weight: Array) -> Array | None:
        """Odds that rows which have the column would lack it, by features of the others."""
        missing = ~is_present(np.asarray(self.rows.codes[place]))
        own = self.scores.own(place)
        if not missing.any():
            return None
        others = self.gaussian.filled(self.features, own)[0][:, ~own]
        return hole_odds(others, missing, self.rows.weights, asked, weight)

    def _told_of(self, place: int, there: Bools) -> ToldScores:
        """What the rows that have the column tell of it."""
        if self._told is None or self._told[0] != place:
            own = self.scores.own(place)
            filled = self.gaussian.filled(self.features[there], own)
            self._told = place, ToldScores(*filled, own)
        return self._told[1]

    def learned_again(self, place: int, trial: ColumnPool, freedom: float | None) -> ColumnPool:
        """The members of a trial from these rows; a forest that counts little stays as it is."""
        first, second, third = trial.weights
        light = 0.0 < third < LIGHT
        asked = (first, second, 0.0) if light else trial.weights
        found = self.column_pool(place, asked, trial.spread, freedom)
        forest = trial.forest if light else found.forest
        return replace(trial, logit=found.logit, forest=forest)

    def _forest(self, column: Column, rows: Rows, place: int, told: ToldScores) -> LeafForest:
        places = np.asarray(rows.codes[place])
        cells = np.asarray(column.nearest(places), dtype=np.int64)
        target: CellArray = cells
        if column.continuous:
            target = self.scores.columns[place].of_places(places)[:, 0]
        smallest = SMALLEST if column.continuous else SMALLEST_OF_STATES
        return grow_forest(
            told.features,
            target,
            cells,
            column.cells,
            rows.weight,
            self.trees,
            smallest,
            min(1.0, MOST_TRIED / max(told.features.shape[1], 1)),
            not column.continuous,
            place,
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Weighed:
    """A column's members weighed by rows held out."""

    pool: ColumnPool
    gains: Array | None = None  # what each sharpness gains
    freedom: float | None = None  # of states: of the logit


def _sharpened(columns: Sequence[Column], weighed: Sequence[_Weighed]) -> list[ColumnPool]:
    """Pools of all columns, as sharp as rows held out say; numbers and states by themselves."""
    found = [own.pool for own in weighed]
    for kind in (True, False):
        gains = {
            i: own.gains
            for i, own in enumerate(weighed)
            if own.gains is not None and columns[i].continuous == kind
        }
        if gains:
            pull = DRAWN_SHARPNESS if kind else DRAWN_POWER
            settled = settled_sharpness(np.stack([*gains.values()]), pull)
            for i, sharpness in zip(gains, settled, strict=True):
                found[i] = replace(found[i], sharpness=sharpness)
    return found


def _weighed(trial: _Members, place: int, held: Rows, joint: Array) -> _Weighed:
    """By CRPS of numbers, by log loss of states."""
    alone = _Weighed(ColumnPool((1.0, 0.0, 0.0)))
    column, own = trial.columns[place], trial.scores.own(place)
    places = np.asarray(held.codes[place])
    there = is_present(places)
    taught = is_present(np.asarray(trial.rows.codes[place]))
    if there.sum() < 10 or taught.sum() < 20 or not (~own).any():
        return alone
    rows = held.where(there)
    filled = trial.gaussian.filled(trial.scores.of_codes(rows.codes, len(rows)), own)
    told, scores = ToldScores(*filled, own), trial.scores.columns[place]
    spread = 1.0
    if column.continuous:
        truth = scores.of_places(places[there])[:, 0]
        gap = (truth - filled[0][:, own][:, 0]) ** 2 / filled[1][:, own][:, 0]
        spread = float(np.sqrt(np.clip(np.average(gap, weights=rows.weights), 1.0, 4.0)))
    pool = trial.column_pool(place, (0.0, 0.5, 0.5), spread)
    cells = np.asarray(column.nearest(places[there]), dtype=np.int64)
    freedom = None
    if not column.continuous:
        logit, freedom = _freest(trial, place, told, cells, rows.weights)
        pool = replace(pool, logit=logit)
    masses = np.stack(
        [joint[:, there], *(pool.beside(m, column.cells, scores, told) for m in (1, 2))]
    )
    if column.continuous:
        values = cell_values(column)  # type: ignore[arg-type]
        form = crps_form(values, masses, values[cells], rows.weights)
        found = least_form(form, rows.total)
    else:
        found = likeliest(np.maximum(chances_of(masses, cells), 1e-9), rows.weights)
    first, second, third = map(float, found)
    mixed = np.einsum("m,mcn->cn", found, masses)
    if column.continuous:
        odds = trial.odds_of_holes(place, told.features[:, ~own], rows.weights)
        asked = rows.weights if odds is None else rows.weights * odds
        gains = sharpness_gains(mixed, scores.order, cells, asked)
    else:
        gains = power_gains(mixed, cells, rows.weights)
    return _Weighed(replace(pool, weights=(first, second, third)), gains, freedom)


def _freest(
    trial: _Members, place: int, told: ToldScores, truth: Codes, weight: Array
) -> tuple[LogitMember, float]:
    """The logit that tells states held out best, and how free its slopes are."""
    column, scores = trial.columns[place], trial.scores.columns[place]
    logits = trial.logits(place, FREEDOMS)
    pools = [ColumnPool((0.0, 1.0, 0.0), logit=logit) for logit in logits]
    said = np.stack([pool.beside(1, column.cells, scores, told) for pool in pools])
    best = int(np.argmax(np.log(chances_of(said, truth)) @ weight))
    return logits[best], FREEDOMS[best]

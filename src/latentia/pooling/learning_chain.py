"""Learning a chain that draws rows: per column values or a line's leftovers, and nodes how large.

What is drawn must not be nearer to the rows that were learned from than these are to each other:
nodes are taken larger until it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latentia.data.columns.column import Column, is_present
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.rows import Rows
from latentia.pooling.cell_scores import TableScores
from latentia.pooling.gaussian_scores import drawn_scores, fit_gaussian
from latentia.pooling.learned_rows import LearnedRows
from latentia.pooling.lines_and_heaps import as_seen, find_heaps, fit_line
from latentia.pooling.node_rows import SMALLEST, NodeRows, grow_nodes
from latentia.pooling.row_chain import (
    ChainLink,
    Heaps,
    RowChain,
    chain_features,
    noise_of,
    value_at,
)
from latentia.time_left import FOREVER, Pace, TimeLeft
from latentia.typing import Array, Bools, CellArray, Codes

TREES = 16
LUMP = 0.05  # of the rows at one value, which a line would miss
PART = 0.7  # of the rows that a tree learns from, where others judge it
CELLS, FEWEST = 24_000, 500  # rows times columns, at most; but not fewer rows than this
MOST_TRIED = 20  # features that a split looks at, about
SIZES = (3, 6, 12, 25, 50, 100, 200)  # of nodes, that are tried
# shares of the loss that may be given up, so that rows are no copies
GIVEN_UP = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.09, 0.13, 0.18, 0.25)
JUDGED = 400  # rows by which links are chosen, at most
DRAWS = 24  # of each of them
LEAST_SHARE = 1e-3  # of a state
COMPARED, DRAWN = 3000, 2000  # real rows and drawn ones, to see whether those are too near
SECONDS = 0.05, 0.0005  # for each column, and each other one, about
KNOWN = 30  # rows of a part of the table that know a column, where the table has as many
FEW = 8  # rows that tell nothing of a column but which values it has


def learn_row_chain(
    columns: Sequence[Column],
    scores: TableScores,
    rows: Rows,
    seen: Sequence[Array],
    rng: np.random.Generator,
    left: TimeLeft = FOREVER,
) -> RowChain | None:
    """A chain in the order of columns; without links where it would draw rows too near to these.

    `seen`: values of each column as they were in the table, as many as are known, rising. None
    where there was no time.
    """
    most, judged = max(CELLS // len(columns), FEWEST), JUDGED
    if len(rows) > most:  # large tables take less time for each column
        rows, judged = rows.where(_some_rows(rows, most, rng)), JUDGED // 4
    rows = rows_by_weight(rows, rng)
    if not all(is_present(np.asarray(codes)).any() for codes in rows.codes):
        return heaps_alone(columns, rows, seen)  # known where weights are 0
    links, losses, pace = list[ChainLink](), list[list[float]](), Pace(left)
    features = np.zeros((len(rows), 1))
    for column, codes, own in zip(
        columns, rows.codes, _all_features(columns, scores, rows, rng), strict=True
    ):
        if not pace.goes_on(len(columns) - len(links)):
            return None
        link, own_losses = _link(column, codes, features, judged, rng)
        links.append(link)
        losses.append(own_losses)
        features = np.column_stack([features, own])
    chain = RowChain(_all_heaps(columns, rows, seen), tuple(links), SMALLEST)
    return _kept_apart(chain, losses, columns, scores, rows, rng, left)


def seconds_to_chain(columns: int) -> float:
    """That a chain takes, about."""
    each, more = SECONDS
    return columns * (each + more * columns)


def heaps_alone(columns: Sequence[Column], rows: Rows, seen: Sequence[Array]) -> RowChain:
    """No links: the joint model draws rows, and numbers become as round as the table's."""
    return RowChain(_all_heaps(columns, rows, seen), (), SMALLEST)


def _some_rows(rows: Rows, most: int, rng: np.random.Generator) -> Codes:
    """So many rows by chance, and more of those that know a column which few of them know."""
    order = rng.permutation(len(rows))
    chosen = np.arange(len(rows)) < most  # in that order
    for codes in rows.codes:
        known = is_present(np.asarray(codes)[order])
        short = KNOWN - int(known[chosen].sum())
        if short > 0:
            chosen[np.flatnonzero(known & ~chosen)[:short]] = True
    return np.asarray(order[chosen])


def _kept_apart(
    chain: RowChain,
    losses: Sequence[Sequence[float]],
    columns: Sequence[Column],
    scores: TableScores,
    rows: Rows,
    rng: np.random.Generator,
    left: TimeLeft,
) -> RowChain | None:
    """The best nodes whose rows are as far from real ones as these are from each other.

    Larger nodes draw rows that are farther away, and tell columns worse: shares of loss that are
    given up are gone through by halves. Allowed is a standard error of the draws; where rows are
    nearer still, distances of real rows are likely large by chance, and their standard error is
    allowed, too.
    """
    learned = LearnedRows.of(columns, rows)
    some = rng.choice(len(rows), min(COMPARED, len(rows)), replace=False)
    far, excess = learned.between(some), dict[int, float]()
    pace, one = Pace(left), 1.0 / 12.0  # variance of a level between 0 and 1
    for allowed in np.sqrt([one / DRAWN, one / DRAWN + one / len(some)]):
        low, high = 0, len(GIVEN_UP)  # before `low` rows are too near; at `high` they are not
        asked = low
        while low < high:
            if asked not in excess:
                if not pace.goes_on():
                    return None
                found = _eased(chain, losses, GIVEN_UP[asked])
                near = learned.nearest(found.measures(columns, scores, DRAWN, rng))
                excess[asked] = nearer_by(near, far)
            low, high = (asked + 1, high) if excess[asked] > allowed else (low, asked)
            asked = (low + high) // 2
        if low < len(GIVEN_UP):
            return _eased(chain, losses, GIVEN_UP[low])
    return replace(chain, links=())


def _eased(chain: RowChain, losses: Sequence[Sequence[float]], share: float) -> RowChain:
    """Links with the largest nodes that lose no more than a share of what the largest of all do."""
    links = []
    for link, own in zip(chain.links, losses, strict=True):
        if len(own):
            most = min(own) + share * abs(own[-1])
            link = replace(link, least=max(s for s, x in zip(SIZES, own, strict=True) if x <= most))
        links.append(link)
    return replace(chain, links=tuple(links))


def nearer_by(near: Array, far: Array) -> float:
    """P(one of the first < one of the others) + P(equal) / 2, beyond one half.

    >>> nearer_by(np.array([0.0, 1.0]), np.array([1.0, 1.0, 1.0, 2.0]))
    0.3125
    """
    ordered = np.sort(far)
    up_to = [np.searchsorted(ordered, near, side) for side in ("left", "right")]
    return 0.5 - float(np.mean(up_to)) / len(far)


def _all_heaps(columns: Sequence[Column], rows: Rows, seen: Sequence[Array]) -> tuple[Heaps, ...]:
    found = []
    for column, codes, known in zip(columns, rows.codes, seen, strict=True):
        x = np.empty(0)
        if isinstance(column, ContinuousColumn):
            places = np.asarray(codes, dtype=float)
            x = as_seen(value_at(column, places[~np.isnan(places)]), known, noise_of(column))
        found.append(find_heaps(x))
    return tuple(found)


def rows_by_weight(rows: Rows, rng: np.random.Generator) -> Rows:
    """Each row as often as its weight says, evenly drawn: at most twice as many as there are."""
    if rows.weight is None or np.ptp(rows.weight) == 0:
        return Rows(rows.codes)
    many = int(np.clip(np.rint(rows.total), len(rows), 2 * len(rows)))
    levels = np.cumsum(rows.weight) * (many / rows.total)
    at = np.searchsorted(levels, np.arange(many) + rng.random() * (1.0 - 1e-9), side="right")
    return Rows(rows.where(np.minimum(at, len(rows) - 1)).codes)


def _all_features(
    columns: Sequence[Column], scores: TableScores, rows: Rows, rng: np.random.Generator
) -> list[Array]:
    """Features of each column; holes hold draws given the rest of their row, by a Gaussian."""
    every = zip(columns, scores.columns, rows.codes, strict=True)
    blocks = [chain_features(c, s, x) for c, s, x in every]
    whole = np.concatenate(blocks, axis=1)
    if np.isnan(whole).any():
        whole = drawn_scores(fit_gaussian(whole, np.ones(len(whole))), whole, rng)
    return np.split(whole, np.cumsum([b.shape[1] for b in blocks])[:-1], axis=1)


# -- one column ------------------------------------------------------------------------------------


def _link(
    column: Column, codes: CellArray, features: Array, judged: int, rng: np.random.Generator
) -> tuple[ChainLink, list[float]]:
    """The better of values and leftovers, from nodes of the best size; losses of `SIZES`."""
    there = is_present(np.asarray(codes))
    own, x = np.asarray(codes)[there], features[there]
    if len(own) < FEW:
        nothing, states = np.zeros((len(own), 1)), not column.continuous
        forest, _ = grow_nodes(nothing, own, own, 1, 1.0, states, 1.0, rng)
        return ChainLink(forest, SMALLEST, None), []
    tried = min(1.0, MOST_TRIED / x.shape[1])
    if not isinstance(column, ContinuousColumn):
        forest, unseen = grow_nodes(x, own, own, TREES, tried, True, PART, rng)
        losses = _log_losses(forest, _judged(unseen, judged, rng), unseen, x, own)
        return ChainLink(forest, SIZES[int(np.argmin(losses))], None), losses
    z = column.coordinates(own)
    best, least = None, [np.inf]
    lumped = np.unique(own, return_counts=True)[1].max() > LUMP * len(own)
    for line in [None] if lumped or x.shape[1] == 1 else [None, fit_line(x, z)]:
        left = z if line is None else line.left
        forest, unseen = grow_nodes(
            x, left, own if line is None else left, TREES, tried, False, PART, rng
        )
        slopes = None if line is None else line.slopes
        losses = _crps(
            forest,
            _judged(unseen, judged, rng),
            unseen,
            x,
            z,
            column if line is None else z - left,
            rng,
        )
        if min(losses) < min(least):
            best, least = ChainLink(forest, SIZES[int(np.argmin(losses))], slopes), losses
    assert best is not None
    return best, least


def _judged(unseen: Bools, most: int, rng: np.random.Generator) -> Codes:
    """Some of the rows that at least one tree has not seen."""
    rows = np.flatnonzero(unseen.any(axis=0))
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def _crps(
    forest: NodeRows,
    rows: Codes,
    unseen: Bools,
    x: Array,
    z: Array,
    told: Array | ContinuousColumn,
    rng: np.random.Generator,
) -> list[float]:
    """E|X − z| − ½ E|X − X′| by draws of trees that have not seen a row, for each of `SIZES`.

    Nodes hold places of a column, or what is left over by what a line has told.
    """
    again = np.repeat(rows, DRAWS)
    chance = unseen[:, again] * rng.random((unseen.shape[0], len(again)))
    tree = chance.argmax(axis=0)
    step = 2.0 * np.arange(DRAWS) - DRAWS + 1.0
    found = []
    for size in SIZES:
        held = forest.draw(x[again], tree, size, rng)
        drawn = told.coordinates(held) if isinstance(told, ContinuousColumn) else told[again] + held
        own = np.sort(drawn.reshape(-1, DRAWS), axis=1)
        far = np.abs(own - z[rows][:, None]).mean()
        found.append(float(far - (own @ step).mean() / DRAWS**2))
    return found


def _log_losses(
    forest: NodeRows, rows: Codes, unseen: Bools, x: Array, codes: Codes
) -> list[float]:
    """−log P(true state) by trees that have not seen a row, for each of `SIZES`."""
    many = len(forest.held)
    keys = np.sort(forest.held.astype(np.int64) * many + np.arange(many))
    truth = codes[rows].astype(np.int64) * many
    found = []
    for size in SIZES:
        share, trees = np.zeros(len(rows)), unseen[:, rows].sum(axis=0)
        for t in range(forest.trees):
            node = forest.nodes(x[rows], np.full(len(rows), t), size)
            ends = forest.first[node], forest.first[node] + forest.size[node]
            count = np.subtract(*(np.searchsorted(keys, truth + e) for e in ends[::-1]))
            share += unseen[t, rows] * count / forest.size[node]
        found.append(float(-np.log(np.maximum(share / trees, LEAST_SHARE)).mean()))
    return found

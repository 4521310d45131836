"""What two columns tell of each other, from sums over rows (design 15).

    I(x; y) = Σ p(x, y) log p(x, y) / (p(x) p(y)) − (|x| − 1)(|y| − 1) / 2n

over the n rows that have both cells; the last term is what columns that have nothing to do with
each other would show (|x|: states seen; Miller 1955), so that many states are no advantage. A
matrix product of indicators counts pairs, a panel of columns against all that are not counted yet,
so that counts are `Moments` of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source, row_chunks
from latentia.errors import DataError
from latentia.typing import Array, Codes

MOST_FEATURES = 100_000  # states of all columns
PANEL_CELLS = 2**22  # pairs of states that are counted at once
PAIR, PAIR_ROW = 1e-8, 3e-11  # seconds of one core: a pair of states, and each row of it


def pair_information(sizes: Sequence[int], source: Source, panel_cells: int = PANEL_CELLS) -> Array:
    """Mutual information of all pairs of columns in nats, (columns, columns); 0 on the diagonal."""
    if sum(sizes) > MOST_FEATURES:
        raise DataError(
            f"the columns have {sum(sizes):,} states together, and pairs of them are counted: at "
            f"most {MOST_FEATURES:,} can be. Leave out columns with many states, such as ids."
        )
    found = np.zeros((len(sizes), len(sizes)))
    for panel in _panels(sizes, panel_cells):
        counts = source.fold(partial(sum_pairs_of_states, tuple(sizes), panel))
        found[panel, panel.start :] = information_of(sizes, panel, counts)
    above = np.triu(found, 1)
    return np.asarray(above + above.T)


def states_to_pair(seconds: float, rows: int) -> float:
    """So many states of all columns have their pairs counted in so many seconds, about."""
    return float(np.sqrt(seconds / (PAIR + PAIR_ROW * rows)))


def _panels(sizes: Sequence[int], cells: int) -> Iterator[slice]:
    """Runs of columns whose states make at most `cells` pairs with all states."""
    most, start, width = cells // sum(sizes), 0, 0
    for i, m in enumerate(sizes):
        if width + m > most and width:
            yield slice(start, i)
            start, width = i, 0
        width += m
    yield slice(start, len(sizes))


def sum_pairs_of_states(sizes: Sequence[int], panel: slice, rows: Rows) -> Moments:
    """Counts of states, and of pairs with those of the panel: "pairs", (its features, later ones).

    Later ones are its own and those of the columns after it: earlier panels have the others.
    """
    ends = np.cumsum([0, *sizes])
    own = slice(ends[panel.start], ends[panel.stop])
    pairs, states = np.zeros((own.stop - own.start, ends[-1] - own.start)), np.zeros(ends[-1])
    codes = np.stack([np.asarray(c) for c in rows.codes])  # (columns, n)
    for part in row_chunks(len(rows), int(ends[-1])):
        there = state_indicators(codes[:, part], sizes)  # (n, features)
        weight = None if rows.weight is None else rows.weight[part]
        seen = there if weight is None else there * weight[:, None]
        pairs += there[:, own].T @ seen[:, own.start :]
        states += seen.sum(axis=0, dtype=float)
    return Moments("pairs of states", rows.total, len(rows), {"pairs": pairs, "states": states})


def state_indicators(codes: Codes, sizes: Sequence[int]) -> Array:
    """1 at the state of each cell, (n, features); a missing cell is nowhere."""
    column = np.repeat(np.arange(len(sizes)), sizes)
    state = np.concatenate([np.arange(m) for m in sizes])
    # single precision counts exactly up to 2**24 rows, more than a chunk has
    return np.asarray((codes[column] == state[:, None]).T, dtype=np.float32)


def information_of(sizes: Sequence[int], panel: slice, moments: Moments) -> Array:
    """Mutual informations of the panel's columns and later ones, (its columns, later columns).

    Σ n(s, t) log n(s, t) n / (n(s) n(t)) is a sum of n log n over pairs, margins and rows.
    """
    pairs, own, later = moments.sums["pairs"], sizes[panel], sizes[panel.start :]
    every, some = np.cumsum([0, *later])[:-1], np.cumsum([0, *own])[:-1]  # first features
    margin_x = np.add.reduceat(pairs, every, axis=1)  # n(x = s, y there), (features, columns)
    margin_y = np.add.reduceat(pairs, some, axis=0)  # n(x there, y = t), (columns, features)
    both = np.add.reduceat(margin_x, some, axis=0)  # n(x there, y there)
    told = np.add.reduceat(np.add.reduceat(_n_log_n(pairs), some, axis=0), every, axis=1)
    told -= np.add.reduceat(_n_log_n(margin_x), some, axis=0)
    told -= np.add.reduceat(_n_log_n(margin_y), every, axis=1)
    told += _n_log_n(both)
    first = np.cumsum([0, *sizes])[:-1]
    seen = np.add.reduceat((moments.sums["states"] > 0).astype(float), first) - 1.0
    free = np.outer(seen[panel], seen[panel.start :])
    found = np.maximum(told - free / 2.0, 0.0) / np.maximum(both, 1e-300)
    found[~(both > 0)] = 0.0
    return np.asarray(found)


def _n_log_n(counts: Array) -> Array:
    """0 where nothing was counted."""
    found = np.log(np.maximum(counts, 1e-300))
    found *= counts
    return np.asarray(found)

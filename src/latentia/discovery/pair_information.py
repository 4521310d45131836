"""What two columns tell of each other, from sums over rows (design 15).

    I(x; y) = Σ p(x, y) log p(x, y) / (p(x) p(y)) − (|x| − 1)(|y| − 1) / 2n

over the n rows that have both cells; the last term is what columns that have nothing to do with
each other would show (|x|: states seen; Miller 1955), so that many states are no advantage. One
matrix product of indicators counts all pairs at once, so that the counts are `Moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source, row_chunks
from latentia.errors import DataError
from latentia.typing import Array, Codes

MOST_FEATURES = 20_000  # states of all columns: a square of them is kept


def pair_information(sizes: Sequence[int], source: Source) -> Array:
    """Mutual information of all pairs of columns in nats, (columns, columns); 0 on the diagonal."""
    if sum(sizes) > MOST_FEATURES:
        raise DataError(
            f"the columns have {sum(sizes):,} states together, and pairs of them are counted: at "
            f"most {MOST_FEATURES:,} can be. Leave out columns with many states, such as ids."
        )
    return information_of(sizes, source.fold(partial(sum_pairs_of_states, tuple(sizes))))


def sum_pairs_of_states(sizes: Sequence[int], rows: Rows) -> Moments:
    """Counts of all pairs of states: "pairs", (features, features)."""
    width = sum(sizes)
    total = np.zeros((width, width))
    codes = np.stack([np.asarray(c) for c in rows.codes])  # (columns, n)
    for part in row_chunks(len(rows), width):
        there = state_indicators(codes[:, part], sizes)  # (n, features)
        weight = None if rows.weight is None else rows.weight[part]
        seen = there if weight is None else there * weight[:, None]
        total += there.T @ seen
    return Moments("pairs of states", rows.total, len(rows), {"pairs": total})


def state_indicators(codes: Codes, sizes: Sequence[int]) -> Array:
    """1 at the state of each cell, (n, features); a missing cell is nowhere."""
    column = np.repeat(np.arange(len(sizes)), sizes)
    state = np.concatenate([np.arange(m) for m in sizes])
    # single precision counts exactly up to 2**24 rows, more than a chunk has
    return np.asarray((codes[column] == state[:, None]).T, dtype=np.float32)


def information_of(sizes: Sequence[int], moments: Moments) -> Array:
    """Mutual informations from the counts of pairs of states."""
    pairs, starts = moments.sums["pairs"], np.cumsum([0, *sizes])
    rows_of = np.add.reduceat  # sums over the states of each column
    margin = rows_of(pairs, starts[:-1], axis=1)  # n(x = s, y there), (features, columns)
    both = rows_of(margin, starts[:-1], axis=0)  # n(x there, y there)
    column = np.repeat(np.arange(len(sizes)), sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        told = pairs * np.log(
            pairs * both[np.ix_(column, column)] / (margin[:, column] * margin[:, column].T)
        )
    told[~(pairs > 0)] = 0.0
    total = rows_of(rows_of(told, starts[:-1], axis=0), starts[:-1], axis=1)
    seen = rows_of(pairs.diagonal() > 0, starts[:-1]).astype(float)  # states
    chance = np.outer(seen - 1.0, seen - 1.0) / 2.0
    found = np.maximum((total - chance) / np.maximum(both, 1e-300), 0.0)
    found[~(both > 0)] = 0.0
    np.fill_diagonal(found, 0.0)
    return np.asarray((found + found.T) / 2)

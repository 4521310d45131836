"""Rows that lack covariates: each stands for copies of itself, filled in from rows like it.

What a row lacks is summed out over what the complete rows nearest to it have there, by the features
that it does have:  P(class | x seen) = Σ_j w_j P(class | x seen, x_j lacking). Of states all rows
that agree with it are nearest, so that the sum is over what they have, as often as they have it; a
row that lacks all covariates has the mean over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.typing import Array, Bools, Codes

NEAREST = 25  # complete rows that fill a hole; those as near as the last of them, too …
MOST_COPIES = 25  # … of which so many values are taken, if they differ
MOST_DONORS = 2000  # complete rows among which they are looked for
SAME = 1e-9


@final
@dataclass(frozen=True, slots=True)
class Copies:
    """Rows with all covariates, one after the other; copies of a row follow each other."""

    origin: Codes  # the row of each copy
    X: Array  # (copies, features)
    share: Array  # of each copy in its row: they add up to 1

    @property
    def first(self) -> Codes:
        """Where the copies of each row begin."""
        return np.flatnonzero(np.diff(self.origin, prepend=-1))


def draw_donors(X: Array, weight: Array, most: int = MOST_DONORS) -> Array:
    """Complete rows, drawn by weight if they are many or do not count alike."""
    whole = np.flatnonzero(~np.isnan(X).any(axis=1) & (weight > 0))
    own = weight[whole]
    if len(whole) == 0 or (len(whole) <= most and (own == own[0]).all()):
        return np.asarray(X[whole])
    rng = np.random.default_rng(0)
    return np.asarray(X[whole[rng.choice(len(whole), most, p=own / own.sum())]])


def with_copies(X: Array, donors: Array) -> Copies:
    """Every row that lacks features as copies of itself; the others as they are."""
    scale = donors.std(axis=0)
    scale[scale == 0] = 1.0
    origin, filled, share = [], [], []
    for i, x in enumerate(X):
        gone = np.isnan(x)
        if not gone.any():
            origin.append(np.array([i]))
            filled.append(x[None])
            share.append(np.ones(1))
            continue
        values, own = _lacking(x, gone, donors, scale)
        copies = np.repeat(x[None], len(values), axis=0)
        copies[:, gone] = values
        origin.append(np.full(len(values), i))
        filled.append(copies)
        share.append(own)
    return Copies(np.concatenate(origin), np.concatenate(filled), np.concatenate(share))


def _lacking(x: Array, gone: Bools, donors: Array, scale: Array) -> tuple[Array, Array]:
    """What the nearest rows have where this one has holes, and how often."""
    far = (((donors[:, ~gone] - x[~gone]) / scale[~gone]) ** 2).sum(axis=1)
    reach = np.partition(far, min(NEAREST, len(far)) - 1)[min(NEAREST, len(far)) - 1]
    near = np.flatnonzero(far <= reach + SAME)
    values, times = np.unique(donors[near][:, gone], axis=0, return_counts=True)
    if len(values) > MOST_COPIES:  # evenly along their order: each stands for as many
        along = (np.arange(MOST_COPIES) + 0.5) / MOST_COPIES * times.sum()
        values = values[np.searchsorted(np.cumsum(times), along)]
        times = np.ones(MOST_COPIES, dtype=np.int64)
    return values, times / times.sum()

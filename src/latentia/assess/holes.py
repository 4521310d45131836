"""Do holes depend on other columns? A G test for each pair, from counts that blocks add up.

For a column c with holes and another column d, over the rows in which d is there:

    counts:   present or missing cells of c × states of d
    G = 2 Σ O log O/E,   compared with χ² of (states - 1) degrees of freedom

P-values are corrected for the number of pairs (Holm). A dependence counts if it is also large
enough to matter: Cramér's V of LEAST at least, for with millions of rows every p-value is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import scipy

from latentia.data.columns.column import Column, is_present
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source, row_chunks
from latentia.typing import Array, Cell, Codes, Label

LEVEL = 0.001  # a warning that chance brings is worse than none
LEAST = 0.05  # Cramér's V
BINS = 8  # of a continuous column
HOLES = "holes"


@final
@dataclass(frozen=True, slots=True)
class HolesDepend:
    """A column whose holes depend on another one."""

    column: Label
    on: Label
    p_value: float  # corrected
    strength: float  # Cramér's V
    shares: tuple[tuple[Cell, float], ...]  # share of holes by state, the extremes

    @property
    def words(self) -> str:
        (low, least), (high, most) = self.shares
        return (
            f"holes in {self.column} depend on {self.on}: {least:.1%} of the cells are missing "
            f"where {self.on} is {low}, {most:.1%} where it is {high}"
        )


def dependent_holes(
    columns: Sequence[Column],
    missing: Sequence[float],
    source: Source,
    aside: Sequence[Label] = (),
) -> tuple[HolesDepend, ...]:
    """For every column with holes the column that they depend on most, if on any.

    Columns that are put `aside` are not asked.
    """
    holed = tuple(i for i, share in enumerate(missing) if 0 < share < 1)
    if not holed or len(columns) < 2:
        return ()
    found = source.fold(partial(count_holes, tuple(columns), holed))
    return judge_holes(columns, holed, found.sums[HOLES], aside)


def count_holes(columns: Sequence[Column], holed: Sequence[int], rows: Rows) -> Moments:
    """Weight of rows by (column with holes, there or missing, state of another column)."""
    sizes = [_states(c) for c in columns]
    total = np.zeros((len(holed), 2, sum(sizes)))
    for part in row_chunks(len(rows), sum(sizes) + len(holed)):
        some = rows[part]
        weight = some.weights
        gone = np.stack([~is_present(some.codes[i]) for i in holed]).astype(float)  # (holed, n)
        states = np.concatenate(
            [_one_hot(c, codes, m) for c, codes, m in zip(columns, some.codes, sizes, strict=True)]
        )  # (all states, n)
        total[:, 1] += (gone * weight) @ states.T
        total[:, 0] += ((1 - gone) * weight) @ states.T
    return Moments("holes by states", rows.total, len(rows), {HOLES: total})


def judge_holes(
    columns: Sequence[Column], holed: Sequence[int], counts: Array, aside: Sequence[Label] = ()
) -> tuple[HolesDepend, ...]:
    """Which of the pairs depend, corrected for their number; the strongest of each column."""
    starts = np.cumsum([0, *(_states(c) for c in columns)])
    pairs: list[tuple[int, int, float, float, Array]] = []
    for k, i in enumerate(holed):
        for j in range(len(columns)):
            if i == j or columns[j].name in aside:
                continue
            table = counts[k, :, starts[j] : starts[j + 1]]
            p, v = g_test(table)
            pairs.append((i, j, p, v, table))
    pairs.sort(key=lambda pair: pair[2])
    found: dict[int, HolesDepend] = {}
    worst = 0.0
    for rank, (i, j, p, v, table) in enumerate(pairs):
        worst = max(worst, min(1.0, p * (len(pairs) - rank)))  # Holm
        if worst > LEVEL:
            break
        if v >= LEAST and (i not in found or v > found[i].strength):
            shares = _extremes(columns[j], table)
            found[i] = HolesDepend(columns[i].name, columns[j].name, worst, v, shares)
    return tuple(found[i] for i in sorted(found))


def g_test(table: Array) -> tuple[float, float]:
    """P-value of independence of a table of counts, and Cramér's V.

    >>> p, v = g_test(np.array([[50.0, 50.0], [50.0, 50.0]]))
    >>> p, v
    (1.0, 0.0)
    """
    used = table[:, table.sum(axis=0) > 0]
    used = used[used.sum(axis=1) > 0]
    total = used.sum()
    if min(used.shape) < 2 or total <= 0:
        return 1.0, 0.0
    expected = used.sum(axis=1, keepdims=True) * used.sum(axis=0, keepdims=True) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(used > 0, used * np.log(used / expected), 0.0)
    G = max(2.0 * float(terms.sum()), 0.0)
    freedom = (used.shape[0] - 1) * (used.shape[1] - 1)
    chi2 = float(((used - expected) ** 2 / expected).sum())
    return float(scipy.special.chdtrc(freedom, G)), float(
        np.sqrt(chi2 / (total * (min(used.shape) - 1)))
    )


def _states(column: Column) -> int:
    return len(column.bin_names(BINS))


def _one_hot(column: Column, codes: Codes, states: int) -> Array:
    """1 at the state of every row: (states, n); nothing where it is missing."""
    own = column.bins(codes, BINS)
    return np.asarray(own[None, :] == np.arange(states)[:, None], dtype=float)


def _extremes(column: Column, table: Array) -> tuple[tuple[Cell, float], ...]:
    """The states with the smallest and the largest share of holes, of those that are not rare."""
    weight = table.sum(axis=0)
    common = np.flatnonzero(weight >= min(0.02 * weight.sum(), weight.max()))
    share = table[1, common] / weight[common]
    names = column.bin_names(BINS)
    low, high = int(common[share.argmin()]), int(common[share.argmax()])
    return (names[low], float(share.min())), (names[high], float(share.max()))

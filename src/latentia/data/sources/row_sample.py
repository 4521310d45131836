"""Rows dealt to hands at random: held-out rows and folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.data.rows import Rows
from latentia.typing import Array


def split_rows(rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows at random to a large and a small hand; a row with a whole weight is that many rows."""
    if rows.weight is None:
        small = rng.permutation(len(rows))[: round(share * len(rows))]
        mark = np.zeros(len(rows), dtype=bool)
        mark[small] = True
        return _chosen(rows, ~mark, None), _chosen(rows, mark, None)
    whole = _whole(rows.weight)
    if whole is not None:
        small_weight = rng.binomial(whole, share).astype(float)
    else:
        small_weight = rows.weight * (rng.random(len(rows)) < share)
    large_weight = rows.weight - small_weight
    return tuple(_chosen(rows, w > 0, w) for w in (large_weight, small_weight))  # type: ignore[return-value]


def deal_rows(rows: Rows, folds: int, rng: np.random.Generator) -> list[tuple[Rows, Rows]]:
    """Every row falls to one of the folds at random: all rows but a fold's, and the fold's.

    A row with a whole weight is that many rows. Folds are as equal as can be, and none is empty
    where there are that many rows.
    """
    whole = np.ones(len(rows), dtype=np.int64) if rows.weight is None else _whole(rows.weight)
    unit = 1.0 if whole is not None else np.asarray(rows.weight)
    copies = np.arange(len(rows)).repeat(1 if whole is None else whole)
    fold = np.empty(len(copies), dtype=int)
    fold[rng.permutation(len(copies))] = np.arange(len(copies)) % folds
    dealt = []
    for k in range(folds):
        small = np.bincount(copies[fold == k], minlength=len(rows)) * unit
        large = np.bincount(copies[fold != k], minlength=len(rows)) * unit
        plain = rows.weight is None
        dealt.append(tuple(_chosen(rows, w > 0, None if plain else w) for w in (large, small)))
    return dealt  # type: ignore[return-value]


def _whole(weight: Array) -> Any:
    """The weights as whole numbers, if that is what they are."""
    whole = np.rint(weight)
    if np.allclose(whole, weight, rtol=1e-9, atol=1e-9) and whole.max(initial=0) < 2**62:
        return whole.astype(np.int64)
    return None


def _chosen(rows: Rows, mark: Any, weight: Array | None) -> Rows:
    return Rows(tuple(c[mark] for c in rows.codes), None if weight is None else weight[mark])

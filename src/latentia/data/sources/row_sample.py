"""A sample of the rows of any source, and rows dealt to hands."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final

import numpy as np

from latentia.data.moments import Moments, Rows
from latentia.typing import Array, Codes, Source

__all__ = ["deal_rows", "draw_sample", "split_rows"]


def draw_sample(source: Source, size: int, rng: np.random.Generator) -> Rows:
    """At most `size` rows, by weight; from sources that can only be folded over, by a fold."""
    draw = getattr(source, "sample", None)
    if draw is not None:
        return cast(Rows, draw(size, rng))
    seed = int(rng.integers(2**32))
    found = source.fold(partial(_keep_some, size, seed))
    return cast(_Kept, found.sums["sample"]).rows()


@final
@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows with the smallest keys so far; `+` keeps the smallest of both.

    With keys -log(u) / w these are rows drawn by weight, none twice.
    """

    size: int
    keys: Array
    codes: Codes  # (columns, n)
    weight: Array | None  # None: all rows count alike
    total: float
    count: int

    def __add__(self, other: _Kept) -> _Kept:
        weights = (self.weight, other.weight)
        weight = None if None in weights else np.concatenate(cast(Any, weights))
        return _smallest(
            self.size,
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.codes, other.codes], axis=1),
            weight,
            self.total + other.total,
            self.count + other.count,
        )

    def rows(self) -> Rows:
        """All rows with their weights, or those that were drawn, each once."""
        everything = self.count <= self.size
        return Rows(tuple(self.codes), self.weight if everything else None)


def _smallest(
    size: int, keys: Array, codes: Codes, weight: Array | None, total: float, count: int
) -> _Kept:
    if len(keys) > size:
        kept = np.sort(np.argpartition(keys, size)[:size])
        keys, codes = keys[kept], codes[:, kept]
        weight = None if weight is None else weight[kept]
    return _Kept(size, keys, codes, weight, total, count)


def _keep_some(size: int, seed: int, rows: Rows) -> Moments:
    """The seed of a block is made from its content: the same rows give the same sample."""
    codes = np.stack(rows.codes)
    rng = np.random.default_rng([seed, zlib.crc32(np.ascontiguousarray(codes).tobytes())])
    keys = rng.exponential(size=len(rows))
    if rows.weight is not None:
        keys = keys / np.maximum(rows.weight, 1e-300)
    kept = _smallest(size, keys, codes, rows.weight, rows.total, len(rows))
    return Moments("sample", rows.total, len(rows), cast(Any, {"sample": kept}))


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

"""Where climbs of a latent class start: rows far from each other as the classes' centres.

All rows belong to each centre the more, the more cells they share with it. The race climbs from
there, so that nothing is climbed here.
"""

from __future__ import annotations

import numpy as np

from latentia.networks.class_rows import SurveyRows
from latentia.typing import Array, Codes

PSEUDO_COUNT = 0.5
SAMPLE = 1500  # different rows that are looked at


def seeded_tables(rows: SurveyRows, count: int, rng: np.random.Generator) -> list[dict[int, Array]]:
    """Tables of `count` starts, by the piece's own numbers."""
    seen, weight = rows.seen, rows.weight
    if len(seen) > SAMPLE:
        share = weight / weight.sum()
        drawn = np.sort(rng.choice(len(seen), SAMPLE, replace=False, p=share, shuffle=False))
        seen, weight = seen[drawn], weight[drawn]
    marks = _marks(seen, sum(rows.states[v] for v in rows.columns))
    alike = _centres(marks, weight, rows, count, rng) @ marks.T  # (starts, classes, n)
    share = np.exp(alike - alike.max(axis=1, keepdims=True))
    share *= weight / share.sum(axis=1, keepdims=True)
    met = share @ marks + PSEUDO_COUNT  # (starts, classes, states of all columns)
    sizes = share.sum(axis=2) + PSEUDO_COUNT
    found: list[dict[int, Array]] = [{rows.latent: own / own.sum()} for own in sizes]
    start = 0
    for v in rows.columns:
        own = met[:, :, start : start + rows.states[v]]
        start += rows.states[v]
        for tables, table in zip(found, own / own.sum(axis=2, keepdims=True), strict=True):
            tables[v] = table
    return [{v: tables[v] for v in sorted(tables)} for tables in found]


def _marks(seen: Codes, codes: int) -> Array:
    """1 where a row has a code: (n, codes)."""
    marks = np.zeros((len(seen), codes + 1))
    np.put_along_axis(marks, seen.astype(np.int64), 1.0, axis=1)  # holes, -1, come last
    return np.ascontiguousarray(marks[:, :codes])


def _centres(
    marks: Array, weight: Array, rows: SurveyRows, count: int, rng: np.random.Generator
) -> Array:
    """Rows that were drawn, each by how far it is from those before: (starts, classes, codes)."""
    chosen = np.empty((count, rows.classes), dtype=np.int64)
    chance = np.broadcast_to(weight, (count, len(weight)))
    far = np.full(chance.shape, np.inf)
    for k in range(rows.classes):
        reached = chance.cumsum(axis=1)
        drawn = rng.random((count, 1)) * reached[:, -1:]
        chosen[:, k] = np.minimum((reached <= drawn).sum(axis=1), len(weight) - 1)
        far = np.minimum(far, len(rows.columns) - marks[chosen[:, k]] @ marks.T)
        chance = (far + 1e-9) * weight
    return np.asarray(marks[chosen])

"""Where climbs of a latent class start: rows far from each other as the classes' centres.

All rows belong to each centre the more, the more cells they share with it. The race climbs from
there, so that nothing is climbed here.
"""

from __future__ import annotations

import numpy as np

from latentia.networks.class_rows import SurveyRows
from latentia.networks.far_rows import draw_far_rows
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
    chosen = draw_far_rows(marks, len(rows.columns), weight, rows.classes, count, rng)
    alike = marks[chosen] @ marks.T  # (starts, classes, n)
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

"""Where climbs of a latent class start: rows far from each other as the classes' centres.

All rows belong to each centre the more, the more cells they share with it. The race climbs from
there, so that nothing is climbed here.
"""

from __future__ import annotations

import numpy as np

from latentia.networks.accelerate import LaterTables, Tables
from latentia.networks.class_rows import SurveyRows
from latentia.networks.far_rows import draw_far_rows

PSEUDO_COUNT = 0.5
SAMPLE = 1500  # different rows that are looked at


def seeded_tables(rows: SurveyRows, count: int, rng: np.random.Generator) -> list[Tables]:
    """Tables of `count` starts, by the piece's own numbers."""
    if len(rows.seen) > SAMPLE:
        share = rows.weight / rows.weight.sum()
        drawn = rng.choice(len(share), SAMPLE, replace=False, p=share, shuffle=False)
        rows = rows.some(np.sort(drawn))
    marks, weight = rows.marks, rows.weight
    chosen = draw_far_rows(marks, len(rows.columns), weight, rows.classes, count, rng)
    alike = marks[chosen] @ marks.T  # (starts, classes, n)
    share = np.exp(alike - alike.max(axis=1, keepdims=True))
    share *= weight / share.sum(axis=1, keepdims=True)
    met = share @ marks + PSEUDO_COUNT  # (starts, classes, states of all columns)
    sizes = share.sum(axis=2) + PSEUDO_COUNT
    own, start = {rows.latent: sizes / sizes.sum(axis=1, keepdims=True)}, 0
    for v in rows.columns:
        counts = met[:, :, start : start + rows.states[v]]
        start += rows.states[v]
        own[v] = counts / counts.sum(axis=2, keepdims=True)
    shapes = {v: own[v].shape[1:] for v in sorted(own)}
    flat = np.concatenate([own[v].reshape(count, -1) for v in shapes], axis=1)
    return [LaterTables(shapes, x) for x in flat]

"""Where climbs of a latent class start: rows far from each other as the classes' centres.

All rows belong to each centre the more, the more cells they share with it. The race climbs from
there, so that nothing is climbed here. Later rounds move one class of the best tables so far: most
of it may be right, and what is not is often a class that should be elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latentia.networks.accelerate import LaterTables, Tables
from latentia.networks.class_rows import SurveyRows
from latentia.networks.far_rows import draw_far_rows
from latentia.typing import Array

PSEUDO_COUNT = 0.5
SAMPLE = 1500  # different rows that are looked at
LEAN = 0.8  # share of a changed class that is a row, and not all rows …
NEAR_ALL = 0.02  # … and of all classes that is: no cell is zero for good
TINY = 1e-300


def seeded_tables(rows: SurveyRows, count: int, rng: np.random.Generator) -> list[Tables]:
    """Tables of `count` starts, by the piece's own numbers."""
    rows = _sampled(rows, rng)
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
    return _each(own, count)


def changed_tables(
    rows: SurveyRows, best: Tables, count: int, rng: np.random.Generator
) -> list[Tables]:
    """The best tables so far with one class at a row that they tell badly, `count` times."""
    rows = _sampled(rows, rng)
    size = np.asarray(best[rows.latent]).reshape(-1)
    flat = np.concatenate([best[v] for v in rows.columns], axis=1)
    everywhere = size @ flat
    chance = _log_chances(rows, size, flat)
    reached = (rows.weight * (chance.max() - chance + 1e-9)).cumsum()
    drawn = np.searchsorted(reached, rng.random(count) * reached[-1], side="right")
    drawn, moved = np.minimum(drawn, len(reached) - 1), rng.integers(rows.classes, size=count)
    own, start, turn = dict[int, Array](), 0, np.arange(count)
    marks = rows.marks[drawn]
    for v in rows.columns:
        here = slice(start, start + rows.states[v])
        start += rows.states[v]
        seen = marks[:, here]
        hole = 1.0 - seen.sum(axis=1, keepdims=True)  # a hole is like all rows
        table = np.repeat(best[v][None], count, axis=0)
        table[turn, moved] = LEAN * (seen + hole * everywhere[here])
        table[turn, moved] += (1.0 - LEAN) * everywhere[here]
        own[v] = (1.0 - NEAR_ALL) * table + NEAR_ALL * everywhere[here]
    sizes = np.repeat(size[None], count, axis=0)
    sizes[turn, moved] = 1.0 / rows.classes
    own[rows.latent] = sizes / sizes.sum(axis=1, keepdims=True)
    return _each(own, count)


def _sampled(rows: SurveyRows, rng: np.random.Generator) -> SurveyRows:
    if len(rows.seen) <= SAMPLE:
        return rows
    share = rows.weight / rows.weight.sum()
    drawn = rng.choice(len(share), SAMPLE, replace=False, p=share, shuffle=False)
    return rows.some(np.sort(drawn))


def _log_chances(rows: SurveyRows, size: Array, flat: Array) -> Array:
    """log P(row) of tables, (classes, states of all columns) in one."""
    logs = rows.marks @ np.log(flat.T + TINY) + np.log(size + TINY)
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))


def _each(own: Mapping[int, Array], count: int) -> list[Tables]:
    """Tables of each start, from those of all of them."""
    shapes = {v: own[v].shape[1:] for v in sorted(own)}
    flat = np.concatenate([own[v].reshape(count, -1) for v in shapes], axis=1)
    return [LaterTables(shapes, x) for x in flat]

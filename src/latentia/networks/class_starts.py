"""Where climbs of a latent class start: rows far from each other as the classes' centres.

All rows belong to each centre the more, the more cells they share with it. The race climbs from
there, so that nothing is climbed here. Later rounds move one class of the best tables so far: most
of it may be right, and what is not is often a class that should be elsewhere.
"""

from __future__ import annotations

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
    begin, lengths = rows.begin, rows.lengths
    met /= np.add.reduceat(met, begin, axis=2).repeat(lengths, axis=2)
    return _each(rows, sizes, met)


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
    begin, lengths, turn = rows.begin, rows.lengths, np.arange(count)
    seen = rows.marks[drawn]
    hole = 1.0 - np.add.reduceat(seen, begin, axis=1).repeat(lengths, axis=1)  # like all rows
    tables = np.repeat(flat[None], count, axis=0)  # (starts, classes, states of all columns)
    tables[turn, moved] = LEAN * (seen + hole * everywhere) + (1.0 - LEAN) * everywhere
    sizes = np.repeat(size[None], count, axis=0)
    sizes[turn, moved] = 1.0 / rows.classes
    return _each(rows, sizes, (1.0 - NEAR_ALL) * tables + NEAR_ALL * everywhere)


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


def _each(rows: SurveyRows, sizes: Array, tables: Array) -> list[Tables]:
    """Tables of each start: sizes of classes (starts, classes), P(code | class) of all columns."""
    own = {v: (rows.classes, rows.states[v]) for v in rows.columns}
    shapes = dict(sorted({rows.latent: (rows.classes,), **own}.items()))
    place = rows.places(tuple(shapes))
    flat = np.empty((len(sizes), place.size))
    flat[:, place[0]] = sizes / sizes.sum(axis=1, keepdims=True)
    flat[:, place[1:]] = tables.transpose(0, 2, 1)
    return [LaterTables(shapes, x) for x in flat]

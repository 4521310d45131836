"""Answers of a network of arrows: P(variables | cells) of many rows, exactly but for grids.

Latents and missing discrete cells are summed out; a continuous column that is not seen is a grid of
cells, each with the mass of its normal, and counts at its middle where it is a parent. Rows without
covariates are averaged over a sample of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from latentia.data.sources.progress import answer_progress
from latentia.errors import PlanError
from latentia.exact.arrows import (
    ArrowNetwork,
    LineArrow,
    family_values,
    line_moments,
    log_factor,
    relevant_to,
    scope_of,
)
from latentia.exact.buckets import Factor, elimination_order, log_total, sum_out
from latentia.typing import Array, Codes

BLOCK = 2_000_000  # cells at a time
FEW_SAMPLES = 128  # rows of covariates, where many rows lack them
MOST_JOINT = 1_000_000  # joint states among which the most probable is looked for


def log_joint(
    network: ArrowNetwork,
    cells: Array,
    targets: Sequence[int],
    soft: Mapping[int, Array] | None = None,
) -> Array:
    """log P(targets, present cells | covariates), (rows, axes of the targets).

    `cells` are (rows, variables): codes and standardised values, NaN where missing and for targets;
    `soft` are likelihoods of the values on a variable's axis.
    """
    sizes = [len(network.axis(v)) for v in targets]
    found = np.empty((len(cells), *sizes))
    holes, which = np.unique(np.isnan(cells), axis=0, return_inverse=True)
    told = answer_progress()
    told.begin(len(cells))
    for k, hole in enumerate(holes):
        mine = np.flatnonzero(which.ravel() == k)
        free = [v for v in network.given if hole[v]]
        ask = _averaged if free else _plain
        found[mine] = ask(network, cells[mine], targets, dict(soft or {}), told.advance)
    told.end()
    return found


def posterior_shares(log: Array) -> tuple[Array, Array]:
    """P(targets | cells), and log P(cells), (rows,); zeros where that is -inf."""
    axes = tuple(range(1, log.ndim))
    whole = log_total(log, axes) if axes else log
    safe = np.where(np.isfinite(whole), whole, 0.0)
    return np.exp(log - safe.reshape(-1, *(1 for _ in axes))), whole


def _plain(
    network: ArrowNetwork,
    cells: Array,
    targets: Sequence[int],
    soft: Mapping[int, Array],
    done: Callable[[int], None] | None = None,
) -> Array:
    """Rows with the same holes, all covariates seen."""
    there = [v for v in range(cells.shape[1]) if not np.isnan(cells[:1, v]).any()]
    relevant = relevant_to(network, [*there, *targets, *soft])
    sizes = {v: len(network.axis(v)) for v in range(cells.shape[1])}
    parents = network.graph.parents()
    scopes = [[u for u in (*parents[v], v) if u not in there] for v in relevant]
    order, widest = elimination_order([*scopes, targets], sizes, targets)
    step = max(int(BLOCK // max(widest, 1)), 1)
    parts = []
    for at in range(0, len(cells), step):
        part = cells[at : at + step]
        seen = {v: part[:, v] if v in network.dense else part[:, v].astype(int) for v in there}
        factors = [
            Factor(tuple(scope_of(network, v, seen)), log_factor(network, v, seen))
            for v in relevant
        ]
        with np.errstate(divide="ignore"):
            factors += [Factor((v,), np.log(x)[None]) for v, x in soft.items()]
        log = sum_out(factors, order, targets, sizes)
        parts.append(np.broadcast_to(log, (len(part), *log.shape[1:])))
        if done is not None:
            done(len(part))
    return np.concatenate(parts)


def _averaged(
    network: ArrowNetwork,
    cells: Array,
    targets: Sequence[int],
    soft: Mapping[int, Array],
    done: Callable[[int], None],
) -> Array:
    """Rows that lack some covariates: the mean over a sample of these."""
    few = FEW_SAMPLES if len(cells) > 8 else len(network.sample)
    sample = network.sample[:few]
    lacking = [v for v in network.given if np.isnan(cells[0, v])]
    others = [v for v in targets if v not in lacking]
    parts = []
    for row in cells:
        rows = np.repeat(row[None], len(sample), axis=0)
        for v in lacking:
            rows[:, v] = sample[:, network.given.index(v)]
        log = _plain(network, rows, others, {v: x for v, x in soft.items() if v not in lacking})
        for v in lacking:
            if v in soft:
                with np.errstate(divide="ignore"):
                    extra = np.log(soft[v])[_cell(network, v, rows[:, v])]
                log = log + extra.reshape(-1, *(1 for _ in others))
        parts.append(_gathered(network, rows, log, targets, lacking) - math.log(len(sample)))
        done(1)
    return np.stack(parts)


def _gathered(
    network: ArrowNetwork, rows: Array, log: Array, targets: Sequence[int], lacking: Sequence[int]
) -> Array:
    """Sums over the rows of a sample, apart for each cell of the covariates that are asked for."""
    asked = [v for v in targets if v in lacking]
    if not asked:
        return log_total(log, (0,))
    sizes = [len(network.axis(v)) for v in asked]
    places = np.ravel_multi_index([_cell(network, v, rows[:, v]) for v in asked], sizes)
    flat = np.full((math.prod(sizes), *log.shape[1:]), -np.inf)
    for place in np.unique(places):
        flat[place] = log_total(log[places == place], (0,))
    order = [*asked, *(v for v in targets if v not in asked)]
    table = flat.reshape(*sizes, *log.shape[1:])
    return table.transpose([order.index(v) for v in targets])


def _cell(network: ArrowNetwork, v: int, values: Array) -> Codes:
    """The nearest cell on a variable's axis."""
    if v not in network.dense:
        return np.asarray(values, dtype=np.int64)
    first, step, points = network.grids[v]
    return np.asarray(np.clip(np.rint((values - first) / step), 0, points - 1), dtype=np.int64)


def best_joint(
    network: ArrowNetwork, row: Array, targets: Sequence[int], soft: Mapping[int, Array]
) -> tuple[list[int], float, float]:
    """The most probable places on the targets' axes, log P of them and the row, and of the row."""
    count = math.prod(len(network.axis(v)) for v in targets)
    if count > MOST_JOINT:
        raise PlanError(
            f"{count:.1e} joint states are too many to look for the most probable one (at most "
            f"{MOST_JOINT:.0e}) where covariates or regressions tell. Ask for fewer variables."
        )
    log = log_joint(network, row[None], targets, soft)[0]
    at = np.unravel_index(int(log.argmax()), log.shape)
    whole = float(log_total(log[None], tuple(range(1, log.ndim + 1)))[0])
    return [int(k) for k in at], float(log[at]), whole


def draw_arrows(network: ArrowNetwork, n: int, rng: np.random.Generator) -> Array:
    """Rows of all variables, (n, variables), covariates being drawn from the sample."""
    cells = np.full((n, len(network.graph.names)), np.nan)
    cells[:, list(network.given)] = network.sample[rng.integers(len(network.sample), size=n)]
    for v in _from_above(network):
        parents = network.graph.parents()[v]
        seen = {u: cells[:, u] if u in network.dense else cells[:, u].astype(int) for u in parents}
        arrow = network.arrows[v]
        if isinstance(arrow, LineArrow):
            full = {**seen, v: np.zeros(n)}
            mean, variance = line_moments(network, v, arrow, family_values(network, v, full, []))
            cells[:, v] = mean + np.sqrt(variance) * rng.normal(size=n)
            continue
        p = np.exp(log_factor(network, v, seen))
        p = np.broadcast_to(p, (n, p.shape[1])).cumsum(axis=1)
        drawn = (rng.random(n)[:, None] * p[:, -1:] > p).sum(axis=1)
        cells[:, v] = np.minimum(drawn, p.shape[1] - 1)
    return cells


def _from_above(network: ArrowNetwork) -> Iterator[int]:
    """Variables with arrows, parents first."""
    parents, done = network.graph.parents(), set(network.given)
    left = list(network.arrows)
    while left:
        ready = [v for v in left if all(u in done for u in parents[v])]
        yield from ready
        done |= {*ready}
        left = [v for v in left if v not in done]

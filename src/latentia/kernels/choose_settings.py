"""Settings of the kernel embedding, chosen on held-out rows (design 7.7).

The score is the floored log density of held-out rows; the bandwidth of answers, and how far they
lean on a line, are chosen by the log density of each column given the others.
Pass 1 is shared by all settings of one feature bandwidth, pass 2 by all ranks and evidence
bandwidths: ranks are nested, smoothing comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import Answers, answer, log_evidence
from latentia.inference.evidence import around, read_evidence
from latentia.inference.linear_part import Linear, lean_on
from latentia.inference.operators import Operators
from latentia.kernels.embedding import (
    choose_sides,
    embed,
    in_single,
    look_once,
    raw_operators,
    sum_embedded,
    sum_sides,
)
from latentia.kernels.feature_maps import coordinates
from latentia.kernels.settings import KernelSettings
from latentia.kernels.smooth_leaves import on_grids
from latentia.linear_algebra import one_thread
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes

BANDWIDTHS = (0.4, 0.65, 1.0)
RIDGES = (0.6, 0.2, 2.0)
EVIDENCE = (0.1, 0.16, 0.25, 0.35)
OWN = (0.03, 0.05, 0.08, 0.13, 0.2)
LEAN = (0.0, 0.3, 0.6, 0.9)
RANKS = (6, 14, 30)
FIT_ROWS, HELD_ROWS = 2000, 600
MODEL_FLOOR = 0.01  # of the score by which models are compared


@final
@dataclass(frozen=True, slots=True)
class KernelChoice:
    """The settings, and the mean held-out score of every candidate that was looked at."""

    settings: KernelSettings
    scores: dict[str, float]
    rows: int  # held out


def choose_settings(
    plan: Plan,
    columns: Sequence[Column],
    sample: Rows,
    start: KernelSettings,
    rng: np.random.Generator,
    fixed: frozenset[str] = frozenset(),
) -> KernelChoice:
    """Coordinate by coordinate from `start`; names in `fixed` stay as they are."""
    if fixed >= {"bandwidth", "ridge", "rank", "evidence", "own", "lean"}:
        return KernelChoice(start, {}, 0)
    splits = list(_splits(sample, rng))
    scores: dict[str, float] = {}
    best, best_score = start, -np.inf
    first = RoughModels()
    with one_thread():
        for bandwidth in (start.bandwidth,) if "bandwidth" in fixed else BANDWIDTHS:
            trial = replace(best, bandwidth=bandwidth)
            found, score = _try_all(plan, columns, splits, trial, scores, fixed, first)
            if score > best_score:
                best, best_score = found, score
            first.keep(best.bandwidth)
        for ridge in () if "ridge" in fixed else RIDGES[1:]:
            trial = replace(best, ridge=(best.ridge[0], ridge))
            found, score = _try_all(plan, columns, splits, trial, scores, fixed, first)
            if score > best_score:
                best, best_score = found, score
            first.keep(best.bandwidth)
        if not fixed >= {"own", "lean"}:
            best = _choose_answers(plan, columns, splits[0], best, scores, fixed, first)
    return KernelChoice(best, scores, sum(len(held) for _, held in splits))


def _splits(sample: Rows, rng: np.random.Generator) -> Iterator[tuple[Rows, Rows]]:
    """One split of many rows, three of few."""
    n = len(sample)
    held = min(HELD_ROWS, max(n // 4, 1))
    for _ in range(1 if n >= FIT_ROWS // 2 else 3):
        order = rng.permutation(n)
        yield take_rows(sample, order[held : held + FIT_ROWS]), take_rows(sample, order[:held])


def take_rows(rows: Rows, chosen: Codes) -> Rows:
    weight = None if rows.weight is None else rows.weight[chosen]
    return Rows(tuple(c[chosen] for c in rows.codes), weight)


def _try_all(
    plan: Plan,
    columns: Sequence[Column],
    splits: Sequence[tuple[Rows, Rows]],
    settings: KernelSettings,
    scores: dict[str, float],
    fixed: frozenset[str],
    first: RoughModels,
) -> tuple[KernelSettings, float]:
    """Best rank and evidence bandwidth for given features and ridges."""
    ranks = free_ranks([plan], settings, fixed)
    widths = [settings.evidence] if "evidence" in fixed else list(EVIDENCE)
    total = np.zeros((len(ranks), len(widths)))
    for learn, held in splits:
        wide = replace(settings, rank=max(ranks))
        raw = learn_rough(plan, columns, learn, wide, first)
        for i, rank in enumerate(ranks):
            cut = cut_rank(raw, rank)
            for j, evidence in enumerate(widths):
                trial = replace(settings, rank=rank, evidence=evidence)
                model = on_grids(cut, columns, trial)
                total[i, j] += _score(model, columns, held) / len(splits)
    for (i, j), value in np.ndenumerate(total):
        name = f"bandwidth {tell_bandwidth(settings.bandwidth)}, ridge {settings.ridge[1]:g}"
        scores[f"{name}, rank {ranks[i]}, evidence {widths[j]:g}"] = float(value)
    best = np.unravel_index(int(total.argmax()), total.shape)
    found = replace(settings, rank=ranks[int(best[0])], evidence=widths[int(best[1])])
    return found, float(total.max())


def free_ranks(plans: Sequence[Plan], settings: KernelSettings, fixed: frozenset[str]) -> list[int]:
    """Ranks to choose from; one where all separators are small."""
    most = max(n.rank for plan in plans for n in plan.nodes)
    free = most > min(settings.rank, RANKS[0] + 1)
    if not free or "rank" in fixed:
        return [settings.rank]
    return [r for r in RANKS if r <= settings.most]


@final
@dataclass(slots=True)
class RoughModels:
    """Models of each table, of the bandwidth looked at last and of that kept: ridges share them."""

    kept: dict[tuple[object, ...], Rough] = field(default_factory=dict)

    def of(
        self, plan: Plan, columns: Sequence[Column], rows: Rows, settings: KernelSettings
    ) -> Rough:
        place = (settings.bandwidth, id(rows), settings.ridge[0], settings.rank)
        if place not in self.kept:
            self.kept[place] = _learn(plan, columns, rows, settings)
        return self.kept[place]

    def keep(self, bandwidth: float | str) -> None:
        """Forget all but one bandwidth."""
        self.kept = {place: own for place, own in self.kept.items() if place[0] == bandwidth}


@final
@dataclass(frozen=True, slots=True)
class Rough:
    """A model of some rows, learned with one ridge λ₂, that any other ridge only stretches."""

    learned: Operators
    strengths: Mapping[int, Array]  # e, by node
    ridge: float  # λ₂

    def with_ridge(self, ridge: float) -> Operators:
        """Directions of η̃ are divided by e + λ₂, and nothing else depends on it."""
        if ridge == self.ridge:
            return self.learned
        plan, own = self.learned.plan, self.learned
        stretch = {
            k: np.concatenate([np.ones(1), (e + self.ridge) / (e + ridge)])
            for k, e in self.strengths.items()
        }
        leaves = tuple(t * stretch[k] for t, k in zip(own.leaves, plan.leaves, strict=True))
        tensors = {k: t * stretch[k] if k in stretch else t for k, t in own.tensors.items()}
        return replace(own, leaves=leaves, tensors=tensors)


def _learn(plan: Plan, columns: Sequence[Column], rows: Rows, settings: KernelSettings) -> Rough:
    z = coordinates(columns, rows.codes)
    # single precision: settings differ by thousandths of their scores
    sides = in_single(choose_sides(plan, columns, z, settings, rows.weight))
    source = LocalRows(rows, threads=1)
    few = look_once(columns, sides, source)
    pairs = source.fold(partial(sum_sides, columns, sides, looked=few))
    found = embed(plan, sides, pairs, settings)
    products = source.fold(partial(sum_embedded, plan, columns, found, looked=few))
    learned = raw_operators(plan, columns, found, products)
    return Rough(learned, found.strengths, settings.ridge[1] / pairs.weight)


def learn_rough(
    plan: Plan,
    columns: Sequence[Column],
    rows: Rows,
    settings: KernelSettings,
    first: RoughModels,
) -> Operators:
    """A model of some rows, leaves not smoothed yet; ridges share what they can."""
    found = first.of(plan, columns, rows, settings)
    return found.with_ridge(settings.ridge[1] / found.learned.weight)


def cut_rank(operators: Operators, rank: int) -> Operators:
    """The same with fewer directions: they are nested."""
    keep = rank + 1
    return replace(
        operators,
        leaves=tuple(np.ascontiguousarray(t[:, :keep]) for t in operators.leaves),
        tensors={
            k: np.ascontiguousarray(t[(slice(keep),) * t.ndim])
            for k, t in operators.tensors.items()
        },
    )


def _score(model: Operators, columns: Sequence[Column], held: Rows) -> float:
    """Mean floored log density of held-out rows."""
    floored = replace(model, floor=MODEL_FLOOR)
    log, _ = log_evidence(floored, read_evidence(model.plan, held.codes))
    weight = None if held.weight is None else held.weight
    return float(np.average(np.maximum(log, -1e4), weights=weight))


def _choose_answers(
    plan: Plan,
    columns: Sequence[Column],
    split: tuple[Rows, Rows],
    settings: KernelSettings,
    scores: dict[str, float],
    fixed: frozenset[str],
    first: RoughModels,
) -> KernelSettings:
    """The answers' own bandwidth, then how far they lean on a line.

    By the log density of each continuous column given all others.
    """
    raw = cut_rank(learn_rough(plan, columns, split[0], settings, first), settings.rank)
    held = split[1]
    widths = (settings.own,) if "own" in fixed else OWN
    best, found, top = settings, None, -np.inf
    for own in widths:
        trial = replace(settings, own=own)
        model = on_grids(raw, columns, replace(trial, lean=0.0))
        answers = answer(model, read_evidence(plan, held.codes))
        scores[f"own {own:g}"] = _left_out(plan, columns, held, answers, None, 0.0)
        if scores[f"own {own:g}"] > top:
            best, found, top = trial, answers, scores[f"own {own:g}"]
    if "lean" in fixed or found is None or raw.linear is None:
        return best
    each = {x: _left_out(plan, columns, held, found, raw.linear, x) for x in LEAN}
    scores.update({f"lean {x:g}": value for x, value in each.items()})
    return replace(best, lean=max(each, key=lambda x: each[x]))


def _left_out(
    plan: Plan,
    columns: Sequence[Column],
    held: Rows,
    found: Answers,
    linear: Linear | None,
    lean: float,
) -> float:
    """Σ over continuous columns of the mean log density at the held-out values."""
    total = 0.0
    for i, v in enumerate(plan.graph.observed):
        if not columns[i].continuous:
            continue
        p = found.probabilities[v]
        if linear is not None and lean > 0:
            p = lean_on(replace(linear, lean=lean), held.codes, i, p)
        cells, share = around(held.codes[i], len(p), len(held))
        p = np.concatenate([p, np.ones((1, p.shape[1]))])  # a missing cell scores zero
        at = sum(
            np.take_along_axis(p, c[None], 0)[0] * s for c, s in zip(cells, share, strict=True)
        )
        total += float(np.average(np.log(np.maximum(at, 1e-12)), weights=held.weight))
    return total


def tell_bandwidth(bandwidth: float | str) -> str:
    return bandwidth if isinstance(bandwidth, str) else f"{bandwidth:g}"

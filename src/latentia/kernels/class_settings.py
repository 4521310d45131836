"""Kernel settings for the models of several classes, chosen together (design 7.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import scipy

from latentia.data.columns.column import Column
from latentia.data.rows import Rows
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import read_evidence
from latentia.inference.linear_part import Linear, pool_scores
from latentia.inference.many_rows import in_precision
from latentia.inference.operators import Operators
from latentia.kernels.choose_settings import (
    BANDWIDTHS,
    FIT_ROWS,
    HELD_ROWS,
    RIDGES,
    KernelChoice,
    RoughModels,
    cut_rank,
    free_ranks,
    learn_rough,
    take_rows,
    tell_bandwidth,
)
from latentia.kernels.settings import KernelSettings
from latentia.kernels.smooth_leaves import on_grids, smoothing
from latentia.linear_algebra import one_thread
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes

POOL = (0.0, 0.6)  # beside the start's
CLASS_EVIDENCE = (0.25, 0.35, 0.5)  # wider: what tells classes apart is coarse (design 7.6)
CLASS_ROWS, CLASS_FEATURES = 1000, 75  # to tell settings of classes apart …
WIDE_ROWS = 4000  # … from which models take more features: of fewer rows they tell classes worse
CLASS_FLOOR = 0.1  # of the scores by which classes are compared


def choose_settings_for_classes(
    plans: Sequence[Plan],
    columns: Sequence[Column],
    samples: Sequence[Rows],
    log_prior: Array,
    start: KernelSettings,
    rng: np.random.Generator,
    fixed: frozenset[str] = frozenset(),
) -> KernelChoice:
    """One choice for the models of all classes: by E[log P(class | row)] of held-out rows.

    Coordinate by coordinate from `start`: what evidence is read at, ranks and pools; bandwidths and
    ridges; the first again. Classes that are easy to tell apart leave few rows that could choose: a
    setting gives way only to one that is better by a standard error.
    """
    look = _ClassTrials(plans, columns, _class_splits(samples, rng), log_prior, fixed)
    rows = sum(map(len, samples))
    many = rows >= CLASS_ROWS  # of fewer, all is looked at in every place
    best = start
    if many or "features" not in fixed:
        best = replace(start, features=min(start.features, CLASS_FEATURES))
    if "evidence" not in fixed:
        best = replace(best, evidence=CLASS_EVIDENCE[1])
    with one_thread():
        best = look.around(best)
        for bandwidth in () if "bandwidth" in fixed else BANDWIDTHS:
            best = look.better(best, look.trial(replace(best, bandwidth=bandwidth), many))
        for ridge in () if "ridge" in fixed else RIDGES:
            ridges = (best.ridge[0], ridge)
            best = look.better(best, look.trial(replace(best, ridge=ridges), many))
        best = look.around(best)
    means = {name: float(each.mean()) for name, each in look.scores.items()}
    held = sum(len(rows) for _, held in look.splits for rows in held)
    if "features" in fixed or rows >= WIDE_ROWS:
        best = replace(best, features=start.features)
    return KernelChoice(best, means, held)


def _clearly_better(one: Array, other: Array) -> bool:
    """By more than a standard error of the mean difference."""
    gap = one - other
    return bool(gap.mean() > gap.std() / np.sqrt(len(gap)))


def _named(settings: KernelSettings) -> str:
    name = f"bandwidth {tell_bandwidth(settings.bandwidth)}, ridge {settings.ridge[1]:g}"
    return f"{name}, rank {settings.rank}, evidence {settings.evidence:g}, pool {settings.pool:g}"


def _class_splits(
    samples: Sequence[Rows], rng: np.random.Generator
) -> list[tuple[list[Rows], list[Rows]]]:
    """Rows to learn from and to hold out, of every class."""
    total = sum(len(s) for s in samples)
    found = []
    for _ in range(1 if total >= FIT_ROWS // 2 else 3):
        learn, hold = [], []
        for sample in samples:
            n, share = len(sample), len(sample) / total
            order = rng.permutation(n)
            held = min(n // 4, max(int(HELD_ROWS * share), 2))
            most = max(int(CLASS_ROWS * share), 10)
            learn.append(take_rows(sample, order[held : held + most]))
            hold.append(take_rows(sample, order[:held]))
        found.append((learn, hold))
    return found


@final
@dataclass(slots=True)
class _ClassTrials:
    """Models of all classes by their features and ridges, and how they tell held-out rows."""

    plans: Sequence[Plan]
    columns: Sequence[Column]
    splits: Sequence[tuple[Sequence[Rows], Sequence[Rows]]]
    log_prior: Array
    fixed: frozenset[str]
    scores: dict[str, Array] = field(default_factory=dict)  # log P(class | row), row by row
    rough: RoughModels = field(default_factory=RoughModels)
    blurs: dict[tuple[object, float], Array | None] = field(default_factory=dict)
    densities: dict[tuple[object, ...], list[Array]] = field(
        default_factory=dict
    )  # pools share them

    def around(self, best: KernelSettings) -> KernelSettings:
        """The best evidence bandwidth, then the best rank and share of the normal density."""
        best = best if "evidence" in self.fixed else self._evidence(best)
        for rank in free_ranks(self.plans, best, self.fixed):
            best = self.better(best, replace(best, rank=rank))
        for pool in () if "pool" in self.fixed else POOL:
            best = self.better(best, replace(best, pool=pool))
        return best

    def _evidence(self, best: KernelSettings) -> KernelSettings:
        """From where it is to its neighbours, and on from one that is better."""
        place = CLASS_EVIDENCE.index(best.evidence)
        for way in (CLASS_EVIDENCE[place + 1 :], CLASS_EVIDENCE[:place][::-1]):
            before = best
            for evidence in way:
                found = self.better(best, replace(best, evidence=evidence))
                if found is best:
                    break
                best = found
            if best is not before:
                break
        return best

    def trial(self, settings: KernelSettings, as_it_is: bool) -> KernelSettings:
        return settings if as_it_is else self.around(settings)

    def better(self, best: KernelSettings, trial: KernelSettings) -> KernelSettings:
        if trial == best:
            return best
        return trial if _clearly_better(self.score(trial), self.score(best)) else best

    def score(self, trial: KernelSettings) -> Array:
        name = _named(trial)
        if name not in self.scores:
            learned = self._learned(trial)
            each = [
                _class_score(
                    logs,
                    [own.linear for own in raw if own.linear is not None],
                    held,
                    self.log_prior,
                    trial.pool,
                )
                for logs, raw, (_, held) in zip(
                    self._log_densities(trial, learned), learned, self.splits, strict=True
                )
            ]
            self.scores[name] = np.concatenate(each)
        return self.scores[name]

    def _learned(self, trial: KernelSettings) -> list[list[Operators]]:
        """Of all ranks at once: they are nested."""
        ranks = free_ranks(self.plans, trial, self.fixed)
        wide = replace(trial, rank=max(*ranks, trial.rank))
        return [
            [
                learn_rough(plan, self.columns, rows, wide, self.rough)
                for plan, rows in zip(self.plans, learn, strict=True)
            ]
            for learn, _ in self.splits
        ]

    def _log_densities(
        self, trial: KernelSettings, learned: Sequence[Sequence[Operators]]
    ) -> list[Array]:
        """log P̂(row | class) of held-out rows, (classes, rows) for every split."""
        key = (trial.bandwidth, trial.ridge, trial.rank, trial.evidence)
        if key not in self.densities:
            settings = replace(trial, floor=CLASS_FLOOR)
            self.densities[key] = [
                np.stack([self._log_density(own, held, settings) for own in raw])
                for raw, (_, held) in zip(learned, self.splits, strict=True)
            ]
        return self.densities[key]

    def _log_density(self, raw: Operators, held: Sequence[Rows], settings: KernelSettings) -> Array:
        """log P̂(row) of the rows of all classes, in single precision, as models were learned."""
        cut = cut_rank(raw, settings.rank)
        model = on_grids(cut, self.columns, settings, scores_only=True, blur=self._blur)
        evidence = read_evidence(model.plan, _together(held))
        return log_evidence(in_precision(model, np.float32), evidence)[0]

    def _blur(self, column: Column, bandwidth: float) -> Array | None:
        place = (column.name, bandwidth)
        if place not in self.blurs:
            self.blurs[place] = smoothing(column, bandwidth)
        return self.blurs[place]


def _class_score(
    logs: Array, lines: Sequence[Linear], held: Sequence[Rows], log_prior: Array, pool: float
) -> Array:
    """log P(class | row) of held-out rows, each times its weight."""
    logs = log_prior[:, None] + pool_scores(logs, lines, _together(held), pool)
    label = np.repeat(np.arange(len(held)), [len(r) for r in held])
    weight = np.concatenate([r.weights for r in held])
    true = logs[label, np.arange(len(label))] - scipy.special.logsumexp(logs, axis=0)
    return np.asarray(true * weight)


def _together(held: Sequence[Rows]) -> list[Codes]:
    return [np.concatenate(codes) for codes in zip(*(r.codes for r in held), strict=True)]

"""Kernel settings for the models of several classes, chosen together (design 7.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import scipy

from latentia.data.columns.column import Column
from latentia.data.rows import Rows
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import read_evidence
from latentia.inference.linear_part import pool_scores
from latentia.inference.operators import Operators
from latentia.kernels.choose_settings import (
    BANDWIDTHS,
    FIT_ROWS,
    HELD_ROWS,
    RIDGES,
    FirstPasses,
    KernelChoice,
    cut_rank,
    free_ranks,
    learn_rough,
    take_rows,
    tell_bandwidth,
)
from latentia.kernels.settings import KernelSettings
from latentia.kernels.smooth_leaves import on_grids
from latentia.linear_algebra import one_thread
from latentia.structure.plan import Plan
from latentia.typing import Array

POOL = (0.0, 0.6)  # beside the start's
CLASS_EVIDENCE = (0.35, 0.25, 0.5)  # wider: what tells classes apart is coarse (design 7.6)
CLASS_ROWS, CLASS_FEATURES = 1000, 75  # to tell settings of classes apart; models take all
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
    many = sum(map(len, samples)) >= CLASS_ROWS  # of fewer, all is looked at in every place
    best = replace(start, features=min(start.features, CLASS_FEATURES)) if many else start
    if "evidence" not in fixed:
        best = replace(best, evidence=CLASS_EVIDENCE[0])
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
    return KernelChoice(replace(best, features=start.features), means, held)


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
    first: FirstPasses = field(default_factory=FirstPasses)
    learned: dict[tuple[Any, ...], list[list[Operators]]] = field(default_factory=dict)

    def around(self, best: KernelSettings) -> KernelSettings:
        """The best evidence bandwidth, then the best rank and share of the normal density."""
        for evidence in () if "evidence" in self.fixed else CLASS_EVIDENCE:
            best = self.better(best, replace(best, evidence=evidence))
        for rank in free_ranks(self.plans, best, self.fixed):
            best = self.better(best, replace(best, rank=rank))
        for pool in () if "pool" in self.fixed else POOL:
            best = self.better(best, replace(best, pool=pool))
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
            each = [
                _class_score(own, self.columns, held, self.log_prior, trial)
                for own, (_, held) in zip(self._learned(trial), self.splits, strict=True)
            ]
            self.scores[name] = np.concatenate(each)
        return self.scores[name]

    def _learned(self, trial: KernelSettings) -> list[list[Operators]]:
        """Of all ranks at once: they are nested."""
        key = (trial.bandwidth, trial.ridge)
        if key not in self.learned:
            ranks = free_ranks(self.plans, trial, self.fixed)
            wide = replace(trial, rank=max(*ranks, trial.rank))
            self.learned[key] = [
                [
                    learn_rough(plan, self.columns, rows, wide, self.first)
                    for plan, rows in zip(self.plans, learn, strict=True)
                ]
                for learn, _ in self.splits
            ]
        return self.learned[key]


def _class_score(
    raw: Sequence[Operators],
    columns: Sequence[Column],
    held: Sequence[Rows],
    log_prior: Array,
    settings: KernelSettings,
) -> Array:
    """log P(class | row) of held-out rows, each times its weight."""
    together = [np.concatenate(codes) for codes in zip(*(r.codes for r in held), strict=True)]
    logs = np.empty((len(held), sum(map(len, held))))
    for k, own in enumerate(raw):
        model = on_grids(cut_rank(own, settings.rank), columns, settings, scores_only=True)
        model = replace(model, floor=CLASS_FLOOR)
        logs[k] = log_evidence(model, read_evidence(model.plan, together))[0]
    lines = [own.linear for own in raw if own.linear is not None]
    logs = log_prior[:, None] + pool_scores(logs, lines, together, settings.pool)
    label = np.repeat(np.arange(len(held)), [len(r) for r in held])
    weight = np.concatenate([r.weights for r in held])
    true = logs[label, np.arange(len(label))] - scipy.special.logsumexp(logs, axis=0)
    return np.asarray(true * weight)

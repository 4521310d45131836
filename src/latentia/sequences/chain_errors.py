"""How far the numbers of a chain may be off: the same chain without one group of steps each.

Groups are whole sequences, or stretches where sequences are few: what is left of a sequence then is
two, and tables of first steps are not judged. Every replicate climbs from the tables of all steps,
so that its states are the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from scipy.special import stdtrit

from latentia.assess.intervals import intervals
from latentia.errors import DataError, EvidenceError
from latentia.linear_algebra import one_thread
from latentia.sequences.chain_wiring import wire_groups
from latentia.sequences.expectation import chain_estep
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.learn_chain import ChainLearning, ChainPrior, climb_chain
from latentia.sequences.step_data import Sequences
from latentia.typing import Array

GROUPS = 20
MANY = 10  # sequences: fewer are cut into stretches
CLIMB = 1e-4  # gain per parameter at which replicates rest: a hundredth of what shifts gain
MOST_STEPS = 200


@final
@dataclass(frozen=True, slots=True, eq=False)
class Replicate:
    """Tables and expected counts of some of the steps."""

    tables: dict[int, Array]
    counts: dict[int, Array]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChainReplicates:
    """A chain of all steps, and of all but one group each, learned alike."""

    whole: Replicate
    without: tuple[Replicate, ...]
    stretches: bool  # groups are parts of sequences

    def changed(self, change: Callable[[Tables], dict[int, Array]]) -> ChainReplicates:
        """With every set of tables changed alike (states in another order)."""
        whole, *without = (
            Replicate(change(r.tables), change(r.counts)) for r in (self.whole, *self.without)
        )
        return ChainReplicates(whole, tuple(without), self.stretches)


def groups_asked(error_bars: object) -> int:
    """How many groups: 0 for none, the usual number for True."""
    if error_bars is None or error_bars is False:
        return 0
    if error_bars is True:
        return GROUPS
    if not isinstance(error_bars, int | np.integer) or error_bars < 2:
        raise DataError(
            f"expected error_bars as True or a number of groups from 2 on, got {error_bars!r}."
        )
    return int(error_bars)


def replicate_chain(
    layout: ChainLayout,
    sequences: Sequences,
    prior: ChainPrior,
    tables: Tables,
    groups: int,
    rng: np.random.Generator,
) -> ChainReplicates:
    """Climb again from the tables that were found, without one group of steps each."""
    parts, stretches = left_over(sequences, groups, rng)
    with one_thread():
        whole = _climbed(layout, sequences, prior, tables)
        return ChainReplicates(
            whole, tuple(_climbed(layout, part, prior, whole.tables) for part in parts), stretches
        )


def _climbed(
    layout: ChainLayout, sequences: Sequences, prior: ChainPrior, tables: Tables
) -> Replicate:
    laid = wire_groups(layout, sequences)
    how = ChainLearning(max_iter=MOST_STEPS, tol=CLIMB / max(1, sequences.steps))
    found = climb_chain(laid, tables, prior, how, enough=CLIMB).tables
    counts, _, _ = chain_estep(laid, found)
    return Replicate(found, counts)


def left_over(
    sequences: Sequences, groups: int, rng: np.random.Generator
) -> tuple[list[Sequences], bool]:
    """What is left without each group, and whether groups are stretches of sequences."""
    full = np.flatnonzero(np.diff(sequences.offsets) > 0)
    if len(full) >= MANY:
        order = rng.permutation(full)
        ends = np.cumsum(np.diff(sequences.offsets)[order])
        groups = min(groups, len(full))
        group = np.minimum((ends - 1) * groups // ends[-1], groups - 1)
        kept = [np.sort(order[group != g]).tolist() for g in np.unique(group)]
        return [sequences.some(k) for k in kept], False
    if sequences.steps < 2 * groups:
        raise DataError(
            f"error bars need at least {2 * groups} steps for {groups} groups, got "
            f"{sequences.steps}. Pass more rows, or error_bars= a smaller number."
        )
    cuts = np.arange(groups + 1) * sequences.steps // groups
    return [_around(sequences, int(a), int(b)) for a, b in pairwise(cuts)], True


def _around(sequences: Sequences, start: int, stop: int) -> Sequences:
    """All steps but those of one stretch."""
    spans = [
        span
        for own in sequences
        for span in ((own.start, min(own.stop, start)), (max(own.start, stop), own.stop))
        if span[1] > span[0]
    ]
    return sequences.spans(spans)


def asked_replicates(replicates: ChainReplicates | None) -> ChainReplicates:
    """Those of a model, or an error that says how to get them."""
    if replicates is None:
        raise EvidenceError(
            "a confidence needs error bars, which this model was learned without. Fit it with "
            "fit(..., error_bars=True)."
        )
    return replicates


def share_intervals(
    p: Array, replicates: ChainReplicates, of: Callable[[Replicate], Array], confidence: float
) -> tuple[Array, Array]:
    """Ends of intervals of shares, which `of` reads from each replicate."""
    whole = of(replicates.whole)
    return intervals(p, whole, (of(r) for r in replicates.without), confidence)


def plain_intervals(
    x: Array, whole: Array, without: Sequence[Array], confidence: float
) -> tuple[Array, Array]:
    """The same of numbers that are no shares: x ± t √(se² + bias²)."""
    each = np.stack(without)
    count = len(each)
    variance = (count - 1) / count * ((each - each.mean(axis=0)) ** 2).sum(axis=0)
    bias = (count - 1) * (each.mean(axis=0) - whole)
    half = float(stdtrit(count - 1, 0.5 + confidence / 2)) * np.sqrt(variance + bias**2)
    return x - half, x + half

"""Delete-a-group jackknife: the sums of every group of rows, and models without one group each.

    sums without group g = Σ over all groups - that of g

Sums are additive, so one pass that keeps them in G groups is enough for G models, each learned from
all rows but those of one group, in coordinates that are frozen for all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from latentia.closed_form.frozen import Frozen
from latentia.closed_form.pairs import PairLayout, pair_layout, sum_pairs
from latentia.closed_form.solving import leaf_marginals
from latentia.data.moments import Moments, Summary
from latentia.data.row_colours import by_colour
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import keep_rows
from latentia.errors import DataError, LatentiaError
from latentia.inference.operators import Operators, independent, smooth_unseen
from latentia.structure.plan import Plan
from latentia.typing import Array

FEWEST_ROWS = 2  # of a group, on average
WEIGHTS = "weights of groups"
MOST_KEPT = 2**18  # different rows that are brought into memory to be dealt
MOST_DEALT = 2**22  # rows that are dealt one by one
ROUNDING = 1e-6  # of weights
LEAST_MIX = 1e-9  # what is impossible without one group makes an interval wide, not an error


@final
@dataclass(frozen=True, slots=True)
class Replicates:
    """The model of all rows, and those of all rows but one group each, learned alike."""

    whole: Operators
    without: tuple[Operators, ...]

    def __post_init__(self) -> None:
        if len(self.without) < 2:
            raise LatentiaError("a jackknife needs two groups of rows at least.")
        if any(other.plan != self.whole.plan for other in self.without):
            raise LatentiaError("the models of a jackknife must share their plan.")

    @property
    def groups(self) -> int:
        """G."""
        return len(self.without)


def jackknife_error(without: Sequence[Array]) -> Array:
    """Standard error of what models without one group each say: √((G-1)/G Σ (x_g - x̄)²)."""
    x, count = np.stack(without), len(without)
    return np.asarray(np.sqrt((count - 1) / count * ((x - x.mean(axis=0)) ** 2).sum(axis=0)))


# --- groups of rows -------------------------------------------------------------------------------


def dealt_source(source: Source) -> Source:
    """The same rows, equal ones once, in an order that neither blocks nor names decide.

    So that groups are the same ones wherever the rows are; more than so many different rows stay
    where they are, and groups go by the blocks in which they are read.
    """
    kept, whole = keep_rows(source, MOST_KEPT, np.random.default_rng(0))
    return LocalRows(by_colour(kept)) if whole else source


def group_weights(rows: Rows, groups: int, seed: int) -> Array:
    """How much of each row belongs to each group, at random: (n, G); sums over groups are weights.

    Weights are frequencies: a row that counts w times is w rows, which fall into groups one by one
    (a broken part stays whole). The same block of rows is always split in the same way.
    """
    content = zlib.crc32(b"".join(np.ascontiguousarray(c).tobytes() for c in rows.codes))
    rng, n = np.random.default_rng([seed, content]), len(rows)
    count = np.floor(rows.weights + ROUNDING).astype(np.int64)  # sums of weights are rounded
    if count.sum() <= MOST_DEALT:  # groups of one size
        label = rng.permutation(np.arange(count.sum()) % groups)
        place = np.arange(n).repeat(count) * groups + label
        found = np.bincount(place, minlength=n * groups).reshape(n, groups).astype(float)
    else:
        found = np.asarray(rng.multinomial(count, np.full(groups, 1.0 / groups)), dtype=float)
    found[np.arange(n), rng.integers(groups, size=n)] += np.maximum(rows.weights - count, 0.0)
    return found


def in_groups(rows: Rows, groups: int, seed: int) -> list[Rows]:
    """The rows of each group; their weights add up to those of the rows."""
    share = group_weights(rows, groups, seed)
    found = []
    for g in range(groups):
        here = share[:, g] > 0
        weight = None if rows.weight is None else share[here, g]
        found.append(Rows(tuple(c[here] for c in rows.codes), weight))
    return found


def group_sums(summary: Summary, groups: int, seed: int, rows: Rows) -> Moments:
    """The sums of each group, stacked: every array has one axis more, (G, …), and comes first."""
    parts = [summary(part) if len(part) else None for part in in_groups(rows, groups, seed)]
    some = next((part for part in parts if part is not None), None)
    if some is None:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    zero = {name: np.zeros_like(total) for name, total in some.sums.items()}
    sums = {
        name: np.stack([zero[name] if part is None else part.sums[name] for part in parts])
        for name in some.sums
    }
    sums[WEIGHTS] = np.array([0.0 if part is None else part.weight for part in parts])
    kind = f"{some.kind} in {groups} groups"
    return Moments(kind, float(sums[WEIGHTS].sum()), len(rows), sums)


def sums_in_groups(source: Source, summary: Summary, groups: int, seed: int) -> Moments:
    """One pass over the rows, its sums kept by group."""
    found = source.fold(partial(group_sums, summary, groups, seed))
    check_groups(found.weight, groups)
    return found


def check_groups(weight: float, groups: int) -> None:
    """Enough rows for so many groups, or an error that says so."""
    if weight < FEWEST_ROWS * groups:
        raise DataError(
            f"error bars from {groups} groups of rows need {FEWEST_ROWS * groups} rows at least, "
            f"got {weight:g}. Bring more rows, or ask for fewer groups: error_bars=5."
        )


def whole_of(grouped: Moments, kind: str) -> Moments:
    """The sums over all rows."""
    totals = {name: x.sum(axis=0) for name, x in grouped.sums.items() if name != WEIGHTS}
    return Moments(kind, grouped.weight, grouped.rows, totals)


def leave_one_out(grouped: Moments, kind: str) -> Iterator[Moments]:
    """The sums over all rows but those of one group: total - group, for every group."""
    whole, weights = whole_of(grouped, kind), grouped.sums[WEIGHTS]
    for g, weight in enumerate(weights):
        sums = {name: total - grouped.sums[name][g] for name, total in whole.sums.items()}
        yield Moments(kind, grouped.weight - float(weight), grouped.rows, sums)


# --- models without a group -----------------------------------------------------------------------


def alike(whole: Operators, without: Iterable[Operators]) -> Replicates:
    """Replicates of equal ranks, with what messages need and nothing besides.

    Zeros in place of a direction that one of them did not find change no answer.
    """
    found = [whole, *without]
    shapes = [node_ranks(each) for each in found]
    ranks = [max(sizes) for sizes in zip(*shapes, strict=True)]
    first, *others = (_padded(each, ranks) for each in found)
    return Replicates(first, tuple(others))


def node_ranks(operators: Operators) -> list[int]:
    """Rank of every node; 1 at roots."""
    plan = operators.plan
    ranks = [1] * len(plan.nodes)
    for x, k in enumerate(plan.leaves):
        ranks[k] = operators.leaves[x].shape[1]
    for k in plan.inner:
        ranks[k] = operators.tensors[k].shape[-1]
    return ranks


def _padded(operators: Operators, ranks: Sequence[int]) -> Operators:
    plan = operators.plan
    leaves = [
        _filled(t, (len(t), ranks[k])) for k, t in zip(plan.leaves, operators.leaves, strict=True)
    ]
    tensors = {}
    for k, tensor in operators.tensors.items():
        below = tuple(ranks[c] for c in plan.nodes[k].children)
        tensors[k] = _filled(tensor, below if plan.nodes[k].parent == k else (*below, ranks[k]))
    marginals = tuple(np.array(mu) for mu in operators.marginals)
    mix = max(operators.mix, LEAST_MIX)
    # tables tell latents, too; a learner of tables has the same ranks everywhere
    tables = operators.tables if node_ranks(operators) == list(ranks) else {}
    return Operators(plan, tuple(leaves), tensors, marginals, operators.weight, mix, tables=tables)


def _filled(array: Array, shape: tuple[int, ...]) -> Array:
    found = np.zeros(shape)
    found[tuple(map(slice, array.shape))] = array
    return found


def frozen_replicates(frozen: Frozen, grouped: Moments) -> Replicates:
    """Operators from the sums of all rows and from those without each group, same coordinates."""
    return _replicates(frozen.solve, grouped, frozen.kind)


def marginal_replicates(plan: Plan, source: Source, groups: int, seed: int) -> Replicates:
    """Where the columns are told to be independent: marginals with and without each group."""
    layout = pair_layout(plan)
    grouped = sums_in_groups(source, partial(sum_pairs, layout), groups, seed)
    kind = f"pairs of plan {plan.fingerprint}"
    return _replicates(partial(_independent, layout), grouped, kind)


def _independent(layout: PairLayout, pairs: Moments) -> Operators:
    shares = [smooth_unseen(mu, pairs.weight) for mu in leaf_marginals(layout, pairs)]
    return independent(layout.plan, shares, pairs.weight)


def _replicates(solve: Callable[[Moments], Operators], grouped: Moments, kind: str) -> Replicates:
    try:
        without = tuple(solve(part) for part in leave_one_out(grouped, kind))
    except DataError as error:
        raise DataError(
            f"no error bars: without one of the groups of rows, {error} Ask for more groups."
        ) from error
    return alike(solve(whole_of(grouped, kind)), without)

"""The E-step of a chain: from tables and sequences to counts and log-likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from latentia.sequences.careful_passes import (
    careful_expect,
    careful_filter,
    careful_smooth,
    check_reach,
)
from latentia.sequences.chain_messages import Filtered, NotAtRestError, Potentials, Smoothed
from latentia.sequences.hidden_states import Tables
from latentia.sequences.packing import Packing
from latentia.sequences.potentials import Wired, chain_counts, potentials, uncut
from latentia.sequences.quick_passes import (
    QuickForward,
    quick_expect,
    quick_forward,
    quick_smooth,
)
from latentia.typing import Array

Found = TypeVar("Found")


def at_rest(wired: Wired, work: Callable[[Wired], Found]) -> tuple[Found, Wired]:
    """`work` on pieces of sequences; on whole ones where pieces do not forget how they began."""
    try:
        return work(wired), wired
    except NotAtRestError:
        whole = uncut(wired)
        return work(whole), whole


def filtered(wired: Wired, tables: Tables) -> tuple[Filtered, Wired]:
    """Forward messages only."""
    return at_rest(wired, lambda w: _filter(w, tables))


def _filter(wired: Wired, tables: Tables) -> Filtered:
    p = potentials(wired, tables)
    check_reach(p)
    quick = quick_forward(wired.packing, p)
    return careful_filter(wired.packing, p) if quick is None else quick.filtered()


def smoothed(wired: Wired, tables: Tables) -> tuple[Smoothed, Wired]:
    """P(state | all cells) of every step."""
    return at_rest(wired, lambda w: _both(w, tables, quick_smooth, careful_smooth))


def _both(
    wired: Wired,
    tables: Tables,
    quick: Callable[[QuickForward], Found | None],
    careful: Callable[[Packing, Potentials], Found],
) -> Found:
    """Messages both ways, quick ones where floats can hold them."""
    p = potentials(wired, tables)
    check_reach(p)
    forward = quick_forward(wired.packing, p)
    found = None if forward is None else quick(forward)
    return careful(wired.packing, potentials(wired, tables)) if found is None else found


def chain_estep(
    groups: Sequence[Wired], tables: Tables
) -> tuple[dict[int, Array], float, tuple[Wired, ...]]:
    """Expected counts of every table, Σ log P(sequence), and how the sequences had to be laid."""
    counts: dict[int, Array] = {}
    level, laid = 0.0, []
    for wired in groups:
        found, used = at_rest(wired, lambda w: _both(w, tables, quick_expect, careful_expect))
        own = chain_counts(used, found.gamma, found.moves)
        counts = {n: counts[n] + x for n, x in own.items()} if counts else own
        level += found.level
        laid.append(used)
    return counts, level, tuple(laid)

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
from latentia.sequences.chain_counts import chain_counts
from latentia.sequences.chain_messages import Filtered, NotAtRestError, Potentials, Smoothed
from latentia.sequences.chain_wiring import Wired, uncut, wire_steps
from latentia.sequences.compiled_chain import (
    compiled_expect,
    compiled_filter,
    compiled_smooth,
)
from latentia.sequences.hidden_states import Tables
from latentia.sequences.packing import InRow, Packing
from latentia.sequences.potentials import potentials
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


def filtered(wired: Wired, tables: Tables, scored: bool = True) -> tuple[Filtered, Wired]:
    """Forward messages only; not `scored`: levels tell which steps cannot be, and no more."""
    if isinstance(wired.packing, InRow):
        found = compiled_filter(wired, tables, scored)
        if found is not None:
            return found, wired
        wired = wire_steps(wired.layout, wired.sequences)
    return at_rest(wired, lambda w: _filter(w, tables))


def _filter(wired: Wired, tables: Tables) -> Filtered:
    p = potentials(wired, tables)
    check_reach(p)
    quick = quick_forward(wired.lockstep, p)
    return careful_filter(wired.lockstep, p) if quick is None else quick.filtered()


def smoothed(wired: Wired, tables: Tables) -> tuple[Smoothed, Wired]:
    """P(state | all cells) of every step."""
    if isinstance(wired.packing, InRow):
        found = compiled_smooth(wired, tables)
        if found is not None:
            return found, wired
        wired = wire_steps(wired.layout, wired.sequences)
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
    forward = quick_forward(wired.lockstep, p)
    found = None if forward is None else quick(forward)
    return careful(wired.lockstep, potentials(wired, tables)) if found is None else found


def chain_estep(
    groups: Sequence[Wired], tables: Tables
) -> tuple[dict[int, Array], float, tuple[Wired, ...]]:
    """Expected counts of every table, Σ log P(sequence), and how the sequences had to be laid."""
    counts: dict[int, Array] = {}
    level, laid = 0.0, []
    for wired in groups:
        own, fit, used = _group_counts(wired, tables)
        counts = {n: counts[n] + x for n, x in own.items()} if counts else own
        level += fit
        laid.append(used)
    return counts, level, tuple(laid)


def _group_counts(wired: Wired, tables: Tables) -> tuple[dict[int, Array], float, Wired]:
    if isinstance(wired.packing, InRow):
        compiled = compiled_expect(wired, tables)
        if compiled is not None:
            return *compiled, wired
        side_by_side = wire_steps(wired.layout, wired.sequences)
        return *_group_counts(side_by_side, tables)[:2], wired  # others may be held again
    found, used = at_rest(wired, lambda w: _both(w, tables, quick_expect, careful_expect))
    return chain_counts(used, found.gamma, found.moves), found.level, used

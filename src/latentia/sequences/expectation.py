"""The E-step of a chain: from tables and sequences to counts and log-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from latentia.sequences.forward_backward import (
    Forward,
    NotAtRestError,
    Potentials,
    Smoothed,
    backward_pass,
    forward_pass,
)
from latentia.sequences.hidden_states import Tables
from latentia.sequences.potentials import Wired, chain_counts, potentials, uncut
from latentia.typing import Array

Found = TypeVar("Found")


def at_rest(wired: Wired, work: Callable[[Wired], Found]) -> tuple[Found, Wired]:
    """`work` on pieces of sequences; on whole ones where pieces do not forget how they began."""
    try:
        return work(wired), wired
    except NotAtRestError:
        whole = uncut(wired)
        return work(whole), whole


def filtered(wired: Wired, tables: Tables) -> tuple[Forward, Wired]:
    """Forward messages only."""
    return at_rest(wired, lambda w: forward_pass(w.packing, potentials(w, tables)))


def both_passes(wired: Wired, tables: Tables) -> tuple[Potentials, Forward, Smoothed]:
    """Forward and backward messages."""
    p = potentials(wired, tables)
    forward = forward_pass(wired.packing, p)
    return p, forward, backward_pass(wired.packing, p, forward)


def smoothed_states(wired: Wired, tables: Tables) -> tuple[Forward, Smoothed, Wired]:
    """P(state | all cells) of every step."""
    (_, forward, found), used = at_rest(wired, lambda w: both_passes(w, tables))
    return forward, found, used


def chain_estep(wired: Wired, tables: Tables) -> tuple[dict[int, Array], float, Wired]:
    """Expected counts of every table, Σ log P(sequence), and how the sequences had to be laid."""
    (p, forward, found), used = at_rest(wired, lambda w: both_passes(w, tables))
    return chain_counts(used, p, forward, found), float(forward.log_scale.sum()), used

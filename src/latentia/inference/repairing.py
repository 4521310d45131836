"""From signed masses to probabilities: what is negative is cut off, and told (design 6)."""

from __future__ import annotations

import numpy as np

from latentia.errors import EvidenceError
from latentia.typing import Array, Bools

LARGEST_LOG = 600.0


def repaired(joint: Array, log: Array, prior: Array, mix: float) -> tuple[Array, Array, Bools]:
    """max(P̂(q, e), 0) + mix · P̂(q) Π P̂(e_i), normalised; and the share clipped (design 6).

    `joint` · exp(log) is P̂(q, e) / Π P̂(e_i): (states, n). Last, which rows have any probability;
    the others get P̂(q).
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
        table, share = joint, np.zeros(joint.shape[1], dtype=joint.dtype)
        if not joint.min(initial=0.0) >= 0:  # or some is not a number
            table = np.maximum(joint, 0.0)
            kept = table.sum(axis=0)
            lost = kept - joint.sum(axis=0)  # the negative part, with its sign turned
            share = lost / np.maximum(kept + lost, np.finfo(kept.dtype).tiny)
        if mix > 0:
            table = table + mix * prior * np.exp(np.minimum(-log, LARGEST_LOG))
        total = table.sum(axis=0)
    sound = (total > 0) & (total < np.inf)
    if sound.all():
        return table / total, share, sound
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.where(sound, table / total, by_itself(prior)), share, sound


def by_itself(prior: Array) -> Array:
    """P̂(column), given the evidence that shares its leaf: never negative, sum one."""
    kept = np.maximum(prior, 1e-12)
    return np.asarray(kept / kept.sum(axis=0))


def check_sound(sound: Bools) -> None:
    """An error that names the first row without any probability."""
    if not sound.all():
        raise EvidenceError(
            f"the evidence of row {int(np.argmin(sound))} has probability zero under the model "
            "(a value never seen in training, or values never seen together). Leave the value out "
            "to marginalise it."
        )

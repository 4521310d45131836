"""Step blocks: (states, steps) with the states of one step of all pieces next to each other.

One step of all pieces is a block (states, pieces still going), and blocks lie one behind the other,
so that a step reads and writes one stretch of memory. Steps with equally many pieces are a run:
a view (steps, states, pieces).
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from latentia.sequences.packing import Packing
from latentia.typing import Array


def run_views(blocks: Array, packing: Packing) -> list[Array]:
    """Of every run, (steps, states, pieces)."""
    states = len(blocks) // packing.steps
    return [
        blocks[states * run.lo : states * run.hi].reshape(run.steps, states, run.pieces)
        for run in packing.runs
    ]


def step_views(blocks: Array, packing: Packing) -> list[Array]:
    """Of every step, (states, pieces)."""
    return list(chain.from_iterable(run_views(blocks, packing)))


def to_blocks(x: Array, packing: Packing, found: Array) -> Array:
    """(states, steps) as blocks, (states · steps,), in `found`."""
    for run, view in zip(packing.runs, run_views(found, packing), strict=True):
        own = x[:, run.lo : run.hi].reshape(len(x), run.steps, run.pieces)
        view.transpose(1, 0, 2)[...] = own
    return found


def from_blocks(blocks: Array, packing: Packing, found: Array) -> Array:
    """Blocks as (states, steps), in `found`."""
    for run, view in zip(packing.runs, run_views(blocks, packing), strict=True):
        own = found[:, run.lo : run.hi].reshape(len(found), run.steps, run.pieces)
        own[...] = view.transpose(1, 0, 2)
    return found


def state_sums(blocks: Array, packing: Packing) -> Array:
    """Σ over states, (steps,)."""
    found = np.empty(packing.steps)
    for run, view in zip(packing.runs, run_views(blocks, packing), strict=True):
        out = found[run.lo : run.hi].reshape(run.steps, run.pieces)
        np.add.reduce(view, axis=1, out=out)
    return found

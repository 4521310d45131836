"""From tables to potentials: what they say of every step that was laid out (`chain_wiring`)."""

from __future__ import annotations

import numpy as np

from latentia.exact.gaussian_leaves import log_terms
from latentia.sequences.chain_messages import Potentials
from latentia.sequences.chain_wiring import Bells, Lookup, Wired
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.packing import Indices
from latentia.sequences.scratch import scratch
from latentia.sequences.table_places import bell_places, cell_places
from latentia.typing import Array

PLAIN_PRODUCTS = 3  # discrete columns whose probabilities are multiplied as they are


def starts_of(layout: ChainLayout, tables: Tables) -> Array:
    """P(joint state at a first step), (states, configurations)."""
    return np.ascontiguousarray((_product(layout, tables, 0)[:, 0] * layout.blank).T)


def moves_of(layout: ChainLayout, tables: Tables) -> Array:
    """P(joint state | the one before), (configurations, from, to)."""
    return np.ascontiguousarray(_product(layout, tables, 1) * layout.remembered)


def _product(layout: ChainLayout, tables: Tables, which: int) -> Array:
    found: Array = np.ones((1, 1, layout.width))
    for number, at in layout.places.items():
        if at[which] is not None:
            found = found * tables[number].ravel()[at[which]]
    if which:
        found = found * np.ones((1, layout.width, 1))
    return np.asarray(found)


def potentials(wired: Wired, tables: Tables) -> Potentials:
    """What the tables say of every step; emissions lie in scratch memory."""
    layout, steps = wired.layout, wired.sequences.steps
    emission = scratch("emission", layout.width, steps)
    shift, logs = np.zeros(steps), None
    if wired_in_logs(wired):
        logs = log_emissions(wired, tables)
        top = logs.max(axis=0)
        shift = np.where(np.isneginf(top), 0.0, top)
        np.exp(np.subtract(logs, shift, out=emission), out=emission)
    else:
        _products(wired, tables, emission)
    start, move = starts_of(layout, tables), moves_of(layout, tables)
    return Potentials(start, move, wired.which, emission, shift, logs)


def wired_in_logs(wired: Wired) -> bool:
    """Are emissions made from logarithms?"""
    return bool(wired.bells) or len(wired.lookups) > PLAIN_PRODUCTS


def _products(wired: Wired, tables: Tables, emission: Array) -> None:
    """Products of the probabilities of all cells of a step, (states, steps)."""
    rows = cell_rows(wired, tables)
    if not rows:
        emission[:] = 1.0
    for k, (table, at) in enumerate(rows):
        if k == 0:
            np.take(table, at, axis=1, out=emission, mode="clip")  # clip: no buffer
        else:
            emission *= np.take(
                table, at, axis=1, out=scratch("factor", *emission.shape), mode="clip"
            )


def cell_rows(wired: Wired, tables: Tables) -> list[tuple[Array, Indices]]:
    """Of every discrete column and mask: P(cell | state), (states, rows), and the steps' rows."""
    layout = wired.layout
    found = [(_rows(layout, lookup, tables), lookup.rows) for lookup in wired.lookups]
    return found + [(_mask_rows(layout, mask), mask.rows) for mask in wired.masks]


def log_emissions(wired: Wired, tables: Tables) -> Array:
    """log P(cells | state), (states, steps), in scratch memory."""
    layout = wired.layout
    logs = scratch("logs", layout.width, wired.sequences.steps)
    logs[:] = 0.0
    for bells in wired.bells:
        logs += _bell_logs(layout, bells, tables)
    with np.errstate(divide="ignore"):
        rows = [(np.log(table), at) for table, at in cell_rows(wired, tables)]
    for table, at in rows:
        logs += np.take(table, at, axis=1, out=scratch("factor", *logs.shape), mode="clip")
    return logs


def _rows(layout: ChainLayout, lookup: Lookup, tables: Tables) -> Array:
    """P(cell | joint state) of every row, and a row of ones: (states, rows + 1)."""
    parts = [tables[n].ravel()[cell_places(layout, n)] for n in lookup.blocks]
    parts = [p.reshape(layout.width, -1) for p in parts]
    return np.concatenate([*parts, np.ones((layout.width, 1))], axis=1)


def _mask_rows(layout: ChainLayout, mask: Lookup) -> Array:
    own = layout.values[mask.blocks[0], 0][:, None] == np.arange(mask.count)
    return np.concatenate([own, np.ones((layout.width, 1))], axis=1).astype(float)


def _bell_logs(layout: ChainLayout, bells: Bells, tables: Tables) -> Array:
    """Σ over columns of log p(x | joint state), (states, steps)."""
    terms = []  # of each column: (states, configurations, 3)
    for blocks in bells.blocks:
        own = [log_terms([tables[n]])[0][:, 0][bell_places(layout, n)] for n in blocks]
        terms.append(np.concatenate(own, axis=1))
    if bells.choice is None:
        every = np.concatenate([t[:, 0] for t in terms], axis=1)
        return np.matmul(
            every, bells.features, out=scratch("factor", layout.width, bells.features.shape[1])
        )
    chosen = terms[0][:, bells.choice]  # (states, steps, 3)
    return np.asarray((chosen * bells.features.T).sum(axis=-1))

"""From what is expected of states back to counts of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latentia.sequences.chain_wiring import Bells, Lookup, Wired
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.packing import Indices
from latentia.sequences.table_places import bell_places, cell_places
from latentia.typing import Array, Codes


def chain_counts(wired: Wired, gamma: Array, moves: Array) -> dict[int, Array]:
    """Counts of every table: shaped as it; of Gaussians Σ (1, x, x²).

    gamma: P(joint state) of every step, packed, (states, steps); moves: (configurations, from, to).
    """
    begun = _start_counts(wired, gamma)
    cells = [grouped(gamma, lookup.rows, lookup.count + 1) for lookup in wired.lookups]
    return table_counts(wired, begun, moves, cells, gamma)


def table_counts(
    wired: Wired, begun: Array, moves: Array, cells: Sequence[Array], gamma: Array
) -> dict[int, Array]:
    """The same from expected first states, (configurations, states), and cells, (states, rows).

    Cells are of every discrete column; gamma is looked at where there are continuous ones.
    """
    layout = wired.layout
    found = {n: np.zeros(layout.shape(f)) for n, f in enumerate(layout.families)}
    for number, at in layout.places.items():
        for places, counts in zip(at, (begun[:, None], moves), strict=True):
            if places is not None:
                _add(found[number], np.broadcast_to(places, counts.shape), counts)
    for lookup, sums in zip(wired.lookups, cells, strict=True):
        _add_cells(layout, lookup, sums, found)
    for bells in wired.bells:
        _add_bells(layout, bells, gamma, found)
    return found


def _add(table: Array, places: Codes, counts: Array) -> None:
    flat = np.bincount(places.ravel(), weights=counts.ravel(), minlength=table.size)
    table += flat.reshape(table.shape)


def _start_counts(wired: Wired, gamma: Array) -> Array:
    """Expected first states, (configurations, states)."""
    first = wired.packing.heads
    return grouped(gamma[:, first], wired.which[first], wired.layout.start_count).T


def grouped(weights: Array, group: Indices, count: int) -> Array:
    """Sums of (states, n) by group: (states, count)."""
    return np.stack([np.bincount(group, weights=w, minlength=count)[:count] for w in weights])


def _add_cells(
    layout: ChainLayout, lookup: Lookup, sums: Array, found: Mapping[int, Array]
) -> None:
    start = 0
    for n in lookup.blocks:
        places = cell_places(layout, n)
        stop = start + places[0].size
        _add(found[n], places, np.ascontiguousarray(sums[:, start:stop]).reshape(places.shape))
        start = stop


def _add_bells(layout: ChainLayout, bells: Bells, gamma: Array, found: Mapping[int, Array]) -> None:
    if bells.choice is None:
        sums = (gamma @ bells.features.T).reshape(layout.width, len(bells.blocks), 3)
        for k, blocks in enumerate(bells.blocks):
            _add_sums(found[blocks[0]], bell_places(layout, blocks[0]), sums[:, k, None])
        return
    per = [grouped(gamma * f, bells.choice, bells.count) for f in bells.features]
    sums, start = np.stack(per, axis=-1), 0  # (states, configurations, 3)
    for n in bells.blocks[0]:
        places = bell_places(layout, n)
        _add_sums(found[n], places, sums[:, start : start + places.shape[1]])
        start += places.shape[1]


def _add_sums(table: Array, places: Codes, sums: Array) -> None:
    flat = table.reshape(-1, 3)
    np.add.at(flat, np.asarray(places).ravel(), np.ascontiguousarray(sums).reshape(-1, 3))

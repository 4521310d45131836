"""From tables to potentials, and from what is expected of states back to counts of tables.

Everything that does not change with the tables is laid out once (`wire_steps`): which
configuration each step has, and which row of which table each cell looks up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.exact.gaussian_leaves import features, log_terms
from latentia.native.loading import kernel
from latentia.sequences.chain_messages import Potentials
from latentia.sequences.families import StepFamily
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.packing import Indices, InRow, Packing, pack_steps
from latentia.sequences.scratch import scratch
from latentia.sequences.slices import Parent
from latentia.sequences.step_data import Sequences
from latentia.typing import Array

MOST_ASKED = 2**21  # steps of a question at a time, where emissions are looked up
GROUP = 2**19  # numbers of a message to all steps of a group of sequences
LEAST_GROUP = 2**13  # steps of a group
MOST_COMPILED = 128  # states: of more, products of many sequences at once are cheaper
PLAIN_PRODUCTS = 3  # discrete columns whose probabilities are multiplied as they are


@final
@dataclass(frozen=True, slots=True)
class Lookup:
    """A discrete column: the row of [first steps, later steps, one of ones] that each cell has."""

    blocks: tuple[int, ...]  # numbers of families
    rows: Indices  # (steps,) in packed order
    count: int  # rows, without that of ones


@final
@dataclass(frozen=True, slots=True)
class Bells:
    """Continuous columns that choose among their tables alike: features and choices."""

    blocks: tuple[tuple[int, ...], ...]  # of each column, numbers of families
    features: Array  # (3 · columns, steps)
    choice: Indices | None  # (steps,) None: there is but one
    count: int


@final
@dataclass(frozen=True, slots=True)
class Wired:
    """Sequences laid out for a chain of joint states."""

    layout: ChainLayout
    sequences: Sequences
    packing: Packing | InRow
    which: Indices  # (steps,) configurations of starts and moves
    lookups: tuple[Lookup, ...]
    masks: tuple[Lookup, ...]  # of columns in the hidden state
    bells: tuple[Bells, ...]

    @property
    def lockstep(self) -> Packing:
        """How sequences lie side by side."""
        if isinstance(self.packing, InRow):
            raise TypeError("these steps lie in a row: wire_steps lays them side by side")
        return self.packing


def wire_steps(layout: ChainLayout, sequences: Sequences, longest: int | None = None) -> Wired:
    """Lay out sequences side by side; `longest` steps to a piece."""
    return _wired(layout, sequences, pack_steps(sequences.offsets, longest))


def _wired(layout: ChainLayout, sequences: Sequences, packing: Packing | InRow) -> Wired:
    for v, x in sequences.cells.items():
        if layout.sizes[v]:
            _check_codes(f"column {v}", x, -1, layout.sizes[v])
    first = sequences.first_steps()
    look = _Looking(layout, sequences, first, packing.order)
    if layout.start_count * layout.move_count == 1:
        which = np.broadcast_to(np.intp(0), first.shape)  # no memory behind it
    else:
        start = look.configuration(layout.seen_parents(layout.starting), first)
        later = look.configuration(layout.seen_parents(layout.moving), ~first)
        _check_codes("told parents", start, 0, layout.start_count)
        _check_codes("told parents", later, 0, layout.move_count)
        which = np.where(first, start, later)[packing.order]
    discrete = [v for v in layout.emitted if layout.sizes[v]]
    lookups = tuple(look.lookup(v) for v in discrete)
    masks = tuple(look.mask(v) for v in layout.masked)
    return Wired(layout, sequences, packing, which, lookups, masks, look.bells())


def _check_codes(what: str, codes: Any, least: int, count: int) -> None:
    """Once for all passes, which look up without asking, the kernel's in bare memory."""
    if codes.min(initial=0) < least or codes.max(initial=0) >= count:
        raise IndexError(
            f"codes of {what} of a chain are outside its tables: expected {least} to {count - 1}, "
            f"got {codes.min()} to {codes.max()}. Encode sequences by the model they are given to."
        )


def wire_groups(
    layout: ChainLayout, sequences: Sequences, questions: bool = False
) -> tuple[Wired, ...]:
    """Sequences in groups whose messages fit into a cache; one that is longer is a group.

    `questions`: messages are to be kept, all of them, so that groups spare little.
    """
    most = max(LEAST_GROUP, GROUP // layout.width)
    if layout.width <= MOST_COMPILED and kernel() is not None:
        whole = questions and all(layout.sizes[v] for v in layout.emitted)
        groups = sequences.groups(MOST_ASKED if whole else most)
        return tuple(_wired(layout, group, InRow(group.offsets)) for group in groups)
    return tuple(wire_steps(layout, group) for group in sequences.groups(most))


def uncut(wired: Wired) -> Wired:
    """The same with every sequence in one piece."""
    longest = int(np.diff(wired.sequences.offsets).max())
    return wire_steps(wired.layout, wired.sequences, longest)


@final
@dataclass(frozen=True, slots=True)
class _Looking:
    layout: ChainLayout
    sequences: Sequences
    first: Any
    order: Indices | slice

    def configuration(self, seen: tuple[Parent, ...], needed: Any) -> Any:
        """Joint code of told parents, (steps,); 0 where it is not needed."""
        found = np.zeros(self.sequences.steps, dtype=np.intp)
        for v, lag in seen:
            x = self.sequences.cells[v].astype(np.intp)
            own = np.concatenate([[-1], x[:-1]]) if lag else x
            found = found * self.layout.sizes[v] + np.where(needed, own, 0)
        return found

    def choice(self, v: int) -> tuple[tuple[int, ...], Any, int]:
        """Families of a column, the configuration of each step among all of theirs, how many."""
        own = [(n, f) for n, f in enumerate(self.layout.families) if f.variable == v]
        if len(own) == 1 and not self.layout.seen_parents((own[0][1],)):
            return (own[0][0],), np.broadcast_to(np.intp(0), self.first.shape), 1
        found, total = np.zeros(self.sequences.steps, dtype=np.intp), 0
        for _, family in own:
            seen = self.layout.seen_parents((family,))
            at = self.first if family.when == "first" else ~self.first
            at = np.ones_like(self.first) if family.when == "always" else at
            found = np.where(at, total + self.configuration(seen, at), found)
            total += math.prod(self.layout.sizes[u] for u, _ in seen)
        return tuple(n for n, _ in own), found, total

    def lookup(self, v: int) -> Lookup:
        blocks, chosen, total = self.choice(v)
        states, x = self.layout.sizes[v], self.sequences.cells[v]
        rows = x if total == 1 else chosen * states + x
        if x.min(initial=0) < 0:
            rows = np.where(x < 0, total * states, rows)
        return Lookup(blocks, rows[self.order].astype(np.intp, copy=False), total * states)

    def mask(self, v: int) -> Lookup:
        x, states = self.sequences.cells[v], self.layout.sizes[v]
        rows = np.where(x < 0, states, x)
        return Lookup((v,), rows[self.order].astype(np.intp), states)

    def bells(self) -> tuple[Bells, ...]:
        """Columns with a single table together, the others one by one."""
        alone, found = [], []
        for v in self.layout.emitted:
            if self.layout.sizes[v]:
                continue
            blocks, chosen, total = self.choice(v)
            own = features(np.asarray(self.sequences.cells[v][self.order], dtype=float))
            if total == 1:
                alone.append((blocks, own))
            else:
                found.append(Bells((blocks,), own, chosen[self.order], total))
        if alone:
            every = np.concatenate([own for _, own in alone])
            found.append(Bells(tuple(blocks for blocks, _ in alone), every, None, 1))
        return tuple(found)


def column_choice(layout: ChainLayout, sequences: Sequences, v: int) -> Indices:
    """The configuration of a column's told parents at each step, among all its tables: (steps,)."""
    order = np.arange(sequences.steps)
    found: Indices = _Looking(layout, sequences, sequences.first_steps(), order).choice(v)[1]
    return found


# --- tables to potentials -------------------------------------------------------------------------


def starts_of(layout: ChainLayout, tables: Tables) -> Array:
    """P(joint state at a first step), (states, configurations)."""
    return np.ascontiguousarray((_product(layout, tables, 0)[:, 0] * layout.blank).T)


def moves_of(layout: ChainLayout, tables: Tables) -> Array:
    """P(joint state | the one before), (configurations, from, to)."""
    return np.ascontiguousarray(_product(layout, tables, 1) * layout.remembered)


def _product(layout: ChainLayout, tables: Tables, which: int) -> Array:
    found: Any = np.ones((1, 1, layout.width))
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


def cell_places(layout: ChainLayout, number: int) -> Any:
    """Where P(cell | joint state) lies in the table: (states, configurations, cells)."""
    if ("cells", number) not in layout.kept:
        family = layout.families[number]
        shape, index = layout.shape(family), _parent_places(layout, family)
        index = [np.asarray(i)[..., None] for i in index]
        index.append(np.arange(shape[-1])[None, None, :])
        found = np.ravel_multi_index(np.broadcast_arrays(*index), shape)
        whole = (layout.width, _config_count(layout, family), shape[-1])
        layout.kept["cells", number] = np.ascontiguousarray(np.broadcast_to(found, whole))
    return layout.kept["cells", number]


def _parent_places(layout: ChainLayout, family: StepFamily) -> list[Any]:
    """The state of each parent: (states, configurations), where one of them may be 1."""
    config = layout.configurations(layout.seen_parents((family,)))
    return [
        config[p][None, :] if p in config else layout.values[p][:, None] for p in family.parents
    ]


def _config_count(layout: ChainLayout, family: StepFamily) -> int:
    return math.prod(layout.sizes[v] for v, _ in layout.seen_parents((family,)))


def bell_places(layout: ChainLayout, number: int) -> Any:
    """Where the Gaussian of a joint state lies in the table: (states, configurations)."""
    if ("bells", number) not in layout.kept:
        family = layout.families[number]
        index, above = _parent_places(layout, family), layout.shape(family)[:-2]
        found = np.ravel_multi_index(np.broadcast_arrays(*index), above) if index else 0
        whole = (layout.width, _config_count(layout, family))
        layout.kept["bells", number] = np.ascontiguousarray(np.broadcast_to(found, whole))
    return layout.kept["bells", number]


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


# --- expectations to counts -----------------------------------------------------------------------


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


def _add(table: Array, places: Any, counts: Array) -> None:
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


def _add_sums(table: Array, places: Any, sums: Array) -> None:
    flat = table.reshape(-1, 3)
    np.add.at(flat, np.asarray(places).ravel(), np.ascontiguousarray(sums).reshape(-1, 3))

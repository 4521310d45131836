"""Sequences laid out for a chain: which configuration each step has, which row each cell looks up.

None of it changes with the tables, so that it is done once for all passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.exact.gaussian_leaves import features
from latentia.native.loading import kernel
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.packing import Indices, InRow, Packing, pack_steps
from latentia.sequences.slices import Parent
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, CellArray, Codes

MOST_ASKED = 2**21  # steps of a question at a time, where emissions are looked up
GROUP = 2**19  # numbers of a message to all steps of a group of sequences
LEAST_GROUP = 2**13  # steps of a group
MOST_COMPILED = 128  # states: of more, products of many sequences at once are cheaper


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


def _check_codes(what: str, codes: Codes, least: int, count: int) -> None:
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
    first: CellArray
    order: Indices | slice

    def configuration(self, seen: tuple[Parent, ...], needed: CellArray) -> CellArray:
        """Joint code of told parents, (steps,); 0 where it is not needed."""
        found = np.zeros(self.sequences.steps, dtype=np.intp)
        for v, lag in seen:
            x = self.sequences.cells[v].astype(np.intp)
            own = np.concatenate([[-1], x[:-1]]) if lag else x
            found = found * self.layout.sizes[v] + np.where(needed, own, 0)
        return found

    def choice(self, v: int) -> tuple[tuple[int, ...], CellArray, int]:
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

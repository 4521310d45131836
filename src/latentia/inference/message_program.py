"""Messages towards one place as a program for the kernel: a block of rows stays in the cache.

The same messages as `messages` finds one by one over all rows, log-scaled likewise. Each is used
once on the way to one place, so that the logs of all of them add up to that of the last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.inference.evidence import Evidence
from latentia.inference.messages import RESCALE, Message
from latentia.inference.operators import Operators
from latentia.inference.subtrees import Subtree, subtree_index
from latentia.native.loading import Kernel, kernel
from latentia.structure.plan import Plan
from latentia.typing import Array, CellArray, Codes

ONES, GATHER, OUTER, PAIR, DOT, SCALE, STEP = range(7)  # as messages.c numbers them
BLOCK = 16  # rows at a time there
MOST_PAIRS = 1024
MOST_KINDS = 2**15  # of evidence at one place
MOST_STATES = 16  # of a message that one evidence maps to another
MOST_NUMBERS = 2**11  # of all such maps: they fit into the innermost cache


class _Fields(ctypes.Structure):
    """`Messages` of messages.c."""

    _fields_ = (
        ("ops", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("tables", ctypes.c_void_p),
        ("index", ctypes.POINTER(ctypes.c_void_p)),
        ("work", ctypes.c_void_p),
        ("result", ctypes.c_int64),
        ("states", ctypes.c_int64),
        ("out", ctypes.c_void_p),
        ("log", ctypes.c_void_p),
        ("alone", ctypes.c_void_p),
    )


@final
@dataclass(frozen=True, slots=True)
class MessageProgram:
    """Operations, their numbers, and which evidence they read: a leaf's, or a subtree's."""

    own: Kernel
    ops: CellArray  # (operations, 9)
    tables: Array
    read: tuple[int | Subtree, ...]
    slots: int
    result: int
    states: int
    rescales: bool  # or else all logs are zero

    def run(self, evidence: Evidence) -> tuple[Message, Array] | None:
        """The message, and Σ log P̂(e_i) of what was read; None where numpy has to look."""
        n = evidence.rows
        index = [_index(where, evidence) for where in self.read]
        if not n or any(i is None for i in index):
            return None
        pointers = (ctypes.c_void_p * len(index))(*(i.ctypes.data for i in index if i is not None))
        out, log, alone = np.empty((self.states, n)), np.empty(n), np.empty(n)
        work = np.empty(self.slots * BLOCK)
        told = _Fields(
            ops=self.ops.ctypes.data,
            count=len(self.ops),
            tables=self.tables.ctypes.data,
            index=pointers,
            work=work.ctypes.data,
            result=self.result,
            states=self.states,
            out=out.ctypes.data,
            log=log.ctypes.data,
            alone=alone.ctypes.data,
        )
        call = self.own.function("message_rows")
        done = call(ctypes.byref(told), ctypes.c_int64(n))
        if not done:
            return None
        return Message(out, log if self.rescales else np.zeros(1), 1), alone


def _index(where: int | Subtree, evidence: Evidence) -> Codes | None:
    """Which row of a table each row of evidence reads, (n,); None where codes do not tell."""
    found: Codes | None
    if isinstance(where, Subtree):
        found = subtree_index(where, evidence)
    else:
        corners = evidence.corners[where] if evidence.corners else None
        if evidence.likelihoods[where] is not None or corners is not None:
            return None
        found = evidence.codes[where]
        found = np.full(1, -1) if found is None else found  # the last row: nothing is observed
    if found is None:
        return None
    if len(found) != evidence.rows:
        found = np.repeat(found, evidence.rows)
    return np.ascontiguousarray(found, dtype=np.int16)


def message_program(
    operators: Operators, trees: Sequence[Subtree], target: int | None
) -> MessageProgram | None:
    """Towards the leaf node `target`, from above; or, without one, P̂(e) / Π P̂(e_i) at the root.

    None without a kernel, and for what it does not know: several roots, diagonals, single
    precision, leaves of several columns, large products.
    """
    own, plan = kernel(), operators.plan
    whole = all(len(plan.nodes[k].columns) == 1 for k in plan.leaves)
    kinds = max(plan.leaf_states(), default=1)
    if own is None or operators.network is not None or operators.diagonals or not whole:
        return None
    if (target is None and len(plan.roots) != 1) or kinds >= MOST_KINDS:
        return None
    tables = (*operators.leaves, *operators.tensors.values(), *operators.marginals)
    if any(t.dtype != np.float64 for t in tables):
        return None
    made = _Program(operators, {tree.node: tree for tree in trees})
    last = made.root(plan.roots[0]) if target is None else made.down(target)
    if made.largest > MOST_PAIRS:
        return None
    return MessageProgram(
        own=own,
        ops=np.array(made.ops, dtype=np.int32).reshape(-1, 9),
        tables=np.concatenate(made.tables),
        read=tuple(made.read),
        slots=made.slots,
        result=last.slot,
        states=last.states,
        rescales=any(op[0] == SCALE for op in made.ops),
    )


@final
@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message lies, and how much evidence went in since it was last rescaled."""

    slot: int
    states: int
    leaves: int


@final
@dataclass(frozen=True, slots=True)
class _Told:
    """What every kind of evidence at one place tells: rows or matrices, and log P̂(e) alone."""

    where: int | Subtree
    table: Array  # (kinds, …)
    alone: Array  # (kinds,)


@final
@dataclass(slots=True)
class _Program:
    """A program in the making; every method mirrors one of `messages`."""

    operators: Operators
    trees: dict[int, Subtree]
    ops: list[tuple[int, ...]] = field(default_factory=lambda: [(ONES, 0, 0, 0, 0, -1, 1, 1, 1)])
    tables: list[Array] = field(default_factory=list)
    read: list[int | Subtree] = field(default_factory=list)
    numbers: int = 0  # in the tables
    slots: int = 1  # the first one holds ones
    largest: int = 1  # products of one operation
    made: dict[int, _Place] = field(default_factory=dict)  # of inner nodes, until they are used

    @property
    def plan(self) -> Plan:
        return self.operators.plan

    def _keep(self, table: Array) -> int:
        self.tables.append(np.ascontiguousarray(table, dtype=float).ravel())
        self.numbers += table.size
        return self.numbers - table.size

    def _new(self, states: int, leaves: int) -> _Place:
        self.slots += states
        return _Place(self.slots - states, states, leaves)

    def _read(self, kind: int, told: _Told, states: int, *, y: int = 0, nb: int = 1) -> _Place:
        """An operation on what the evidence picks from a table of rows or of matrices."""
        leaves = len(told.where.leaves) if isinstance(told.where, Subtree) else 1
        out, at, alone = self._new(states, leaves), self._keep(told.table), self._keep(told.alone)
        kinds = len(told.table)
        self.ops.append((kind, out.slot, len(self.read), y, at, alone, kinds, nb, states))
        self.read.append(told.where)
        return out

    def told(self, k: int) -> _Told | None:
        """The message of every evidence at a leaf or a subtree; None for any other node."""
        if k in self.trees:
            tree = self.trees[k]
            return _Told(tree, tree.table.T, tree.alone)
        x = self.plan.nodes[k].first
        if not self.plan.nodes[k].is_leaf:
            return None
        table, mu = self.operators.leaves[x], self.operators.marginals[x]
        rows = [table / np.maximum(mu, 1e-300)[:, None], table.sum(axis=0)[None]]
        with np.errstate(divide="ignore"):
            return _Told(x, np.concatenate(rows), np.append(np.log(mu), 0.0))

    def up(self, k: int) -> _Place:
        """What node k tells its parent; nodes below it first, however deep they lie."""
        for node in reversed(self._inner(k)):
            W = self.operators.tensors[node]
            below = list(self.plan.nodes[node].children)
            self.made[node] = self._rescaled(self._carried(W, below))
        return self._placed(k)

    def _inner(self, k: int) -> list[int]:
        """Node k and the inner nodes below it, parents first, without what evidence tells."""
        found, waiting = [], [k]
        while waiting:
            node = waiting.pop()
            if node not in self.trees and not self.plan.nodes[node].is_leaf:
                found.append(node)
                waiting.extend(self.plan.nodes[node].children)
        return found

    def down(self, k: int) -> _Place:
        """What its parent predicts for node k; from the root on."""
        path = [k]
        while self.plan.nodes[path[-1]].parent != path[-1]:
            path.append(self.plan.nodes[path[-1]].parent)
        place: _Place | None = None
        for parent, child in zip(path[:0:-1], path[-2::-1], strict=True):
            above = self.plan.nodes[parent].children
            others: list[int | _Place] = [c for c in above if c != child]
            others += [] if place is None else [place]
            tensor = np.moveaxis(self.operators.tensors[parent], above.index(child), -1)
            place = self._rescaled(self._carried(tensor, others))
        assert place is not None  # the target is a leaf, never a root
        return place

    def root(self, k: int) -> _Place:
        """All evidence below a root, relative to independence: one number."""
        *first, last = self.plan.nodes[k].children
        below, other = self._carried(self.operators.tensors[k], list(first)), self.up(last)
        out = self._new(1, 1)
        self.ops.append((DOT, out.slot, below.slot, other.slot, 0, -1, below.states, 1, 1))
        return out

    def _carried(self, tensor: Array, below: Sequence[int | _Place]) -> _Place:
        """Σ tensor[a, b, …, c] m_a m_b …: messages of nodes, or such as lie somewhere."""
        if len(below) == 2:
            for one, other, own in ((0, 1, tensor), (1, 0, np.moveaxis(tensor, 0, 1))):
                node = below[one]
                told = None if isinstance(node, _Place) else self.told(node)
                if told is not None and self._small(told, own):
                    return self._step(told, own, self._placed(below[other]))
        ones = _Place(0, 1, 0)
        *first, last = [self._placed(m) for m in below] or [ones]
        x = first[0] if first else ones
        for y in first[1:]:
            out = self._new(x.states * y.states, x.leaves + y.leaves)
            self.ops.append((OUTER, out.slot, x.slot, y.slot, 0, -1, x.states, y.states, 1))
            x = out
        nc = tensor.shape[-1]
        out, at = self._new(nc, x.leaves + last.leaves), self._keep(tensor.reshape(-1, nc).T)
        self.ops.append((PAIR, out.slot, x.slot, last.slot, at, -1, x.states, last.states, nc))
        self.largest = max(self.largest, x.states * last.states)
        return out

    def _placed(self, below: int | _Place) -> _Place:
        if isinstance(below, _Place):
            return below
        told = self.told(below)
        if told is not None:
            return self._read(GATHER, told, told.table.shape[1])
        return self.made.pop(below) if below in self.made else self.up(below)

    def _small(self, told: _Told, tensor: Array) -> bool:
        nb, nc = tensor.shape[1:]
        return bool(nc <= MOST_STATES and len(told.table) * nb * nc <= MOST_NUMBERS)

    def _step(self, told: _Told, tensor: Array, other: _Place) -> _Place:
        """The evidence of a leaf makes a matrix of the tensor, (a, b, c), one for each kind."""
        nb, nc = tensor.shape[1:]
        maps = np.tensordot(told.table, tensor, axes=1)  # (kinds, b, c)
        out = self._read(STEP, _Told(told.where, maps, told.alone), nc, y=other.slot, nb=nb)
        return _Place(out.slot, nc, out.leaves + other.leaves)

    def _rescaled(self, place: _Place) -> _Place:
        if place.leaves <= RESCALE:
            return place
        self.ops.append((SCALE, place.slot, 0, 0, 0, -1, 1, 1, place.states))
        return _Place(place.slot, place.states, 1)

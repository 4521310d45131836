"""Messages along chains by the compiled kernel (native/chain.c), sequence by sequence.

Arrays are (steps, padded), the states of a step next to each other and rounded up to whole vectors.
What floats cannot hold is noticed, as in `quick_passes`, and left to `careful_passes`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.native.loading import Kernel, kernel
from latentia.sequences.careful_passes import check_reach
from latentia.sequences.chain_counts import table_counts
from latentia.sequences.chain_messages import Filtered, Smoothed
from latentia.sequences.chain_wiring import Wired
from latentia.sequences.hidden_states import Tables
from latentia.sequences.packing import Indices
from latentia.sequences.potentials import (
    cell_rows,
    log_emissions,
    moves_of,
    potentials,
    starts_of,
    wired_in_logs,
)
from latentia.sequences.quick_passes import LEAST, NEAR_ONE
from latentia.sequences.scratch import scratch
from latentia.typing import Array, Cell, CellArray

WHOLE, BLOCK = 4, 32  # as in chain.c


class _Chain(ctypes.Structure):
    _fields_ = (
        ("padded", ctypes.c_int64),
        ("sequences", ctypes.c_int64),
        ("offsets", ctypes.c_void_p),
        ("which", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("move", ctypes.c_void_p),
        ("back", ctypes.c_void_p),
        ("lookups", ctypes.c_int64),
        ("tables", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("dense", ctypes.c_void_p),
    )


class _Forward(ctypes.Structure):
    _fields_ = (
        ("alpha", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("ratio", ctypes.c_void_p),
        ("level", ctypes.c_double),
        ("least", ctypes.c_double),
    )


class _Counts(ctypes.Structure):
    _fields_ = (
        ("pairs", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("lookups", ctypes.c_int64),
        ("rows", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("farthest", ctypes.c_double),
    )


@final
@dataclass(frozen=True, slots=True)
class _Made:
    """Potentials as the kernel wants them; `held` keeps alive what the chain points to."""

    kernel: Kernel
    wired: Wired
    chain: _Chain
    move: Array  # (configurations, from, to)
    shift: Array | None  # (steps,) what was taken out of the logarithms of emissions
    held: tuple[Cell, ...]

    @property
    def steps(self) -> int:
        return self.wired.sequences.steps

    @property
    def padded(self) -> int:
        return int(self.chain.padded)

    def belief(self, name: str | None = None) -> Array:
        """Room for messages, (steps, padded)."""
        shape = (self.steps, self.padded)
        return np.empty(shape) if name is None else scratch(name, *shape)

    def own_states(self, x: Array) -> Array:
        """(steps, padded) as (states, steps)."""
        return x[:, : self.wired.layout.width].T

    def forward(
        self, alpha: Array, scale: Array | None, ratio: Array | None, normal: bool = False
    ) -> _Forward | None:
        """Messages forward; None where floats cannot hold them."""
        found, room = _Forward(_at(alpha), _at(scale), _at(ratio)), np.empty(3 * self.padded)
        run = self.kernel.function("chain_forward")
        run.restype = None
        run(ctypes.byref(self.chain), ctypes.byref(found), ctypes.c_int(normal), _at(room))
        return found if found.least > LEAST else None

    def backward(self, forward: _Forward, counts: _Counts) -> bool:
        """Beliefs in place of messages; False where floats cannot hold them."""
        room = np.empty((2 * BLOCK + 3) * self.padded)
        run = self.kernel.function("chain_backward")
        run.restype = None
        run(ctypes.byref(self.chain), ctypes.byref(forward), ctypes.byref(counts), _at(room))
        return bool(counts.farthest <= NEAR_ONE)

    def logs(self, ratio: Array) -> Array:
        """log P(cells | cells before)."""
        found = np.log(ratio, out=ratio)
        return found if self.shift is None else np.add(found, self.shift, out=found)


def _at(x: CellArray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if x is None else x.ctypes.data)


def _pointers(arrays: Sequence[CellArray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _padded(x: Array, pad: float = 0.0) -> Array:
    """(…, states) with the last axis rounded up to whole vectors."""
    found = np.full((*x.shape[:-1], -(-x.shape[-1] // WHOLE) * WHOLE), pad)
    found[..., : x.shape[-1]] = x
    return found


def _square(x: Array, pad: float) -> Array:
    """(…, states, states) with both axes rounded up."""
    found = _padded(x, pad)
    rows = np.full((len(x), found.shape[2], found.shape[2]), pad)
    rows[:, : x.shape[1]] = found
    return rows


def _make(wired: Wired, tables: Tables, logs: bool = False) -> _Made:
    """`logs`: of everything, for best paths."""
    own = kernel()
    assert own is not None  # or steps would not lie in a row
    layout, pad = wired.layout, -np.inf if logs else 0.0
    start, move = starts_of(layout, tables).T, moves_of(layout, tables)
    looked, dense, shift = [], None, None
    if wired_in_logs(wired) and logs:
        dense = _padded(log_emissions(wired, tables).T, pad)
    elif wired_in_logs(wired):
        p = potentials(wired, tables)
        check_reach(p)
        dense, shift = _padded(p.emission.T), p.shift
    else:
        looked = [(np.ascontiguousarray(t.T), rows) for t, rows in cell_rows(wired, tables)]
    with np.errstate(divide="ignore"):
        if logs:
            start, move, looked = np.log(start), np.log(move), [(np.log(t), r) for t, r in looked]
    moves = _square(move, pad), _square(move.transpose(0, 2, 1), pad)
    begin, found = _padded(start, pad), [_padded(t, pad) for t, _ in looked]
    rows = [np.ascontiguousarray(r, dtype=np.int64) for _, r in looked]
    single = layout.start_count * layout.move_count == 1
    which = None if single else np.ascontiguousarray(wired.which, dtype=np.int64)
    offsets = np.ascontiguousarray(wired.sequences.offsets, dtype=np.int64)
    lists = _pointers(found), _pointers(rows)
    chain = _Chain(
        begin.shape[1],
        len(offsets) - 1,
        _at(offsets),
        _at(which),
        _at(begin),
        _at(moves[0]),
        _at(moves[1]),
        len(found),
        ctypes.cast(lists[0], ctypes.c_void_p),
        ctypes.cast(lists[1], ctypes.c_void_p),
        _at(dense),
    )
    held = (moves, begin, found, rows, which, offsets, lists, dense)
    return _Made(own, wired, chain, move, shift, held)


def compiled_filter(wired: Wired, tables: Tables, scored: bool = True) -> Filtered | None:
    """Forward messages; None where floats cannot hold them (or a step cannot be).

    Not `scored`: without logarithms; noughts stand in their place.
    """
    made = _make(wired, tables)
    alpha, ratio = made.belief(), np.empty(made.steps)
    if made.forward(alpha, None, ratio, normal=True) is None:
        return None
    levels = made.logs(ratio) if scored else np.broadcast_to(np.float64(0.0), ratio.shape)
    return Filtered(made.own_states(alpha), levels)


def compiled_smooth(wired: Wired, tables: Tables) -> Smoothed | None:
    """P(state | all cells) of every step; None where floats cannot hold messages."""
    made = _make(wired, tables)
    alpha, scale, ratio = made.belief(), np.empty(made.steps), np.empty(made.steps)
    forward = made.forward(alpha, scale, ratio)
    if forward is None or not made.backward(forward, _Counts()):
        return None
    return Smoothed(made.own_states(alpha), made.logs(ratio))


def compiled_expect(wired: Wired, tables: Tables) -> tuple[dict[int, Array], float] | None:
    """Expected counts of every table, and Σ log P(sequence)."""
    made = _make(wired, tables)
    layout = wired.layout
    alpha, scale = made.belief("alpha"), scratch("scale", made.steps)
    forward = made.forward(alpha, scale, None)
    if forward is None:
        return None
    pairs = np.zeros((len(made.move), made.padded, made.padded))
    starts = np.zeros((layout.start_count, made.padded))
    rows = [np.ascontiguousarray(lookup.rows, dtype=np.int64) for lookup in wired.lookups]
    cells = [np.zeros((lookup.count + 1, made.padded)) for lookup in wired.lookups]
    lists = _pointers(rows), _pointers(cells)
    where = [ctypes.cast(x, ctypes.c_void_p) for x in lists]
    counts = _Counts(_at(pairs), _at(starts), len(rows), *where, 0.0)
    if not made.backward(forward, counts):
        return None
    states = layout.width
    moves, begun = made.move * pairs[:, :states, :states], starts[:, :states]
    sums, gamma = [c[:, :states].T for c in cells], made.own_states(alpha)
    level = float(forward.level)
    level += 0.0 if made.shift is None else float(made.shift.sum())
    return table_counts(wired, begun, moves, sums, gamma), level


def compiled_best_path(wired: Wired, tables: Tables) -> tuple[Indices, Array]:
    """Joint states of every step, and what the best paths score, (sequences,)."""
    made = _make(wired, tables, logs=True)
    path = np.empty(made.steps, dtype=np.int64)
    lengths = np.diff(wired.sequences.offsets)
    level = np.empty(len(lengths))
    score = scratch("alpha", int(lengths.max(initial=0)), made.padded)
    room = np.empty(4 * made.padded)
    run = made.kernel.function("chain_best_path")
    run.restype = None
    run(ctypes.byref(made.chain), _at(path), _at(level), _at(score), _at(room))
    return path.astype(np.intp, copy=False), level

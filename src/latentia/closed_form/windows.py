"""Windows: the products of pass 2, Σ w θ_1 ⊗ θ_2 ⊗ η, for a few neighbouring cliques at a time.

The coordinates of a node need the indicators of near columns only. A window holds all that the
cliques in it need, so that rows can come in large chunks which still fit into a cache, however many
columns there are. Coordinates that need nearly the same columns are found by one matrix product.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from latentia.closed_form.basis import Basis, Coordinates, state_places
from latentia.closed_form.compiled_windows import Want, WindowProgram, window_programs
from latentia.closed_form.pairs import PairLayout, leaf_codes, some_rows
from latentia.data.moments import Moments, add_to, outer_sum
from latentia.data.rows import Rows
from latentia.native.loading import kernel
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array, CellArray, Codes

MOST_STATES = 160  # indicators of a window
CELLS = 2**20  # numbers of a window at a time: what a cache holds
LEAST_ROWS = 2**11  # calls cost more than their work below that
EVERY = 4  # leaves between two rows of ones
CALL = 200  # what a product costs beside its multiplications, in multiplications per row
MOST_SIDES = 32  # of one product
FEW_ROWS = 512  # up to which it pays to look all of them up
COMPILED = 2**12  # rows from which it pays to make tables for the kernel


@final
@dataclass(frozen=True, slots=True)
class Group:
    """Coordinates of equal number that one product finds, coordinate by coordinate."""

    wants: tuple[Want, ...]
    span: slice  # rows of the marks
    matrix: Array  # ((r - 1) · wants, rows of the span)


@final
@dataclass(frozen=True, slots=True)
class Form:
    """Which indicators stand where, and the products over them."""

    marks: tuple[tuple[int, slice], ...]  # leaf -> its states from the first on
    ones: tuple[int, ...]  # rows that are one
    width: int
    groups: tuple[Group, ...]

    @property
    def cells(self) -> int:
        """Numbers per row."""
        return self.width + sum(len(g.matrix) + len(g.wants) for g in self.groups)


@final
@dataclass(frozen=True)
class Window:
    """Some cliques. `lean` leaves out the last state of each leaf: right if nothing is missing."""

    factors: tuple[tuple[int, tuple[Want, ...]], ...]  # node -> what its product is made of
    sides: Mapping[Want, Coordinates]  # each of single leaves
    sizes: tuple[int, ...]  # states of all leaves

    @cached_property
    def lean(self) -> Form:
        return _form(self.sides, self.sizes, lean=True)

    @cached_property
    def whole(self) -> Form:
        return _form(self.sides, self.sizes, lean=False)


@final
@dataclass(frozen=True)
class Windows:
    """All cliques of a plan, in windows, and the coordinates of leaves by code."""

    plan: Plan
    kind: str
    windows: tuple[Window, ...]
    leaves: Mapping[int, tuple[int, Array]]  # node -> leaf, θ by code with that of -1 last

    @cached_property
    def programs(self) -> tuple[WindowProgram, ...] | None:
        """For the kernel, where ranks are small enough to pay."""
        factors = [each for w in self.windows for each in w.factors]
        sides = {want: _leaf_tables(x) for w in self.windows for want, x in w.sides.items()}
        sizes = self.windows[0].sizes if self.windows else ()
        return window_programs(factors, sides, sizes, self.leaves)


def product_windows(layout: PairLayout, basis: Basis) -> Windows:
    """Walk the cliques from left to right and open a new window when one is full."""
    if basis.rounds:
        raise ValueError("coordinates of sharpened nodes depend on all their neighbours.")
    plan = layout.plan
    sizes = plan.leaf_states()
    found: list[list[int]] = []
    held: set[Block] = set()
    for k in sorted({*plan.inner, *plan.roots}):
        blocks = {b for want in _factors(plan, k) for b in _side(basis, want).blocks}
        if not found or sum(sizes[x] for (x,) in held | blocks) > MOST_STATES:
            found.append([])
            held = set()
        found[-1].append(k)
        held |= blocks
    leaves = {}
    for x, k in enumerate(plan.leaves):
        (table,) = _side(basis, (k, "theta")).tables
        rows = np.concatenate([table, np.zeros((1, table.shape[1]))]).T
        leaves[k] = (x, np.concatenate([np.ones((1, rows.shape[1])), rows]))
    kind = f"products of plan {plan.fingerprint} in basis {basis.fingerprint}"
    return Windows(plan, kind, tuple(_window(plan, basis, nodes, sizes) for nodes in found), leaves)


@final
@dataclass(frozen=True, slots=True)
class WindowSums:
    """Sums over rows as windows and programs have them; tensors are made of all blocks at once."""

    weight: float
    rows: int
    sums: Mapping[str, Array]  # of windows: tensors by name
    numbers: tuple[Array, ...]  # of programs

    def __add__(self, other: WindowSums) -> WindowSums:
        both = dict(self.sums)
        for name, tensor in other.sums.items():
            both[name] = both[name] + tensor if name in both else tensor
        numbers = self.numbers or other.numbers
        if self.numbers and other.numbers:
            numbers = tuple(a + b for a, b in zip(self.numbers, other.numbers, strict=True))
        return WindowSums(self.weight + other.weight, self.rows + other.rows, both, numbers)


def sum_windows(windows: Windows, rows: Rows) -> Moments:
    """Σ w θ_1 ⊗ θ_2 ⊗ η at every inner node, Σ w ⊗ θ at roots: what `sum_products` finds."""
    return window_products(windows, window_sums(windows, rows))


def window_products(windows: Windows, found: WindowSums) -> Moments:
    """Sums of windows as the tensors of all nodes."""
    sums = dict(found.sums)
    programs = windows.programs if found.numbers else None
    for program, numbers in zip(programs or (), found.numbers, strict=True):
        for name, total in program.tensors(numbers).items():
            add_to(sums, name, total)
    return Moments(windows.kind, found.weight, found.rows, sums)


def window_sums(windows: Windows, rows: Rows) -> WindowSums:
    """One block of rows, by the kernel where they are many."""
    codes = leaf_codes(windows.plan, rows)
    compiled = kernel()
    programs = None if compiled is None or len(rows) < COMPILED else windows.programs
    if compiled is not None and programs is not None:
        numbers = tuple(program.sums(compiled, codes, rows.weight) for program in programs)
        return WindowSums(rows.total, len(rows), {}, numbers)
    if len(rows) <= FEW_ROWS:
        return WindowSums(rows.total, len(rows), _sum_few(windows, codes, rows.weight), ())
    sums: dict[str, Array] = {}
    whole = any(c.min(initial=0) < 0 for c in codes)
    for window in windows.windows:
        form = window.whole if whole else window.lean
        step = max(LEAST_ROWS, CELLS // max(form.cells, 1))
        scratch = _Scratch(form, min(step, len(rows)))
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            here = some_rows(codes, part)
            if len(here[0]) != scratch.rows:  # the last ones
                scratch = _Scratch(form, len(here[0]))
            values = scratch.filled(here)
            weight = None if rows.weight is None else rows.weight[part]
            for k, wants in window.factors:
                factors = [_value(windows, values, want, here) for want in wants]
                add_to(sums, f"products/{k}", scratch.outer_sum(factors, weight))
    return WindowSums(rows.total, len(rows), sums, ())


def _sum_few(windows: Windows, codes: Sequence[Codes], weight: Array | None) -> dict[str, Array]:
    """The same of few rows: what near leaves tell is looked up, and no products are laid out."""
    every = np.stack(codes) if codes else np.zeros((0, 0), dtype=np.int64)
    sums: dict[str, Array] = {}
    for window in windows.windows:
        values = {want: _looked_up(side, every) for want, side in window.sides.items()}
        for k, wants in window.factors:
            factors = [_value(windows, values, want, codes) for want in wants]
            sums[f"products/{k}"] = outer_sum(factors, weight)
    return sums


def _looked_up(side: Coordinates, codes: Codes) -> Array:
    """θ or η of some rows, (r, n) with ones first, from the codes of all leaves."""
    found = np.ones((1 + side.size, codes.shape[1]))
    own = codes[[x for (x,) in side.blocks]]  # (near leaves, n)
    places = own + side.starts[:-1, None]
    table = side.stacked
    if own.min(initial=0) < 0:
        places[own < 0] = len(table)
        table = np.concatenate([table, np.zeros((1, side.size))])
    found[1:] = table.take(places, axis=0).sum(axis=0).T
    return found


_MEMORY = threading.local()  # what a thread works in


def _memory(name: str, rows: int, n: int, dtype: type = float) -> Array:
    """(rows, n) of whatever was there: asking the system for new pages costs as much as the sums.

    One name is one place: who asks again for it overwrites what it holds.
    """
    held: CellArray | None = getattr(_MEMORY, name, None)
    if held is None or held.size < rows * n:
        held = np.empty(rows * n, dtype=dtype)
        setattr(_MEMORY, name, held)
    return held[: rows * n].reshape(rows, n)


class _Scratch:
    """The coordinates of n rows at a time, in memory that the next one takes over."""

    def __init__(self, form: Form, n: int) -> None:
        self.form, self.rows = form, n
        self.bits = _memory("bits", form.width, n, bool)
        self.bits[list(form.ones)] = True
        self.marks = _memory("marks", form.width, n)
        self.values: dict[Want, Array] = {}
        self.found: list[Array] = []
        every = _memory("values", form.cells - form.width, n)
        for group in form.groups:
            count = len(group.wants)
            # coordinate by coordinate, so that the ones of all lie before what the product fills
            both, every = np.split(every, [count + len(group.matrix)])
            both[:count] = 1.0
            self.found.append(both[count:])
            for i, want in enumerate(group.wants):
                self.values[want] = both[i::count]

    def filled(self, leaves: Sequence[Codes]) -> Mapping[Want, Array]:
        """θ and η of these rows, (r, n) with ones first; the next call overwrites them."""
        for x, span in self.form.marks:
            for state, row in enumerate(range(span.start, span.stop)):
                np.equal(leaves[x], state, out=self.bits[row])
        np.copyto(self.marks, self.bits)
        for group, out in zip(self.form.groups, self.found, strict=True):
            np.matmul(group.matrix, self.marks[group.span], out=out)
        return self.values

    def outer_sum(self, factors: Sequence[Array], weight: Array | None) -> Array:
        """Σ w ⊗ of the factors; of three without new memory."""
        if len(factors) != 3:
            return outer_sum(factors, weight)
        a, b, c = factors
        left = _memory("products", len(a) * len(b), self.rows)
        np.multiply(a[:, None, :], b[None, :, :], out=left.reshape(len(a), len(b), -1))
        last = c if weight is None else c * weight
        return np.asarray(left @ last.T, dtype=float).reshape(len(a), len(b), len(c))


def _value(
    windows: Windows, values: Mapping[Want, Array], want: Want, leaves: Sequence[Codes]
) -> Array:
    if want in values:
        return values[want]
    x, table = windows.leaves[want[0]]
    return table.take(leaves[x], axis=1)


def _factors(plan: Plan, k: int) -> tuple[Want, ...]:
    node = plan.nodes[k]
    below = tuple((c, "theta") for c in node.children)
    return below if node.parent == k else (*below, (k, "eta"))


def _side(basis: Basis, want: Want) -> Coordinates:
    side = (basis.inside if want[1] == "theta" else basis.outside)[want[0]]
    assert side is not None
    return side


def _window(plan: Plan, basis: Basis, nodes: Sequence[int], sizes: tuple[int, ...]) -> Window:
    factors = tuple((k, _factors(plan, k)) for k in nodes)
    wants = [
        w for _, some in factors for w in some if not plan.nodes[w[0]].is_leaf or w[1] == "eta"
    ]
    return Window(factors, {want: _side(basis, want) for want in wants}, sizes)


def _leaf_tables(side: Coordinates) -> dict[int, Array]:
    return {x: table for (x,), table in zip(side.blocks, side.tables, strict=True)}


def _form(sides: Mapping[Want, Coordinates], sizes: Sequence[int], lean: bool) -> Form:
    """Lay out the indicators of all leaves that the sides need; with rows of ones if lean."""
    marks: dict[int, slice] = {}
    ones: list[int] = []
    width = 0
    for place, x in enumerate(sorted({x for side in sides.values() for (x,) in side.blocks})):
        if lean and place % EVERY == 0:
            ones.append(width)
            width += 1
        marks[x] = slice(width, width + sizes[x] - lean)
        width = marks[x].stop
    rows = {want: _row(side, marks, ones, width, lean) for want, side in sides.items()}
    groups = tuple(_group(rows, some) for some in _together(rows))
    return Form(tuple(marks.items()), tuple(ones), width, groups)


def _row(
    side: Coordinates, marks: Mapping[int, slice], ones: Sequence[int], width: int, lean: bool
) -> Array:
    """The matrix from marks to the coordinates of one side: (r - 1, width)."""
    found = np.zeros((side.size, width))
    if not side.blocks:
        return found
    begins = np.array([marks[x].start for (x,) in side.blocks], dtype=np.intp)
    places, table = state_places(side, begins), side.stacked
    if not lean:
        found[:, places] = table.T
        return found
    starts = side.starts
    last = table[starts[1:] - 1]
    kept = np.ones(len(table), dtype=bool)
    kept[starts[1:] - 1] = False
    # T[x] = T[last] + (T[x] - T[last])
    apart = table - np.repeat(last, starts[1:] - starts[:-1], axis=0)
    found[:, places[kept]] = apart[kept].T
    middle = (int(begins.min()) + marks[max(side.blocks)[0]].stop) / 2
    found[:, min(ones, key=lambda row: abs(row - middle))] = last.sum(axis=0)
    return found


def _reach(row: Array) -> tuple[int, int]:
    """The columns that are not all zero lie within."""
    used = np.asarray(row.any(axis=0))
    low = int(used.argmax())
    return (low, len(used) - int(used[::-1].argmax())) if len(used) and used[low] else (0, 1)


def _together(rows: Mapping[Want, Array]) -> list[list[Want]]:
    """Sides of equal size in groups, so that products over the columns they reach cost least."""
    reach = {want: _reach(row) for want, row in rows.items()}
    found = []
    for size in sorted({len(row) for row in rows.values()}):
        alike = sorted((w for w in rows if len(rows[w]) == size), key=lambda w: (reach[w], w))
        found += [alike[i:j] for i, j in _cheapest_cuts([reach[w] for w in alike], size)]
    return found


def _cheapest_cuts(reach: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Cut a list of sides into runs; a run costs its rows times the columns that it reaches."""
    best, came = [0.0] + [np.inf] * len(reach), [0] * (len(reach) + 1)
    for i in range(len(reach)):
        low, high = reach[i]
        for j in range(i + 1, min(i + MOST_SIDES, len(reach)) + 1):
            low, high = min(low, reach[j - 1][0]), max(high, reach[j - 1][1])
            cost = best[i] + size * (j - i) * (high - low) + CALL
            if cost < best[j]:
                best[j], came[j] = cost, i
    cuts = [len(reach)]
    while cuts[-1]:
        cuts.append(came[cuts[-1]])
    return list(itertools.pairwise(reversed(cuts)))


def _group(rows: Mapping[Want, Array], some: Sequence[Want]) -> Group:
    reach = [_reach(rows[w]) for w in some]
    low, high = min(a for a, _ in reach), max(b for _, b in reach)
    stacked = np.stack([rows[w][:, low:high] for w in some], axis=1)  # (r - 1, wants, span)
    return Group(tuple(some), slice(low, high), stacked.reshape(-1, high - low))

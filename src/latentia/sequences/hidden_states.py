"""The hidden state of a step: all latents at once, and columns whose missing cells are remembered.

A factorial chain is a chain of joint states. A column that tells others, in its own step or in the
next, belongs to the hidden state where its cells may be missing; a variable that tells a column of
the next step is remembered for one step. So every slice becomes one chain: start, moves, emissions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from latentia.errors import DataError, GraphError
from latentia.sequences.families import StepFamily, families_of
from latentia.sequences.slices import Parent, Slice
from latentia.typing import Array, CellArray, Codes

WIDEST = 1024  # joint states
LARGEST = 2**24  # cells of all moves together
KEPT_LAYOUTS = 8  # questions ask again for the same: what is worked out of a slice is looked up
Tables = Mapping[int, Array]  # number of a family -> (parents …, states) or (parents …, 1, 3)


@final
@dataclass(frozen=True)
class ChainLayout:
    """A slice as a chain of joint states. `sizes` are states of variables, 0 if continuous.

    `hidden` are (variable, 0), and (variable, 1) where the step before is remembered.
    """

    slice: Slice
    sizes: tuple[int, ...]
    hidden: tuple[Parent, ...]

    @cached_property
    def families(self) -> tuple[StepFamily, ...]:
        return families_of(self.slice)

    @cached_property
    def width(self) -> int:
        """Joint states."""
        return math.prod(self.sizes[v] for v, _ in self.hidden)

    @cached_property
    def values(self) -> dict[Parent, CellArray]:
        """The state of each hidden variable in every joint state, (width,)."""
        sizes = [self.sizes[v] for v, _ in self.hidden]
        if not sizes:
            return {}
        codes = np.unravel_index(np.arange(self.width), sizes)
        return dict(zip(self.hidden, codes, strict=True))

    @cached_property
    def emitted(self) -> tuple[int, ...]:
        """Columns that are not part of the hidden state."""
        return tuple(v for v in self.slice.columns if (v, 0) not in self.hidden)

    @cached_property
    def masked(self) -> tuple[int, ...]:
        """Columns that are: their cells say which joint states can be."""
        return tuple(v for v in self.slice.columns if (v, 0) in self.hidden)

    def shape(self, family: StepFamily) -> tuple[int, ...]:
        """Of a table: (parents …, states), or (parents …, 1, 3) of a Gaussian."""
        above = tuple(self.sizes[u] for u, _ in family.parents)
        own = self.sizes[family.variable]
        return (*above, own) if own else (*above, 1, 3)

    def seen_parents(self, families: tuple[StepFamily, ...]) -> tuple[Parent, ...]:
        """Parents whose cells are told: they choose between tables."""
        hidden = {v for v, lag in self.hidden if lag == 0}
        found = dict.fromkeys(p for f in families for p in f.parents if p[0] not in hidden)
        return tuple(found)

    @cached_property
    def starting(self) -> tuple[StepFamily, ...]:
        """Families of hidden variables at first steps."""
        return tuple(f for f in self.families if (f.variable, 0) in self.hidden and f.starts)

    @cached_property
    def moving(self) -> tuple[StepFamily, ...]:
        """Families of hidden variables at later steps."""
        return tuple(f for f in self.families if (f.variable, 0) in self.hidden and f.goes_on)

    @cached_property
    def kept(self) -> dict[tuple[str, int], CellArray]:
        """What was worked out of tables by number, to be looked up again."""
        return {}

    @cached_property
    def start_count(self) -> int:
        """Configurations of what is told at first steps."""
        return math.prod(self.sizes[v] for v, _ in self.seen_parents(self.starting))

    @cached_property
    def move_count(self) -> int:
        """Configurations of what is told at later steps."""
        return math.prod(self.sizes[v] for v, _ in self.seen_parents(self.moving))

    @cached_property
    def places(self) -> dict[int, tuple[Codes | None, ...]]:
        """Where each cell of starts and moves lies in the tables: by number of the family.

        {number: (of starts, of moves)}, flat indices (configurations, from, to); None: nowhere.
        """
        found: dict[int, tuple[Codes | None, ...]] = {}
        for number, family in enumerate(self.families):
            at = [
                self._flat(family, group) if family in group else None
                for group in (self.starting, self.moving)
            ]
            if any(x is not None for x in at):
                found[number] = tuple(at)
        return found

    def _flat(self, family: StepFamily, group: tuple[StepFamily, ...]) -> Codes:
        config = self.configurations(self.seen_parents(group))
        index = []
        for u, lag in family.parents:
            if (u, lag) in config:
                index.append(config[u, lag][:, None, None])
            elif lag:
                index.append(self.values[u, 0][None, :, None])
            else:
                index.append(self.values[u, 0][None, None, :])
        index.append(self.values[family.variable, 0][None, None, :])
        return np.ravel_multi_index(np.broadcast_arrays(*index), self.shape(family))

    def configurations(self, seen: tuple[Parent, ...]) -> dict[Parent, CellArray]:
        """The state of each told parent in every configuration of all of them."""
        sizes = [self.sizes[v] for v, _ in seen]
        if not sizes:
            return {}
        codes = np.unravel_index(np.arange(math.prod(sizes)), sizes)
        return dict(zip(seen, codes, strict=True))

    @cached_property
    def remembered(self) -> Array:
        """One where a move keeps what is remembered, zero elsewhere: (from, to)."""
        found = np.ones((self.width, self.width))
        for v, lag in self.hidden:
            if lag:
                found *= self.values[v, 0][:, None] == self.values[v, 1][None, :]
        return found

    @cached_property
    def blank(self) -> Array:
        """One where nothing is remembered yet, at first steps: (states,)."""
        found = np.ones(self.width)
        for v, lag in self.hidden:
            if lag:
                found *= self.values[v, 1] == 0
        return found


@lru_cache(maxsize=KEPT_LAYOUTS)
def make_layout(slice_: Slice, sizes: tuple[int, ...], holes: frozenset[int]) -> ChainLayout:
    """The hidden state that a slice needs where the variables of `holes` may be missing."""
    _check_parents(slice_, sizes, holes)
    told = {u for above in slice_.parents for u, _ in above}
    now = [v for v in range(len(slice_.names)) if v in slice_.latent]
    now += [v for v in slice_.columns if v in told and v in holes]
    memory = dict.fromkeys(
        (u, 1)
        for v in slice_.columns
        if v not in now
        for u, lag in slice_.parents[v]
        if lag and u in now
    )
    layout = ChainLayout(slice_, sizes, (*((v, 0) for v in now), *memory))
    _check_width(layout)
    return layout


def _check_parents(slice_: Slice, sizes: tuple[int, ...], holes: frozenset[int]) -> None:
    for v, above in enumerate(slice_.parents):
        for u, _ in above:
            if not sizes[u]:
                raise GraphError(
                    f"{slice_.names[u]!r} is continuous and cannot tell {slice_.names[v]!r}: only "
                    "discrete variables have children here. Cut it into classes, or name it in "
                    "kinds= as discrete."
                )
            if u in slice_.given and u in holes:
                raise DataError(
                    f"the given column {slice_.names[u]!r} has missing cells, and nothing can fill "
                    "them. Fill them, or model the column (drop it from given=)."
                )


def _check_width(layout: ChainLayout) -> None:
    seen = layout.seen_parents(layout.moving)
    moves = math.prod(layout.sizes[v] for v, _ in seen) * layout.width**2
    if layout.width > WIDEST or moves > LARGEST:
        names = [layout.slice.names[v] for v, _ in layout.hidden]
        told = [layout.slice.names[v] for v, _ in seen]
        raise GraphError(
            f"the hidden state of a step, {', '.join(map(str, names))}, has {layout.width} states"
            + (f", told by {', '.join(map(str, told))}" if told else "")
            + f"; at most {WIDEST} states and {LARGEST} cells of moves fit. Use fewer states or "
            "arrows; fill the holes of columns that tell others."
        )

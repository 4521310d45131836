"""Online: one step at a time, with the memory of a single belief."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from latentia.data.columns.continuous import ContinuousColumn
from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.inference.posterior import Posterior
from latentia.inference.posterior_density import Density, as_answer
from latentia.sequences.cell_beliefs import cell_beliefs, latent_beliefs
from latentia.sequences.chain_questions import Chain
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.long_rows import cells_of, one_value
from latentia.sequences.potentials import moves_of, starts_of
from latentia.sequences.slices import Parent
from latentia.sequences.table_places import bell_places, cell_places
from latentia.typing import Array, ByName, Cell, Label


class OnlineState:
    """What is believed now: `observe` a row, `forecast` the next step; O(1) memory.

    Made by `SequenceModel.start`.
    """

    def __init__(self, chain: Chain) -> None:
        slice_ = chain.slice
        holes = frozenset(slice_.columns)  # any cell may be missing, and the next step always is
        self._chain = chain
        self._layout = layout = chain.layout(holes)
        self._starts = starts_of(layout, chain.tables).T
        self._moves = moves_of(layout, chain.tables)
        self._readers = {slice_.names[v]: _Reader(chain, layout, v) for v in slice_.columns}
        self._inputs = {slice_.names[v]: chain.columns[v] for v in sorted(slice_.given)}
        self._belief: Array | None = None
        self._told: dict[Parent, int] = {}  # inputs of the last step, as lag 1
        self._begins = layout.seen_parents(layout.starting)
        self._moving = layout.seen_parents(layout.moving)
        self.steps = 0

    @property
    def belief(self) -> dict[Label, Array] | None:
        """P(latent | all rows so far) by name; None before the first row."""
        if self._belief is None:
            return None
        column = self._belief[:, None]
        names = self._chain.slice.names
        return {
            names[v]: latent_beliefs(self._layout, v, column)[:, 0].copy()
            for v in sorted(self._chain.slice.latent)
        }

    def observe(self, row: ByName[Cell] | None = None) -> float:
        """Take in the next step, and tell log P(row | rows before); None or {}: nothing is seen.

        A row that cannot be is an error and changes nothing.
        """
        row = row or {}
        for name in row:
            if name not in self._readers and name not in self._inputs:
                raise UnknownNameError("column", name, [*self._readers, *self._inputs])
        told = self._read_inputs(row)
        belief = self._predicted(told)
        level, units, later = 0.0, 0.0, self.steps > 0
        for name, reader in self._readers.items():
            value = row.get(name)
            if value is None or value != value:
                continue
            like, shift = reader.likelihood(value, told, later)
            belief = belief * like
            units += shift
        total = float(belief.sum())
        if not total > 0.0:
            raise EvidenceError(
                f"the row {dict(row)!r:.200} cannot be under the model after the rows before."
            )
        level = float(np.log(total)) + units
        self._belief = belief / total
        self._told = {(v, 1): x for (v, lag), x in told.items() if lag == 0}
        self.steps += 1
        return level

    def forecast(
        self, name: Label, ahead: int = 1, given: ByName[Cell] | None = None
    ) -> Posterior | Density:
        """P(name, so many steps ahead | rows so far): a column or a latent.

        `given` tells the inputs of these steps, if there are any.
        """
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
            raise DataError(f"expected ahead as a whole number from 1 on, got {ahead!r}.")
        v = self._chain.slice.index(name)
        if v in self._chain.slice.given:
            raise EvidenceError(f"{name!r} is given, not modelled; it cannot be forecast.")
        told = self._read_inputs(given or {})
        belief = self._predicted(told)
        for _ in range(ahead - 1):
            told = {**told, **{(u, 1): x for (u, lag), x in told.items() if lag == 0}}
            belief = belief @ self._moves[_place(self._layout, self._moving, told)]
        if v in self._chain.slice.latent:
            p = latent_beliefs(self._layout, v, belief[:, None])[:, 0]
            return Posterior((name,), (self._chain.labels(v),), p / p.sum())
        reader = self._readers[name]
        later = self.steps + ahead > 1
        p = reader.masses(belief, reader.choice(told, later))
        return as_answer([reader.column], p / p.sum())

    def _predicted(self, told: Mapping[Parent, int]) -> Array:
        """The belief of the next step, before anything of it is seen."""
        if self._belief is None:
            return np.asarray(self._starts[_place(self._layout, self._begins, told)])
        move = self._moves[_place(self._layout, self._moving, told)]
        return np.asarray(self._belief @ move)

    def _read_inputs(self, row: ByName[Cell]) -> dict[Parent, int]:
        told = dict(self._told)
        for name, column in self._inputs.items():
            if row.get(name) is None:
                raise DataError(f"the given column {name!r} must be told at every step.")
            v = self._chain.slice.index(name)
            told[v, 0] = int(cells_of(column, one_value(row[name]))[0])
        return told


def _place(layout: ChainLayout, seen: tuple[Parent, ...], told: Mapping[Parent, int]) -> int:
    """The number of the configuration of told parents."""
    found = 0
    for parent in seen:
        found = found * layout.sizes[parent[0]] + told[parent]
    return found


class _Reader:
    """Likelihoods of the cells of one column, looked up."""

    def __init__(self, chain: Chain, layout: ChainLayout, v: int) -> None:
        self.column, self.layout = chain.columns[v], layout
        self.variable, self.tables = v, chain.tables
        self.grids: dict[int, Array] = {}  # of a continuous column: (cells, states)
        self.blocks = [(n, f) for n, f in enumerate(layout.families) if f.variable == v]
        self.hidden = (v, 0) in layout.hidden
        self.codes: dict[Label, int] = {}
        self.line: tuple[float, float] | None = None  # centre and scale of a straight one
        if not self.column.continuous:
            self.codes = {label: k for k, label in enumerate(self.column.labels)}
        if self.hidden:
            own = layout.values[v, 0][:, None] == np.arange(layout.sizes[v])
            self.table = own.astype(float).T[None]  # (1, cells, states)
        elif self.codes:
            parts = [chain.tables[n].ravel()[cell_places(layout, n)] for n, _ in self.blocks]
            self.table = np.ascontiguousarray(np.concatenate(parts, axis=1).transpose(1, 2, 0))
        else:
            if isinstance(self.column, ContinuousColumn) and not self.column.curved:
                self.line = self.column.centre, self.column.scale
            leaves = [
                chain.tables[n].reshape(-1, 3)[bell_places(layout, n)] for n, _ in self.blocks
            ]
            _, mean, variance = np.moveaxis(np.concatenate(leaves, axis=1), -1, 0)
            level = -0.5 * np.log(2 * np.pi * variance)
            bells = np.stack([level, mean, 0.5 / variance])  # (3, states, configurations)
            self.table = np.ascontiguousarray(bells.transpose(2, 0, 1))

    def choice(self, told: Mapping[Parent, int], later: bool) -> int:
        """The configuration of told parents among all tables of the column."""
        if self.hidden or len(self.table) == 1:
            return 0
        start = 0
        for _, family in self.blocks:
            seen = self.layout.seen_parents((family,))
            if family.goes_on if later else family.starts:
                return start + _place(self.layout, seen, told)
            start += int(np.prod([self.layout.sizes[u] for u, _ in seen], dtype=int))
        raise AssertionError("a column has a table for every step")

    def masses(self, belief: Array, choice: int) -> Array:
        """P(cell), of beliefs of joint states (states,)."""
        if self.codes:
            return np.asarray(self.table[choice] @ belief)
        if choice not in self.grids:
            every = np.eye(self.layout.width)
            at = np.full(self.layout.width, choice)
            self.grids[choice] = cell_beliefs(
                self.layout, self.tables, self.column, self.variable, every, at
            )
        return np.asarray(self.grids[choice] @ belief)

    def likelihood(
        self, value: object, told: Mapping[Parent, int], later: bool
    ) -> tuple[Array, float]:
        """P(cell | joint state) up to a factor, and the logarithm of that."""
        own = self.table[self.choice(told, later)]
        if self.codes:
            code = self.codes.get(value)
            if code is None:
                code = int(cells_of(self.column, one_value(value))[0])  # complains, or knows better
            return own[code], 0.0
        z, units = self._placed(value)
        apart = z - own[1]
        logs = own[0] - apart * apart * own[2]
        top = float(logs.max())
        return np.exp(logs - top), top + units

    def _placed(self, value: object) -> tuple[float, float]:
        """z of a value, and log dz/dx."""
        column = self.column
        if self.line is not None and type(value) is float and math.isfinite(value):
            centre, scale = self.line
            return (value - centre) / scale, -math.log(scale)
        values = one_value(value)
        return float(cells_of(column, values)[0]), float(column.log_slope(values)[0])

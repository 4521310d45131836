"""Sequences as codes: the cells of all steps of all sequences, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from latentia.data.columns.column import Places
from latentia.sequences.packing import Indices
from latentia.typing import CellArray


@final
@dataclass(frozen=True, slots=True)
class Sequences:
    """Cells by variable of the slice (-1 or NaN: missing), and where sequences begin and end."""

    cells: dict[int, Places]  # of every column and input, (steps,)
    offsets: Indices  # (sequences + 1,)

    @property
    def steps(self) -> int:
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def holes(self) -> frozenset[int]:
        """Variables with missing cells."""
        return frozenset(v for v, x in self.cells.items() if missing_cells(x).any())

    def some(self, chosen: Sequence[int]) -> Sequences:
        """Some of the sequences, in the order given."""
        spans = [(int(self.offsets[s]), int(self.offsets[s + 1])) for s in chosen]
        return self.spans(spans)

    def spans(self, spans: Sequence[tuple[int, int]]) -> Sequences:
        """Stretches of steps as sequences of their own."""
        steps = np.concatenate([np.arange(a, b) for a, b in spans] or [np.zeros(0, dtype=int)])
        lengths = [b - a for a, b in spans]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
        return Sequences({v: x[steps] for v, x in self.cells.items()}, offsets)

    def groups(self, most: int) -> Iterator[Sequences]:
        """Whole sequences, one behind the other, of at most so many steps if there are several."""
        first, count = 0, len(self)
        while first < count:
            start = int(self.offsets[first])
            fits = int(np.searchsorted(self.offsets, start + most, side="right")) - 1
            stop = min(max(fits, first + 1), count)
            end = int(self.offsets[stop])
            if end > start:
                cells = {v: x[start:end] for v, x in self.cells.items()}
                yield Sequences(cells, self.offsets[first : stop + 1] - start)
            first = stop

    def longer(self, ahead: int) -> Sequences:
        """Every sequence with so many empty steps behind it."""
        lengths = np.diff(self.offsets)
        offsets = np.concatenate([[0], np.cumsum(lengths + ahead)])
        place = np.arange(self.steps) + np.repeat(np.arange(len(self)) * ahead, lengths)
        found: dict[int, CellArray] = {}
        for v, x in self.cells.items():
            kind = float if x.dtype.kind == "f" else np.int64
            found[v] = np.full(offsets[-1], np.nan if kind is float else -1, dtype=kind)
            found[v][place] = x
        return Sequences(found, offsets)

    def first_steps(self) -> CellArray:
        """Which steps are the first of their sequence, (steps,)."""
        first = np.zeros(self.steps, dtype=bool)
        first[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return first

    def __iter__(self) -> Iterator[slice]:
        ends = self.offsets.tolist()
        return (slice(a, b) for a, b in pairwise(ends))


def missing_cells(x: Places) -> CellArray:
    """Which cells are missing, (steps,)."""
    return np.asarray(np.isnan(x) if x.dtype.kind == "f" else x < 0)

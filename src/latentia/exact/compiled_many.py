"""The E-step of many starts by the compiled kernel: one start after the other, without a detour.

Rows, codes and room to work are laid out once; factors of all starts are made together, and counts
put back together (many_cells.py), so that a start costs little more than its pass over rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.compiled_rows import (
    MOST_CODES,
    MOST_MAP,
    MOST_SLOTS,
    WHOLE,
    LaidOutRows,
    RowProgram,
    room_for,
    write_program,
)
from latentia.exact.estep_wiring import EStep
from latentia.exact.many_cells import ManyCells, Places, many_cells
from latentia.native.loading import Kernel
from latentia.typing import Array


@final
@dataclass(frozen=True, slots=True)
class CompiledManyRows:
    """Rows and program: numbers of several starts -> their expected counts."""

    cells: ManyCells
    program: RowProgram
    laid_out: LaidOutRows

    def __call__(self, X: Array) -> tuple[Array, Array] | None:
        """Counts, (starts, cells), and log-likelihoods, (starts,).

        None where a row came near the smallest numbers: that is done with care, start by start.
        """
        starts, factors = len(X), self.cells.factors(X)
        of_packs = _parts(self.program.tables)
        of_cliques = _parts(self.program.maps)
        tables = np.empty((starts, max(1, self.program.tables[-1])))
        for part, own in zip(of_packs, factors.tables, strict=True):
            tables[:, part] = own.swapaxes(0, 1).reshape(starts, -1)
        maps = np.empty((starts, max(1, self.program.maps[-1])))
        for part, own in zip(of_cliques, factors.maps, strict=True):
            maps[:, part] = own.reshape(starts, -1)
        counts = np.zeros(tables.shape)
        pairs = room_for(starts * maps.shape[1] * WHOLE, empty=True).reshape(starts, -1, WHOLE)
        fits = self.laid_out.run_starts(tables, maps, pairs, counts)
        if fits is None:
            return None
        sums = pairs.sum(axis=2)
        by_code = tuple(
            counts[:, part].reshape(starts, len(own), -1).swapaxes(0, 1)
            for part, own in zip(of_packs, factors.tables, strict=True)
        )
        by_clique = tuple(
            sums[:, part].reshape(own.shape)
            for part, own in zip(of_cliques, factors.maps, strict=True)
        )
        fits += self.cells.count_free(factors, by_code)
        return self.cells.counts(factors, by_code, by_clique), fits


def _parts(starts: Sequence[int]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(starts)]


def compiled_many(
    kernel: Kernel, estep: EStep, rows: Rows, places: Places, cells: int
) -> CompiledManyRows | None:
    """For rows that `pack_rows` has packed; None where tables are too large for rows as lanes."""
    if estep.width >= MOST_SLOTS or any(math.prod(c.sizes) > MOST_MAP for c in estep.cliques):
        return None
    own, codes = many_cells(estep, rows, places, cells)
    sizes = [len(pack.weight) for pack in own.packs]
    if max(sizes, default=0) >= MOST_CODES:
        return None
    program = write_program(estep, sizes)
    laid_out = LaidOutRows(kernel, program, codes, sizes, rows.weight, len(rows))
    return CompiledManyRows(own, program, laid_out)

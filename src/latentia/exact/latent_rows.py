"""P(latent | present cells) of every row, from tables: an E-step that keeps its posteriors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.columns.column import Column, is_present
from latentia.data.rows import Rows
from latentia.data.sources.table import Table
from latentia.errors import EvidenceError
from latentia.exact.estep_wiring import EStep, compile_estep
from latentia.exact.leaf_pieces import widened
from latentia.exact.own_network import OwnNetwork, between_cells
from latentia.exact.row_posteriors import latent_posteriors
from latentia.inference.row_answers import Found, check_unknown, note_impossible, note_unknown
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Bools, CellArray, Codes, Label


@final
@dataclass(frozen=True, slots=True)
class AskingLatent:
    """One latent of a network with tables, as it is asked about rows."""

    graph: LatentGraph
    columns: tuple[Column, ...]
    tables: Mapping[int, Array]
    leaves: Mapping[int, Array]  # Gaussian leaves of continuous columns
    column: Column  # the latent and its states
    unknown: str = "error"
    network: OwnNetwork | None = None  # which answers then

    def __post_init__(self) -> None:
        check_unknown(self.unknown)

    @property
    def latent(self) -> int:
        return self.graph.index(self.column.name)

    def memberships(self, table: Table) -> Found:
        """P(state | present cells), by name of the state; (rows,) each."""
        return dict(zip(self.column.summary_names, self._shares(table), strict=True))

    def _shares(self, table: Table) -> Array:
        """P(state | present cells), (states, rows)."""
        codes = self._codes(table)
        if self.network is not None:
            found, impossible = self.network.posterior(*self._read(codes, table), self.latent)
            note_impossible(impossible, table.first)
            return found
        wide = widened(self.graph, self.columns if self.leaves else ())
        both, codes = wide.apart({**self.tables, **self.leaves}), wide.rows(Rows(codes)).codes
        observed, dense = wide.wide.observed, wide.scales(dict.fromkeys(self.leaves, (0.0, 1.0)))
        gaps = [u for u, c in zip(observed, codes, strict=True) if not is_present(c).all()]
        estep = compile_estep(wide.wide, gaps, continuous=dense)
        p, impossible = _one_by_one(estep, both, Rows(codes), self.latent)
        if impossible.any():  # what is left without the cells of these rows
            hidden = tuple(
                np.full_like(c[:1], np.nan if c.dtype.kind == "f" else -1) for c in codes
            )
            blind = compile_estep(wide.wide, observed, continuous=dense)
            alone = latent_posteriors(blind, both, Rows(hidden), [self.latent])[self.latent]
            p[:, impossible] = alone
        note_impossible(impossible, table.first)
        return p

    def _read(self, codes: Sequence[Codes], table: Table) -> tuple[Codes, dict[Label, Array]]:
        """Cells (rows, variables), -1 where unknown; positions on grids as likelihoods."""
        cells = np.full((table.length, len(self.graph.names)), -1, dtype=np.int64)
        soft = {}
        for v, c, own in zip(self.graph.observed, self.columns, codes, strict=True):
            if c.continuous:
                soft[c.name] = between_cells(*c.corners(np.asarray(own, dtype=float)), c.cells)
            else:
                cells[:, v] = own
        return cells, soft

    def best(self, table: Table) -> Found:
        """The most probable state of every row."""
        return {self.column.name: self.column.answers(self._shares(table).argmax(axis=0))}

    def _codes(self, table: Table) -> tuple[Codes, ...]:
        """What an E-step reads: codes, positions of columns with leaves, nearest cells of others.

        What the table lacks is missing.
        """
        found: list[Codes] = []
        for v, c in zip(self.graph.observed, self.columns, strict=True):
            if c.name in table.names:
                values = table.column(c.name)
                if self.unknown != "error":
                    values, odd = c.known(values)
                    if self.unknown == "warn" and odd.any():
                        note_unknown([(c.name, int(odd.sum()), values.cells[int(odd.argmax())])])
                cells = c.place(values)
            else:
                cells = c.nothing(table.length)
            if c.continuous and v not in self.leaves and self.network is None:
                cells = c.nearest(cells).astype(np.int64)
            found.append(cells)
        return tuple(found)


def _one_by_one(
    estep: EStep, tables: Mapping[int, Array], rows: Rows, v: int
) -> tuple[Array, CellArray]:
    """Posteriors (states, n); impossible rows are found by halving, marked, and left empty."""
    try:
        found = latent_posteriors(estep, tables, rows, [v])[v]
        return found, np.zeros(len(rows), dtype=bool)
    except EvidenceError:
        if len(rows) == 1:
            return np.zeros((estep.states[v], 1)), np.ones(1, dtype=bool)
    half = len(rows) // 2
    parts: Sequence[tuple[Array, Bools]] = [
        _one_by_one(estep, tables, part, v) for part in (rows[:half], rows[half:])
    ]
    return np.concatenate([p for p, _ in parts], axis=1), np.concatenate([m for _, m in parts])

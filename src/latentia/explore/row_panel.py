"""Rows of a table as a model sees them: how probable, what surprises, what holes should hold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources.engine import OneBlock
from latentia.data.sources.opening import open_question
from latentia.data.sources.stream import Stream
from latentia.data.sources.table import Table
from latentia.errors import DataError, LatentiaWarning, UnknownNameError
from latentia.exact.tabular_model import TabularModel
from latentia.explore.explored import Explored
from latentia.spelling import printable
from latentia.typing import Array, Cell, Facts, Given, Label, TableLike

MOST_ROWS = 5_000  # that are scored and can be looked through
MOST_SHOWN = 200  # in one answer
GRADES = ((0.01, 3), (0.05, 2), (0.2, 1))  # P(cell | others) below this surprises so much
TAILS = ((99, 3), (95, 2), (80, 1))  # a number outside so many per cent in the middle
LEVELS = (0.005, 0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975, 0.995)
SORTS = ("table", "odd", "usual")


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowPanel:
    """The first rows of a table, their cells as plain values, and their scores."""

    explored: Explored
    columns: tuple[Column, ...]  # of the model, as far as the table has them
    nodes: tuple[int, ...]  # their numbers among what is shown
    cells: Mapping[Label, list[Cell]]  # None: missing, or no state that the model knows
    texts: Mapping[Label, list[str]]  # as the table has them
    scores: Array  # (rows,), -inf where impossible
    cut: bool  # the table has more rows

    def page(self, start: Given, count: Given, sort: Given) -> Facts:
        """Some rows in an order, each with its cells."""
        total = len(self.scores)
        for number in (start, count):
            if type(number) is not int or not 0 <= number < 10**9:
                raise DataError("expected whole numbers for the rows to show.")
        if sort not in SORTS:
            raise UnknownNameError("order of rows", str(sort)[:40], SORTS)
        order = np.arange(total)
        if sort != "table":
            order = np.argsort(self.scores if sort == "odd" else -self.scores, kind="stable")
        chosen = order[start : start + min(count, MOST_SHOWN)].tolist()
        return {
            "total": total,
            "cut": self.cut,
            "columns": [self.explored.shown[v].key for v in self.nodes],
            "rows": list(self._rows(chosen)),
        }

    def _rows(self, chosen: Sequence[int]) -> Iterator[Facts]:
        if not chosen:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LatentiaWarning)  # impossible rows are shown as such
            part = {name: [cells[i] for i in chosen] for name, cells in self.cells.items()}
            found = [self._column(k, part, chosen) for k in range(len(self.columns))]
        for k, i in enumerate(chosen):
            score = float(self.scores[i])
            yield {
                "number": i,
                "score": score if math.isfinite(score) else None,
                "cells": [column[k] for column in found],
            }

    def _column(
        self, k: int, part: Mapping[Label, list[Cell]], chosen: Sequence[int]
    ) -> list[dict[str, Cell]]:
        column, node = self.columns[k], self.nodes[k]
        texts = [self.texts[column.name][i] for i in chosen]
        if column.continuous:
            spread = self.explored.model.predict_quantiles(part, column.name, LEVELS)
            levels = np.column_stack([spread[f"{q:g}"] for q in LEVELS])
            values = part[column.name]
            return [
                _number_cell(column, node, value, text, row)
                for value, text, row in zip(values, texts, levels, strict=True)
            ]
        shares = self._shares(column.name, part)  # (rows, states)
        states = self.explored.shown[node].states
        place = {label: code for code, label in enumerate(column.labels)}
        codes = [-1 if x is None else place[x] for x in part[column.name]]
        return [
            _state_cell(node, states, code, text, row)
            for code, text, row in zip(codes, texts, shares, strict=True)
        ]

    def _shares(self, name: Label, part: Mapping[Label, list[Cell]]) -> Array:
        """P(column | all others that are there), (rows, states)."""
        model = self.explored.model
        if not isinstance(model, TabularModel):
            found = model.predict_proba(part, name)
            return np.column_stack(list(found.values()))
        others = {other: cells for other, cells in part.items() if other != name}
        rows = len(part[name])
        log = model.log_evidence(others) if others else np.zeros(rows)
        good = np.isfinite(np.broadcast_to(log, rows))
        shares = np.tile(model.posteriors(None, [name])[name][0], (rows, 1))
        if good.any() and others:
            kept = {o: [c for c, ok in zip(x, good, strict=True) if ok] for o, x in others.items()}
            shares[good] = model.posteriors(kept, [name])[name]
        return shares


def open_rows_panel(explored: Explored, rows: TableLike) -> RowPanel:
    """Read the first rows of a table, and score them."""
    known = _columns(explored)
    number = {name: v for v, name in enumerate(explored.graph.names)}
    names, blocks = _blocks(rows, known)
    columns = tuple(c for c in known if c.name in names)
    if not columns:
        raise UnknownNameError(
            "column",
            names[0] if names else "",
            [c.name for c in known],
            "None of the model's columns is there.",
        )
    cells: dict[Label, list[Cell]] = {c.name: [] for c in columns}
    texts: dict[Label, list[str]] = {c.name: [] for c in columns}
    length, cut = 0, False
    for block in blocks:
        room = MOST_ROWS - length
        for c in columns:
            kept = _cells(block, c)[:room]
            cells[c.name] += [value for value, _ in kept]
            texts[c.name] += [text for _, text in kept]
        cut = block.length > room
        length += min(block.length, room)
        if cut or length >= MOST_ROWS:
            break
    scores = _scores(explored, cells)
    nodes = tuple(number[c.name] for c in columns)
    return RowPanel(explored, columns, nodes, cells, texts, scores, cut)


def _columns(explored: Explored) -> tuple[Column, ...]:
    if not isinstance(explored.model, TabularModel):
        return tuple(explored.model.columns_)
    model, graph = explored.model, explored.graph
    return tuple(
        DiscreteColumn(name, tuple(model.state_names.get(name, range(model.states[v]))))
        for v, name in enumerate(graph.names)
        if v not in graph.latent
    )


def _blocks(rows: TableLike, known: Sequence[Column]) -> tuple[tuple[Label, ...], Iterator[Table]]:
    engine = open_question(rows, known)
    if isinstance(engine, OneBlock):
        return tuple(engine.names), iter([engine.table])
    if isinstance(engine, Stream):
        wanted = [c.name for c in known if c.name in engine.names]
        return tuple(engine.names), engine.tables(wanted)
    raise DataError(
        f"expected rows in memory or in a file to look through, got {type(rows).__name__}. Take "
        "some of them into a data frame."
    )


def _cells(block: Table, column: Column) -> list[tuple[Cell, str]]:
    """(state or number, text); a cell that holds no state of the model is as good as missing."""
    values = block.column(column.name)
    gone = values.missing if values.missing is not None else np.zeros(block.length, dtype=bool)
    given = values.cells.tolist()
    place = {label: label for label in column.labels} if not column.continuous else {}
    found: list[tuple[Cell, str]] = []
    for value, missing in zip(given, gone.tolist(), strict=True):
        if missing or value is None or value != value:
            found.append((None, ""))
        elif column.continuous:
            number = _as_number(value)
            found.append((number, "" if number is None else f"{number:.6g}"))
        else:
            found.append((place.get(value), printable(value)))
    return found


def _as_number(value: Cell) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _scores(explored: Explored, cells: Mapping[Label, list[Cell]]) -> Array:
    model = explored.model
    if not next(iter(cells.values())):
        return np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        if isinstance(model, TabularModel):
            return model.log_evidence(cells)
        return np.asarray(model.score_samples(_as_columns(cells)), dtype=float)


def _as_columns(cells: Mapping[Label, list[Cell]]) -> dict[Label, Cell]:
    found = {}
    for name, values in cells.items():
        column = np.empty(len(values), dtype=object)
        column[:] = values
        found[name] = column
    return found


# --- cells ----------------------------------------------------------------------------------------


def _state_cell(node: int, states: Sequence[str], code: int, text: str, shares: Array) -> Facts:
    best = int(shares.argmax())
    odd = code < 0 and text != ""  # there, but no state of the model
    p = float(shares[best if code < 0 else code])
    grade = 0 if code < 0 else next((g for bound, g in GRADES if p < bound), 0)
    return {
        "text": states[best] if code < 0 else states[code],
        "missing": code < 0,
        "note": f"the table has {text}, which the model does not know" if odd else "",
        "p": p,
        "grade": grade,
        "best": states[best],
        "node": node,
        "entry": None if code < 0 else {"state": code},
    }


def _number_cell(column: Column, node: int, value: float | None, text: str, levels: Array) -> Facts:
    """A number has no probability: how far out it lies, and the middle 90 %."""
    low, high, middle = levels[2], levels[6], levels[4]
    grade, note = 0, ""
    if value is not None:
        for i, (share, worse) in enumerate(TAILS):
            first, last = ((0, 8), (1, 7), (3, 5))[i]
            if not levels[first] <= value <= levels[last]:
                grade, note = worse, f"outside the middle {share} %"
                break
    entry = None
    if value is not None:
        cell = int(column.nearest(column.place_of(value))[0])
        entry = {"from": cell, "to": cell}
    return {
        "text": text if value is not None else f"{middle:.4g}",
        "missing": value is None,
        "note": note,
        "p": None,
        "grade": grade,
        "best": f"{middle:.4g}",
        "spread": f"({low:.4g} … {high:.4g})",
        "node": node,
        "entry": entry,
    }

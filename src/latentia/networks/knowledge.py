"""What is known of tables before any row: cells that are given, tables that are one and the same.

The M-step with known cells k and free cells f of a row is t_f = (1 − Σ t_k) n_f / Σ n_f; that of
tied tables adds up their counts. Zeros stay zeros, ties stay ties, and the likelihood still climbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from latentia.errors import DataError, UnknownNameError
from latentia.exact.reading_tables import ROUNDING, row_off
from latentia.networks.accelerate import PSEUDO_COUNTS
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Cell, Codes, Given, Label

Tables: TypeAlias = Mapping[int, Array]  # variable -> (parents …, variable)
Smoothing: TypeAlias = Mapping[int, float | Array]  # variable -> pseudo-counts, each or in all
PseudoCounts: TypeAlias = "float | str | ByName[Cell]"  # as a user gives them: "auto", or by table

LARGEST = 1e300  # of a pseudo-count
AUTO = "auto"  # pseudo-counts: as many as the counts of each table ask for, PSEUDO_COUNTS at least


@final
@dataclass(frozen=True, slots=True)
class Knowledge:
    """Known cells of tables (NaN: to be learned) and groups of variables that share a table."""

    cells: Tables = field(default_factory=dict)
    tied: tuple[tuple[int, ...], ...] = ()
    pinned: frozenset[int] = frozenset()  # latents whose states are numbered by what is known
    alike: tuple[tuple[int, ...], ...] = ()  # latents whose states correspond, by ties

    @property
    def empty(self) -> bool:
        return not self.cells and not self.tied

    def share(self, v: int) -> float:
        """1 over the number of variables with this table: its prior counts once."""
        return next((1.0 / len(group) for group in self.tied if v in group), 1.0)

    def pooled(self, counts: Tables) -> Tables:
        """Counts with those of tied tables added up."""
        if not self.tied:
            return counts
        found = dict(counts)
        for group in self.tied:
            own = [counts[v] for v in group if v in counts]
            found |= {v: np.sum(own, axis=0) for v in group if v in counts}
        return found

    def held(self, tables: Tables) -> dict[int, Array]:
        """The tables with known cells put in; what is free in a row keeps its proportions."""
        found = dict(tables)
        for v, cells in self.cells.items():
            free = np.isnan(cells)
            left = np.maximum(1.0 - np.nansum(cells, axis=-1, keepdims=True), 0.0)
            own = np.where(free, tables[v], 0.0)
            total = own.sum(axis=-1, keepdims=True)
            own = np.where(total > 0, own, free)  # no row of data speaks of these: all alike
            total = np.maximum(own.sum(axis=-1, keepdims=True), 1e-300)
            found[v] = np.where(free, left * own / total, cells)
        return found

    def imposed(self, tables: Tables) -> dict[int, Array]:
        """A start that agrees with all that is known; of tied tables the first stands for all."""
        found = dict(tables)
        for group in self.tied:
            found |= dict.fromkeys(group, tables[group[0]])
        return self.held(found)

    def orders(self, found: Mapping[int, Codes]) -> dict[int, Codes]:
        """Orders of latents' states that leave known cells and ties as they are."""
        orders = {v: order for v, order in found.items() if v not in self.pinned}
        for latents in self.alike:
            first = next((orders[v] for v in latents if v in orders), None)
            orders |= {v: first for v in latents if first is not None}
        return orders


def read_knowledge(
    graph: LatentGraph,
    known: ByName[Cell] | None,
    tied: Sequence[Sequence[Label]] | None,
    smoothing: PseudoCounts = 0.0,
) -> Knowledge:
    """Check names, shapes and sums; a tie passes known cells on to the whole group."""
    if known is None and tied is None and not isinstance(smoothing, Mapping):
        return Knowledge()
    groups = _read_groups(graph, tied)
    cells = _read_cells(graph, known)
    for group in groups:
        given = [v for v in group if v in cells]
        for v in given[1:]:
            if not np.array_equal(cells[v], cells[given[0]], equal_nan=True):
                a, b = graph.names[given[0]], graph.names[v]
                raise DataError(
                    f"{a!r} and {b!r} are tied, but different tables are known of them. "
                    "Give the table of one, or do not tie them."
                )
        cells |= {v: cells[given[0]] for v in group if given}
    pinned, alike = _latents_told(
        graph, cells, groups, read_smoothing(graph, least_smoothing(smoothing))
    )
    return Knowledge(cells, groups, pinned, alike)


def _number_of(graph: LatentGraph, name: Label, what: str) -> int:
    if name not in graph.names:
        raise UnknownNameError(f"variable (in {what})", name, graph.names)
    return graph.index(name)


def _shape(graph: LatentGraph, v: int) -> tuple[int, ...]:
    return tuple(graph.states[u] or 1 for u in (*graph.parents()[v], v))


def _read_cells(graph: LatentGraph, known: ByName[Cell] | None) -> dict[int, Array]:
    if known is not None and not isinstance(known, Mapping):
        raise DataError(f"expected known tables as {{variable: array}}, got {known!r:.80}.")
    found = {}
    for name, table in (known or {}).items():
        v = _number_of(graph, name, "known")
        cells = _numbers(graph, v, table, "known table")
        sums = np.nansum(cells, axis=-1)
        whole = np.asarray(~np.isnan(cells).any(axis=-1))
        excess = np.where(whole, sums - 1.0, np.maximum(sums - 1.0, 0.0))
        off = row_off(graph, graph.parents()[v], cells, excess)
        if off:
            raise DataError(
                f"expected rows of the known table of {name!r} to sum to 1 (within 1e-6), or to at "
                f"most 1 where cells are left to be learned (NaN), got {off}. Its axes are "
                f"{_axes(graph, v)}, and rows go along the last."
            )
        rough = np.abs(excess) > ROUNDING
        found[v] = cells / np.where(rough, sums, 1.0)[..., None]
    return found


def _numbers(graph: LatentGraph, v: int, table: object, what: str) -> Array:
    """The table as numbers of the right shape, NaN (or None) where nothing is said."""
    name, shape = graph.names[v], _shape(graph, v)
    try:
        numbers = np.array(table, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"expected an array of numbers as {what} of {name!r}, got {table!r:.80}."
        ) from None
    if numbers.shape != shape:
        raise DataError(
            f"expected the {what} of {name!r} to have shape {shape}, axes {_axes(graph, v)}, got "
            f"{numbers.shape}. States of columns are those seen in training, in order: name them "
            "all in state_names if some are rare."
        )
    if np.isinf(numbers).any() or (numbers < 0).any():
        raise DataError(
            f"expected numbers of 0 or more in the {what} of {name!r}, NaN where it is to be "
            f"learned, got some between {np.nanmin(numbers)} and {np.nanmax(numbers)}."
        )
    return numbers


def _axes(graph: LatentGraph, v: int) -> str:
    return f"({', '.join(str(graph.names[u]) for u in (*graph.parents()[v], v))})"


def _read_groups(
    graph: LatentGraph, tied: Sequence[Sequence[Label]] | None
) -> tuple[tuple[int, ...], ...]:
    if tied is not None and not isinstance(tied, list | tuple):
        raise DataError(f"expected tied as groups of variables, [[a, b, …], …], got {tied!r:.80}.")
    groups: list[tuple[int, ...]] = []
    for names in tied or ():
        if not isinstance(names, list | tuple):
            raise DataError(
                f"expected every group of tied variables as a list, got {names!r:.80}. "
                "Write tied=[[a, b, …], …]."
            )
        group = tuple(_number_of(graph, name, "tied") for name in names)
        taken = [v for v in group if group.count(v) > 1 or any(v in other for other in groups)]
        if taken:
            raise DataError(f"{graph.names[taken[0]]!r} is in two groups of tied variables.")
        for v in group[1:]:
            if _shape(graph, v)[:-1] != _shape(graph, group[0])[:-1]:
                raise _differ(graph, group[0], v)
        groups.append(group)
    return tuple(group for group in groups if len(group) > 1)


def check_kinds(graph: LatentGraph, knowledge: Knowledge, continuous: Mapping[int, object]) -> None:
    """Tied discrete variables have as many states; known cells are of discrete variables."""
    for group in knowledge.tied:
        kinds = {v in continuous for v in group}
        sizes = {graph.states[v] for v in group}
        if len(kinds) > 1:
            names = ", ".join(str(graph.names[v]) for v in group)
            raise DataError(f"some of the tied {names} are continuous and some are not.")
        if kinds == {False} and len(sizes) > 1:
            other = next(v for v in group if graph.states[v] != graph.states[group[0]])
            raise _differ(graph, group[0], other)
    for v in knowledge.cells:
        if v in continuous:
            raise DataError(
                f"a table of {graph.names[v]!r} is given as known, but the column is continuous. "
                "Bin it, or leave it out of known."
            )


def _differ(graph: LatentGraph, a: int, b: int) -> DataError:
    return DataError(
        f"{graph.names[a]!r} and {graph.names[b]!r} are tied, but their tables differ in shape: "
        f"{_shape(graph, a)} with axes {_axes(graph, a)}, {_shape(graph, b)} with axes "
        f"{_axes(graph, b)}. Tie variables with as many states and parents alike."
    )


# --- pseudo-counts --------------------------------------------------------------------------------


def read_smoothing(graph: LatentGraph, smoothing: PseudoCounts) -> dict[int, float | Array]:
    """Pseudo-counts of every table: one number for all rows, or a table of them."""
    if not isinstance(smoothing, Mapping):
        return dict.fromkeys(range(len(graph.names)), _pseudo_rows(smoothing, "smoothing"))
    found: dict[int, float | Array] = {}
    for name, given in smoothing.items():
        v = _number_of(graph, name, "smoothing")
        if np.ndim(given) == 0:
            found[v] = _pseudo_rows(given, f"smoothing of {name!r}")
            continue
        table = _numbers(graph, v, given, "table of pseudo-counts")
        if np.isnan(table).any():
            raise DataError(f"expected numbers as pseudo-counts of {name!r}, some are missing.")
        found[v] = table
    return found


def least_smoothing(smoothing: PseudoCounts) -> Given:
    """What a table row has at least, where its own counts may ask for more; else as it is given."""
    return PSEUDO_COUNTS if leans_by_itself(smoothing) else smoothing


def leans_by_itself(smoothing: PseudoCounts) -> bool:
    """Is it left to the counts of each table how many pseudo-counts it has?"""
    return isinstance(smoothing, str) and smoothing == AUTO


def _pseudo_rows(value: Given, what: str) -> float:
    numeric = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not numeric or not 0 <= value < LARGEST:
        raise DataError(f"expected {what} to be a number of at least 0, got {value!r}.")
    return float(value)


def short_tables(value: object) -> object:
    """Tables as they are shown in a line of text."""
    if not isinstance(value, Mapping) or not any(np.ndim(table) for table in value.values()):
        return value
    return f"tables of {len(value)} variables"


# --- states of latents ----------------------------------------------------------------------------


def _latents_told(
    graph: LatentGraph,
    cells: Tables,
    groups: Sequence[Sequence[int]],
    smoothing: Smoothing,
) -> tuple[frozenset[int], tuple[tuple[int, ...], ...]]:
    """Latents whose states are numbered by what is known, and those that correspond."""
    scopes = [(*above, v) for v, above in enumerate(graph.parents())]
    told = {v for v, a in smoothing.items() if isinstance(a, np.ndarray)} | set(cells)
    pinned = {u for v in told for u in scopes[v] if u in graph.latent}
    root = {u: u for u in range(len(graph.names))}

    def top(u: int) -> int:
        while root[u] != u:
            u = root[u]
        return u

    for group in groups:
        for v in group[1:]:
            for a, b in zip(scopes[group[0]], scopes[v], strict=True):
                both = {a, b} & graph.latent
                if len(both) == 2:
                    root[max(top(a), top(b))] = min(top(a), top(b))
                elif a != b:
                    pinned |= both  # it corresponds to a column
    classes: dict[int, list[int]] = {}
    for u in sorted(graph.latent):
        classes.setdefault(top(u), []).append(u)
    alike = [tuple(us) for us in classes.values() if len(us) > 1]
    for us in alike:
        if pinned & set(us):
            pinned |= set(us)
    return frozenset(pinned), tuple(alike)

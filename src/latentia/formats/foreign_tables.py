"""Tables of other libraries' objects, put together to a TabularModel whatever their orders are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np

from latentia.errors import DataError, GraphError, MissingLibraryError
from latentia.exact.tabular_model import TabularModel
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import Latents, as_graph
from latentia.typing import Array, Foreign, Label

States = Mapping[Label, Sequence[Hashable]]


@final
@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table as an object holds it: its axes in order, and the states along each in order."""

    axes: tuple[Label, ...]
    cells: Foreign
    states: States


def assemble(
    graph: LatentGraph, tables: Sequence[ForeignTable], states: States, latents: Latents
) -> TabularModel:
    """The model with these tables, their states brought into the order of `states`."""
    keyed: dict[Label, Array] = {}
    for table in tables:
        key = table.axes[-1] if graph.directed else table.axes
        cells = _sorted_states(table, states)
        keyed[key] = keyed[key] * cells if key in keyed and not graph.directed else cells
    named = {name: tuple(listed) for name, listed in states.items() if not _are_codes(listed)}
    return TabularModel(as_graph(graph, latents), keyed, state_names=named)


def _sorted_states(table: ForeignTable, states: States) -> Array:
    cells = np.asarray(table.cells, dtype=np.float64)
    for axis, name in enumerate(table.axes):
        here, wanted = list(table.states.get(name, states[name])), list(states[name])
        if here == wanted:
            continue
        if len(here) != len(wanted) or set(here) != set(wanted):
            raise DataError(
                f"the states of {name!r} are {wanted!r:.80} in one table and {here!r:.80} in "
                "another. Give it the same in all tables."
            )
        cells = cells.take([here.index(state) for state in wanted], axis=axis)
    return cells


def _are_codes(listed: Sequence[Hashable]) -> bool:
    """0, 1, 2, … as numbers: these states have no names."""
    return all(type(s) is not bool and s == k for k, s in enumerate(listed))


def refuse(wanted: str, got: object, cure: str) -> NoReturn:
    """Raise the error about an object that is none of those that are known."""
    raise GraphError(f"expected {wanted}, got {type(got).__name__}. {cure}")


def library_missing(function: str, library: str) -> MissingLibraryError:
    """The error about a library that is not installed."""
    return MissingLibraryError(
        f"{function} needs {library}, which is not installed: pip install {library}"
    )

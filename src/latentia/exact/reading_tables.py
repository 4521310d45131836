"""Reading the tables and state names that a TabularModel is given, checked and put in order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from latentia.errors import DataError, UnknownNameError
from latentia.exact.shafer_shenoy import Scope
from latentia.structure.graph import LatentGraph
from latentia.structure.triangulate import moralise
from latentia.typing import Array, ByName, Cell, Label

# Rows of a table sum to one this well: three shares of .333333 are off by 1e-6, and by rounding.
SUM_TOLERANCE = 1.001e-6
ROUNDING = 1e-14  # … and are left as they are if they do so this well


def read_tables(graph: LatentGraph, cpts: ByName[Cell]) -> tuple[LatentGraph, dict[Scope, Array]]:
    """The graph with all states known, and the tables by the numbers of their variables."""
    if not isinstance(cpts, Mapping):
        raise DataError(f"expected tables as {{variable: array}}, got {type(cpts).__name__}.")
    read = _directed_scopes if graph.directed else _undirected_scopes
    tables: dict[Scope, Array] = {}
    counts = list(graph.states)
    for scope, key in read(graph, cpts).items():
        table = tables[scope] = _checked_numbers(cpts[key], key, [graph.names[v] for v in scope])
        for v, count in zip(scope, table.shape, strict=True):
            if counts[v] not in (None, count):
                raise DataError(
                    f"{graph.names[v]!r} has {counts[v]} states in the graph or in another table, "
                    f"got {count} in the table of {key!r}, whose axes are "
                    f"{_listed(graph, scope)}. All must agree."
                )
            counts[v] = count
        if graph.directed:
            sums = table.sum(axis=-1)
            off = row_off(graph, scope, table, sums - 1)
            if off:
                raise DataError(
                    f"expected every row of the table of {key!r} to sum to 1 (within 1e-6), got "
                    f"{off}. Its axes are {_listed(graph, scope)}; rows go along the last. If they "
                    "do, divide by the sums."
                )
            tables[scope] = table = _normalised(table, sums)
        table.flags.writeable = False
    for name, count in zip(graph.names, counts, strict=True):
        if count is None:
            raise DataError(
                f"the number of states of {name!r} is unknown: no table holds it. Give a potential "
                "for it, or its number of states in the graph."
            )
    known = tuple(counts)
    return graph if known == graph.states else replace(graph, states=known), tables


def _directed_scopes(graph: LatentGraph, cpts: ByName[Cell]) -> dict[Scope, object]:
    known = set(graph.names)
    for key in cpts:
        if key not in known:
            raise UnknownNameError("variable", key, graph.names, "Tables go by the graph's names.")
    missing = [name for name in graph.names if name not in cpts]
    if missing:
        raise DataError(f"expected a table for every variable, got none for {missing[:20]}.")
    above = graph.parents()
    return {(*above[v], v): name for v, name in enumerate(graph.names)}


def _undirected_scopes(graph: LatentGraph, cpts: ByName[Cell]) -> dict[Scope, object]:
    number = {name: v for v, name in enumerate(graph.names)}
    near, found = moralise(graph), dict[Scope, object]()
    for key in cpts:
        names = (key,) if key in number or not isinstance(key, tuple) else key
        for name in names:
            if name not in number:
                raise UnknownNameError("variable", name, graph.names, f"In the potential {key!r}.")
        scope = tuple(number[name] for name in names)
        apart = [(a, b) for k, a in enumerate(scope) for b in scope[:k] if b not in near[a]]
        if apart or not scope:
            pairs = [(graph.names[b], graph.names[a]) for a, b in apart[:5]]
            raise DataError(
                f"the variables of the potential {key!r} must form a clique of the graph; these "
                f"are not tied: {pairs}. Add the edges, or split the potential."
            )
        if scope in found:
            raise DataError(f"the potential {key!r} is given twice. Multiply the two.")
        found[scope] = key
    return found


def _checked_numbers(table: object, key: object, axes: Sequence[Label]) -> Array:
    try:
        numbers = np.array(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"expected an array of numbers as table of {key!r}, got {table!r}."
        ) from None
    if numbers.ndim != len(axes):
        raise DataError(
            f"expected {len(axes)} axes in the table of {key!r}, one each for {list(axes)} in this "
            f"order, got shape {numbers.shape}."
        )
    least, most = numbers.min(initial=0), numbers.max(initial=0)
    if not (least >= 0 and 0 < most < np.inf):  # nor is nan
        raise DataError(
            f"expected finite numbers of 0 or more, not all 0, in the table of {key!r}, got "
            f"{numbers.size} cells between {least} and {most}."
        )
    return numbers


def _listed(graph: LatentGraph, scope: Scope) -> str:
    return f"({', '.join(str(graph.names[v]) for v in scope)})"


def row_off(graph: LatentGraph, scope: Scope, table: Array, off: Array) -> str:
    """The row that misses its sum by most, in words; the empty string if none is off."""
    worst = int(np.abs(off).argmax()) if off.size else 0
    if not off.size or abs(off.flat[worst]) <= SUM_TOLERANCE:
        return ""
    where = np.unravel_index(worst, off.shape)
    sum_ = np.nansum(table[where])
    row = ", ".join(f"{graph.names[v]}={k}" for v, k in zip(scope, where, strict=False))
    return f"{sum_:.8g} in the row of {row}" if row else f"{sum_:.8g}"


def _normalised(table: Array, sums: Array) -> Array:
    off = np.abs(sums - 1) > ROUNDING
    if not off.any():
        return table
    return np.where(off[..., None], table / sums[..., None], table)


def checked_state_names(graph: LatentGraph, given: object) -> dict[Label, tuple[Hashable, ...]]:
    """{variable: its states in the order of codes}, of those that were named."""
    if given is not None and not isinstance(given, Mapping):
        raise DataError(f"expected state_names as {{variable: [state, …]}}, got {given!r:.80}.")
    found: dict[Label, tuple[Hashable, ...]] = {}
    counts = dict(zip(graph.names, graph.states, strict=True))
    for name, states in (given or {}).items():
        if name not in counts:
            raise UnknownNameError("variable (in state_names)", name, graph.names)
        try:
            listed = () if isinstance(states, str) else tuple(states)
            different = len(set(listed))
        except TypeError:
            listed, different = (), 0
        count = counts[name]
        if len(listed) != count or different != count:
            raise DataError(
                f"expected {count} different names for the states of {name!r}, a list in the order "
                f"of its codes, got {states!r:.80}."
            )
        found[name] = listed
    return found

"""Reading what a TabularModel is given: tables and evidence, checked and put in order."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.exact.shafer_shenoy import Scope, log
from latentia.structure.graph import LatentGraph
from latentia.structure.triangulate import moralise
from latentia.typing import Array, Label

Codes: TypeAlias = NDArray[np.int64]
Evidence: TypeAlias = "Mapping[Any, int] | NDArray[Any] | Sequence[Sequence[int]] | None"
Soft: TypeAlias = "Mapping[Any, Any] | None"


class Variables(Protocol):
    """What reading evidence needs to know of a model."""

    @property
    def names(self) -> tuple[Label, ...]: ...

    @property
    def states(self) -> tuple[int, ...]: ...


SUM_TOLERANCE = 1e-8  # rows of a CPT sum to one this well
ROUNDING = 1e-14  # … and are left as they are if they do so this well


def read_tables(
    graph: LatentGraph, cpts: Mapping[Any, Any]
) -> tuple[LatentGraph, dict[Scope, Array]]:
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
                    f"got {count} in the table of {key!r}. All must agree."
                )
            counts[v] = count
        if graph.directed:
            tables[scope] = table = _checked_sums(table, key)
        table.flags.writeable = False
    for name, count in zip(graph.names, counts, strict=True):
        if count is None:
            raise DataError(
                f"the number of states of {name!r} is unknown: no table holds it. Give a potential "
                "for it, or its number of states in the graph."
            )
    return replace(graph, states=tuple(counts)), tables


def _directed_scopes(graph: LatentGraph, cpts: Mapping[Any, Any]) -> dict[Scope, Any]:
    for key in cpts:
        if key not in graph.names:
            raise UnknownNameError("variable", key, graph.names, "Tables go by the graph's names.")
    missing = [name for name in graph.names if name not in cpts]
    if missing:
        raise DataError(f"expected a table for every variable, got none for {missing[:20]}.")
    above = graph.parents()
    return {(*above[v], v): name for v, name in enumerate(graph.names)}


def _undirected_scopes(graph: LatentGraph, cpts: Mapping[Any, Any]) -> dict[Scope, Any]:
    number = {name: v for v, name in enumerate(graph.names)}
    near, found = moralise(graph), dict[Scope, Any]()
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


def _checked_numbers(table: Any, key: Any, axes: Sequence[Label]) -> Array:
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
    if not np.isfinite(numbers).all() or (numbers < 0).any() or not numbers.any():
        raise DataError(
            f"expected finite numbers of 0 or more, not all 0, in the table of {key!r}, got "
            f"{numbers.size} cells between {numbers.min(initial=0)} and {numbers.max(initial=0)}."
        )
    return numbers


def _checked_sums(table: Array, key: Any) -> Array:
    sums = table.sum(axis=-1, keepdims=True)
    off = float(np.abs(sums - 1).max())
    if off > SUM_TOLERANCE:
        raise DataError(
            f"expected the last axis of the table of {key!r} to sum to 1 (within {SUM_TOLERANCE}), "
            f"got sums off by up to {off:.3g}. Its axes must be (parents in the graph's order, "
            "itself); if they are, divide by the sums."
        )
    return np.where(np.abs(sums - 1) > ROUNDING, table / sums, table)


def read_codes(model: Variables, evidence: Evidence, soft: Soft) -> tuple[Codes, dict[int, Array]]:
    """Codes (rows, variables), and likelihoods {variable: (rows or 1, states)}."""
    number = {name: v for v, name in enumerate(model.names)}
    for name in [*(evidence if isinstance(evidence, Mapping) else ()), *(soft or ())]:
        if name not in number:
            raise UnknownNameError("variable", name, model.names)
    if evidence is None or isinstance(evidence, Mapping):
        codes = np.full((1, len(number)), -1, dtype=np.int64)
        for name, code in (evidence or {}).items():
            try:
                codes[0, number[name]] = operator.index(code)
            except TypeError:
                raise EvidenceError(
                    f"expected the code of a state of {name!r}, a whole number, got {code!r}."
                ) from None
    else:
        codes = np.asarray(evidence)
    codes = checked_codes(codes, model)
    weights = {
        number[name]: _checked_likelihood(x, name, model.states[number[name]])
        for name, x in (soft or {}).items()
    }
    rows = {len(codes), *(len(x) for x in weights.values())} - {1}
    if len(rows) > 1:
        raise EvidenceError(
            f"expected as many rows of soft evidence as of hard, or one, got {sorted(rows)}."
        )
    return np.broadcast_to(codes, (max(rows, default=1), codes.shape[1])), weights


def with_latents(model: Variables, observed: Sequence[int], columns: Any) -> Codes:
    """Codes (rows, observables) -> (rows, all variables), -1 for latents."""
    codes = np.asarray(columns)
    if codes.ndim != 2 or codes.shape[1] != len(observed):
        raise EvidenceError(
            f"expected codes of shape (rows, {len(observed)}), one column for each observable, "
            f"got {codes.shape}."
        )
    wide = np.full((len(codes), len(model.names)), -1, dtype=codes.dtype)
    wide[:, observed] = codes
    return checked_codes(wide, model)


def checked_codes(codes: NDArray[Any], model: Variables) -> Codes:
    n = len(model.names)
    if codes.ndim != 2 or codes.shape[1] != n:
        raise EvidenceError(
            f"expected codes of shape (rows, {n}), one column for every variable, latents too, got "
            f"{codes.shape}. `evidence(columns)` of the model adds the latents to observables."
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise EvidenceError(
            f"expected whole numbers as codes, -1 where unobserved, got dtype {codes.dtype}. "
            "Number the states of each variable 0, 1, … and convert with astype(int)."
        )
    wrong = np.argwhere((codes < -1) | (codes >= np.array(model.states)))
    if len(wrong):
        row, v = wrong[0]
        raise EvidenceError(
            f"variable {model.names[v]!r} has states 0 to {model.states[v] - 1}, got "
            f"{codes[row, v]} in row {row}. Pass one of the states, or -1 to leave it unobserved."
        )
    return codes.astype(np.int64)


def _checked_likelihood(likelihood: Any, name: Label, states: int) -> Array:
    try:
        numbers = np.atleast_2d(np.asarray(likelihood, dtype=np.float64))  # (rows or 1, states)
    except (TypeError, ValueError):
        numbers = np.full((1, 1), np.nan)
    wanted = numbers.ndim == 2 and numbers.shape[1] == states
    if not wanted or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise EvidenceError(
            f"expected as soft evidence on {name!r} finite likelihoods of 0 or more, of shape "
            f"({states},) or (rows, {states}), got {likelihood!r}."
        )
    return numbers


def log_likelihoods(
    model: Variables, codes: Codes, soft: Mapping[int, Array], rows: slice
) -> dict[int, Array]:
    """log λ of each variable with any evidence in this block of rows: (states, rows)."""
    found: dict[int, Array] = {}
    for v in np.flatnonzero((codes >= 0).any(axis=0)).tolist():
        column = codes[:, v]  # (rows,)
        agrees = (column == np.arange(model.states[v])[:, None]) | (column < 0)
        found[v] = np.where(agrees, 0.0, -np.inf)
    for v, likelihood in soft.items():
        part = likelihood if len(likelihood) == 1 else likelihood[rows]
        found[v] = found.get(v, np.zeros(1)) + log(part.T)
    return found

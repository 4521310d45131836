"""Interventions on tables: what is set by hand no longer listens to its parents.

    P(x | do x_i = s) = 1{x_i = s} ∏_{v ≠ i} P(x_v | parents of v)

Latents keep their tables, so that what they confound is accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from latentia.errors import EvidenceError, GraphError
from latentia.exact.reading_evidence import Variables, labels_of, read_codes
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Cell, Label


def check_can_be_set(graph: LatentGraph) -> None:
    """Arrows tell what acts on what; lines do not."""
    if not graph.directed:
        raise GraphError(
            "expected a directed graph (->) to set a variable by hand, got undirected edges (--), "
            "which do not tell what acts on what. Direct them, 'A->B'; or observe the variable "
            "instead: query(y, {x: state})."
        )


def read_do(model: Variables, do: ByName[Cell] | None) -> dict[int, int]:
    """{variable: code} of what is set by hand."""
    if not isinstance(do, Mapping) or not do:
        raise EvidenceError(f"expected do={{variable: state}}, got {do!r:.80}.")
    codes = read_codes(model, do, None)[0]
    if len(codes) != 1:
        raise EvidenceError(
            f"expected one state for each variable of do, got {len(codes)} of them. Ask once for "
            "each, or for effect(x, y), which sets every state in turn."
        )
    numbers = [model.names.index(name) for name in do]
    for v in numbers:
        if codes[0, v] < 0:
            raise EvidenceError(
                f"expected a state of {model.names[v]!r} in do, one of "
                f"{list(labels_of(model, v))}, got none. Leave it out."
            )
    return {v: int(codes[0, v]) for v in numbers}


def check_apart(
    do: Iterable[Label], asked: Iterable[Label], evidence: object, soft: ByName[Cell] | None
) -> None:
    """What is set by hand is neither asked for nor observed."""
    for name in do:
        if name in list(asked):
            raise EvidenceError(f"{name!r} is asked for and set at once. Leave it out of do.")
        for given in (evidence, soft):
            if isinstance(given, Mapping) and name in given:
                raise EvidenceError(
                    f"{name!r} is observed and set by hand at once. Keep one of them."
                )


def cut_tables(
    graph: LatentGraph, tables: Mapping[int, Array], do: Mapping[int, int]
) -> tuple[LatentGraph, dict[Label, Array]]:
    """The graph without arrows into what is set, which has one state for certain."""
    check_can_be_set(graph)
    found = {graph.names[v]: table for v, table in tables.items()}
    for v, code in do.items():
        certain = np.zeros(graph.states[v] or 1)
        certain[code] = 1.0
        found[graph.names[v]] = certain
    kept = tuple((a, b) for a, b in graph.edges if b not in do)
    return replace(graph, edges=kept), found

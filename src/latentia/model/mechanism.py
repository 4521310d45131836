"""Why cells are missing: what the rows say of it, and models that are told.

With mechanism={"income": ["age"]} the graph gets a column R_income, "missing" or "present", below
age; its own column may be a parent, too: what is large is hidden more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latentia.announcing import warn
from latentia.assess.holes import HolesDepend, dependent_holes
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import GraphError, HolesWarning, UnknownNameError
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.typing import ByName, Label

MOST_SAID = 5
PREFIX = "R_"


def read_mechanism(mechanism: ByName[Sequence[Label]] | None) -> dict[Label, tuple[Label, ...]]:
    """{column: parents of its indicator}, checked for its form."""
    if mechanism is None:
        return {}
    if not isinstance(mechanism, Mapping):
        raise GraphError(
            f"expected mechanism as {{column: [parents of its holes]}}, got {mechanism!r:.80}."
        )
    found: dict[Label, tuple[Label, ...]] = {}
    for column, parents in mechanism.items():
        if isinstance(parents, str) or not isinstance(parents, Sequence):
            raise GraphError(
                f"expected a list of what the holes of {column!r} depend on, got {parents!r:.80}."
            )
        found[column] = tuple(parents)
    return found


def indicator_names(mechanism: ByName[Sequence[Label]] | None) -> dict[Label, Label]:
    """{name of the indicator: its column}."""
    return {f"{PREFIX}{column}": column for column in read_mechanism(mechanism)}


def with_mechanism(
    graph: GraphLike | None, latents: Latents, mechanism: ByName[Sequence[Label]] | None
) -> LatentGraph:
    """The graph with an indicator below what each column's holes depend on."""
    if graph is None or callable(graph):
        raise GraphError(
            "a mechanism of missing cells needs a graph that is written down. Pass graph=, such as "
            "'H->income; H->age'."
        )
    plain = as_graph(graph, latents)
    names, edges, states = list(plain.names), list(plain.edges), list(plain.states)
    columns = [plain.names[v] for v in plain.observed]
    if not plain.directed:
        raise GraphError("a mechanism of missing cells needs a directed graph (->). Direct it.")
    for column, parents in read_mechanism(mechanism).items():
        if column not in columns:
            raise UnknownNameError("column (in mechanism)", column, columns)
        if f"{PREFIX}{column}" in names:
            raise GraphError(f"the graph has a variable {PREFIX}{column}, of its own. Rename it.")
        for parent in parents:
            edges.append((plain.index(parent), len(names)))
        names.append(f"{PREFIX}{column}")
        states.append(2)
    return LatentGraph(tuple(names), tuple(edges), plain.latent, tuple(states))


def note_holes(
    columns: Sequence[Column],
    missing: Mapping[Label, float],
    source: Source,
    exact: bool,
    indicators: Mapping[Label, Label],
) -> tuple[HolesDepend, ...]:
    """A warning that names the columns whose holes depend on others; `exact`: by likelihood.

    Holes that are explained by an indicator are not looked at, nor are indicators.
    """
    explained = list(indicators.values())
    shares = [0.0 if c.name in explained else missing.get(c.name, 0.0) for c in columns]
    found = dependent_holes(columns, shares, source, list(indicators))
    if not found:
        return ()
    said = "; ".join(each.words for each in found[:MOST_SAID])
    more = f"; and {len(found) - MOST_SAID} more" if len(found) > MOST_SAID else ""
    advice = (
        "Tables account for this as long as what holes depend on is a column of the model. If they "
        "depend on the missing value itself, name that: mechanism={column: [parents]}."
        if exact
        else "This model takes holes for a matter of chance, and is biased by them. Use "
        "learner='tables' or 'em'; or name why cells are missing: mechanism={column: [parents]}."
    )
    warn(f"{said}{more}. {advice}", HolesWarning)
    return found

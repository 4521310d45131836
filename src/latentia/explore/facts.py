"""Facts: all that a page needs to know of a model, as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latentia.errors import LatentiaError
from latentia.explore.compiled import Compiled, compile_tree, leaf_columns, node_of_clique
from latentia.explore.explored import Explored, Scope, TableNetwork
from latentia.explore.layout import place_cards
from latentia.explore.packed_numbers import packed_numbers
from latentia.typing import Array, Cell, Facts

FORMAT = 1  # of this document


NOTES = {
    "predicting": "Columns are answered by what predicts them best, latents (and columns given "
    "latents) by the tables of the graph, as model.query does.",
    "signed": "This page answers by the tables of the graph. model.query answers for columns by "
    "the closed form, which may differ a little.",
}


def page_facts(explored: Explored, server: bool = False) -> Facts:
    """What is shown, and where; with the tables if the page itself is to answer.

    A model whose answers need more than a browser has is answered by Python, through a server; and
    there, so are the columns of a closed form.
    """
    compiled = predicting = None
    if not (server and explored.signed):
        compiled = compile_tree(explored.network, explored.plan)
        predicting = compile_tree(explored.predicting, None)
        if explored.predicting is not None and predicting is None:
            compiled = None
    placed = place_cards(explored.graph, explored.shown)
    nodes = []
    for v, (shown, box) in enumerate(zip(explored.shown, placed.boxes, strict=True)):
        node: Facts = {
            "name": shown.key,
            "latent": shown.latent,
            "states": list(shown.states),
            "place": explored.network.place[v] if explored.network is not None else -1,
            "box": [round(x, 1) for x in (box.x, box.y, box.width, box.height)],
        }
        if shown.grid is not None:
            node["grid"] = {"values": shown.grid.values, "widths": shown.grid.widths}
        nodes.append(node)
    edges = [
        {"from": a, "to": b, "points": [[round(x, 1), round(y, 1)] for x, y in points]}
        for a, b, points in placed.paths
    ]
    return {
        "format": FORMAT,
        "title": explored.title,
        "directed": explored.graph.directed,
        "sideways": placed.sideways,
        "nodes": nodes,
        "edges": edges,
        "network": _network(explored, explored.network, compiled),
        "columns": _network(explored, explored.predicting, predicting),
        "note": _note(explored, server),
        "separators": [] if compiled is None else _separators(explored, compiled),
    }


def check_inside(explored: Explored, facts: Facts) -> None:
    """An error for a model that a page cannot answer by itself."""
    if facts["network"] is not None:
        return
    if explored.network is None:
        raise LatentiaError(
            "a page in one file answers by tables, and this model has none: it was learned in "
            "closed form. Use model.explore() without `to`, where Python answers, or fit with "
            "learner='tables' or 'em'."
        )
    raise LatentiaError(
        "the junction tree of this model is too large for a page in one file. Use model.explore() "
        "without `to`, where Python answers."
    )


def _note(explored: Explored, server: bool) -> str:
    if explored.predicting is not None or (explored.signed and server and explored.network):
        return NOTES["predicting"]
    return NOTES["signed"] if explored.signed and explored.network is not None else ""


def _network(
    explored: Explored, network: TableNetwork | None, compiled: Compiled | None
) -> Facts | None:
    if network is None or compiled is None:
        return None
    return {
        "states": compiled.states,
        "cliques": compiled.cliques,
        "parent": compiled.parent,
        "order": compiled.order,
        "scopes": compiled.scopes,
        "homes": compiled.homes,
        "planned": compiled.planned,
        "names": _inner_names(explored, network),
        "places": network.place,
        "cells": packed_numbers(_in_a_row(network.tables, compiled)),
        "errors": packed_numbers(_in_a_row(network.errors, compiled)) if network.errors else None,
    }


def _inner_names(explored: Explored, network: TableNetwork) -> list[str]:
    """Every variable of the network as it is shown; those that are not shown get a number."""
    found = [f"·{v}" for v in range(len(network.graph.names))]
    for v, place in enumerate(network.place):
        if place >= 0:
            found[place] = explored.shown[v].key
    return found


def _in_a_row(tables: Mapping[Scope, Array], compiled: Compiled) -> Array:
    """All tables one after the other."""
    return np.concatenate([np.ravel(tables[scope]) for scope in compiled.scopes])


def _separators(explored: Explored, compiled: Compiled) -> list[dict[str, Cell]]:
    """Of the plan's tree: rank, α(S) and β(S) of the separators above cliques."""
    if not compiled.planned or explored.plan is None or explored.network is None:
        return []
    plan, found = explored.plan, []
    number = {name: v for v, name in enumerate(explored.network.graph.names)}
    for i, node in node_of_clique(plan).items():
        sides = {
            side: [number[plan.graph.names[v]] for v in leaf_columns(plan, leaves)]
            for side, leaves in (
                ("alpha", node.inside.core),
                ("beta", node.outside.core),
                ("inside", range(node.first, node.last)),
            )
        }
        found.append({"clique": i, "rank": node.rank, **sides})
    return found

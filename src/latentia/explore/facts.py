"""Facts: all that a page needs to know of a model, as JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from latentia.errors import LatentiaError
from latentia.explore.compiled import Compiled, compile_tree, leaf_columns, node_of_clique
from latentia.explore.explored import Explored, TableNetwork
from latentia.explore.layout import place_cards

FORMAT = 1  # of this document


def page_facts(explored: Explored, inside: bool = True) -> dict[str, Any]:
    """What is shown, and where; with the tables if the page itself is to answer.

    A model whose answers need more than a browser has is answered by Python, through a server.
    """
    compiled = compile_tree(explored) if inside else None
    placed = place_cards(explored.graph, explored.shown)
    nodes = []
    for v, (shown, box) in enumerate(zip(explored.shown, placed.boxes, strict=True)):
        place = explored.network.place[v] if explored.network is not None else -1
        node: dict[str, Any] = {
            "name": shown.key,
            "latent": shown.latent,
            "states": list(shown.states),
            "place": place,
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
        "network": None if compiled is None else _network(explored, compiled),
        "separators": [] if compiled is None else _separators(explored, compiled),
    }


def check_inside(explored: Explored, facts: dict[str, Any]) -> None:
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


def _network(explored: Explored, compiled: Compiled) -> dict[str, Any]:
    assert explored.network is not None
    return {
        "states": compiled.states,
        "cliques": compiled.cliques,
        "parent": compiled.parent,
        "order": compiled.order,
        "scopes": compiled.scopes,
        "homes": compiled.homes,
        "planned": compiled.planned,
        "names": _inner_names(explored, explored.network),
        "cells": _in_base64(explored.network, compiled),
    }


def _inner_names(explored: Explored, network: TableNetwork) -> list[str]:
    """Every variable of the network as it is shown; those that are not shown get a number."""
    found = [f"·{v}" for v in range(len(network.graph.names))]
    for v, place in enumerate(network.place):
        if place >= 0:
            found[place] = explored.shown[v].key
    return found


def _in_base64(network: TableNetwork, compiled: Compiled) -> str:
    """All tables one after the other, 64-bit floats, lowest byte first."""
    flat = [np.ascontiguousarray(network.tables[s], dtype="<f8").ravel() for s in compiled.scopes]
    return base64.b64encode(np.concatenate(flat).tobytes()).decode("ascii")


def _separators(explored: Explored, compiled: Compiled) -> list[dict[str, Any]]:
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

"""How plans look: `…_facts` for machines (and --json), `…_view` of those facts for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from latentia.cli.printed_tables import (
    Fits,
    View,
    add_cells,
    counted_text,
    first_that_fits,
    headed_table,
    listed_names,
    listed_set,
    shape_text,
)
from latentia.networks.table_plan import plan_tables
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.sides import Side

if TYPE_CHECKING:
    from latentia.typing import Cell, Facts, Label


def plan_facts(plan: Plan) -> Facts:
    """Structure, ranks, core groups and cost."""
    graph = plan.graph
    columns = [plan.nodes[k].columns for k in plan.leaves]

    def named(leaves: Iterable[int]) -> list[Cell]:
        return [graph.names[v] for x in leaves for v in columns[x]]

    def features(side: Side) -> list[list[Cell]]:
        return [named(block) for block in side.wide]

    separators = [
        {
            "variables": [graph.names[v] for v in sorted(node.separator)],
            "inside": named(range(node.first, node.last)),
            "rank": node.rank,
            "alpha": named(node.inside.core),
            "beta": named(node.outside.core),
            "alpha_features": features(node.inside),
            "beta_features": features(node.outside),
            "tensor": list(plan.tensor_shape(k)) if node.children else None,
        }
        for k, node in enumerate(plan.nodes)
        if node.parent != k
    ]
    own = graph if plan.tables_of is None else plan.tables_of
    found: Facts = {
        "graph": str(own),
        "latents": {own.names[v]: own.states[v] for v in sorted(own.latent)},
        "columns": {graph.names[v]: graph.states[v] for v in graph.observed},
        "roots": [list(plan.tensor_shape(k)) for k in plan.roots],
        "separators": separators,
        "leaves": len(plan.leaves),
        "cost": plan.cost,
        "notes": list(plan.notes),
    }
    if plan.tables_of is not None:
        found["tables"] = table_facts(plan.tables_of)
    return found


def table_facts(graph: LatentGraph) -> Facts:
    """What of the graph's own tables is counted, what is climbed, and at what cost."""
    planned = plan_tables(graph)
    return {
        "counted": list(planned.counted),
        "counted_cells": planned.counted_cells,
        "pieces": [
            {
                "latents": list(p.latents),
                "tables": list(p.tables),
                "columns": list(p.columns),
                "cells": p.cells,
                "numbers_a_row": p.cost,
            }
            for p in planned.pieces
        ],
        "words": planned.words,
    }


def tables_view(facts: Facts, fits: Fits) -> View:
    """Pieces and what is counted, as a table."""
    return [
        first_that_fits(fits, *(_pieces(facts, most) for most in (4, 2, 1))),
        "",
        facts["words"],
    ]


def _pieces(facts: Facts, most: int) -> Table:
    table = headed_table("tables", "latents", "of", "columns")
    table.add_column("cells", justify="right")
    table.add_column("numbers a row", justify="right")
    if facts["counted"]:
        of = listed_names(facts["counted"], most)
        add_cells(table, "counted", "", of, "", f"{facts['counted_cells']:,}", "")
    for k, p in enumerate(facts["pieces"]):
        names = [listed_names(p[what], most) for what in ("latents", "tables", "columns")]
        cost = p["numbers_a_row"]
        shown = "too many" if cost is None else f"{cost:,}"
        add_cells(table, f"piece {k + 1}", *names, f"{p['cells']:,}", shown)
    return table


def plan_view(facts: Facts, fits: Fits) -> View:
    """The plan as a table, with less of it where there is no room."""
    if "tables" in facts:
        return tables_view(facts["tables"], fits)
    count = (
        counted_text(facts["leaves"], "leaf", "leaves")
        + ", "
        + counted_text(len(facts["roots"]), "root")
    )
    foot = f"{count}; {facts['cost']:,} multiplications per row upwards"
    return [first_that_fits(fits, *_plan_tables(facts)), "", foot]


def _plan_tables(facts: Facts) -> Iterator[Table]:
    for features, most in ((True, 4), (False, 4), (False, 2), (False, 1)):
        names = ["separator", "inside", "rank", "α core", "β core"]
        names += ["α features", "β features"] * features
        table = headed_table(*names)
        table.add_column("tensor", justify="right")
        for s in facts["separators"]:
            cells = [
                listed_set(s["variables"], most),
                listed_names(s["inside"], most),
                str(s["rank"]),
            ]
            cells += [listed_names(s["alpha"], most), listed_names(s["beta"], most)]
            if features:
                cells += [_features(s["alpha_features"]), _features(s["beta_features"])]
            add_cells(table, *cells, shape_text(s["tensor"]) if s["tensor"] else "leaf")
        for root in facts["roots"]:
            add_cells(table, "(root)", *[""] * (len(names) - 1), shape_text(root))
        yield table


def _features(blocks: Sequence[Sequence[Label]]) -> str:
    singles = listed_names(block[0] for block in blocks if len(block) == 1)
    return singles + "".join(f" + {'×'.join(map(str, b))}" for b in blocks if len(b) > 1)

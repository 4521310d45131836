"""A plan as text: a row for every separator, with tensor sizes and cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from latentia import doors
from latentia.spelling import printable
from latentia.structure.sides import Side

if TYPE_CHECKING:
    from latentia.structure.plan import Plan


def plan_table(plan: Plan) -> str:
    """What `print(plan)` shows."""
    if plan.tables_of is not None:
        return doors.table_plan(plan.tables_of)
    names = [printable(name) for name in plan.graph.names]
    columns = [plan.nodes[k].columns for k in plan.leaves]

    def listing(items: Iterable[str], most: int = 4) -> str:
        items = list(items)
        return ",".join(items[:most]) + (f",… ({len(items)})" if len(items) > most else "")

    def leaves(block: Iterable[int]) -> str:
        return listing(names[v] for x in block for v in columns[x])

    def features(side: Side) -> str:
        singles = leaves(b[0] for b in side.wide if len(b) == 1)
        joint = "".join(f" + {leaves(b).replace(',', '×')}" for b in side.wide if len(b) > 1)
        return singles + joint

    rows = [
        ("separator", "inside", "rank", "α core", "β core", "α features", "β features", "tensor")
    ]
    for k, node in enumerate(plan.nodes):
        shape = "×".join(map(str, plan.tensor_shape(k))) if node.children else "leaf"
        if node.parent == k:
            rows.append(("(root)", "", "", "", "", "", "", shape))
            continue
        rows.append(
            (
                "{" + listing(names[v] for v in sorted(node.separator)) + "}",
                leaves(range(node.first, node.last)),
                str(node.rank),
                leaves(node.inside.core),
                leaves(node.outside.core),
                features(node.inside),
                features(node.outside),
                shape,
            )
        )
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = [
        "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines.insert(1, "  ".join("─" * w for w in widths))
    lines.append(
        f"{len(plan.leaves)} leaves, {len(plan.roots)} root(s); "
        f"{plan.cost:,} multiplications per row upwards."
    )
    return "\n".join(lines + [f"! {printable(note)}" for note in plan.notes])

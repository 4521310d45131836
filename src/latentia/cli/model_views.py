"""How models look: `…_facts` for machines (and --json), `…_view` of those facts for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from latentia.cli.plan_views import plan_facts, plan_view
from latentia.cli.printed_tables import (
    Fits,
    View,
    add_cells,
    first_that_fits,
    headed_table,
    heading,
    listed_names,
    listed_set,
    paired_lines,
    share_bar,
)
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.model.latent_model import LatentModel
from latentia.sequences.sequence_model import SequenceModel
from latentia.spelling import printable

if TYPE_CHECKING:
    from latentia.typing import ByName, Cell, Facts


def model_facts(model: LatentModel) -> Facts:
    """Graph, columns and states, what was learned from, and the plan."""
    found, plan = model.diagnostics_, plan_facts(model.plan_)
    return {
        "graph": plan["graph"],
        "latents": plan["latents"],
        "columns": [
            {**_column_facts(c), "missing": found.missing.get(c.name, 0.0)} for c in model.columns_
        ],
        "learner": found.learner,
        "weight": found.weight,
        "separators": [
            {
                "variables": list(s.variables),
                "inside": list(s.inside),
                "rank": s.rank,
                "wanted": s.wanted,
                "weakest_correlation": s.weakest,
                "condition": s.condition,
            }
            for s in found.separators
        ],
        "plan": plan,
        "notes": list(found.notes),
    }


def _column_facts(column: Column) -> Facts:
    if isinstance(column, ContinuousColumn):
        ends = column.unscaled(np.array([column.low, column.high])).tolist()
        return {
            "name": column.name,
            "kind": "continuous",
            "range": column.spelled(np.array(ends)).tolist(),
            "atoms": column.spelled(np.array(column.atoms)).tolist(),
            "points": column.points,
        }
    return {"name": column.name, "kind": "discrete", "states": list(column.labels)}


def fit_view(facts: Facts) -> View:
    """What was just learned, in a few lines."""
    rows = f"{facts['rows']:,} rows"
    if facts["weight"] != facts["rows"]:
        rows += f" of weight {facts['weight']:,.10g}"
    about = paired_lines(
        ("columns", f"{len(facts['columns'])}"),
        ("latents", _latents(facts["latents"])),
        ("learner", f"{facts['learner']}, {facts['seconds']:.2f} s on {rows}"),
        ("saved as", facts["model"]),
    )
    return [heading("Learned"), about]


def sequence_view(facts: Facts) -> View:
    """What was just learned from sequences, in a few lines."""
    told = f"{facts['iterations']} steps from {facts['start']}, {facts['seconds']:.2f} s"
    about = paired_lines(
        ("slice", facts["slice"]),
        ("latents", _latents(facts["latents"])),
        ("learned", f"{told} on {facts['rows']:,} rows"),
        ("saved as", facts["model"]),
    )
    return [heading("Learned"), about]


def chain_facts(model: SequenceModel) -> Facts:
    """Slice, columns and states of a model of sequences, and how it was learned."""
    known = model.fitted_
    return {
        "slice": str(model.slice_),
        "latents": {str(name): n for name, n in model.states_.items()},
        "columns": [
            {**_column_facts(c), "given": v in model.slice_.given}
            for v, c in known.chain.columns.items()
        ],
        "sequence": known.naming.sequence,
        "time": known.naming.time,
        "start": known.learned.start,
        "iterations": model.n_iter_,
        "log_likelihood": known.learned.log_likelihood,
        "converged": model.converged_,
    }


def chain_view(facts: Facts) -> View:
    """What `inspect` shows of a model of sequences."""
    rested = "" if facts["converged"] else ", stopped before it came to rest"
    steps = f"{facts['iterations']} steps from {facts['start']}{rested}"
    about = paired_lines(
        ("slice", facts["slice"]),
        ("latents", _latents(facts["latents"])),
        ("sequence", facts["sequence"] or "rows are one sequence, or lengths tell"),
        ("time", facts["time"] or "the order of rows"),
        ("learned", f"{steps}; log P(rows) = {facts['log_likelihood']:,.3f}"),
    )
    return [heading("Model of sequences"), about, "", heading("Columns"), _columns(facts)]


def model_view(facts: Facts, fits: Fits) -> View:
    about = paired_lines(
        ("graph", facts["graph"]),
        ("latents", _latents(facts["latents"])),
        ("learner", f"{facts['learner']} on a weight of {facts['weight']:,.10g} rows"),
    )
    return [
        heading("Model"),
        about,
        "",
        heading("Columns"),
        _columns(facts),
        "",
        heading("Diagnostics"),
        first_that_fits(fits, *(_diagnostics(facts["separators"], most) for most in (6, 2, 1))),
        "",
        heading("Plan"),
        *plan_view(facts["plan"], fits),
        *(Text(printable(f"! {note}"), style="yellow") for note in facts["notes"]),
    ]


def _end(x: Cell, digits: int) -> str:
    return f"{x:.{digits}g}" if isinstance(x, float) else str(x)


def _columns(facts: Facts) -> Table:
    columns = headed_table("column", "states", "", "missing")
    for c in facts["columns"]:
        missing = f"{c['missing']:.1%}" if c.get("missing") else ""
        if c["kind"] == "continuous":
            count, states = "", " … ".join(_end(x, 4) for x in c["range"])
            states += "".join(f", often {_end(a, 6)}" for a in c["atoms"])
        else:
            count, states = str(len(c["states"])), listed_names(c["states"], 12, ", ")
        add_cells(columns, c["name"], count, states, missing)
    return columns


def _diagnostics(separators: Sequence[Facts], most: int) -> Table:
    table = headed_table("separator", "inside", "rank", "weakest correlation", "")
    for s in separators:
        low, weakest = s["rank"] < s["wanted"], s["weakest_correlation"]
        add_cells(
            table,
            listed_set(s["variables"], most),
            listed_names(s["inside"], most),
            Text(f"{s['rank']} of {s['wanted']}" if low else str(s["rank"]), "yellow" * low),
            "" if weakest is None else f"{weakest:.4f}",
            "" if weakest is None else share_bar(weakest),
        )
    return table


def _latents(latents: ByName[Cell]) -> str:
    return ", ".join(f"{name}[{count}]" for name, count in latents.items()) or "none"

"""How things look: `…_facts` for machines (and --json), `…_view` of those facts for people."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density
from latentia.model.latent_model import LatentModel
from latentia.networks.table_plan import plan_tables
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.sides import Side

Facts: TypeAlias = dict[str, Any]
View: TypeAlias = list[RenderableType]
Fits: TypeAlias = Callable[[RenderableType], bool]

BAR = 24
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_LINES = 20  # of a long table in a terminal


# -- plans -------------------------------------------------------------------------------------


def plan_facts(plan: Plan) -> Facts:
    """Structure, ranks, core groups and cost."""
    graph = plan.graph
    columns = [plan.nodes[k].columns for k in plan.leaves]

    def named(leaves: Iterable[int]) -> list[Any]:
        return [graph.names[v] for x in leaves for v in columns[x]]

    def features(side: Side) -> list[list[Any]]:
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
    return [_first(fits, *(_pieces(facts, most) for most in (4, 2, 1))), "", facts["words"]]


def _pieces(facts: Facts, most: int) -> Table:
    table = _table("tables", "latents", "of", "columns")
    table.add_column("cells", justify="right")
    table.add_column("numbers a row", justify="right")
    if facts["counted"]:
        of = _listing(facts["counted"], most)
        _add(table, "counted", "", of, "", f"{facts['counted_cells']:,}", "")
    for k, p in enumerate(facts["pieces"]):
        names = [_listing(p[what], most) for what in ("latents", "tables", "columns")]
        cost = p["numbers_a_row"]
        shown = "too many" if cost is None else f"{cost:,}"
        _add(table, f"piece {k + 1}", *names, f"{p['cells']:,}", shown)
    return table


def plan_view(facts: Facts, fits: Fits) -> View:
    """The plan as a table, with less of it where there is no room."""
    if "tables" in facts:
        return tables_view(facts["tables"], fits)
    count = _count(facts["leaves"], "leaf", "leaves") + ", " + _count(len(facts["roots"]), "root")
    foot = f"{count}; {facts['cost']:,} multiplications per row upwards"
    return [_first(fits, *_plan_tables(facts)), "", foot]


def _plan_tables(facts: Facts) -> Iterator[Table]:
    for features, most in ((True, 4), (False, 4), (False, 2), (False, 1)):
        names = ["separator", "inside", "rank", "α core", "β core"]
        names += ["α features", "β features"] * features
        table = _table(*names)
        table.add_column("tensor", justify="right")
        for s in facts["separators"]:
            cells = [_set(s["variables"], most), _listing(s["inside"], most), str(s["rank"])]
            cells += [_listing(s["alpha"], most), _listing(s["beta"], most)]
            if features:
                cells += [_features(s["alpha_features"]), _features(s["beta_features"])]
            _add(table, *cells, _shape(s["tensor"]) if s["tensor"] else "leaf")
        for root in facts["roots"]:
            _add(table, "(root)", *[""] * (len(names) - 1), _shape(root))
        yield table


# -- models ------------------------------------------------------------------------------------


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
            "range": ends,
            "atoms": list(column.atoms),
            "points": column.points,
        }
    return {"name": column.name, "kind": "discrete", "states": list(column.labels)}


def fit_view(facts: Facts) -> View:
    """What was just learned, in a few lines."""
    rows = f"{facts['rows']:,} rows"
    if facts["weight"] != facts["rows"]:
        rows += f" of weight {facts['weight']:,.10g}"
    about = _pairs(
        ("columns", f"{len(facts['columns'])}"),
        ("latents", _latents(facts["latents"])),
        ("learner", f"{facts['learner']}, {facts['seconds']:.2f} s on {rows}"),
        ("saved as", facts["model"]),
    )
    return [_heading("Learned"), about]


def sequence_view(facts: Facts) -> View:
    """What was just learned from sequences, in a few lines."""
    told = f"{facts['iterations']} steps from {facts['start']}, {facts['seconds']:.2f} s"
    about = _pairs(
        ("slice", facts["slice"]),
        ("latents", _latents(facts["latents"])),
        ("learned", f"{told} on {facts['rows']:,} rows"),
        ("saved as", facts["model"]),
    )
    return [_heading("Learned"), about]


def model_view(facts: Facts, fits: Fits) -> View:
    about = _pairs(
        ("graph", facts["graph"]),
        ("latents", _latents(facts["latents"])),
        ("learner", f"{facts['learner']} on a weight of {facts['weight']:,.10g} rows"),
    )
    columns = _table("column", "states", "", "missing")
    for c in facts["columns"]:
        missing = f"{c['missing']:.1%}" if c["missing"] else ""
        if c["kind"] == "continuous":
            count, states = "", "{:.4g} … {:.4g}".format(*c["range"])
            states += "".join(f", often {a:g}" for a in c["atoms"])
        else:
            count, states = str(len(c["states"])), _listing(c["states"], 12, ", ")
        _add(columns, c["name"], count, states, missing)
    return [
        _heading("Model"),
        about,
        "",
        _heading("Columns"),
        columns,
        "",
        _heading("Diagnostics"),
        _first(fits, *(_diagnostics(facts["separators"], most) for most in (6, 2, 1))),
        "",
        _heading("Plan"),
        *plan_view(facts["plan"], fits),
        *(Text(printable(f"! {note}"), style="yellow") for note in facts["notes"]),
    ]


def _diagnostics(separators: Sequence[Mapping[str, Any]], most: int) -> Table:
    table = _table("separator", "inside", "rank", "weakest correlation", "")
    for s in separators:
        low, weakest = s["rank"] < s["wanted"], s["weakest_correlation"]
        _add(
            table,
            _set(s["variables"], most),
            _listing(s["inside"], most),
            Text(f"{s['rank']} of {s['wanted']}" if low else str(s["rank"]), "yellow" * low),
            "" if weakest is None else f"{weakest:.4f}",
            "" if weakest is None else _bar(weakest),
        )
    return table


# -- answers -----------------------------------------------------------------------------------


def posterior_facts(
    posterior: Posterior, given: Mapping[Any, Any], soft: Mapping[Any, Any]
) -> Facts:
    """The table as nested lists, one level per variable in the order asked."""
    return {
        "variables": list(posterior.variables),
        "states": {v: list(s) for v, s in zip(posterior.variables, posterior.states, strict=True)},
        "probabilities": posterior.table.tolist(),
        "given": given,
        "soft": soft,
        **({"do": dict(posterior.do)} if posterior.do else {}),
        "log_evidence": posterior.log_evidence,
        "clipped": posterior.clipped,
        **_interval_facts(posterior),
    }


def _interval_facts(posterior: Posterior) -> Facts:
    if posterior.lower is None or posterior.upper is None:
        return {}
    return {
        "confidence": posterior.confidence,
        "lower": posterior.lower.tolist(),
        "upper": posterior.upper.tolist(),
    }


def posterior_view(posterior: Posterior, cut: bool) -> View:
    ends = posterior.intervals
    told = [()] * posterior.table.size if ends is None else ends.values()
    cells = list(
        zip(
            itertools.product(*posterior.states),
            posterior.table.ravel().tolist(),
            told,
            strict=True,
        )
    )
    hidden = len(cells) - MOST_LINES if cut else 0
    if hidden > 0:
        cells = sorted(cells, key=lambda cell: -cell[1])[:MOST_LINES]
    best = max(p for _, p, _ in cells)
    wide = [] if ends is None else ["lower", "upper"]
    table = _table(*map(str, posterior.variables), "probability", *wide, "")
    for states, p, both in cells:
        style = "bold" if p == best else ""
        between = [f"{end:.4f}" for end in both]
        _add(table, *states, f"{p:.4f}", *between, _bar(p), style=style)
    view: View = [_heading(f"P({_question(posterior)})"), table]
    if hidden > 0:
        view.append(Text(f"… and {hidden:,} less probable", style="dim"))
    foot = [f"log P(evidence) = {posterior.log_evidence:.4f}"] if posterior.evidence else []
    if posterior.clipped > 0.005:
        foot.append(f"clipped {posterior.clipped:.1%}")
    if posterior.confidence is not None:
        foot.append(f"{100 * posterior.confidence:.4g} % intervals of sampling error")
    return [*view, "", Text("; ".join(foot), style="dim")] if foot else view


def density_facts(density: Density, given: Mapping[Any, Any], soft: Mapping[Any, Any]) -> Facts:
    """Moments, quantiles, and the density at the points of its grid."""
    x, p = density.grid()
    return {
        "variables": list(density.variables),
        "mean": density.mean,
        "std": density.std,
        "mode": density.mode,
        "quantiles": {f"{q:g}": density.quantile(q) for q in QUANTILES},
        "atoms": {f"{a:g}": p for a, p in density.atoms.items()},
        "density": {"x": x, "p": p},
        "given": given,
        "soft": soft,
        "log_evidence": density.log_evidence,
        "clipped": density.clipped,
        "fallback": density.fallback,
    }


def density_view(density: Density) -> View:
    """The small picture, and what there is to say about it."""
    _, picture, axis, *told = repr(density).splitlines()
    table = _table("mean", "std", "mode", *(f"{q:.0%}" for q in QUANTILES))
    numbers = (density.mean, density.std, density.mode, *map(density.quantile, QUANTILES))
    _add(table, *(f"{number:.4g}" for number in numbers))
    return [
        _heading(f"p({_asked(density.variables, density.evidence)})"),
        Text(picture, style="cyan"),
        Text(axis, style="dim"),
        "",
        table,
        *(Text(line.strip(), style="dim") for line in told[1:]),
    ]


def assignment_facts(found: Assignment, given: Mapping[Any, Any], soft: Mapping[Any, Any]) -> Facts:
    return {
        "assignment": dict(found),
        "log_probability": found.log_probability,
        "probability": found.probability,
        "exact": found.exact,
        "given": given,
        "soft": soft,
    }


def assignment_view(found: Assignment, evidence: Mapping[Any, Any]) -> View:
    table = _table("variable", "state")
    for name, state in found.items():
        _add(table, name, Text(printable(state), style="bold"))
    how = "the best of all assignments" if found.exact else "found by search, perhaps not the best"
    return [
        _heading(f"most probable {_asked(tuple(found), evidence)}"),
        table,
        "",
        Text(f"probability {found.probability:.4g} ({how})", style="dim"),
    ]


def rows_view(columns: Mapping[str, list[Any]], fits: Fits) -> View:
    """The first rows of a table and as many columns as there is room for."""
    names, length = list(columns), len(next(iter(columns.values()), []))
    shown = len(names)
    while shown > 1 and not fits(_rows(columns, names[:shown])):
        shown -= 1
    more = []
    if length > MOST_LINES:
        more.append(f"{length - MOST_LINES:,} more rows")
    if len(names) > shown:
        more.append(f"{len(names) - shown:,} more columns")
    table = _rows(columns, names[:shown])
    foot = Text(f"… and {' and '.join(more)}; a file or a pipe gets everything", style="dim")
    return [table, foot] if more else [table]


def _rows(columns: Mapping[str, list[Any]], names: Sequence[str]) -> Table:
    table = _table("", *names)
    cells = (columns[name][:MOST_LINES] for name in names)
    for number, row in enumerate(zip(*cells, strict=True)):
        _add(table, Text(str(number), style="dim"), *map(_cell, row))
    return table


# -- pieces ------------------------------------------------------------------------------------


def _table(*headers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    numbers = ("rank", "probability", "states", "missing", "weakest correlation")
    for header in headers:
        table.add_column(printable(header), justify="right" if header in numbers else "left")
    return table


def _add(table: Table, *cells: Any, style: str = "") -> None:
    """A row; what comes from data is spelled so that it cannot write elsewhere on the screen."""
    shown = (cell if isinstance(cell, Text) else printable(cell) for cell in cells)
    table.add_row(*shown, style=style)


def _first(fits: Fits, *tables: Table) -> Table:
    """The first that fits, or the last."""
    return next(filter(fits, tables), tables[-1])


def _pairs(*pairs: tuple[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    for name, value in pairs:
        _add(table, name, value)
    return table


def _heading(text: str) -> Text:
    return Text(printable(text), style="bold cyan")


def _bar(p: float) -> Text:
    eighths = round(max(min(p, 1.0), 0.0) * BAR * 8)
    return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style="cyan")


def _asked(variables: Sequence[Any], evidence: Mapping[Any, Any] | None) -> str:
    what = ", ".join(str(v) for v in variables)
    given = ", ".join(f"{k}={_given(v)}" for k, v in (evidence or {}).items())
    return f"{what} | {given}" if given else what


def _question(posterior: Posterior) -> str:
    """The same with what is set by hand."""
    asked = _asked(posterior.variables, posterior.evidence)
    if not posterior.do:
        return asked
    hand = ", ".join(f"{k}={_given(v)}" for k, v in posterior.do.items())
    return f"{asked}{', ' if posterior.evidence else ' | '}do({hand})"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if value % 1 else f"{value:g}"
    return str(value)


def _given(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:  # an interval
        return "..".join("" if end is None else _cell(end) for end in value)
    return _cell(value)


def _listing(items: Iterable[Any], most: int = 4, mark: str = ",") -> str:
    texts = [str(item) for item in items]
    return mark.join(texts[:most]) + (f"{mark}… ({len(texts)})" if len(texts) > most else "")


def _set(names: Iterable[Any], most: int) -> str:
    return "{" + _listing(names, most) + "}"


def _features(blocks: Sequence[Sequence[Any]]) -> str:
    singles = _listing(block[0] for block in blocks if len(block) == 1)
    return singles + "".join(f" + {'×'.join(map(str, b))}" for b in blocks if len(b) > 1)


def _shape(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape))


def _latents(latents: Mapping[Any, Any]) -> str:
    return ", ".join(f"{name}[{count}]" for name, count in latents.items()) or "none"


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"

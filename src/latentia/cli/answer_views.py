"""How answers look: `…_facts` for machines (and --json), `…_view` for people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from latentia.cli.printed_tables import (
    MOST_LINES,
    Fits,
    View,
    add_cells,
    cell_text,
    headed_table,
    heading,
    share_bar,
)
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density
from latentia.spelling import printable

if TYPE_CHECKING:
    from latentia.typing import ByName, Cell, Facts, Label

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def posterior_facts(posterior: Posterior, given: ByName[Cell], soft: ByName[Cell]) -> Facts:
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
    table = headed_table(*map(str, posterior.variables), "probability", *wide, "")
    for states, p, both in cells:
        style = "bold" if p == best else ""
        between = [f"{end:.4f}" for end in both]
        add_cells(table, *states, f"{p:.4f}", *between, share_bar(p), style=style)
    view: View = [heading(f"P({_question(posterior)})"), table]
    if hidden > 0:
        view.append(Text(f"… and {hidden:,} less probable", style="dim"))
    foot = [f"log P(evidence) = {posterior.log_evidence:.4f}"] if posterior.evidence else []
    if posterior.clipped > 0.005:
        foot.append(f"clipped {posterior.clipped:.1%}")
    if posterior.confidence is not None:
        foot.append(f"{100 * posterior.confidence:.4g} % intervals of sampling error")
    return [*view, "", Text("; ".join(foot), style="dim")] if foot else view


def density_facts(density: Density, given: ByName[Cell], soft: ByName[Cell]) -> Facts:
    """Moments, quantiles, and the density at the points of its grid."""
    x, p = density.grid()
    return {
        "variables": list(density.variables),
        "mean": density.mean,
        "std": density.std,
        "mode": density.mode,
        "quantiles": {f"{q:g}": density.quantile(q) for q in QUANTILES},
        "atoms": {
            f"{a:g}" if isinstance(a, float) else str(a): p for a, p in density.atoms.items()
        },
        "density": {"x": density.column.spelled(x), "p": p},
        "given": given,
        "soft": soft,
        "log_evidence": density.log_evidence,
        "clipped": density.clipped,
        "fallback": density.fallback,
    }


def density_view(density: Density) -> View:
    """The small picture, and what there is to say about it."""
    _, picture, axis, *told = repr(density).splitlines()
    table = headed_table("mean", "std", "mode", *(f"{q:.0%}" for q in QUANTILES))
    numbers = (density.mean, density.mode, *map(density.quantile, QUANTILES))
    mean, *rest = (f"{x:.4g}" if isinstance(x, float) else str(x) for x in numbers)
    add_cells(table, mean, density.shown_std, *rest)
    return [
        heading(f"p({_asked(density.variables, density.evidence)})"),
        Text(picture, style="cyan"),
        Text(axis, style="dim"),
        "",
        table,
        *(Text(line.strip(), style="dim") for line in told[1:]),
    ]


def assignment_facts(found: Assignment, given: ByName[Cell], soft: ByName[Cell]) -> Facts:
    return {
        "assignment": dict(found),
        "log_probability": found.log_probability,
        "probability": found.probability,
        "exact": found.exact,
        "given": given,
        "soft": soft,
    }


def assignment_view(found: Assignment, evidence: ByName[Cell]) -> View:
    table = headed_table("variable", "state")
    for name, state in found.items():
        add_cells(table, name, Text(printable(state), style="bold"))
    how = "the best of all assignments" if found.exact else "found by search, perhaps not the best"
    return [
        heading(f"most probable {_asked(tuple(found), evidence)}"),
        table,
        "",
        Text(f"probability {found.probability:.4g} ({how})", style="dim"),
    ]


def rows_view(columns: Mapping[str, list[Cell]], fits: Fits) -> View:
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


def _rows(columns: Mapping[str, list[Cell]], names: Sequence[str]) -> Table:
    table = headed_table("", *names)
    cells = (columns[name][:MOST_LINES] for name in names)
    for number, row in enumerate(zip(*cells, strict=True)):
        add_cells(table, Text(str(number), style="dim"), *map(cell_text, row))
    return table


def _asked(variables: Sequence[Label], evidence: ByName[Cell] | None) -> str:
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


def _given(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:  # an interval
        return "..".join("" if end is None else cell_text(end) for end in value)
    return cell_text(value)

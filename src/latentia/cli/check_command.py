"""`latentia check`: does a model fit rows that it was not learned from?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from latentia.assess.report import CheckReport
from latentia.cli.options import Data, Debug, Json, Model, Quiet, Unknown, app
from latentia.cli.reading import look_over, open_table, read_model
from latentia.cli.screen import answering
from latentia.cli.writing import check_folder
from latentia.errors import DataError

if TYPE_CHECKING:
    from latentia.typing import Facts

Picture: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="FILE", help="A picture (.svg), or a page with words and table (.html)."
    ),
]


@app.command("check")
def check_command(
    model: Model,
    data: Data,
    out: Picture = None,
    unknown: Unknown = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say whether a model fits rows: column by column, pair by pair, and what to look at.

    \b
    Examples:
      latentia check m.latentia held_out.csv
      latentia check m.latentia held_out.csv --out check.svg
      latentia check m.latentia held_out.csv --json
    """
    with answering(as_json, quiet, debug) as screen:
        if out is not None and not out.endswith((".svg", ".html")):
            raise typer.BadParameter(
                f"expected a file called ….svg or ….html, got {out!r}.", param_hint="--out"
            )
        if out is not None:
            check_folder(out)
        loaded = read_model(model)
        with screen.working(f"reading {data}"):
            table = open_table(data, loaded.columns_)
            _, count = look_over(table)
        if count < 2:
            raise DataError(f"a check needs two rows at least, {data!r} has {count}.")
        with screen.working(f"checking {count:,} rows"):
            report = loaded.check(table, unknown=unknown or "missing")
        if out is not None:
            report.save(out)
        if as_json:
            screen.dump(check_facts(report))
        else:
            screen.show(repr(report))


def check_facts(report: CheckReport) -> Facts:
    """The report for machines."""
    return {
        "ok": report.ok,
        "rows": report.fit.rows,
        "findings": [str(finding) for finding in report.findings],
        "columns": [
            {
                "name": c.name,
                "rows": c.rows,
                "loss": c.loss,
                "marginal": c.marginal,
                "error": c.error,
                "calibration": c.calibration,
                "outside": c.outside,
            }
            for c in report.columns
        ],
        "pairs": [
            {"names": list(p.names), "chi2": p.chi2, "freedom": p.freedom, "gap": p.gap}
            for p in report.pairs[:20]
        ],
        "latents": [
            {
                "name": str(x.name),
                "states": x.states,
                "rank": x.rank,
                "wanted": x.wanted,
                "weakest": x.weakest,
                "closest": x.closest,
            }
            for x in report.latents
        ],
        "levels": [{"stated": x.stated, "seen": x.seen, "rows": x.rows} for x in report.fit.levels],
        "clipped": report.fit.clipped,
        "repaired": report.fit.repaired,
        "outside": report.fit.outside,
    }

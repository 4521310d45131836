"""`latentia reproduce`: the paper's experiments, with progress, tables and a report."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from latentia.cli.options import Debug, Json, Quiet, app
from latentia.cli.screen import Screen, answering
from latentia.errors import UnknownNameError
from latentia.reproduce.cells import CellProgress
from latentia.reproduce.pages import Outcome, Sheet, sheets
from latentia.reproduce.running import EXPERIMENTS, reproduce

EVERY = 10.0  # seconds between two lines of progress where there is no terminal


@app.command("reproduce")
def reproduce_command(
    experiment: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{', '.join(EXPERIMENTS)} or all.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small: seconds instead of minutes or hours.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of everything random.")] = 0,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Cells at a time; above 1, seconds suffer.")
    ] = 1,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Where report.html, figures and CSV go.")
    ] = "latentia-reports",
    learners: Annotated[
        str, typer.Option(metavar="A,B", help="Only these learners; default: all.")
    ] = "",
    only_report: Annotated[
        bool, typer.Option("--only-report", help="Run nothing; report what has been finished.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Repeat the paper's experiments and write a report.

    \b
    Examples:
      latentia reproduce synthetic --quick
      latentia reproduce all --jobs 2 --out reports
      latentia reproduce splice --learners closed,em,bayes

    Finished cells are kept in DIR: a run that was stopped goes on where it was.
    """
    with answering(as_json, quiet, debug) as screen:
        if experiment not in (*EXPERIMENTS, "all"):
            raise UnknownNameError("experiment", experiment, [*EXPERIMENTS, "all"])
        bar = _Bar(screen)
        try:
            outcomes, page = reproduce(
                [experiment],
                Path(out),
                quick=quick,
                seed=seed,
                jobs=jobs,
                learners=[w.strip() for w in learners.split(",") if w.strip()],
                report=bar.show,
                only_kept=only_report,
            )
        finally:
            bar.end()
        if as_json:
            screen.dump(_facts(outcomes, page))
            return
        for outcome in outcomes:
            screen.show("", outcome.experiment.title)
            for sheet in sheets(outcome):
                screen.show("", Text(sheet.title, style="bold"), _view(sheet))
        screen.show("", f"Report: {page}")


def _facts(outcomes: list[Outcome], page: Path) -> dict[str, object]:
    return {
        "report": str(page),
        "experiments": {
            o.experiment.name: [
                {
                    "variant": r.cell.variant,
                    "learner": r.cell.learner,
                    "rows": r.cell.size,
                    "repetition": r.cell.repetition,
                    **r.metrics,
                }
                for r in o.results
            ]
            for o in outcomes
        },
    }


def _view(sheet: Sheet) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(sheet.head[0], no_wrap=True)
    for name in sheet.head[1:]:
        table.add_column(name, justify="right")
    for line in sheet.lines:
        table.add_row(*line)
    return table


class _Bar:
    """One line that is written over in a terminal; a line now and then elsewhere."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.live = screen.err.is_interactive
        self.last = time.monotonic()
        self.open = False

    def show(self, name: str, progress: CellProgress) -> None:
        if self.screen.quiet:
            return
        share = progress.done / max(progress.total, 1)
        words = f"{name}: {progress.done} of {progress.total} cells"
        if progress.left == progress.left and progress.done < progress.total:
            words += f", about {_clock(progress.left)} left"
        if self.live:
            full = round(24 * share)
            line = f"\r{'━' * full}{'╌' * (24 - full)} {words}  {progress.last}"
            sys.stderr.write(line[: self.screen.err.width].ljust(self.screen.err.width))
            sys.stderr.flush()
            self.open = True
        elif time.monotonic() - self.last >= EVERY or progress.done == progress.total:
            self.last = time.monotonic()
            sys.stderr.write(words + "\n")
            sys.stderr.flush()

    def end(self) -> None:
        if self.open:
            sys.stderr.write("\n")


def _clock(seconds: float) -> str:
    """Seconds as people say them.

    >>> _clock(5.2), _clock(95), _clock(7300)
    ('5 s', '2 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"

"""`latentia explore`: a page that shows a model, served on this machine or written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latentia.cli.options import Debug, Json, Quiet, app
from latentia.cli.reading import open_table
from latentia.cli.screen import Screen, answering
from latentia.cli.writing import check_folder
from latentia.explore.opening_page import explore
from latentia.formats.interchange import ENDINGS, read
from latentia.model.latent_model import LatentModel
from latentia.sequences.sequence_model import SequenceModel
from latentia.store.file import load

if TYPE_CHECKING:
    from latentia.typing import Facts, Given

MODEL = ".latentia"


@app.command("explore")
def explore_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file made by `fit`, or a network (.bif, …).")
    ],
    beside: Annotated[
        str | None,
        typer.Argument(metavar="[ROWS|MODEL]", help="A table to look through, or another model."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="PAGE.html", help="Write one file that needs no server.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print where the page is.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show a model in the browser: click what is known, and see what follows.

    \b
    Examples:
      latentia explore m.latentia
      latentia explore m.latentia rows.parquet --no-browser --port 8000
      latentia explore m.latentia other.latentia
      latentia explore network.bif --to network.html
      latentia explore sequences.latentia rows.csv --to timelines.html

    The page is shown on this machine only, to whoever has the address that is printed. Ctrl-C
    ends it.
    """
    with answering(as_json, quiet, debug) as screen:
        if to is not None:
            check_folder(to)
        first = _any_model(model)
        options: Facts = {"title": Path(model).name}
        if beside is not None and _is_model(beside):
            options["other"] = _any_model(beside)
        elif beside is not None:
            columns = first.columns_ if isinstance(first, LatentModel) else ()
            if isinstance(first, SequenceModel):
                columns = tuple(first.fitted_.chain.columns.values())
            options["rows"] = open_table(beside, columns)
        if to is not None:
            _written(screen, first, to, options)
        else:
            _served(screen, first, {**options, "port": port, "browser": not no_browser})


def _is_model(path: str) -> bool:
    ending = Path(path.lower().removesuffix(".gz")).suffix
    return ending == MODEL or ending in ENDINGS


def _any_model(path: str) -> Given:
    return load(path) if Path(path).suffix == MODEL or not _is_model(path) else read(path)


def _written(screen: Screen, model: Given, to: str, options: Facts) -> None:
    path = explore(model, to, **options)
    if screen.as_json:
        screen.dump({"page": str(path)})
    else:
        screen.show(f"written to {path}")


def _served(screen: Screen, model: Given, options: Facts) -> None:
    with screen.working("opening the page"):
        server = explore(model, **options)
    if screen.as_json:
        screen.dump({"url": server.url})
    else:
        screen.show(f"{server.url}\nCtrl-C ends it.")
    screen.out.file.flush()
    server.wait()

"""`latentia structure`: a graph for a table that comes without one."""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.cli.asking import read_kinds
from latentia.cli.options import Data, Debug, Json, Kinds, Quiet, Weights, app
from latentia.cli.reading import check_weights, look_over, open_table
from latentia.cli.screen import answering
from latentia.cli.writing import check_folder
from latentia.discovery.finding import learn_structure
from latentia.discovery.structure_search import METHODS


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise typer.BadParameter(f"expected one of {', '.join(METHODS)}, got {name!r}.")
    return name


@app.command("structure")
def structure_command(
    data: Data,
    method: Annotated[
        str,
        typer.Option(metavar="NAME", callback=_known_method, help=f"One of {', '.join(METHODS)}."),
    ] = "auto",
    max_states: Annotated[int | None, typer.Option(min=1, help="Of a latent, at most.")] = None,
    max_latents: Annotated[int | None, typer.Option(min=0, help="At most.")] = None,
    require: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns that must be tied.")
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns that must not be tied.")
    ] = None,
    weights: Weights = None,
    kinds: Kinds = "",
    seed: Annotated[int, typer.Option(min=0, help="Of starts and of rows held out.")] = 0,
    time_budget: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="How long to search.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="The graph as a picture.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find a graph for a table: which columns hang together, and latents that tie them.

    \b
    Examples:
      latentia structure rows.csv
      latentia structure survey.csv --method tree --max-states 3 --out graph.svg
      latentia structure rows.csv --require age,income --json
    """
    with answering(as_json, quiet, debug) as screen:
        if out is not None and not out.endswith((".svg", ".html")):
            raise typer.BadParameter(
                f"expected a file called ….svg or ….html, got {out!r}.", param_hint="--out"
            )
        if out is not None:
            check_folder(out)
        must, never = read_ties(require, "--require"), read_ties(forbid, "--forbid")
        with screen.working(f"reading {data}"):
            table = open_table(data)
            names, count = look_over(table)
        check_weights(table, weights, names)
        with screen.working(f"looking for a structure in {count:,} rows") as say:
            found = learn_structure(
                table,
                method,
                max_states=max_states,
                max_latents=max_latents,
                require=must,
                forbid=never,
                kinds=read_kinds(kinds) or None,
                sample_weight=weights,
                time_budget=time_budget,
                random_state=seed,
                progress=lambda step: say(str(step)),
            )
        if out is not None:
            found.draw().save(out)
        if as_json:
            screen.dump(
                {
                    "rows": count,
                    "edges": [[str(a), str(b)] for a, b in found.edges],
                    "latents": {str(name): states for name, states in found.latents.items()},
                    "chosen": found.chosen,
                    "losses": dict(found.losses),
                    "seconds": found.seconds,
                }
            )
        else:
            screen.show(str(found))


def read_ties(items: list[str] | None, option: str) -> list[tuple[str, str]]:
    """`A,B`: two columns.

    >>> read_ties(["age,income"], "--require")
    [('age', 'income')]
    """
    found = []
    for item in items or []:
        first, tie, second = (part.strip() for part in item.partition(","))
        if not (first and tie and second):
            raise typer.BadParameter(f"expected A,B, got {item!r}.", param_hint=option)
        found.append((first, second))
    return found

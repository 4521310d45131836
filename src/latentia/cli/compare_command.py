"""`latentia compare`: how many states should latents have?"""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.cli.asking import read_kinds
from latentia.cli.options import Data, Debug, Json, Kinds, Quiet, Weights, app
from latentia.cli.reading import check_weights, graph_from_text, look_over, open_table
from latentia.cli.screen import answering
from latentia.cli.writing import check_folder
from latentia.model.comparing import compare


@app.command("compare")
def compare_command(
    data: Data,
    latents: Annotated[
        str,
        typer.Option(metavar="A=1:8,B=2", help="Latents, and the numbers of states to be tried."),
    ] = "class=1:8",
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH",
            help='Text such as "A->B; A->C", or a file; default: one latent class for all columns.',
        ),
    ] = None,
    weights: Weights = None,
    kinds: Kinds = "",
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Tables drawn for each test of likelihood ratios, as 99.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of starts and folds.")] = 0,
    out: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="The criteria as a picture.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare numbers of states of latents, by criteria and on held-out rows.

    \b
    Examples:
      latentia compare rows.csv --latents class=1:8
      latentia compare rows.csv --graph "G->H; G->x; G->y; H->z" --latents G=2:4,H=2:3
      latentia compare rows.csv --latents class=2:5 --bootstrap 99 --out criteria.svg
    """
    with answering(as_json, quiet, debug) as screen:
        ranges = read_ranges(latents)
        if out is not None and not out.endswith((".svg", ".html")):
            raise typer.BadParameter(
                f"expected a file called ….svg or ….html, got {out!r}.", param_hint="--out"
            )
        if out is not None:
            check_folder(out)
        known = None
        if graph is not None:
            known = graph_from_text(graph, ",".join(f"{n}={r[0]}" for n, r in ranges.items()))
        with screen.working(f"reading {data}"):
            table = open_table(data)
            names, count = look_over(table)
        check_weights(table, weights, names)
        with screen.working(f"comparing on {count:,} rows"):
            found = compare(
                table,
                known,
                ranges,
                sample_weight=weights,
                bootstrap=bootstrap,
                kinds=read_kinds(kinds) or None,
                random_state=seed,
            )
        if out is not None:
            found.plot().save(out)
        if as_json:
            screen.dump(
                {
                    "rows": count,
                    "recommended": {str(k): n for k, n in found.recommended.items()},
                    "why": found.why,
                    "candidates": found.to_dict(),
                }
            )
        else:
            screen.show(repr(found))


def read_ranges(text: str) -> dict[str, list[int]]:
    """`class=1:8,B=2`: numbers from the first to the last, or one.

    >>> read_ranges("class=1:3, B=2")
    {'class': [1, 2, 3], 'B': [2]}
    """
    found: dict[str, list[int]] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, numbers = (piece.strip() for piece in item.rpartition("="))
        first, tie, last = (piece.strip() for piece in numbers.partition(":"))
        fine = name and first.isdecimal() and (last.isdecimal() if tie else True)
        if not fine or name in found or int(last or first) < int(first):
            raise typer.BadParameter(
                f"expected NAME=FIRST:LAST, each name once, got {item!r}.", param_hint="--latents"
            )
        found[name] = list(range(int(first), int(last or first) + 1))
    if not found:
        raise typer.BadParameter("expected NAME=FIRST:LAST, got nothing.", param_hint="--latents")
    return found

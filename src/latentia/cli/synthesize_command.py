"""`latentia synthesize`: rows like those of a table, without a model in between."""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.cli.answer_blocks import tell_written
from latentia.cli.asking import read_kinds
from latentia.cli.options import Data, Debug, Json, Kinds, Out, Quiet, Weights, app
from latentia.cli.reading import check_weights, look_over, open_table
from latentia.cli.screen import answering
from latentia.cli.writing import check_out, give_rows
from latentia.discovery.finding import Structure
from latentia.model.latent_model import LatentModel


@app.command("synthesize")
def synthesize_command(
    data: Data,
    number: Annotated[
        int | None, typer.Option("-n", min=1, help="How many rows; default: as many as there are.")
    ] = None,
    members: Annotated[
        int, typer.Option(min=1, help="Structures that are mixed, at most: nearer to the rows.")
    ] = 1,
    weights: Weights = None,
    kinds: Kinds = "",
    seed: Annotated[int, typer.Option(min=0, help="The same rows each time.")] = 0,
    time_budget: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="How long to search.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw rows like those of a table: find a structure, learn it, and sample.

    Rows are drawn from a distribution, not taken from the table; that alone is no guarantee that
    nobody can be recognised in them. Mixed tables are drawn column by column, by a chain of trees,
    not by the structure that is found.

    \b
    Examples:
      latentia synthesize rows.csv --out drawn.csv
      latentia synthesize rows.csv -n 1000 --seed 7 --out drawn.parquet
    """
    with answering(as_json, quiet, debug) as screen:
        check_out(out)
        with screen.working(f"reading {data}"):
            table = open_table(data)
            names, count = look_over(table)
        check_weights(table, weights, names)
        wish = Structure(members=members, time_budget=time_budget, seed=seed)
        model = LatentModel(wish, kinds=read_kinds(kinds) or None)
        with screen.working(f"learning from {count:,} rows") as say:
            model.fit(table, sample_weight=weights, progress=lambda step: say(str(step)))
        wanted = number or count
        with screen.working(f"drawing {wanted:,} rows"):
            rows = model.sample(wanted, random_state=seed)
        facts = {"rows": wanted, "seed": seed, "structure": model.structure_.chosen}
        if out is not None or not as_json:
            cells = {str(name): values for name, values in rows.items()}
            give_rows(screen, list(cells), [cells], out)
            tell_written(screen, facts, out)
        else:
            screen.dump({**facts, "columns": rows})

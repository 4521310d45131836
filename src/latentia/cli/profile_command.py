"""`latentia profile`: what the states of a latent look like."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from latentia.cli.asking import find_label
from latentia.cli.options import Debug, Json, Model, Quiet, app
from latentia.cli.reading import read_model
from latentia.cli.screen import answering
from latentia.cli.writing import check_folder
from latentia.model.latent_model import LatentModel
from latentia.model.profile import Profile
from latentia.sequences.chain_profile import ChainProfile
from latentia.sequences.sequence_model import SequenceModel
from latentia.store.file import load

PICTURES = (".svg", ".html")


@app.command()
def profile(
    model: Model,
    latent: Annotated[str, typer.Argument(metavar="LATENT", help="Whose states.")],
    plot: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="A picture, .svg or .html.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show the states of a latent: how large they are, and every column in each of them.

    Of a model of sequences, also how long states last, and moves between them.

    \b
    Examples:
      latentia profile m.latentia class
      latentia profile m.latentia class --plot class.svg
    """
    with answering(as_json, quiet, debug) as screen:
        if plot is not None:
            if Path(plot).suffix not in PICTURES:
                raise typer.BadParameter(
                    f"expected a file called …{' or …'.join(PICTURES)}, got {plot!r}.",
                    param_hint="--plot",
                )
            check_folder(plot)
        kept = load(model)
        found: Profile | ChainProfile
        if isinstance(kept, SequenceModel):
            found = kept.profile(latent)
            facts = _chain_facts(found)
        else:
            loaded = kept if isinstance(kept, LatentModel) else read_model(model)
            found = loaded.profile(find_label(loaded, latent))
            facts = _facts(found)
        if plot is not None:
            found.plot().save(plot)
        if as_json:
            screen.dump(facts | ({} if plot is None else {"plot": plot}))
        else:
            screen.show(Text(repr(found)))


def _chain_facts(found: ChainProfile) -> dict[str, object]:
    return {
        "latent": found.latent,
        "states": list(found.states),
        "sizes": found.shares,
        "size_errors": found.share_errors,
        "columns": [
            {
                "name": c.name,
                "kind": "continuous" if c.continuous else "discrete",
                "labels": list(c.labels),
                "table": c.table,
                "errors": c.errors,
                "overall": c.overall,
                "bits": c.information / math.log(2.0),
            }
            for c in found.columns
        ],
        "moves": found.moves,
        "move_errors": found.move_errors,
        "durations": found.durations,
    }


def _facts(found: Profile) -> dict[str, object]:
    return {
        "latent": found.latent,
        "states": list(found.states),
        "sizes": found.shares,
        "size_errors": found.errors,
        "columns": [
            {
                "name": c.name,
                "kind": "continuous" if c.continuous else "discrete",
                "labels": list(c.labels),
                "table": c.table,
                "errors": c.errors,
                "overall": c.overall,
                "bits": c.bits,
            }
            for c in found.columns
        ],
        "links": [{"above": x.above, "below": x.below, "table": x.table} for x in found.links],
        "notes": list(found.notes),
    }

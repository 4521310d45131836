"""`latentia query`: the answer to one question. Loads no more than it needs: people wait for it."""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.cli.answer_views import (
    assignment_facts,
    assignment_view,
    density_facts,
    density_view,
    posterior_facts,
    posterior_view,
)
from latentia.cli.asking import asked_evidence, find_label, read_soft
from latentia.cli.options import Confidence, Debug, Json, Model, Quiet, app
from latentia.cli.reading import read_model
from latentia.cli.screen import answering
from latentia.inference.posterior_density import Density


@app.command()
def query(
    model: Model,
    variables: Annotated[
        list[str], typer.Argument(metavar="VARIABLE", help="Several: their joint posterior.")
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=STATE",
            help="What is known; once for each variable. If continuous: NAME=3.2 or NAME=0..3.",
        ),
    ] = None,
    soft: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STATE:L,…", help="Likelihoods of states, where not certain."),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STATE", help="What is set by hand instead of observed."),
    ] = None,
    confidence: Confidence = None,
    most_probable: Annotated[
        bool, typer.Option("--map", help="The most probable assignment only.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Ask for the posterior of columns or latents, given others.

    \b
    Examples:
      latentia query m.latentia D --given G=2 --given H=0
      latentia query m.latentia class --given smokes=yes
      latentia query m.latentia D E --soft "G=0:.2,1:.8" --map
      latentia query m.latentia x --given y=3.2 --given z=0..3
      latentia query m.latentia D --given G=2 --confidence .9
      latentia query m.latentia D --do G=2
    """
    with answering(as_json, quiet, debug) as screen:
        loaded = read_model(model)
        asked = [find_label(loaded, name) for name in variables]
        evidence = asked_evidence(loaded, given or [])
        likelihoods = read_soft(loaded, soft or [])
        hand = asked_evidence(loaded, do or [], "--do") or None
        for option, used in (("--confidence", confidence), ("--do", hand)):
            if most_probable and used is not None:
                raise typer.BadParameter("not for --map; leave one of them out.", param_hint=option)
        if most_probable:
            found = loaded.map_query(asked, evidence, likelihoods)
            if as_json:
                screen.dump(assignment_facts(found, evidence, likelihoods))
            else:
                screen.show(*assignment_view(found, {**evidence, **likelihoods}))
            return
        posterior = loaded.query(asked, evidence, likelihoods, confidence, hand)
        if isinstance(posterior, Density):
            if as_json:
                screen.dump(density_facts(posterior, evidence, likelihoods))
            else:
                screen.show(*density_view(posterior))
        elif as_json:
            screen.dump(posterior_facts(posterior, evidence, likelihoods))
        else:
            screen.show(*posterior_view(posterior, cut=screen.terminal))

"""`latentia effect` and `explain`: what would change an answer, and what has made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from latentia.cli.asking import asked_evidence, find_label, find_state_of
from latentia.cli.options import Confidence, Debug, Json, Model, Quiet, app
from latentia.cli.reading import read_model
from latentia.cli.screen import answering
from latentia.cli.writing import check_folder
from latentia.model.effects import Effect
from latentia.model.explaining import Explanation

if TYPE_CHECKING:
    from latentia.typing import Cell, Facts, Label

Given = Annotated[
    list[str] | None, typer.Option(metavar="NAME=STATE", help="What is known besides.")
]
Picture = Annotated[
    str | None, typer.Option("--picture", metavar="FILE", help="Draw it: .svg or .html.")
]


def _check_picture(path: str | None) -> None:
    """Complain before the work, not after it."""
    if path is None:
        return
    if not path.endswith((".svg", ".html")):
        raise typer.BadParameter(
            f"expected a file called ….svg or ….html, got {path!r}.", param_hint="--picture"
        )
    check_folder(path)


@app.command()
def effect(
    model: Model,
    treatment: Annotated[str, typer.Argument(metavar="TREATMENT", help="What is set by hand.")],
    outcome: Annotated[str, typer.Argument(metavar="OUTCOME", help="What is looked at.")],
    given: Given = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="STATE", help="What others are compared with.")
    ] = None,
    confidence: Confidence = None,
    picture: Picture = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what becomes of a variable when another is set by hand.

    \b
    Examples:
      latentia effect m.latentia drug recovery
      latentia effect m.latentia drug recovery --given sex=f --confidence .9
    """
    with answering(as_json, quiet, debug) as screen:
        _check_picture(picture)
        loaded = read_model(model)
        x, y = find_label(loaded, treatment), find_label(loaded, outcome)
        evidence = asked_evidence(loaded, given or [])
        start = None if baseline is None else find_state_of(loaded, x, baseline)
        found = loaded.effect(x, y, evidence, baseline=start, confidence=confidence)
        if picture is not None:
            found.plot().save(picture)
        if as_json:
            screen.dump(effect_facts(found))
        else:
            screen.show(repr(found))


def effect_facts(found: Effect) -> Facts:
    """The table and the changes, as lists in the order of states."""
    told, ends = found.identification, found.intervals
    changes = found.average_intervals
    facts: Facts = {
        "treatment": found.treatment,
        "outcome": found.outcome,
        "states": {
            str(found.treatment): list(found.treatment_states),
            str(found.outcome): list(found.outcome_states),
        },
        "probabilities": found.table.tolist(),
        "seen": None if found.seen is None else found.seen.tolist(),
        "given": found.evidence or {},
        "baseline": found.treatment_states[found.baseline],
        "average": _listed(found.average),
        "identified": told.identified,
        "back_door": None if told.back_door is None else list(told.back_door),
        "front_door": None if told.front_door is None else list(told.front_door),
        "words": told.words,
    }
    if ends is not None and changes is not None:
        facts |= {
            "confidence": found.confidence,
            "lower": ends[0].tolist(),
            "upper": ends[1].tolist(),
            "average_intervals": _listed(changes),
        }
    return facts


def _listed(by_state: dict[Label, Cell]) -> list[Cell]:
    """Values in the order of states, which are no names in JSON."""
    return [list(x.values()) if isinstance(x, dict) else x for x in by_state.values()]


@app.command()
def explain(
    model: Model,
    target: Annotated[str, typer.Argument(metavar="VARIABLE", help="What is explained.")],
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STATE", help="What is known; once for each variable."),
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Of the variable; the most probable.")
    ] = None,
    order: Annotated[
        str, typer.Option(metavar="HOW", help="Of the evidence: given, or strength.")
    ] = "given",
    picture: Picture = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say how far each piece of evidence has moved an answer.

    \b
    Examples:
      latentia explain m.latentia flu --given fever=yes --given cough=no
      latentia explain m.latentia flu --given fever=yes --state no --picture why.svg
    """
    with answering(as_json, quiet, debug) as screen:
        _check_picture(picture)
        loaded = read_model(model)
        name = find_label(loaded, target)
        evidence = asked_evidence(loaded, given or [])
        wanted = None if state is None else find_state_of(loaded, name, state)
        found = loaded.explain(name, evidence, state=wanted, order=order)
        if picture is not None:
            found.plot().save(picture)
        if as_json:
            screen.dump(explanation_facts(found))
        else:
            screen.show(repr(found))


def explanation_facts(found: Explanation) -> Facts:
    """All pieces in order; log-odds that are infinite as text, "inf" or "-inf"."""
    frame = found.frame()
    for name in ("left_out", "in_order"):
        frame[name] = [x if abs(x) < float("inf") else str(x) for x in frame[name]]
    return {
        "target": found.target,
        "state": found.state,
        "prior": found.prior,
        "probability": found.probability,
        **frame,
    }

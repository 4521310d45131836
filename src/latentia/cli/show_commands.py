"""`latentia plan` and `latentia inspect`: a graph before any data, a model after."""

from __future__ import annotations

from typing import Annotated

import typer

from latentia.cli.asking import read_kinds
from latentia.cli.model_views import (
    chain_facts,
    chain_view,
    model_facts,
    model_view,
)
from latentia.cli.options import Debug, Json, Kinds, Latents, Model, Quiet, app
from latentia.cli.plan_views import (
    plan_facts,
    plan_view,
)
from latentia.cli.reading import graph_from_text, read_either_model
from latentia.cli.screen import answering
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import PlanError, UnknownNameError
from latentia.model.latent_model import LatentModel
from latentia.model.learners import PBP, has_column_parents
from latentia.model.mixed_plans import has_continuous, prepare_mixed
from latentia.networks.tables import column_plan
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.plan import Plan, make_plan


@app.command()
def plan(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help='Text such as "A->B; A->C", or a file.')
    ],
    latents: Latents = "",
    states: Annotated[
        str,
        typer.Option(
            metavar="D=5,E=2",
            help="Numbers of states of columns; a number alone counts for all others.",
        ),
    ] = "",
    kinds: Kinds = "",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show how a graph would be learned, before any data.

    \b
    Examples:
      latentia plan "H->X; H->Y; H->Z" --latents H=2 --states 3
      latentia plan @graph.json --states "D=5,E=5,G=3,H=3"
      latentia plan "H->x,y,D" --latents H=3 --states D=5 --kinds x=continuous,y=continuous

    A file holds such text (# starts a comment line), or JSON:
    {"edges": [["H", "X"], ["H", "Y"]], "latents": {"H": 2}, "states": {"X": 3}}.
    """
    with answering(as_json, quiet, debug) as screen:
        known, named = graph_from_text(graph, latents, states), read_kinds(kinds)
        _check_counts(known, named)
        with screen.working("planning"):
            facts = plan_facts(_plan_of(known, named))
        if as_json:
            screen.dump(facts)
        else:
            screen.show(*plan_view(facts, screen.fits))
            for note in facts["notes"]:
                screen.note(note)


@app.command()
def inspect(
    model: Model,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show a model: graph, columns, diagnostics, plan.

    \b
    Examples:
      latentia inspect m.latentia
      latentia inspect m.latentia --json | jq .columns
    """
    with answering(as_json, quiet, debug) as screen:
        found = read_either_model(model)
        if not isinstance(found, LatentModel):
            facts = {"model": model, **chain_facts(found)}
        else:
            facts = {"model": model, **model_facts(found)}
        if as_json:
            screen.dump(facts)
        elif not isinstance(found, LatentModel):
            screen.show(*chain_view(facts))
        else:
            screen.show(*model_view(facts, screen.fits))


def _plan_of(graph: LatentGraph, kinds: dict[str, str]) -> Plan:
    """The plan; continuous columns stand on any grid."""
    columns: list[Column] = []
    for v in graph.observed:
        name = graph.names[v]
        if kinds.get(str(name)) == "continuous":
            columns.append(ContinuousColumn(name, 0.0, 1.0, False, -3.0, 3.0, 1.0))
        else:
            columns.append(DiscreteColumn(name, tuple(range(graph.states[v] or 1))))
    if not has_continuous(columns):
        return _discrete_plan(graph)
    return prepare_mixed(graph, columns, PBP().abilities)[0]


def _discrete_plan(graph: LatentGraph) -> Plan:
    """As the default takes it: tables where columns are parents, or no messages can pass."""
    if has_column_parents(graph):
        return column_plan(relevant(graph))
    try:
        return make_plan(graph)
    except PlanError:
        if not graph.directed:
            raise
    return column_plan(relevant(graph))


def _check_counts(graph: LatentGraph, kinds: dict[str, str]) -> None:
    columns = [str(graph.names[v]) for v in graph.observed]
    for word in kinds:
        if word not in columns:
            raise UnknownNameError("column of --kinds", word, columns)
    mixed = "continuous" in kinds.values()  # latents of these may have any number of states
    for v, name in enumerate(graph.names):
        if kinds.get(str(name)) == "continuous" or (mixed and v in graph.latent):
            continue
        if graph.states[v] is None:
            what, option = ("latent", "--latents") if v in graph.latent else ("column", "--states")
            raise PlanError(
                f"the number of states of {what} {name!r} is not known. "
                f"Pass {option} {name}=… or write {name}[k] in the graph."
            )

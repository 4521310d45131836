"""The commands: each reads, asks the library, and gives the answer to the screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import clone

from latentia.cli.asking import (
    asked_evidence,
    asked_levels,
    find_label,
    read_counts,
    read_kinds,
    read_learner,
    read_soft,
)
from latentia.cli.options import (
    Confidence,
    Data,
    Debug,
    ErrorBars,
    Json,
    Kinds,
    Latents,
    Learner,
    Model,
    Out,
    Quiet,
    Settings,
    Weights,
    app,
)
from latentia.cli.reading import (
    column_names,
    count_rows,
    graph_from_text,
    read_model,
    read_state_names,
    read_table_file,
    take_weights,
)
from latentia.cli.screen import Screen, answering
from latentia.cli.views import (
    assignment_facts,
    assignment_view,
    density_facts,
    density_view,
    fit_view,
    model_facts,
    model_view,
    plan_facts,
    plan_view,
    posterior_facts,
    posterior_view,
)
from latentia.cli.writing import check_folder, check_out, give_numbers, give_rows
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError, PlanError, UnknownNameError
from latentia.inference.posterior_density import Density
from latentia.model.latent_model import LatentModel
from latentia.model.learners import LEARNERS, PBP
from latentia.model.mixed_plans import has_continuous, prepare_mixed, state_labels
from latentia.structure.graph import LatentGraph
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
def fit(
    data: Data,
    out: Annotated[str, typer.Option(metavar="MODEL", help="The file to write.")],
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH",
            help='Text such as "A->B; A->C", or a file; default: one latent class for all columns.',
        ),
    ] = None,
    latents: Latents = "",
    learner: Learner = "pbp",
    settings: Settings = None,
    weights: Weights = None,
    kinds: Kinds = "",
    state_names: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.json", help='States in order: {"D": ["low", "high"]}; default: as seen.'
        ),
    ] = None,
    error_bars: ErrorBars = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn a model from the rows of a table.

    \b
    Examples:
      latentia fit rows.csv --graph "H->X; H->Y; H->Z" --latents H=2 --out m.latentia
      latentia fit rows.csv --graph @graph.json --learner em --set restarts=20 --out m.latentia
      zcat big.csv.gz | latentia fit - --graph @graph.json --out m.latentia --json
    """
    with answering(as_json, quiet, debug) as screen:
        known = None if graph is None else graph_from_text(graph, latents)
        named = read_state_names(state_names)
        check_folder(out)
        alone = read_counts(latents, "--latents") if known is None else None
        chosen = read_learner(learner, settings or []) if settings else learner
        model = LatentModel(
            known, alone or None, chosen, kinds=read_kinds(kinds) or None, state_names=named
        )
        columns = [DiscreteColumn(name, tuple(s)) for name, s in (named or {}).items()]
        with screen.working(f"reading {data}"):
            rows, weight = take_weights(read_table_file(data, columns), weights)
        for name in named or {}:
            if name not in column_names(rows):
                raise UnknownNameError("column of --state-names", name, column_names(rows))
        start = time.perf_counter()
        count = count_rows(rows)
        with screen.working(f"learning from {count:,} rows") as say:
            _fit(model, rows, weight, say, error_bars)
        seconds = time.perf_counter() - start
        model.save(out)
        facts = {"model": out, "rows": count, "seconds": seconds, **model_facts(model)}
        if as_json:
            screen.dump(facts)
        elif not quiet:
            screen.show(*fit_view(facts))


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
    confidence: Confidence = None,
    most_probable: Annotated[
        bool, typer.Option("--map", help="The most probable assignment only.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Ask for the posterior of columns, given others.

    \b
    Examples:
      latentia query m.latentia D --given G=2 --given H=0
      latentia query m.latentia D E --soft "G=0:.2,1:.8" --map
      latentia query m.latentia x --given y=3.2 --given z=0..3
      latentia query m.latentia D --given G=2 --confidence .9
    """
    with answering(as_json, quiet, debug) as screen:
        loaded = read_model(model)
        asked = [find_label(loaded, name) for name in variables]
        evidence = asked_evidence(loaded, given or [])
        likelihoods = read_soft(loaded, soft or [])
        if most_probable and confidence is not None:
            raise typer.BadParameter(
                "not for --map; leave one of them out.", param_hint="--confidence"
            )
        if most_probable:
            found = loaded.map_query(asked, evidence, likelihoods)
            if as_json:
                screen.dump(assignment_facts(found, evidence, likelihoods))
            else:
                screen.show(*assignment_view(found, {**evidence, **likelihoods}))
            return
        posterior = loaded.query(asked, evidence, likelihoods, confidence)
        if isinstance(posterior, Density):
            if as_json:
                screen.dump(density_facts(posterior, evidence, likelihoods))
            else:
                screen.show(*density_view(posterior))
        elif as_json:
            screen.dump(posterior_facts(posterior, evidence, likelihoods))
        else:
            screen.show(*posterior_view(posterior, cut=screen.terminal))


@app.command()
def predict(
    model: Model,
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="What to predict.")],
    proba: Annotated[
        bool, typer.Option("--proba", help="Probabilities of all states, a column for each.")
    ] = False,
    quantiles: Annotated[
        str,
        typer.Option(metavar=".05,.5,.95", help="Of a continuous column: these besides its mean."),
    ] = "",
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict a column from all other cells of each row.

    \b
    Examples:
      latentia predict m.latentia new.csv --target D --out predicted.csv
      latentia predict m.latentia new.parquet --target D --proba | head
    """
    with answering(as_json, quiet, debug) as screen:
        check_out(out)
        loaded = read_model(model)
        name = find_label(loaded, target)
        with screen.working(f"reading {data}"):
            rows = read_table_file(data, loaded.columns_, _names(loaded))
        with screen.working(f"predicting {target} of {count_rows(rows):,} rows"):
            columns = _predictions(loaded, rows, name, proba, quantiles)
        facts: dict[str, Any] = {"target": target, "rows": count_rows(rows)}
        column = next(c for c in loaded.columns_ if c.name == name)
        if isinstance(column, DiscreteColumn):
            facts["states"] = list(column.states)
        elif as_json and not quantiles:
            columns |= _predictions(loaded, rows, name, proba, ".05,.25,.5,.75,.95")
        key = "probabilities" if proba else "predictions"
        values = np.column_stack(list(columns.values())) if proba else columns[target]
        if not proba and len(columns) > 1:
            facts["quantiles"] = {q: v for q, v in columns.items() if q != target}
        _give(screen, columns, out, {**facts, key: values}, key)


def _predictions(
    model: LatentModel, rows: Any, name: Any, proba: bool, quantiles: str
) -> dict[str, Any]:
    """Columns to write: states, a mean, a mean and quantiles, or probabilities."""
    if proba:
        found = model.predict_proba(rows, target=name)
        column = next(c for c in model.columns_ if c.name == name)
        return dict(zip(map(str, state_labels(column)), _arrays(found), strict=True))
    columns = {str(name): np.asarray(model.predict(rows, target=name))}
    if quantiles:
        levels = asked_levels(quantiles)
        spread = model.predict_quantiles(rows, name, levels)
        columns |= {f"{q:g}": v for q, v in zip(levels, _arrays(spread), strict=True)}
    return columns


def _arrays(frame: Any) -> list[Any]:
    return list(map(np.asarray, frame.values() if isinstance(frame, dict) else frame.columns))


@app.command()
def score(
    model: Model,
    data: Data,
    each: Annotated[bool, typer.Option("--rows", help="One number per row instead.")] = False,
    weights: Weights = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say how probable rows are: mean log P(present cells).

    \b
    Examples:
      latentia score m.latentia held_out.csv
      latentia score m.latentia held_out.csv --rows | sort -g | head -3
    """
    with answering(as_json, quiet, debug) as screen:
        loaded = read_model(model)
        with screen.working(f"reading {data}"):
            rows, weight = take_weights(
                read_table_file(data, loaded.columns_, [*_names(loaded), weights]), weights
            )
        count = count_rows(rows)
        if not count:
            raise DataError(f"there are no rows to score in {data!r}.")
        facts: dict[str, Any] = {"rows": count}
        with screen.working(f"scoring {count:,} rows"):
            if as_json or not each:
                facts["mean"] = loaded.score(rows, sample_weight=weight)
            if each:
                facts["scores"] = loaded.score_samples(rows)
        if as_json:
            screen.dump(facts)
        elif each:
            give_numbers(screen, "log P(row)", facts["scores"])
        else:
            screen.show(f"mean log P(row) = {facts['mean']:.6f} over {count:,} rows")


@app.command()
def sample(
    model: Model,
    number: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="The same rows each time.")] = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw rows from the learned distribution.

    \b
    Examples:
      latentia sample m.latentia -n 1000 --seed 0 --out rows.parquet
      latentia sample m.latentia -n 5
    """
    with answering(as_json, quiet, debug) as screen:
        check_out(out)
        loaded = read_model(model)
        with screen.working(f"drawing {number:,} rows"):
            rows = loaded.sample(number, random_state=seed)
        _give(screen, rows, out, {"rows": number, "seed": seed, "columns": rows}, "columns")


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
        facts = {"model": model, **model_facts(read_model(model))}
        if as_json:
            screen.dump(facts)
        else:
            screen.show(*model_view(facts, screen.fits))


def _fit(
    model: LatentModel, rows: Any, weight: Any, say: Callable[[str], None], error_bars: bool
) -> None:
    """Fit, with every start that has ended told to the spinner."""
    given = model.learner
    learner = LEARNERS[given]() if isinstance(given, str) else clone(given)
    if "verbose" in learner.get_params(deep=False) and not getattr(given, "verbose", False):
        model.learner = learner.set_params(verbose=say)
    try:
        model.fit(rows, sample_weight=weight, error_bars=error_bars)
    finally:
        model.learner = given


def _give(
    screen: Screen, columns: dict[Any, Any], out: str | None, facts: dict[str, Any], bulk: str
) -> None:
    """Rows as asked; with --json and --out the bulk goes to the file, the rest to stdout."""
    if out is not None or not screen.as_json:
        give_rows(screen, columns, out)
    if screen.as_json:
        rest = {k: v for k, v in facts.items() if k != bulk}
        screen.dump(facts if out is None else {**rest, "out": out})
    elif out is not None and screen.terminal and not screen.quiet:
        screen.show(f"{facts['rows']:,} rows written to {out}")


def _names(model: LatentModel) -> list[Any]:
    return [column.name for column in model.columns_]


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
        return make_plan(graph)
    return prepare_mixed(graph, columns, PBP())[0]


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

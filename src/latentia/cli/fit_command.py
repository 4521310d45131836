"""`latentia fit`: a model from the rows of a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

from latentia.cli.asking import (
    read_counts,
    read_kinds,
    read_latent_names,
    read_learner,
    read_order,
)
from latentia.cli.model_views import (
    fit_view,
    model_facts,
)
from latentia.cli.options import (
    Data,
    Debug,
    ErrorBars,
    Json,
    Kinds,
    Latents,
    Quiet,
    Settings,
    Weights,
    app,
)
from latentia.cli.reading import (
    check_weights,
    graph_from_text,
    look_over,
    open_table,
    read_state_names,
)
from latentia.cli.screen import answering
from latentia.cli.writing import check_folder
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError, UnknownNameError
from latentia.model.latent_model import LatentModel
from latentia.model.learners import LEARNERS
from latentia.model.specification import SOUGHT
from latentia.parameters import unfitted

if TYPE_CHECKING:
    from latentia.networks.learner import TunedLearner
    from latentia.typing import TableLike

OF_SEQUENCES = "closed-form"  # what rows have as pbp with refine=false


def _known_learner(name: str) -> str:
    if name not in (*LEARNERS, OF_SEQUENCES):
        raise typer.BadParameter(
            f"expected one of {', '.join(LEARNERS)}, or {OF_SEQUENCES} for sequences, got {name!r}."
        )
    return name


Learner: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=_known_learner,
        help=f"One of {', '.join(LEARNERS)}; of sequences also {OF_SEQUENCES}.",
    ),
]


@app.command()
def fit(
    data: Data,
    out: Annotated[str, typer.Option(metavar="MODEL", help="The file to write.")],
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH",
            help='Text such as "A->B; A->C", or a file; or how to find one: auto, islands, tree, '
            "chow-liu, class; default: auto.",
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
    order_by: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="States of latents go along a column, CLASS=COLUMN for one; default: by size.",
        ),
    ] = "",
    name_states: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS=LOW,HIGH", help="Names for the states of a latent, in order."),
    ] = None,
    error_bars: ErrorBars = False,
    sequence: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The sequence that a row belongs to: see `decode`."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", metavar="COLUMN", help="The place of a row in its sequence."),
    ] = None,
    inputs: Annotated[
        str,
        typer.Option("--given", metavar="A,B", help="Columns of sequences that are only inputs."),
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn a model from the rows of a table.

    \b
    Examples:
      latentia fit rows.csv --graph "H->X; H->Y; H->Z" --latents H=2 --out m.latentia
      latentia fit rows.csv --graph tree --out m.latentia
      latentia fit rows.csv --graph @graph.json --learner em --set restarts=20 --out m.latentia
      zcat big.csv.gz | latentia fit - --graph @graph.json --out m.latentia --json
      latentia fit log.csv --graph "z->z', z->sound" --latents z=2 --sequence id --out m.latentia
    """
    with answering(as_json, quiet, debug) as screen:
        if sequence is not None or time_column is not None or _tells_next_step(graph):
            from latentia.cli.sequence_commands import fit_sequences

            for option, told in (("--weights", weights is not None), ("--error-bars", error_bars)):
                if told:
                    raise DataError(f"sequences are fitted without {option}. Leave it out.")
            fit_sequences(
                screen, data, out, graph, latents, learner, settings or [], kinds, state_names,
                sequence, time_column, inputs, read_order(order_by),
                read_latent_names(name_states or []),
            )  # fmt: skip
            return
        if learner == OF_SEQUENCES:
            raise DataError(
                f"expected a learner of rows ({', '.join(LEARNERS)}), got {OF_SEQUENCES}, which is "
                "one of sequences. The closed form of rows: --learner pbp --set refine=false."
            )
        sought = graph in SOUGHT
        known = None if graph is None or sought else graph_from_text(graph, latents)
        named = read_state_names(state_names)
        check_folder(out)
        alone = read_counts(latents, "--latents") if known is None else None
        chosen = read_learner(learner, settings or []) if settings else learner
        model = LatentModel(
            graph if sought else known,
            alone or None,
            chosen,
            kinds=read_kinds(kinds) or None,
            state_names=named,
            order_by=read_order(order_by),
            name_states=read_latent_names(name_states or []),
        )
        columns = [DiscreteColumn(name, tuple(s)) for name, s in (named or {}).items()]
        with screen.working(f"reading {data}"):
            table = open_table(data, columns)
            names, count = look_over(table)
        check_weights(table, weights, names)
        for name in named or {}:
            if name not in names:
                raise UnknownNameError("column of --state-names", name, names)
        start = time.perf_counter()
        with screen.working(f"learning from {count:,} rows") as say:
            _learn(model, table, weights, say, error_bars)
        seconds = time.perf_counter() - start
        model.save(out)
        facts = {"model": out, "rows": count, "seconds": seconds, **model_facts(model)}
        if as_json:
            screen.dump(facts)
        elif not quiet:
            screen.show(*fit_view(facts))


def _learn(
    model: LatentModel,
    rows: TableLike,
    weights: str | None,
    say: Callable[[str], None],
    error_bars: bool,
) -> None:
    """Fit, with every pass over the rows and every start that has ended told to the spinner."""
    given = model.learner
    learner: TunedLearner = (
        LEARNERS[given]() if isinstance(given, str) else cast("TunedLearner", unfitted(given))
    )
    if "verbose" in learner.get_params(deep=False) and not getattr(given, "verbose", False):
        model.learner = learner.set_params(verbose=say)
    try:
        model.fit(
            rows,
            sample_weight=weights,
            error_bars=error_bars,
            progress=lambda step: say(str(step)),
        )
    finally:
        model.learner = given


def _tells_next_step(graph: str | None) -> bool:
    if graph is None:
        return False
    from latentia.sequences.slices import tells_next_step

    return tells_next_step(graph)

"""`latentia decode` and `forecast`, and what `fit` and `score` do with sequences."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np
import typer

from latentia.cli.answer_blocks import tell_written
from latentia.cli.asking import read_counts, read_kinds, read_learner
from latentia.cli.model_views import chain_facts, sequence_view
from latentia.cli.options import Data, Debug, Json, Model, Out, Quiet, app
from latentia.cli.reading import look_over, open_table, read_state_names
from latentia.cli.screen import Screen, answering
from latentia.cli.writing import check_folder, check_out, give_numbers, give_rows
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources.files import open_files
from latentia.data.sources.located import TableFile
from latentia.errors import DataError, StoreError
from latentia.sequences.sequence_model import SequenceModel
from latentia.spelling import printable
from latentia.store.file import load

if TYPE_CHECKING:
    from latentia.model.state_names import OrderBy
    from latentia.typing import ByName, Cell, Facts

BELIEFS = ("path", "smooth", "filter")


def _known_beliefs(word: str) -> str:
    if word not in BELIEFS:
        raise typer.BadParameter(f"expected one of {', '.join(BELIEFS)}, got {word!r}.")
    return word


What: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        callback=_known_beliefs,
        help="path: the most probable states; smooth: P(state | all rows of the sequence); filter: "
        "P(state | rows so far).",
    ),
]


def fit_sequences(
    screen: Screen,
    data: str,
    out: str,
    slice_: str | None,
    latents: str,
    learner: str,
    settings: list[str],
    kinds: str,
    state_names: str | None,
    sequence: str | None,
    time: str | None,
    given: str,
    order_by: OrderBy = None,
    name_states: ByName[Sequence[Cell]] | None = None,
) -> None:
    """`latentia fit` with --sequence or --time: a model of sequences."""
    if slice_ is None:
        raise DataError(
            'sequences need a slice: --graph "z -> z\', z -> word" --latents z=4; a primed name is '
            "the next step's."
        )
    check_folder(out)
    plain = None if learner == "pbp" else learner
    chosen = read_learner(learner, settings) if settings else plain
    named = read_state_names(state_names)
    model = SequenceModel(
        slice_,
        read_counts(latents, "--latents"),
        [name.strip() for name in given.split(",") if name.strip()],
        kinds=read_kinds(kinds) or None,
        state_names=named,
        learner=chosen,
        order_by=order_by,
        name_states=name_states,
    )
    columns = [DiscreteColumn(name, tuple(s)) for name, s in (named or {}).items()]
    with screen.working(f"reading {data}"):
        table = open_table(data, columns)
        _, count = look_over(table)
    start = clock.perf_counter()
    with screen.working(f"learning from {count:,} rows") as say:
        model.fit(table, sequence=sequence, time=time, progress=lambda step: say(str(step)))
    seconds = clock.perf_counter() - start
    model.save(out)
    facts = {"model": out, "rows": count, "seconds": seconds, **chain_facts(model)}
    facts["columns"] = [str(c.name) for c in model.fitted_.chain.columns.values()]
    if screen.as_json:
        screen.dump(facts)
    elif not screen.quiet:
        screen.show(*sequence_view(facts))


def read_sequences_model(path: str) -> SequenceModel:
    """The model of a file that `fit --sequence` made."""
    found = load(path)
    if not isinstance(found, SequenceModel):
        raise StoreError(
            f"{path}: expected a SequenceModel, got a {type(found).__name__}. `latentia fit "
            "--sequence id --time t` makes one."
        )
    return found


def score_sequences(screen: Screen, model: SequenceModel, data: str, each: bool) -> None:
    """`latentia score` of sequences: log P(row | rows before it), and the mean of all rows."""
    table, count = _opened(screen, model, data)
    with screen.working(f"scoring {count:,} rows"):
        scores = np.asarray(model.score_samples(table))
    mean = float(scores.mean())
    if screen.as_json:
        screen.dump({"rows": count, "mean": mean, **({"scores": scores.tolist()} if each else {})})
    elif each:
        give_numbers(screen, "log P(row | rows before it)", [scores])
    else:
        screen.show(f"mean log P(row | rows before it) = {mean:.6f} over {count:,} rows")


@app.command("decode")
def decode_rows(
    model: Model,
    data: Data,
    what: What = "path",
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell the hidden states of sequences, row by row.

    \b
    Examples:
      latentia decode m.latentia log.csv
      latentia decode m.latentia log.csv --what smooth --out beliefs.parquet
    """
    with answering(as_json, quiet, debug) as screen:
        loaded = read_sequences_model(model)
        check_out(out)
        table, count = _opened(screen, loaded, data)
        with screen.working(f"decoding {count:,} rows"):
            found = _beliefs(loaded, table, what)
            columns = {**_told(loaded, table), **found}
        facts = {"rows": count, "what": what}
        _give(screen, columns, out, facts, found)


def _opened(screen: Screen, model: SequenceModel, data: str) -> tuple[TableFile, int]:
    with screen.working(f"reading {data}"):
        table = open_table(data, list(model.fitted_.chain.columns.values()))
        _, count = look_over(table)
    if not count:
        raise DataError(f"there are no rows in {data!r}.")
    return table, count


def _beliefs(model: SequenceModel, table: TableFile, what: str) -> Facts:
    if what != "path":
        found = model.smooth(table) if what == "smooth" else model.filter(table)
        return {str(name): np.asarray(x) for name, x in found.items()}
    path = model.decode(table)
    latents = list(model.states_)
    if len(latents) == 1:
        return {str(latents[0]): np.asarray(path)}
    return {str(name): np.asarray(path[name]) for name in latents}


def _told(model: SequenceModel, table: TableFile) -> Facts:
    """Ids and times of all rows, as the file has them."""
    names = model.fitted_.naming.columns
    blocks = list(open_files([table]).tables(names)) if names else []
    return {
        str(name): np.concatenate([block.column(name).cells for block in blocks]) for name in names
    }


def _give(screen: Screen, columns: Facts, out: str | None, facts: Facts, found: Facts) -> None:
    """Rows as asked; with --json and no --out everything in one document."""
    if out is not None or not screen.as_json:
        give_rows(screen, list(columns), [columns], out)
        tell_written(screen, facts, out)
        return
    screen.dump({**facts, "states": {name: x.tolist() for name, x in found.items()}})


@app.command()
def forecast(
    model: Model,
    data: Data,
    steps: Annotated[int, typer.Option(min=1, help="How many steps ahead.")] = 1,
    inputs: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Inputs of the steps to come, if the model has any."),
    ] = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell what comes next in every sequence.

    \b
    Examples:
      latentia forecast m.latentia log.csv --steps 5
      latentia forecast m.latentia doses.csv --steps 3 --inputs plan.csv --out next.csv
    """
    with answering(as_json, quiet, debug) as screen:
        loaded = read_sequences_model(model)
        check_out(out)
        table, count = _opened(screen, loaded, data)
        columns = list(loaded.fitted_.chain.columns.values())
        given = None if inputs is None else open_table(inputs, columns)
        with screen.working(f"forecasting {steps} step(s)"):
            found = loaded.forecast(table, steps, given=given)
        told = {printable(name): np.asarray(x) for name, x in found.items()}
        facts = {"rows": len(told["ahead"]), "read": count, "steps": steps}
        _give(screen, told, out, facts, told)

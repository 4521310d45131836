"""`latentia predict`, `score` and `sample`: questions about many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from latentia.cli.answer_blocks import (
    BlockAnswer,
    answer_of,
    as_states,
    beside,
    collected,
    tell_written,
)
from latentia.cli.asking import (
    asked_levels,
    find_label,
    find_variable,
)
from latentia.cli.options import (
    Data,
    Debug,
    Json,
    Model,
    Out,
    Quiet,
    Unknown,
    Weights,
    app,
)
from latentia.cli.reading import check_weights, look_over, open_table, read_either_model, read_model
from latentia.cli.screen import Screen, answering
from latentia.cli.writing import check_out, give_numbers, give_rows
from latentia.data.sources.located import TableFile
from latentia.errors import DataError
from latentia.model.latent_model import LatentModel
from latentia.typing import Facts, Label

SCORES = "log P(row)"


@app.command()
def predict(
    model: Model,
    data: Data,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="A column, or a latent; or --fill.")
    ] = None,
    fill: Annotated[
        bool, typer.Option("--fill", help="All columns of the model, their missing cells filled.")
    ] = False,
    keep: Annotated[
        str, typer.Option(metavar="A,B", help="Columns of DATA that are written along: ids.")
    ] = "",
    proba: Annotated[
        bool, typer.Option("--proba", help="Probabilities of all states, a column for each.")
    ] = False,
    quantiles: Annotated[
        str,
        typer.Option(metavar=".05,.5,.95", help="Of a continuous column: these besides its mean."),
    ] = "",
    unknown: Unknown = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict a column or a latent from all other cells of each row.

    \b
    Examples:
      latentia predict m.latentia new.csv --target D --out predicted.csv
      latentia predict m.latentia new.csv --target class --out classes.csv
      latentia predict m.latentia new.parquet --target D --proba | head
      latentia predict m.latentia new.csv --target D --keep id --out predicted.csv
      latentia predict m.latentia holes.csv --fill --out filled.csv
    """
    from latentia.cli.kept_columns import filled_rows, give_table, kept_names, with_kept

    with answering(as_json, quiet, debug) as screen:
        check_out(out)
        if fill == (target is not None) or (fill and (proba or quantiles)):
            raise typer.BadParameter(
                "expected --target COLUMN, or --fill by itself.", param_hint="--target"
            )
        loaded = read_model(model)
        with screen.working(f"reading {data}"):
            table = open_table(data, loaded.columns_)
            names, count = look_over(table)
        kept = kept_names(keep, names)
        if target is None:
            with screen.working(f"filling {count:,} rows"):
                answer = filled_rows(loaded, table, unknown)
            whole = with_kept(answer, table, kept)
            give_table(screen, whole, out, {"rows": count})
            return
        name = find_label(loaded, target)
        column = find_variable(loaded, name)
        continuous = column is not None and column.continuous
        levels = asked_levels(quantiles) if quantiles else []
        if as_json and continuous and not proba:
            levels = levels or [0.05, 0.25, 0.5, 0.75, 0.95]
        with screen.working(f"predicting {target} of {count:,} rows"):
            answer = _predictions(loaded, table, name, proba, levels, unknown)
        if kept:
            give_table(
                screen, with_kept(answer, table, kept), out, {"target": target, "rows": count}
            )
            return
        facts: Facts = {"target": target, "rows": count}
        if column is not None and not column.continuous:
            facts["states"] = list(column.labels)
        _give(screen, answer, out, facts, target, proba)


def _predictions(
    model: LatentModel,
    table: TableFile,
    name: Label,
    proba: bool,
    levels: Sequence[float],
    unknown: str | None,
) -> BlockAnswer:
    """What to write: states, a mean, a mean and quantiles, or probabilities."""
    more: Facts = {} if unknown is None else {"unknown": unknown}
    column = find_variable(model, name)
    if proba:
        found = model.predict_proba(table, target=name, **more)
        labels = () if column is None else column.labels
        return answer_of([str(label) for label in labels], found)
    best = answer_of([str(name)], model.predict(table, target=name, **more))
    if column is not None and not column.continuous:
        best = as_states(best, column.labels)
    if not levels:
        return best
    spread = model.predict_quantiles(table, name, levels, **more)
    return beside(best, answer_of([f"{q:g}" for q in levels], spread))


def _give(
    screen: Screen,
    answer: BlockAnswer,
    out: str | None,
    facts: Facts,
    target: str,
    proba: bool,
) -> None:
    """Predictions as asked; with --json and --out the bulk goes to the file, not to stdout."""
    if out is not None or not screen.as_json:
        give_rows(screen, answer.names, answer.blocks, out)
        tell_written(screen, facts, out)
        return
    columns = collected(answer)
    if proba:
        facts["probabilities"] = np.column_stack([columns[name] for name in answer.names])
    else:
        facts["predictions"] = columns[target]
        if len(columns) > 1:
            facts["quantiles"] = {q: v for q, v in columns.items() if q != target}
    screen.dump(facts)


@app.command()
def score(
    model: Model,
    data: Data,
    each: Annotated[bool, typer.Option("--rows", help="One number per row instead.")] = False,
    weights: Weights = None,
    unknown: Unknown = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say how probable rows are: mean log P(present cells).

    Of a model of sequences: log P(row | rows before it in its sequence).

    \b
    Examples:
      latentia score m.latentia held_out.csv
      latentia score m.latentia held_out.csv --rows | sort -g | head -3
    """
    with answering(as_json, quiet, debug) as screen:
        loaded = read_either_model(model)
        if not isinstance(loaded, LatentModel):
            from latentia.cli.sequence_commands import score_sequences

            _refused("weights", weights, "score")
            _refused("unknown", unknown, "score")
            score_sequences(screen, loaded, data, each)
            return
        with screen.working(f"reading {data}"):
            table = open_table(data, loaded.columns_)
            names, count = look_over(table)
        if not count:
            raise DataError(f"there are no rows to score in {data!r}.")
        check_weights(table, weights, names)
        more: Facts = {} if unknown is None else {"unknown": unknown}
        facts: Facts = {"rows": count}
        with screen.working(f"scoring {count:,} rows"):
            if as_json or not each:
                facts["mean"] = loaded.score(table, sample_weight=weights, **more)
            if each:
                found = loaded.score_samples(table, **more)
                scores = answer_of([SCORES], found)
        if as_json:
            screen.dump({**facts, "scores": collected(scores)[SCORES]} if each else facts)
        elif each:
            give_numbers(screen, SCORES, (block[SCORES] for block in scores.blocks))
        else:
            screen.show(f"mean log P(row) = {facts['mean']:.6f} over {count:,} rows")


@app.command()
def sample(
    model: Model,
    number: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="The same rows each time.")] = None,
    latents: Annotated[
        bool, typer.Option("--latents", help="The states of latents come along.")
    ] = False,
    joint: Annotated[
        bool, typer.Option("--joint", help="From the model that scores and answers queries.")
    ] = False,
    length: Annotated[
        int | None, typer.Option(min=1, help="Steps of each of -n sequences: 10 if not said.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw rows, or sequences, from the learned distribution.

    Mixed tables without a graph have a chain of trees beside the model that scores and answers
    queries: its rows are more like the table's, and are drawn unless --joint is given.

    \b
    Examples:
      latentia sample m.latentia -n 1000 --seed 0 --out rows.parquet
      latentia sample m.latentia -n 5
      latentia sample sequences.latentia -n 20 --length 100 --out sequences.csv
    """
    with answering(as_json, quiet, debug) as screen:
        check_out(out)
        loaded = read_either_model(model)
        if not isinstance(loaded, LatentModel):
            steps = 10 if length is None else length
            with screen.working(f"drawing {number:,} sequences"):
                drawn = loaded.sample(number, steps, random_state=seed)
            hidden = () if latents else loaded.slice_.latent
            left = {loaded.slice_.names[v] for v in hidden}
            rows = {name: cells for name, cells in drawn.items() if name not in left}
            facts = {"sequences": number, "rows": number * steps, "seed": seed}
        else:
            _refused("length", length, "sample", "sequences")
            with screen.working(f"drawing {number:,} rows"):
                rows = loaded.sample(number, random_state=seed, latents=latents, joint=joint)
            facts = {"rows": number, "seed": seed}
        if out is not None or not as_json:
            cells = {str(name): values for name, values in rows.items()}
            give_rows(screen, list(cells), [cells], out)
            tell_written(screen, facts, out)
        else:
            screen.dump({**facts, "columns": rows})


def _refused(option: str, value: object, command: str, which: str = "rows") -> None:
    """An option that this kind of model does not have."""
    if value is not None:
        raise DataError(
            f"--{option} is for models of {which} in `latentia {command}`: leave it out."
        )

"""What comes next: steps behind the last row of every sequence, with inputs where there are any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.data.columns.labels import joint_summary_labels
from latentia.data.sources.opening import open_question
from latentia.errors import DataError, EvidenceError
from latentia.sequences.chain_questions import (
    Beliefs,
    Chain,
    asked_groups,
    believed_cells,
    smooth_states,
)
from latentia.sequences.expectation import filtered
from latentia.sequences.long_rows import (
    LongSteps,
    Naming,
    listed_sequences,
    read_long,
)
from latentia.sequences.packing import Indices
from latentia.sequences.potentials import moves_of, starts_of
from latentia.sequences.step_answers import repeated_labels
from latentia.sequences.step_data import Sequences, missing_cells
from latentia.typing import Cell, CellArray, Given, Label


def forecast_steps(
    chain: Chain, read: LongSteps, naming: Naming, count: int, given: Given
) -> dict[Label, Cell]:
    """Columns of a long table: a row for each sequence and step ahead."""
    longer = read.sequences.longer(count)
    at = ((longer.offsets[1:] - count)[:, None] + np.arange(count)).ravel()
    if chain.slice.given:
        longer = with_inputs(chain, longer, at, future_inputs(chain, read, naming, count, given))
    elif given is not None:
        raise EvidenceError("given= holds inputs of steps to come, but the slice has no inputs.")
    found = smooth_states(chain, longer)
    told: dict[Label, Cell] = {
        "sequence" if naming.sequence is None else naming.sequence: repeated_labels(
            read.labels, count
        ),
        "ahead": np.tile(np.arange(1, count + 1), len(read.labels)),
    }
    return told | believed_columns(chain, found, longer, at)


def believed_columns(
    chain: Chain, found: Beliefs, sequences: Sequences, at: Indices
) -> dict[Label, Cell]:
    """Shares, means and quantiles of all columns at some steps, and P(latent)."""
    slice_ = chain.slice
    told: dict[Label, Cell] = {}
    columns = [chain.columns[v] for v in slice_.columns]
    for v, labels in zip(slice_.columns, joint_summary_labels(columns), strict=True):
        p = believed_cells(chain, found, sequences, v, at)
        told |= dict(zip(labels, chain.columns[v].summary(p), strict=True))
    for v in sorted(slice_.latent):
        told |= dict(zip(latent_headings(chain, v), found.of(v)[:, at], strict=True))
    return told


def next_columns(chain: Chain, sequences: Sequences) -> dict[Label, Cell]:
    """What was to be expected of every step from the steps before it: columns and latents."""
    layout = chain.layout(frozenset(chain.slice.columns))  # the cells of a step are not looked at
    starts, moves = starts_of(layout, chain.tables), moves_of(layout, chain.tables)
    parts = []
    for wired in asked_groups(layout, sequences):
        found, used = filtered(wired, chain.tables, scored=False)
        before, expected = used.packing.before, np.empty_like(found.alpha)
        first = before < 0
        expected[:, first] = starts[:, used.which[first]]
        for c, move in enumerate(moves):
            own = np.flatnonzero(~first & (used.which == c))
            expected[:, own] = move.T @ found.alpha[:, before[own]]
        parts.append(expected[:, used.packing.place])
    belief = np.concatenate(parts, axis=1) if parts else np.zeros((layout.width, 0))
    beliefs = Beliefs(layout, belief, np.zeros(sequences.steps))
    return believed_columns(chain, beliefs, sequences, np.arange(sequences.steps))


def latent_headings(chain: Chain, v: int) -> list[str]:
    """Columns of P(latent): ``z=0``, or ``z=worn`` where states have names."""
    return [f"{chain.slice.names[v]}={label}" for label in chain.labels(v)]


def with_inputs(
    chain: Chain, sequences: Sequences, at: Indices, inputs: dict[int, CellArray]
) -> Sequences:
    """The same with the inputs told at some steps."""
    cells = dict(sequences.cells)
    for v in sorted(chain.slice.given):
        cells[v] = cells[v].copy()
        cells[v][at] = inputs[v]
    return Sequences(cells, sequences.offsets)


def future_inputs(
    chain: Chain, read: LongSteps, naming: Naming, count: int, given: Given
) -> dict[int, CellArray]:
    """Codes of the inputs of `count` steps behind every sequence, one sequence after the other."""
    columns = {v: chain.columns[v] for v in sorted(chain.slice.given)}
    names = ", ".join(repr(c.name) for c in columns.values())
    if given is None:
        raise EvidenceError(
            f"a forecast needs the inputs of the steps to come: given= a table with {names}, "
            f"{count} row(s) for each sequence."
        )
    how = replace(naming, lengths=None, blocks=False, cut=False)
    given, how = listed_sequences(given, how, len(columns))
    engine = open_question(given, list(columns.values()))
    for c in columns.values():
        if c.name not in engine.names:
            raise DataError(f"given= must hold the inputs {names}; {c.name!r} is not there.")
    if how.time not in engine.names:
        how = replace(how, time=None)
    if how.sequence is not None and how.sequence not in engine.names and len(read.labels) == 1:
        how = replace(how, sequence=None)
    told = read_long(engine, columns, how)
    rows = _rows_of(read, told, count, how)
    found = {v: x[rows] for v, x in told.sequences.cells.items()}
    for v, x in found.items():
        if missing_cells(x).any():
            raise DataError(
                f"given= has missing cells of the input {columns[v].name!r}. Fill them."
            )
    return found


def _rows_of(read: LongSteps, told: LongSteps, count: int, how: Naming) -> Indices:
    """The first steps of every sequence in a table of inputs."""
    by_name = how.sequence is not None
    if not by_name and len(told.labels) != len(read.labels):
        raise DataError(
            f"given= tells the inputs of {len(told.labels)} sequence(s), but there are "
            f"{len(read.labels)}. Name the sequences in a column, as in fit."
        )
    number = {label: k for k, label in enumerate(told.labels)}
    rows = []
    for k, label in enumerate(read.labels):
        if by_name and label not in number:
            raise DataError(f"given= has no inputs for the sequence {label!r}.")
        own = number[label] if by_name else k
        a, b = int(told.sequences.offsets[own]), int(told.sequences.offsets[own + 1])
        if b - a < count:
            raise DataError(
                f"given= has {b - a} step(s) of inputs for the sequence {label!r}, but {count} "
                "steps are forecast."
            )
        rows.append(np.arange(a, a + count))
    return np.concatenate(rows)


def sampled_inputs(chain: Chain, given: Given, n: int, length: int) -> dict[int, CellArray]:
    """Codes of the inputs of sequences to be drawn, (n, length) each."""
    found = {}
    for v in sorted(chain.slice.given):
        name, column = chain.slice.names[v], chain.columns[v]
        if given is None or name not in given:
            raise DataError(f"sample needs the inputs: given={{{name!r}: {n * length} values}}.")
        engine = open_question({name: given[name]}, [column])
        cells = read_long(engine, {v: column}, Naming()).sequences.cells[v]
        if len(cells) != n * length or missing_cells(cells).any():
            raise DataError(f"expected {n * length} values of {name!r}, none missing.")
        found[v] = cells.reshape(n, length)
    return found

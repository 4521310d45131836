"""From a long table to a learned chain: open, discover, read, learn, put states in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from latentia.announcing import warn
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn, straightened
from latentia.data.sources.table_rows import TableRows, discover_columns, open_rows
from latentia.errors import ConvergenceWarning, DataError, IgnoredColumnWarning, UnknownNameError
from latentia.model.mixed_plans import without_atoms
from latentia.sequences.chain_learners import learn_as_told
from latentia.sequences.chain_questions import Chain
from latentia.sequences.expectation import chain_estep
from latentia.sequences.families import families_of
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.known_tables import read_known
from latentia.sequences.learn_chain import ChainLearning, LearnedChain
from latentia.sequences.long_rows import Naming, is_list_of_frames, joined_arrays, read_long
from latentia.sequences.potentials import wire_groups
from latentia.sequences.slices import Slice
from latentia.sequences.step_data import Sequences, missing_cells
from latentia.typing import Array


@final
@dataclass(frozen=True, slots=True)
class FittedChain:
    """A learned chain, how it was learned, and how its tables tell sequences."""

    chain: Chain
    learned: LearnedChain
    naming: Naming
    step: int | None  # time between two steps; None: rows are steps
    counts: Tables | None = None  # expected counts of all tables


@final
@dataclass(frozen=True, slots=True)
class Prepared:
    """A slice with the columns and sequences of a long table."""

    slice: Slice
    columns: dict[int, Column]
    sequences: Sequences
    naming: Naming
    step: int | None
    rows: int
    log_slopes: Array  # (steps,) what turns densities of z into those of x; 0 in gaps


def prepare(
    slice_: Slice,
    X: Any,
    naming: Naming,
    kinds: Mapping[Any, str] | None,
    state_names: Mapping[Any, Any] | None,
) -> Prepared:
    """Open a long table, discover its columns, read it."""
    if is_list_of_frames(X):
        X, naming = joined_arrays(X, naming)
    names = [slice_.names[v] for v in slice_.told]
    rows = open_rows(X, names)
    _check_names(rows, slice_, naming)
    found = discover_columns(rows.look(names), names, kinds, state_names)
    columns = {v: straightened(without_atoms(c)) for v, c in zip(slice_.told, found, strict=True)}
    steps = read_long(rows.engine, columns, naming)
    standard, sequences = standardised_steps(columns, steps.sequences)
    slopes = np.where(steps.row >= 0, steps.log_slopes[steps.row], 0.0)
    for v, column in columns.items():
        other = standard[v]
        if isinstance(column, ContinuousColumn) and isinstance(other, ContinuousColumn):
            there = ~missing_cells(sequences.cells[v])
            slopes = slopes + there * np.log(column.scale / other.scale)
    step = None if steps.times is None else steps.times.step
    return Prepared(slice_, standard, sequences, naming, step, steps.rows, slopes)


def fit_chain(
    prepared: Prepared, how: ChainLearning, rng: np.random.Generator, learner: Any = None
) -> FittedChain:
    """Learn the tables of a slice."""
    chain, sequences = Chain(prepared.slice, prepared.columns, {}), prepared.sequences
    layout = chain.layout(sequences.holes())
    learned = learn_as_told(learner, layout, sequences, how, rng)
    if not learned.converged:
        warn(
            f"learning stopped after {len(learned.history)} steps before it came to rest. Raise "
            "max_iter.",
            ConvergenceWarning,
        )
    known = how.known if getattr(learner, "known", None) is None else learner.known
    fixed = read_known(layout, known).pinned
    counts, _, _ = chain_estep(wire_groups(layout, sequences), learned.tables)
    order = chain_state_orders(layout, counts, fixed)
    tables, counts = (renamed(prepared.slice, x, order) for x in (learned.tables, counts))
    kept = replace(prepared.naming, lengths=None, blocks=False)
    fitted = replace(learned, tables=tables)
    return FittedChain(replace(chain, tables=tables), fitted, kept, prepared.step, counts)


def _check_names(rows: TableRows, slice_: Slice, naming: Naming) -> None:
    for name in [slice_.names[v] for v in slice_.told]:
        if name not in rows.names:
            raise UnknownNameError("column", name, rows.names, "The slice names it; add it.")
        if name in naming.columns:
            raise DataError(
                f"column {name!r} cannot both be part of the slice and tell sequences or times."
            )
    if naming.sequence is not None and naming.lengths is not None:
        raise DataError("pass sequence= or lengths=, not both.")
    aside = {*slice_.names, *naming.columns}
    ignored = [str(name) for name in rows.names if name not in aside]
    if ignored:
        shown = ", ".join(ignored[:10]) + (" …" if len(ignored) > 10 else "")
        warn(f"columns that the slice does not name are ignored: {shown}.", IgnoredColumnWarning)


def standardised_steps(
    columns: Mapping[int, Column], sequences: Sequences
) -> tuple[dict[int, Column], Sequences]:
    """Continuous columns on a scale of mean 0 and variance 1 of all their cells together."""
    found, cells = dict(columns), dict(sequences.cells)
    for v, column in columns.items():
        if not isinstance(column, ContinuousColumn) or column.curved:
            continue
        mean, sd = float(np.nanmean(cells[v])), float(np.nanstd(cells[v]))
        if not sd > 0:
            continue
        cells[v] = (cells[v] - mean) / sd
        found[v] = replace(
            column,
            centre=column.centre + column.scale * mean,
            scale=column.scale * sd,
            low=(column.low - mean) / sd,
            high=(column.high - mean) / sd,
            spread=1.0,
        )
    return found, Sequences(cells, sequences.offsets)


def chain_state_orders(
    layout: ChainLayout, counts: Tables, fixed: frozenset[int]
) -> dict[int, Any]:
    """The states of every latent by size, the largest first.

    Latents of `fixed` stay: what is known of them tells their states by number.
    """
    found = {}
    for v in sorted(layout.slice.latent - fixed):
        size = np.zeros(layout.sizes[v])
        for n, family in enumerate(layout.families):
            if family.variable == v:
                size += counts[n].reshape(-1, len(size)).sum(axis=0)
        found[v] = np.argsort(-np.round(size, 6), kind="stable")
    return found


def renamed(slice_: Slice, tables: Tables, orders: Mapping[int, Any]) -> dict[int, Array]:
    """Tables in which state k of a latent is what state order[k] was."""
    found = dict(tables)
    for v, order in orders.items():
        found = renamed_states(slice_, found, v, order)
    return found


def renamed_states(slice_: Slice, tables: Tables, v: int, order: Any) -> dict[int, Array]:
    """Tables in which state k of variable v is what state order[k] was."""
    found = {}
    for n, family in enumerate(families_of(slice_)):
        table = tables[n]
        for axis, (u, _) in enumerate(family.parents):
            if u == v:
                table = table.take(order, axis=axis)
        found[n] = table.take(order, axis=-1) if family.variable == v else table
    return found

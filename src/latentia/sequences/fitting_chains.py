"""From a long table to a learned chain: open, discover, read, learn, put states in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.announcing import warn
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import straightened
from latentia.data.sources.table_rows import TableRows, discover_columns, open_rows
from latentia.errors import ConvergenceWarning, DataError, IgnoredColumnWarning, UnknownNameError
from latentia.model.mixed_plans import without_atoms
from latentia.model.state_names import OrderBy, named_states, ordered_along
from latentia.sequences.chain_errors import ChainReplicates, replicate_chain
from latentia.sequences.chain_learners import closed_form_asked, learn_as_told, prior_as_told
from latentia.sequences.chain_questions import Chain
from latentia.sequences.chain_wiring import wire_groups
from latentia.sequences.column_scales import standardised_steps
from latentia.sequences.expectation import chain_estep
from latentia.sequences.families import families_of
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.known_tables import read_known
from latentia.sequences.learn_chain import ChainLearning, LearnedChain
from latentia.sequences.long_rows import Naming, listed_sequences, read_long
from latentia.sequences.signed_chain import SignedChain
from latentia.sequences.signed_learning import learn_signed
from latentia.sequences.signed_questions import signed_scores
from latentia.sequences.slices import Slice
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, ByName, Cell, Codes, TableLike

if TYPE_CHECKING:
    from latentia.networks.learner import LearnerLike


@final
@dataclass(frozen=True, slots=True)
class FittedChain:
    """A learned chain, how it was learned, and how its tables tell sequences."""

    chain: Chain
    learned: LearnedChain
    naming: Naming
    step: int | None  # time between two steps, months below 0; None: rows are steps
    counts: Tables | None = None  # expected counts of all tables
    signed: SignedChain | None = None  # in closed form: then there are no tables
    replicates: ChainReplicates | None = None  # where error bars were asked for


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
    X: TableLike,
    naming: Naming,
    kinds: ByName[str] | None,
    state_names: ByName[Cell] | None,
) -> Prepared:
    """Open a long table, discover its columns, read it."""
    names = [slice_.names[v] for v in slice_.told]
    X, naming = listed_sequences(X, naming, len(names))
    rows = open_rows(X, names)
    _check_names(rows, slice_, naming)
    found = discover_columns(rows.look(names), names, kinds, state_names, timed=False)
    columns = {v: straightened(without_atoms(c)) for v, c in zip(slice_.told, found, strict=True)}
    steps = read_long(rows.engine, columns, naming)
    states = math.prod(slice_.states[v] or 1 for v in slice_.latent)
    standard, sequences, grown = standardised_steps(columns, steps.sequences, states)
    slopes = np.where(steps.row >= 0, steps.log_slopes[steps.row], 0.0) + grown
    step = None if steps.times is None else steps.times.step
    return Prepared(slice_, standard, sequences, naming, step, steps.rows, slopes)


@final
@dataclass(frozen=True, slots=True)
class StateWishes:
    """How the states of latents are to be numbered and named: what the user said."""

    order_by: OrderBy = None
    name_states: ByName[Sequence[Cell]] | None = None

    def named(self, slice_: Slice) -> dict[int, tuple[Cell, ...]]:
        """Names of states by latent."""
        latents = {slice_.names[v]: slice_.states[v] for v in sorted(slice_.latent)}
        found = named_states(latents, self.name_states)
        return {slice_.index(name): states for name, states in found.items()}

    def along(self, slice_: Slice) -> dict[int, int]:
        """Latent -> the column along which its states go."""
        latents = [slice_.names[v] for v in sorted(slice_.latent)]
        columns = [slice_.names[v] for v in slice_.columns]
        found = ordered_along(latents, columns, self.order_by)
        return {slice_.index(name): slice_.index(column) for name, column in found.items()}


def fit_chain(
    prepared: Prepared,
    how: ChainLearning,
    rng: np.random.Generator,
    learner: LearnerLike | None = None,
    wishes: StateWishes | None = None,
    groups: int = 0,
) -> FittedChain:
    """Learn the tables of a slice; with `groups`, also without each of so many groups of steps."""
    wishes = StateWishes() if wishes is None else wishes
    closed = closed_form_asked(learner)
    if closed is not None:
        return _fit_signed(prepared, how, wishes, closed, groups)
    named, along = wishes.named(prepared.slice), wishes.along(prepared.slice)
    chain, sequences = Chain(prepared.slice, prepared.columns, {}), prepared.sequences
    layout = chain.layout(sequences.holes())
    learned = learn_as_told(learner, layout, sequences, how, rng)
    if not learned.converged:
        warn(
            f"learning stopped after {len(learned.history)} steps before it came to rest. Raise "
            "max_iter.",
            ConvergenceWarning,
        )
    own: ByName[Cell] | None = getattr(learner, "known", None)
    known = how.known if own is None else own
    fixed = read_known(layout, known).pinned
    counts, _, _ = chain_estep(wire_groups(layout, sequences), learned.tables)
    order = latent_orders(layout, counts, fixed, along)
    bars = None
    if groups:
        prior = prior_as_told(learner, layout, sequences, how)
        found = replicate_chain(layout, sequences, prior, learned.tables, groups, rng)
        bars = found.changed(lambda x: renamed(prepared.slice, x, order))
    tables, counts = (renamed(prepared.slice, x, order) for x in (learned.tables, counts))
    kept = replace(prepared.naming, lengths=None, blocks=False, cut=False)
    fitted = replace(learned, tables=tables)
    told = replace(chain, tables=tables, named=named)
    return FittedChain(told, fitted, kept, prepared.step, counts, None, bars)


def _fit_signed(
    prepared: Prepared, how: ChainLearning, wishes: StateWishes, regularize: bool, groups: int
) -> FittedChain:
    """The closed form: a predictive state without names, and no tables."""
    for name, value in (
        ("known", how.known), ("order_by", wishes.order_by), ("name_states", wishes.name_states),
        ("error_bars", groups or None),
    ):  # fmt: skip
        if value is not None:
            raise DataError(
                f"the closed form has no tables and no named states, so that {name}= has nothing "
                "to act on. Leave it out, or fit with learner=None."
            )
    chain, sequences = Chain(prepared.slice, prepared.columns, {}), prepared.sequences
    signed = learn_signed(chain.layout(sequences.holes()), sequences, regularize)
    level = float(signed_scores(chain, signed, sequences).sum())
    kept = replace(prepared.naming, lengths=None, blocks=False, cut=False)
    learned = LearnedChain({}, "closed form", True, (), level)
    return FittedChain(chain, learned, kept, prepared.step, None, signed)


def _check_names(rows: TableRows, slice_: Slice, naming: Naming) -> None:
    for name in [slice_.names[v] for v in slice_.told]:
        if name not in rows.names:
            what = "The slice names it: add the column, or name it in latents= if it is hidden."
            raise UnknownNameError("column", name, rows.names, what)
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


def latent_orders(
    layout: ChainLayout, counts: Tables, fixed: frozenset[int], along: Mapping[int, int]
) -> dict[int, Codes]:
    """The states of every latent by size, the largest first, or along the mean of a column.

    Latents of `fixed` stay: what is known of them tells their states by number.
    """
    found = {}
    for v in sorted(layout.slice.latent - fixed):
        if v in along:
            key = column_means(layout, counts, v, along[v])
        else:
            key = -np.round(state_counts(layout, counts, v), 6)
        found[v] = np.argsort(key, kind="stable")
    return found


def state_counts(layout: ChainLayout, counts: Tables, v: int) -> Array:
    """How often each state of a variable is expected."""
    size = np.zeros(layout.sizes[v])
    for n, family in enumerate(layout.families):
        if family.variable == v:
            size += counts[n].reshape(-1, len(size)).sum(axis=0)
    return size


def column_means(layout: ChainLayout, counts: Tables, v: int, column: int) -> Array:
    """The mean of a column in every state of a latent that tells it; of states, of their codes."""
    total = np.zeros((layout.sizes[v], 2))
    for n, family in enumerate(layout.families):
        if family.variable != column or (v, 0) not in family.parents:
            continue
        rows = np.moveaxis(counts[n], family.parents.index((v, 0)), 0)
        rows = rows.reshape(len(rows), -1, rows.shape[-1]).sum(axis=1)
        codes = np.arange(rows.shape[-1])
        discrete = np.stack([rows.sum(axis=1), rows @ codes], axis=1)
        total += discrete if layout.sizes[column] else rows[:, :2]
    if not total.any():
        names = layout.slice.names
        raise DataError(
            f"the states of {names[v]!r} cannot go along {names[column]!r}, which it does not tell "
            "in its own step. Name a column that it tells in order_by=."
        )
    return np.asarray(total[:, 1] / np.maximum(total[:, 0], 1e-300))


def renamed(slice_: Slice, tables: Tables, orders: Mapping[int, Codes]) -> dict[int, Array]:
    """Tables in which state k of a latent is what state order[k] was."""
    found = dict(tables)
    for v, order in orders.items():
        found = renamed_states(slice_, found, v, order)
    return found


def renamed_states(slice_: Slice, tables: Tables, v: int, order: Codes) -> dict[int, Array]:
    """Tables in which state k of variable v is what state order[k] was."""
    found = {}
    for n, family in enumerate(families_of(slice_)):
        table = tables[n]
        for axis, (u, _) in enumerate(family.parents):
            if u == v:
                table = table.take(order, axis=axis)
        found[n] = table.take(order, axis=-1) if family.variable == v else table
    return found

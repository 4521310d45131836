"""The one road from a table to what is learned from it: open (opened_table.py), plan, learn, warn.

Every table takes it, in memory or not, and everyone who learns: `fit`, `partial_fit`, `freeze`,
`LatentClassifier` and the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast, final

import numpy as np

from latentia.assess.jackknife import Replicates
from latentia.assess.without_groups import check_all_discrete, replicate_once
from latentia.closed_form.state_counts import binned, class_states
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.table_rows import (
    constant_columns,
    missing_shares,
)
from latentia.errors import DataError, PlanError
from latentia.inference.operators import Operators
from latentia.linear_algebra import one_thread, threads_of_products
from latentia.model.by_content import turn
from latentia.model.class_counts import (
    CLASS_SAMPLE,
    count_states,
    counted_class,
    counted_latents,
    is_class,
)
from latentia.model.learners import has_column_parents, tables_instead
from latentia.model.mechanism import note_holes
from latentia.model.mixed_plans import (
    bell_columns,
    has_continuous,
    level_columns,
    missed_levels,
    no_dense_parents,
    prepare_mixed,
)
from latentia.model.notices import (
    note_constant,
    note_doubts,
    note_independent,
    note_left_out,
    note_plan,
    note_states,
    note_unfinished,
)
from latentia.model.opened_table import Opened
from latentia.model.specification import columns_of
from latentia.networks.learner import (
    GraphLearner,
    Learner,
    MixedLearner,
    NamingLearner,
    OnPieces,
    freeze_learner,
)
from latentia.networks.tables import column_plan
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.kept_plans import plan_again
from latentia.structure.plan import Plan
from latentia.structure.renumbering import numbered_as, plan_numbered_as
from latentia.structure.templates import latent_class
from latentia.typing import Label

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Training:
    """A plan and the rows to learn from, encoded by its columns."""

    graph: LatentGraph  # with the numbers of states of all variables
    plan: Plan
    learner: Learner  # as given, or the one that is taken for this graph
    columns: tuple[Column, ...]
    source: Source  # all rows
    first: Source  # the same, or a pilot of rows that can be read once
    once: bool
    missing: Mapping[Label, float]  # share of missing cells per column
    constant: tuple[Label, ...]  # columns with a single value
    indicators: Mapping[Label, Label] = field(default_factory=dict)  # of missing cells
    counted: tuple[Label, ...] = ()  # latents whose numbers of states come from the rows


def plan_training(
    opened: Opened,
    learner: Learner,
    bent: Collection[Label] = (),
    planned: bool = False,
) -> Training:
    """Numbers of states where they are not stated, the plan, and rows on its columns.

    `bent` are columns that Gaussian leaves need on a curve. Models that are `planned` are made by
    the learner as it was given, to be learned on.
    """
    if has_continuous(opened.columns):
        first = partial(opened.first, opened.columns)
        plan, columns, learner = plan_continuous(opened, learner, first, bent, planned)
        graph, pilot = plan.tables_of or plan.graph, opened.first(columns)
    else:
        columns, pilot = opened.columns, opened.first(opened.columns)
        graph = counted_graph(opened.graph, columns, pilot, opened.counted)
        if planned:
            plan = plan_for(graph, learner)
        else:
            plan, learner = choose_road(graph, learner, opened)
    source = opened.source(columns) if opened.rows.once else pilot
    flat = tuple(constant_columns(opened.seen))
    gaps = missing_shares(opened.seen)
    once, told = opened.rows.once, opened.indicators
    given = opened.graph
    free = {given.names[v] for v in given.latent if opened.counted or given.states[v] is None}
    counted = tuple(name for name in graph.names if name in free)
    return Training(graph, plan, learner, columns, source, pilot, once, gaps, flat, told, counted)


def place_columns(opened: Opened, learner: Learner) -> tuple[Column, ...]:
    """The columns on the grids that the learner wants."""
    if not has_continuous(opened.columns):
        return opened.columns
    return plan_continuous(opened, learner, partial(opened.first, opened.columns), planned=True)[1]


def counted_graph(
    graph: LatentGraph,
    columns: Sequence[Column],
    first: Source,
    counted: bool,
    quickly: bool = False,
) -> LatentGraph:
    """The graph of discrete columns; numbers of states that are not stated come from the rows.

    `quickly`: by the closed form alone, without trials on rows held out.
    """
    names, sizes = columns_of(graph), [c.cells for c in columns]
    if counted:
        graph = latent_class(names, None)
    known = relevant(graph.with_states(dict(zip(names, sizes, strict=True))))
    unknown = [v for v in sorted(known.latent) if known.states[v] is None]
    if len(unknown) != 1 or not is_class(known, unknown[0]):
        return count_states(known, first)
    (v,) = unknown
    found = class_states(sizes, first) if counted else count_states(known, first).states[v] or 1
    if not quickly:
        found = counted_class(known, v, first, found)
    return known.with_states({known.names[v]: found})


def choose_road(graph: LatentGraph, learner: Learner, opened: Opened) -> tuple[Plan, Learner]:
    """A plan for the learner; or that of tables, which answer where columns are parents.

    They answer, too, where no plan can be made: what is too wide for messages need not be too wide
    for tables.
    """
    own = None if opened.rows.once else _on_tables(learner, graph)
    if own is not None and has_column_parents(graph):
        return column_plan(graph), own
    try:
        return plan_for(graph, learner), learner
    except PlanError:
        if own is None:
            raise
    return column_plan(graph), own


def _on_tables(learner: Learner, graph: LatentGraph) -> Learner | None:
    """The learner as one of tables without a plan, if it can be."""
    if learner.abilities.pieces and graph.directed:
        return OnPieces(learner)
    return tables_instead(learner, graph)


def plan_for(graph: LatentGraph, learner: Learner) -> Plan:
    """What the learner needs: a plan of the graph, or one of the columns by themselves."""
    if not learner.abilities.plans:
        return column_plan(graph)
    return plan_again(graph, learner.abilities.groups or ())


def plan_continuous(
    opened: Opened,
    learner: Learner,
    first: Callable[[], Source],
    bent: Collection[Label] = (),
    planned: bool = False,
) -> tuple[Plan, tuple[Column, ...], Learner]:
    """The plan of mixed columns, these on their grids, and who learns: tables, as in choose_road.

    A learner that needs no plan has the columns by themselves; models that are `planned` are made
    by the learner as it was given.
    """
    if not learner.abilities.mixed:
        name = next(c.name for c in opened.columns if c.continuous)
        raise DataError(
            f"{type(learner).__name__} learns from discrete columns only; {name!r} is continuous. "
            "Bin it, or use learner='pbp'."
        )
    if opened.rows.once:
        raise DataError(
            "continuous columns are read several times, these rows can be read once. Pass a "
            "function that opens them anew, or write them to a Parquet file and pass its path."
        )
    graph = opened.graph
    if not learner.abilities.plans:
        return _on_cells(opened, learner, first, bent)
    leaves = not planned and no_dense_parents(graph, opened.columns)
    able = learner.abilities.mixed_pieces or not learner.abilities.pieces
    own = _on_tables(learner, graph) if leaves and able else None
    if own is not None and has_column_parents(graph) and not learner.abilities.pieces:
        return _on_cells(opened, own, first, bent)
    if opened.counted:
        free = learner.abilities.chooses_ranks  # no need to count states then
        count = None if free else _class_states(opened.columns, first())
        graph = latent_class(columns_of(graph), count)
    try:
        seen = opened.seen.columns
        return *prepare_mixed(graph, opened.columns, learner.abilities, seen, bent), learner
    except PlanError as error:
        sized = all(graph.states[v] is not None for v in graph.latent)
        if own is not None and (
            sized or learner.abilities.compares
        ):  # EM is told numbers of states
            return _on_cells(opened, own, first, bent)
        if not graph.directed:
            raise
        raise PlanError(f"{error} {_why_planned(opened.columns)}") from error


def _on_cells(
    opened: Opened, learner: Learner, first: Callable[[], Source], bent: Collection[Label]
) -> tuple[Plan, tuple[Column, ...], Learner]:
    """Tables need no plan; those with Gaussians need states above, and columns that suit them."""
    graph, columns, able = opened.graph, opened.columns, learner.abilities
    if able.gaussian:
        if opened.counted:
            graph = latent_class(columns_of(graph), _class_states(columns, first()))
        graph = counted_latents(graph, columns, first())
        sized = graph.with_states({c.name: c.cells for c in columns})
        columns = tuple(bell_columns(sized, columns, able, opened.seen.columns, bent))
    return column_plan(graph.with_states({c.name: c.cells for c in columns})), columns, learner


def _why_planned(columns: Sequence[Column]) -> str:
    """A way on where the whole graph is too wide, and discrete columns would not need it whole."""
    names = ", ".join(str(c.name) for c in columns if c.continuous)
    return (
        f"The whole graph is planned because of continuous columns ({names}): cut these into a few "
        "values each (pandas.qcut), and tables are learned and asked piece by piece."
    )


def _class_states(columns: Sequence[Column], first: Source) -> int:
    """States of a latent class, continuous columns counted in bins; two at least."""
    some = first.sample(CLASS_SAMPLE, np.random.default_rng(0))
    rows, sizes = binned(some, [c.cells for c in columns])
    return max(class_states(sizes, LocalRows(rows)), 2)


def learn_training(
    training: Training, groups: int = 0, latents: bool = False
) -> tuple[Operators, Replicates | None]:
    """What the learner makes of the rows; of rows that are read once, without each group, too.

    With `latents` they are to have names, whatever answers for the columns.
    """
    plan, columns, source = training.plan, training.columns, training.source
    learner = training.learner
    if groups:
        check_all_discrete(columns)
    if has_continuous(columns):
        with one_thread():
            return cast("MixedLearner", learner).learn_mixed(plan, columns, source), None
    if not training.once:
        found = _learned(training, latents and not has_column_parents(training.graph))
        return found.told(notes=_on_stated(found.provenance.notes, training.counted)), None
    if groups:  # one pass for both
        replicates = replicate_once(learner, plan, training.first, source, groups)
        return replicates.whole, replicates
    frozen = freeze_learner(learner, plan, training.first)
    return frozen.solve(source.fold(frozen.summary)), None


def _on_stated(notes: Sequence[str], counted: Collection[Label]) -> tuple[str, ...]:
    """Notes on numbers of states that were stated: who left one out is not told to do so."""
    heads = tuple(f"latent {name!r} has " for name in counted)
    return tuple(note for note in notes if not note.startswith(heads))


def learn_opened(
    opened: Opened,
    learner: Learner,
    learn: Callable[[Training], tuple[Operators, T]],
    planned: bool = False,
) -> tuple[Training, Operators, T]:
    """Plan and learn, in the order of contents, unless the model is `planned` to be learned on."""
    turned = None if planned else turned_opened(opened, learner)
    if turned is None:
        return _learn_levelled(opened, learner, learn, planned)
    training, operators, rest = _learn_levelled(turned, learner, learn, planned)
    return *turned_back(turned, training, operators), rest


def turned_opened(opened: Opened, learner: Learner) -> Opened | None:
    """The table in the order of its contents, where its rows are few and its graph is given."""
    if opened.rows.once or opened.found:
        return None
    first = opened.first(opened.columns)
    turned = turn(opened.graph, opened.columns, first, opened.counted_rows, learner.abilities)
    if turned is None:
        return None
    return replace(
        opened, graph=turned.graph, columns=turned.own_columns(opened.columns), turned=turned
    )


def turned_back(
    turned: Opened, training: Training, operators: Operators
) -> tuple[Training, Operators]:
    """What was learned as the user numbers it, and the rows that it was learned from."""
    assert turned.turned is not None
    like, columns = turned.turned.given, turned.turned.given_columns(training.columns)
    found, source = turned.turned.back(operators, columns), turned.as_given(columns)
    alike = training.plan == operators.plan
    plan = found.plan if alike else plan_numbered_as(training.plan, like)
    graph = numbered_as(training.graph, like)
    back = replace(training, graph=graph, plan=plan, columns=columns, source=source, first=source)
    return back, found


def _learn_levelled(
    opened: Opened,
    learner: Learner,
    learn: Callable[[Training], tuple[Operators, T]],
    planned: bool,
) -> tuple[Training, Operators, T]:
    """Plan and learn; again, where Gaussian leaves missed the levels of columns, on curves.

    A latent may not tell the bells apart that a column is made of. Kept is what misses least; what
    it misses still is made up for by the scale, unless the model is to be learned on.
    """
    training = plan_training(opened, learner, planned=planned)
    operators, rest = learn(training)
    missed = missed_levels(operators, training.columns, opened.seen.columns)
    if not missed:
        kept = planned or not operators.targets
        return (training if kept else _levelled(opened, training, operators)), operators, rest
    bent = [name for name, share in missed.items() if share > 1.0]
    other = plan_training(opened, learner, bent, planned) if bent else training
    if other.columns != training.columns:
        better, own = learn(other)
        again = missed_levels(better, other.columns, opened.seen.columns)
        if max(again.values()) < max(missed.values()):
            training, operators, rest, missed = other, better, own, again
    return (training if planned else _levelled(opened, training, operators)), operators, rest


def _levelled(opened: Opened, training: Training, operators: Operators) -> Training:
    """Columns that are missed still, on curves on which what was learned meets their levels."""
    tied = {name for group in training.learner.abilities.tied or () for name in group}
    sketches = opened.seen.columns
    columns = level_columns(operators, training.columns, sketches, training.source, tied)
    if columns == training.columns:
        return training
    pilot = opened.first(columns)
    source = opened.source(columns) if training.once else pilot
    return replace(training, columns=columns, source=source, first=pilot)


def _learned(training: Training, latents: bool) -> Operators:
    learner, plan, source = training.learner, training.plan, training.source
    with threads_of_products(sum(c.cells for c in training.columns)):
        if not learner.abilities.plans:
            return cast("GraphLearner", learner).learn_graph(training.graph, source)
        if latents and learner.abilities.names_latents:
            return cast("NamingLearner", learner).learn_with_latents(plan, source)
        return learner.learn(plan, source)


def warn_of(training: Training, operators: Operators, learner: Learner) -> None:
    """Everything that a user should be told of a fit, whatever the table."""
    note_constant(training.constant)
    note_plan(training.plan.notes)
    note_unfinished(operators, learner)
    note_independent(operators)
    note_left_out(operators)
    note_states(operators)
    note_doubts(operators)
    if any(share > 0 for share in training.missing.values()):
        gaps, told = training.missing, training.indicators
        note_holes(training.columns, gaps, training.first, operators.valid, told)


def learned_plan(training: Training, operators: Operators) -> Plan:
    """What was planned; a learner of continuous columns may have found its ranks."""
    return operators.plan if has_continuous(training.columns) else training.plan

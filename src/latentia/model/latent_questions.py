"""Questions about latents by name, alone or together with columns, to a model with tables.

A latent is a column that no row has: its states are numbers, or have the names that were given.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources.table import Table
from latentia.errors import EvidenceError
from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density, as_answer
from latentia.inference.questions import one_row
from latentia.model.state_names import checked_names
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, ByName, Cell, Codes, Label

if TYPE_CHECKING:
    from latentia.assess.jackknife import Replicates
    from latentia.exact.latent_rows import AskingLatent
    from latentia.inference.row_answers import Found

T = TypeVar("T")

StateNames = ByName[Sequence[Cell]]


@final
@dataclass(frozen=True, slots=True)
class OwnTables:
    """The tables of the user's own graph, and every variable of it as a column, latents too."""

    answers: TableAnswers  # continuous columns have the cells of their grids as states
    leaves: Mapping[int, Array]  # Gaussian leaves of continuous columns
    variables: tuple[Column, ...]  # in the order of the graph

    @property
    def graph(self) -> LatentGraph:
        return self.answers.graph

    @property
    def mixed(self) -> bool:
        """Is one of the columns continuous?"""
        return any(c.continuous for c in self.variables)

    @property
    def hidden(self) -> tuple[Label, ...]:
        """The latents by name."""
        return tuple(self.graph.names[v] for v in sorted(self.graph.latent))

    def latent(self, name: Label) -> Column:
        """A latent as a column."""
        return self.variables[self.graph.index(name)]


@final
@dataclass(frozen=True, slots=True)
class _Question:
    """One row of evidence, as a network that has seen what is continuous."""

    answers: TableAnswers
    row: Codes  # (variables,), -1 where unknown
    soft: Mapping[int, Array]  # variable -> likelihood of its states
    shift: float  # to add to logarithms of the evidence


# --- the tables -----------------------------------------------------------------------------------


def own_answers(plan: Plan, operators: Operators, columns: Sequence[Column]) -> TableAnswers | None:
    """Exact answers of the user's own graph; None for models without tables of it."""
    if any(c.continuous for c in columns):
        return None
    own = own_tables(plan, operators, columns)
    return None if own is None else own.answers


def kept_tables(
    plan: Plan, operators: Operators, columns: Sequence[Column], name_states: StateNames | None
) -> OwnTables | None:
    """`own_tables` of the same objects as one of the last times: made once."""
    return _kept(own_tables, plan, operators, columns, name_states)


def kept_tables_without(
    replicates: Replicates, plan: Plan, columns: Sequence[Column], name_states: StateNames | None
) -> list[OwnTables]:
    """The tables of all rows but one group each; none if the replicates have no tables."""
    return _kept(_tables_without, replicates, plan, columns, name_states)


def _tables_without(
    replicates: Replicates, plan: Plan, columns: Sequence[Column], name_states: StateNames | None
) -> list[OwnTables]:
    found = [own_tables(plan, each, columns, name_states) for each in replicates.without]
    return [each for each in found if each is not None]


def _kept(make: Callable[..., T], *asked: object) -> T:
    """What was made of these very objects; the last few are kept.

    A model is asked again and again, from several threads at once, and must not change when it
    is asked: what is looked through is a copy, for another thread may append meanwhile.
    """
    with _KEEPING:
        looked_at = tuple(_KEPT)
    for objects, found in looked_at:
        if len(objects) == 1 + len(asked) and all(
            a is b for a, b in zip(objects, (make, *asked), strict=True)
        ):
            kept: T = found
            return kept
    made = make(*asked)
    with _KEEPING:
        _KEPT.append(((make, *asked), made))
    return made


_KEEPING = Lock()
_KEPT: deque[tuple[tuple[Cell, ...], Any]] = deque(maxlen=6)


def own_tables(
    plan: Plan,
    operators: Operators,
    columns: Sequence[Column],
    name_states: StateNames | None = None,
) -> OwnTables | None:
    """The same with continuous columns, and with names of the latents' states."""
    own = operators.own_tables(plan.graph)
    if own is None:
        return None
    graph, tables = own
    smooth = any(c.continuous for c in columns) and not operators.gaussians
    if not graph.directed or (smooth and any(_of_separator(graph.names[v]) for v in graph.latent)):
        return None
    variables = variable_columns(graph, columns, name_states)
    cpts = {graph.names[v]: table for v, table in tables.items()}
    names = {c.name: list(c.labels) for c in variables if not c.continuous}
    return OwnTables(TableAnswers(graph, cpts, state_names=names), operators.gaussians, variables)


def _of_separator(name: Label) -> bool:
    """Whether no user gave this name: the states of several latents together are S3(A,B)."""
    return isinstance(name, str) and re.fullmatch(r"S\d+\(.*\)", name, re.DOTALL) is not None


def variable_columns(
    graph: LatentGraph, columns: Sequence[Column], name_states: StateNames | None = None
) -> tuple[Column, ...]:
    """Every variable of the graph as a column; latents have numbers as states, or given names."""
    observed = dict(zip(graph.observed, columns, strict=True))
    given = checked_names(graph, name_states)
    found: list[Column] = []
    for v, name in enumerate(graph.names):
        if v in observed:
            found.append(observed[v])
            continue
        count = graph.states[v] or 1
        found.append(DiscreteColumn(name, tuple(given.get(name, range(count)))))
    return tuple(found)


def hidden_names(graph: LatentGraph, names: Iterable[Label]) -> list[Label]:
    """Those of the names that are latents."""
    latents = {graph.names[v] for v in graph.latent}
    return [name for name in names if name in latents]


def check_can_tell(own: object, hidden: Sequence[Label], learner: str, why: str = "") -> None:
    """An error for a model that knows no states of latents."""
    if own is None:
        raise EvidenceError(
            f"{hidden[0]!r} is latent, and this model, learned by {learner}, has no table of it"
            + (f" ({why.rstrip('.')})" if why else "")
            + ": only columns can be asked for or observed. Use learner='tables' or 'em', or the "
            "default on rows that can be read again: a frame, a file, a function that opens them."
        )


# --- questions ------------------------------------------------------------------------------------


def query_own(
    own: OwnTables,
    names: Sequence[Label],
    evidence: ByName[Cell],
    soft: ByName[Cell],
    others: Sequence[OwnTables] = (),
    confidence: float | None = None,
) -> Posterior | Density:
    """P(names | evidence) by the graph's own tables.

    With a confidence: intervals from `others`, the tables without one group of rows each.
    """
    from latentia.assess.intervals import OF_LATENTS, intervals

    table, log = _answered(own, names, evidence, soft)
    shown = {
        **evidence,
        **{k: dict(v) if isinstance(v, Mapping) else "soft" for k, v in soft.items()},
    }
    columns = [own.variables[own.graph.index(name)] for name in names]
    ends: tuple[Array | None, Array | None] = (None, None)
    if confidence is not None and not (len(columns) == 1 and columns[0].continuous):
        replicas = (_answered(each, names, evidence, soft)[0] for each in others)
        ends = intervals(table, table, replicas, confidence, OF_LATENTS)
    return as_answer(columns, table, log, 0.0, shown, ends=ends, confidence=confidence)


def sampled_own(
    own: OwnTables, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
) -> Posterior:
    """`query_own` with standard errors, by drawing where an exact answer is too wide."""
    asked = _read(own, names, evidence, soft)
    row, likelihoods = asked.row[None], _by_name(asked)
    found = asked.answers.sampled(list(names), row, likelihoods, rng=0)
    log = float(asked.answers.sampled_log_evidence(row, likelihoods, rng=0)[0]) + asked.shift
    states = tuple(own.variables[own.graph.index(name)].labels for name in names)
    shown = {**evidence, **soft}
    return Posterior(
        tuple(names), states, found.table[0], log, 0.0, shown, standard_error=found.error[0]
    )


def check_drawn_alone(approximate: bool, **others: object) -> None:
    """Answers that are drawn have their own errors, and know no interventions yet."""
    for name, value in others.items():
        if approximate and value is not None:
            raise EvidenceError(f"approximate=True and {name}=… are two questions. Leave one out.")


def check_asked_alone(**others: object) -> None:
    """Covariates, logits and lines answer plain questions."""
    for name, value in others.items():
        if value is not None:
            raise EvidenceError(
                f"{name}=… is not made for models with covariates or continuous parents. Leave it "
                "out."
            )


def tables_to_draw(own: OwnTables | None, learner: str) -> OwnTables:
    """Tables that can be drawn from, or an error for models without."""
    if own is None or own.mixed:
        raise EvidenceError(
            f"approximate answers are drawn from the graph's own tables of discrete columns; this "
            f"model, learned by {learner}, has none. Leave approximate out, or use "
            "learner='tables'."
        )
    return own


def _answered(
    own: OwnTables, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
) -> tuple[Array, float]:
    """P(names | evidence), and log P(evidence); one variable of a forest without any wiring."""
    from latentia.exact.one_in_forest import one_in_forest

    asked = _read(own, names, evidence, soft)
    answers = asked.answers
    if len(names) == 1:
        place = answers.graph.index(names[0])
        quick = one_in_forest(answers.graph, answers.tables, asked.row, asked.soft, place)
        if quick is not None:
            return quick[0], quick[1] + asked.shift
    row, likelihoods = asked.row[None], _by_name(asked)
    table = np.asarray(answers.joint(list(names), row, likelihoods)[0])
    return table, float(answers.log_evidence(row, likelihoods)[0]) + asked.shift


def best_own(
    own: OwnTables, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
) -> Assignment:
    """The most probable joint state of the names, however many; the rest is summed out."""
    from latentia.exact.max_product import max_product_states
    from latentia.exact.tabular_model import check_rows_possible

    asked = _read(own, names, evidence, soft)
    graph, tables = asked.answers.graph, asked.answers.tables
    number = {name: v for v, name in enumerate(graph.names)}
    places = [number[name] for name in names]
    found = max_product_states(graph, tables, asked.row, asked.soft, places)
    check_rows_possible(np.array([found.log_evidence]))
    columns = [own.variables[v] for v in places]
    values = {c.name: c.labels[k] for c, k in zip(columns, found.codes, strict=True)}
    return Assignment(values, min(found.log_joint - found.log_evidence, 0.0), True)


def _read(
    own: OwnTables, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
) -> _Question:
    """Codes of what is seen; continuous columns that are seen become likelihoods of parents.

    Those with children (where a plan has turned arrows round) become likelihoods of their cells.
    """
    from latentia.exact.own_network import between_cells
    from latentia.exact.seen_densities import log_density, log_of_likelihood, with_seen

    columns, graph, tables = own.variables, own.graph, own.answers.tables
    for name in {*names}.difference(graph.names):
        graph.index(name)  # which tells that there is none
    codes, likelihoods = one_row(columns, graph.names, names, evidence, soft)
    row = np.full(len(columns), -1, dtype=np.int64)
    discrete: dict[int, Array] = {}
    seen: dict[int, Array] = {}
    shift, above = 0.0, {a for a, _ in graph.edges}
    for v, column in enumerate(columns):
        code, likelihood = codes[v], likelihoods.get(v)
        if isinstance(column, ContinuousColumn):
            if code is not None:
                shift += float(column.log_factor(column.told(evidence[column.name]))[0])
                likelihood = between_cells(*column.corners(np.asarray(code)), column.cells).T
            if v not in above and code is not None:
                seen[v] = log_density(column, tables[v], own.leaves.get(v), float(code[0]))
            elif v not in above and likelihood is not None:
                seen[v] = log_of_likelihood(tables[v], likelihood[:, 0])
        elif code is not None:
            row[v] = int(code[0])
        if likelihood is not None and v not in seen and row[v] < 0:
            discrete[v] = likelihood[:, 0]
    if not seen:
        return _Question(own.answers, row, discrete, shift)
    row[list(seen)] = 0
    wide, changed, more = with_seen(graph, tables, seen)
    answers = TableAnswers(wide, {graph.names[v]: table for v, table in changed.items()})
    return _Question(answers, row, discrete, shift + more)


def _by_name(asked: _Question) -> dict[Label, Array]:
    return {asked.answers.names[v]: x for v, x in asked.soft.items()}


# --- rows -----------------------------------------------------------------------------------------


def asking_latent(
    own: OwnTables, columns: Sequence[Column], name: Label, unknown: str
) -> AskingLatent:
    """A latent, ready to be asked about rows of any table."""
    from latentia.exact.latent_rows import AskingLatent
    from latentia.exact.own_network import OwnNetwork

    network = None if own.leaves else OwnNetwork(own.answers, ())
    return AskingLatent(
        own.graph,
        tuple(columns),
        own.answers.tables,
        own.leaves,
        own.latent(name),
        unknown,
        network,
    )


def membership_bars(
    asking: AskingLatent, others: Sequence[AskingLatent], confidence: float, table: Table
) -> tuple[Found, Found, Found]:
    """Memberships of a block of rows, and both ends of their intervals."""
    from latentia.assess.intervals import OF_LATENTS, intervals

    found = asking.memberships(table)
    p = np.stack(list(found.values()))
    replicas = (np.stack(list(each.memberships(table).values())) for each in others)
    lower, upper = intervals(p, p, replicas, confidence, OF_LATENTS)
    return (
        found,
        dict(zip(found, lower, strict=True)),
        dict(zip(found, upper, strict=True)),
    )


def draw_own(own: OwnTables, n: int, rng: np.random.Generator) -> dict[Label, Cell]:
    """n rows of all variables, latents first: {name: values}."""
    codes = own.answers.sample(n, rng, latents=True)
    hidden, seen = sorted(own.graph.latent), own.graph.observed
    return {own.graph.names[v]: own.variables[v].draw(codes[:, v], rng) for v in (*hidden, *seen)}

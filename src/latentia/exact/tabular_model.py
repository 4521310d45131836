"""TabularModel: known tables, exact answers (Shafer-Shenoy on the library's own junction trees)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import numpy as np

from latentia import doors
from latentia.errors import DataError, EvidenceError, GraphError, PlanError, UnknownNameError
from latentia.exact.reading_evidence import (
    RowsGiven,
    Soft,
    StateCodes,
    labels_of_all,
    log_likelihoods,
    read_codes,
    with_latents,
)
from latentia.exact.reading_tables import checked_state_names, read_tables
from latentia.exact.shafer_shenoy import FactorNetwork, Scope, collect_evidence, infer, wire
from latentia.exact.surgery import check_apart, check_can_be_set, cut_tables, read_do
from latentia.inference.posterior import Assignment, Posterior
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.typing import Array, ByName, Cell, FilePath, Given, Label, Names

if TYPE_CHECKING:
    from pathlib import Path

    from latentia.exact.sensitivity import Sensitivity
    from latentia.explore.local_server import PageServer
    from latentia.model.effects import Effect
    from latentia.model.explaining import Explanation

MANY = 64  # rows from which on it pays to look for equal ones, and to wire for this evidence


@final
@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TabularModel:
    """P(x) = ∏_v P(x_v | parents of v) from known CPTs, or P(x) ∝ ∏ potentials; exact inference.

    `cpts`, directed graph: {variable: array, axes (its parents in the order given, itself)}.
    Undirected: {tuple of variables that form a clique: array of potentials, an axis for each}.
    `state_names`: {variable: names of its states, in the order of codes 0, 1, …}, for some or all.

    Evidence: {variable: state} for one row, None for one without any; for many rows
    {variable: [state, …]}, a list of dicts or a data frame, None where unobserved; or codes
    (rows, variables), all variables in the graph's order with latents, -1 where unobserved. States
    go by their names, those of variables without names by code. `soft`: {variable: likelihood of
    its states, (states,) or (rows, states), or {state: likelihood}}, multiplied onto it.

    >>> model = TabularModel(
    ...     "H->X",
    ...     {"H": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]]},
    ...     latents=["H"],
    ...     state_names={"X": ["no", "yes"]},
    ... )
    >>> answer = model.query("H", {"X": "yes"})
    >>> round(answer[1], 3), np.asarray(answer).round(3)
    (0.889, array([0.111, 0.889]))
    """

    graph: LatentGraph  # with the number of states of every variable
    tables: Mapping[Scope, Array]  # axes of a CPT: parents, variable
    order: str
    network: FactorNetwork
    log_partition: float  # log Σ_x ∏ tables: 0 for a directed graph
    state_names: Mapping[Label, tuple[Hashable, ...]]  # of the variables whose states have names

    def __init__(
        self,
        graph: GraphLike,
        cpts: ByName[Cell],
        latents: Latents = None,
        order: str = "min_fill",
        state_names: ByName[Sequence[Cell]] | None = None,
    ) -> None:
        read, tables = read_tables(as_graph(graph, latents), cpts)
        network = wire(read, tables, order)
        partition = 0.0 if read.directed else float(collect_evidence(network, {})[1][0])
        if partition == -math.inf:
            raise DataError(
                "the potentials contradict each other: every joint state has probability 0. "
                "Expected a state that all of them allow; look for zeros that exclude each other."
            )
        for name, value in (
            ("graph", read),
            ("tables", MappingProxyType(tables)),
            ("order", order),
            ("network", network),
            ("log_partition", partition),
            ("state_names", MappingProxyType(checked_state_names(read, state_names))),
        ):
            object.__setattr__(self, name, value)  # as a frozen dataclass does it

    def __reduce__(self) -> tuple[object, ...]:
        return TabularModel, (self.graph, self.cpts, None, self.order, dict(self.state_names))

    @property
    def names(self) -> tuple[Label, ...]:
        """All variables, latents too, in the graph's order: the columns of evidence."""
        return self.graph.names

    @property
    def states(self) -> tuple[int, ...]:
        """The number of states of every variable."""
        return tuple(count or 1 for count in self.graph.states)

    @property
    def cpts(self) -> dict[Label, Array]:
        """The tables by name, as the constructor takes them."""
        if self.graph.directed:
            return {self.names[scope[-1]]: table for scope, table in self.tables.items()}
        return {tuple(self.names[v] for v in s): table for s, table in self.tables.items()}

    def __repr__(self) -> str:
        kind, hidden = "directed" if self.graph.directed else "undirected", len(self.graph.latent)
        shown = str(self.graph)
        sizes = [psi.size for psi in self.network.psi]
        widest = self.network.cliques[sizes.index(max(sizes))]
        cells = sum(table.size for table in self.tables.values())
        return (
            f"TabularModel: {len(self.graph.observed)} observables, {hidden} latents, {kind}\n"
            f"  graph    {shown if len(shown) <= 400 else shown[:400] + ' …'}\n"
            f"  tables   {len(self.tables)} with {cells:,} cells\n"
            f"  cliques  {len(sizes)}, the largest with {max(sizes):,} joint states: "
            f"{', '.join(printable(self.names[v]) for v in widest)}"
        )

    def log_evidence(self, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """log P(evidence), (rows,); -inf where it is impossible. Soft: log E[∏ likelihoods]."""
        return self._answer(self.network, evidence, soft, ())[0]

    def posteriors(
        self, evidence: RowsGiven = None, variables: Names | None = None, soft: Soft = None
    ) -> dict[Label, Array]:
        """P(variable | all evidence), {name: (rows, states)}; an observed one is certain."""
        asked = range(len(self.names)) if variables is None else numbers_of(self.names, variables)
        log_total, found = self._answer(self.network, evidence, soft, [(v,) for v in asked])
        check_rows_possible(log_total)
        return {self.names[v]: x for v, x in zip(asked, found, strict=True)}

    def joint(self, variables: Names, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """P(variables | evidence), (rows, states of the first, of the second, …)."""
        return self._joint(numbers_of(self.names, variables), evidence, soft)[1]

    def query(
        self,
        variables: Names,
        evidence: RowsGiven = None,
        soft: Soft = None,
        do: ByName[Cell] | None = None,
    ) -> Posterior:
        """P(variables | one row of evidence): by state name, and an array of all its cells.

        `do` sets variables by hand, ``do={"x": 2}``: they no longer listen to their parents.
        """
        asked = numbers_of(self.names, variables)
        if do is not None:
            check_apart(do, [self.names[v] for v in asked], evidence, soft)
            return replace(self.set_by_hand(do).query(variables, evidence, soft), do=dict(do))
        quick = self._quick(asked, evidence, soft) if len(asked) == 1 else None
        log_total, table = self._joint(asked, evidence, soft) if quick is None else quick
        if len(table) != 1:
            raise EvidenceError(
                f"query answers one row of evidence, got {len(table)}. Use joint or posteriors."
            )
        return Posterior(
            variables=tuple(self.names[v] for v in asked),
            states=tuple(labels_of_all(self, asked)),
            table=np.asarray(table[0]),
            log_evidence=float(log_total[0]),
            evidence=self._told(evidence, soft),
        )

    def set_by_hand(self, do: ByName[Cell]) -> TabularModel:
        """The model after an intervention, which does not know what it was before."""
        tables = {scope[-1]: table for scope, table in self.tables.items()}
        check_can_be_set(self.graph)
        graph, cpts = cut_tables(self.graph, tables, read_do(self, do))
        return TabularModel(graph, cpts, None, self.order, dict(self.state_names))

    def effect(
        self, treatment: Label, outcome: Label, evidence: ByName[Cell] | None = None, **how: Given
    ) -> Effect:
        """P(outcome | do treatment) for each of its states: see `LatentModel.effect`."""
        return doors.effect_of(self, treatment, outcome, evidence, **how)

    def map_query(
        self, variables: Names | None = None, evidence: RowsGiven = None, soft: Soft = None
    ) -> Assignment:
        """The most probable joint state of variables given one row; of all that is not observed.

        Exact, however many there are: what is not asked for is summed out, the rest maximised.
        """
        from latentia.exact.max_product import max_product_states

        check_directed(self.graph, "map_query")
        codes, weights = read_codes(self, evidence, soft)
        if len(codes) != 1:
            raise EvidenceError(f"map_query answers one row of evidence, got {len(codes)}.")
        hidden = [name for v, name in enumerate(self.names) if codes[0, v] < 0]
        asked = numbers_of(self.names, hidden if variables is None else variables)
        tables = {scope[-1]: table for scope, table in self.tables.items()}
        likelihoods = {v: x[0] for v, x in weights.items()}
        found = max_product_states(self.graph, tables, codes[0], likelihoods, asked)
        check_rows_possible(np.array([found.log_evidence]))
        told = labels_of_all(self, asked)
        labels = (own[k] for own, k in zip(told, found.codes, strict=True))
        values = dict(zip((self.names[v] for v in asked), labels, strict=True))
        return Assignment(values, min(found.log_joint - found.log_evidence, 0.0), True)

    def explain(self, target: Names, row: Cell, **how: Given) -> Explanation:
        """How far each piece of evidence has moved the answer: see `LatentModel.explain`."""
        return doors.explain_tables(self, target, row, **how)

    def sensitivity(
        self, target: Names, evidence: ByName[Cell] | None = None, **how: Given
    ) -> Sensitivity:
        """How an answer depends on the cells of tables: see `LatentModel.sensitivity`."""
        return doors.sensitivity_of_tables(self, target, evidence, **how)

    def joint_table(self, variables: Names) -> Array:
        """P(variables), (states of the first, of the second, …)."""
        return np.asarray(self.joint(variables)[0])

    def sample(
        self, n: int, rng: np.random.Generator | int | None = None, latents: bool = False
    ) -> StateCodes:
        """n independent rows of codes: (n, observables), or (n, all variables)."""
        from latentia.exact.drawing_rows import draw_rows, sample_tree

        if n < 0:
            raise DataError(f"expected a number of rows of 0 or more, got {n}.")
        generator = np.random.default_rng(rng)
        if self.graph.directed:
            tables = {scope[-1]: table for scope, table in self.tables.items()}
            codes = draw_rows(self.graph, tables, n, generator)
        else:
            codes = sample_tree(self.network, self.states, n, generator)
        return codes if latents else codes[:, self.graph.observed]

    def evidence(self, columns: object) -> StateCodes:
        """Codes (rows, observables), as `sample` gives them -> (rows, all variables)."""
        return with_latents(self, self.graph.observed, columns)

    def explore(self, to: FilePath | None = None, **options: Given) -> PageServer | Path:
        """A page to look at, as `LatentModel.explore` makes it: `to` a file, or else served."""
        return doors.explore(self, to, **options)

    def _joint(self, asked: Sequence[int], evidence: RowsGiven, soft: Soft) -> tuple[Array, Array]:
        """log P(evidence), (rows,), and P(asked | evidence), (rows, states …)."""
        scope = tuple(sorted(asked))
        network = wire(self.graph, self.tables, self.order, root=scope)
        log_total, (table,) = self._answer(network, evidence, soft, [scope])
        check_rows_possible(log_total)
        return log_total, table.transpose([0, *(1 + scope.index(v) for v in asked)])

    def _quick(
        self, asked: Sequence[int], evidence: RowsGiven, soft: Soft
    ) -> tuple[Array, Array] | None:
        """The same for one variable and one row, without any wiring; None: it is no forest."""
        from latentia.exact.one_in_forest import one_in_forest

        codes, weights = read_codes(self, evidence, soft)
        if len(codes) != 1 or not self.graph.directed:
            return None
        tables = {scope[-1]: table for scope, table in self.tables.items()}
        likelihoods = {v: x[0] for v, x in weights.items()}
        found = one_in_forest(self.graph, tables, codes[0], likelihoods, asked[0])
        return None if found is None else (np.array([found[1]]), found[0][None])

    def _told(self, evidence: RowsGiven, soft: Soft) -> dict[Label, Cell] | None:
        """What one row of evidence says, by state name; soft evidence as likelihoods."""
        codes, weights = read_codes(self, evidence, soft)
        seen = np.flatnonzero(codes[0] >= 0).tolist()
        found: dict[Label, Cell] = {
            self.names[v]: own[codes[0, v]]
            for v, own in zip(seen, labels_of_all(self, seen), strict=True)
        }
        found |= {self.names[v]: x[0].tolist() for v, x in weights.items()}
        return found or None

    def _answer(
        self, network: FactorNetwork, evidence: RowsGiven, soft: Soft, wanted: Sequence[Scope]
    ) -> tuple[Array, list[Array]]:
        """Every kind of row once, in plain numbers where that is safe, rows first."""
        from latentia.data.sources.memory import equal_rows

        codes, weights = read_codes(self, evidence, soft)
        if len(codes) < MANY or any(len(x) > 1 for x in weights.values()):
            return self._in_logs(network, codes, weights, wanted)
        first, place = equal_rows([c + 1 for c in codes.T], [m + 1 for m in self.states])
        log_evidence, tables = self._unlike(network, codes[first], weights, wanted)
        return log_evidence[place], [x[place] for x in tables]

    def _unlike(
        self,
        network: FactorNetwork,
        codes: StateCodes,
        weights: Mapping[int, Array],
        wanted: Sequence[Scope],
    ) -> tuple[Array, list[Array]]:
        """Rows that differ: `infer_rows`, and what underflows there in logs."""
        plain = self.graph.directed and not weights and all(len(scope) == 1 for scope in wanted)
        if not plain or len(codes) < MANY:
            return self._in_logs(network, codes, weights, wanted)
        from latentia.exact.conditioned import infer_rows

        try:
            tables = {scope[-1]: table for scope, table in self.tables.items()}
            log, found = infer_rows(self.graph, tables, codes, [v for (v,) in wanted])
        except PlanError:  # its cliques are others, and may be too large
            return self._in_logs(network, codes, weights, wanted)
        answers = [np.ascontiguousarray(x.T) for x in found]
        again = np.flatnonzero(np.isnan(log))
        if again.size:
            log[again], rest = self._in_logs(network, codes[again], weights, wanted)
            for x, y in zip(answers, rest, strict=True):
                x[again] = y
        return log, answers

    def _in_logs(
        self,
        network: FactorNetwork,
        codes: StateCodes,
        weights: Mapping[int, Array],
        wanted: Sequence[Scope],
    ) -> tuple[Array, list[Array]]:
        """`infer` in blocks of rows, rows first."""
        from latentia.data.sources.progress import answer_progress

        step = network.rows_at_once()
        blocks = []
        told = answer_progress()
        told.begin(len(codes))
        for start in range(0, max(len(codes), 1), step):
            rows = slice(start, start + step)
            part = codes[rows]
            log_total, answers = infer(network, log_likelihoods(self, part, weights, rows), wanted)
            found = [log_total - self.log_partition, *answers]
            blocks.append([np.broadcast_to(x, (*x.shape[:-1], len(part))) for x in found])
            told.advance(len(part))
        told.end()
        joined = (np.concatenate(x, axis=-1) for x in zip(*blocks, strict=True))
        log_evidence, *tables = (np.ascontiguousarray(np.moveaxis(x, -1, 0)) for x in joined)
        return log_evidence, tables


def check_directed(graph: LatentGraph, what: str) -> None:
    """Tables, not potentials, or an error that says so."""
    if not graph.directed:
        raise GraphError(
            f"{what} is made for directed graphs (->), got undirected edges (--). Use joint."
        )


def numbers_of(names: Sequence[Label], variables: Given) -> list[int]:
    """The numbers of one variable or of several different ones."""
    number = {name: v for v, name in enumerate(names)}
    try:
        one = variables in number or isinstance(variables, str)  # no list of letters
        given = [variables] if one else list(variables)
    except TypeError:  # a list cannot be hashed
        given = list(variables) if isinstance(variables, Iterable) else [variables]
    for name in given:
        if name not in number:
            raise UnknownNameError("variable", name, names)
    if not given or len(set(given)) < len(given):
        raise EvidenceError(f"expected one or more different variables, got {given}.")
    return [number[name] for name in given]


def check_rows_possible(log_evidence: Array) -> None:
    """No row of evidence contradicts the model."""
    impossible = np.flatnonzero(log_evidence == -np.inf)
    if impossible.size:
        raise EvidenceError(
            f"row {impossible[0]} of the evidence has probability 0 under the model "
            f"({impossible.size} such rows in all), so nothing follows from it. Drop these rows or "
            "leave some of their variables unobserved (-1); log_evidence shows which they are."
        )

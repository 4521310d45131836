"""TableAnswers: exact answers of a directed graph's tables, conditioned on the evidence at hand.

No junction tree of the whole graph is made. Rows with like evidence are taken together; for them
the graph is cut at what they know (pieces.py), what lies below neither evidence nor question is
dropped, and so is every piece that the question does not meet. What is left is wired once per
pattern of evidence, and answered for all different rows of its few columns at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from latentia.data.rows import Rows
from latentia.errors import DataError, EvidenceError, PlanError
from latentia.exact.forward_marginals import forward_marginals
from latentia.exact.patterns import patterns_of
from latentia.exact.reading_evidence import RowsGiven, Soft, StateCodes, read_codes, with_latents
from latentia.exact.reading_tables import checked_state_names, read_tables
from latentia.exact.tabular_model import check_rows_possible, numbers_of
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.typing import Array, Label

if TYPE_CHECKING:
    from latentia.exact.answer_wiring import AnswerWiring, WiredPiece
    from latentia.exact.estep_wiring import Scope
    from latentia.exact.sampled_answers import SampledTable

MOST_ROWS = 2**18  # rows of a joint question at a time


@final
@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TableAnswers:
    """P(x) = ∏_v P(x_v | parents of v), asked as a TabularModel is, however large the graph.

    Evidence: codes (rows, variables), all variables in the graph's order with latents, -1 where
    unobserved; or {name: code} for one row; None for one row without any. `soft`: {name: likelihood
    of its states, (states,) or (rows, states)}, multiplied onto it.

    >>> answers = TableAnswers(
    ...     "H->X", {"H": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]]}, latents=["H"]
    ... )
    >>> answers.query("H", {"X": 1}).round(3)
    array([0.111, 0.889])
    """

    graph: LatentGraph  # with the number of states of every variable
    tables: Mapping[int, Array]  # variable -> (parents …, variable)
    state_names: Mapping[Label, tuple[Hashable, ...]]  # of those that have names

    def __init__(
        self,
        graph: GraphLike,
        cpts: Mapping[Any, Any],
        latents: Latents = None,
        state_names: Mapping[Any, Any] | None = None,
    ) -> None:
        read, tables = read_tables(as_graph(graph, latents), cpts)
        if not read.directed:
            raise PlanError(
                "tables P(variable | parents) are of a directed graph, got undirected edges (--). "
                "Use TabularModel, which takes potentials."
            )
        own = {scope[-1]: table for scope, table in tables.items()}
        object.__setattr__(self, "graph", read)  # as a frozen dataclass does it
        object.__setattr__(self, "tables", MappingProxyType(own))
        object.__setattr__(self, "state_names", checked_state_names(read, state_names))

    def __reduce__(self) -> tuple[Any, ...]:
        return TableAnswers, (self.graph, self.cpts, None, self.state_names)

    def __repr__(self) -> str:
        hidden, cells = len(self.graph.latent), sum(t.size for t in self.tables.values())
        return (
            f"TableAnswers: {len(self.graph.observed)} observables, {hidden} latents, "
            f"{len(self.tables)} tables with {cells:,} cells"
        )

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
        return {self.names[v]: table for v, table in self.tables.items()}

    def log_evidence(self, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """log P(evidence), (rows,); -inf where it is impossible. Soft: log E[∏ likelihoods]."""
        network, codes = self._read(evidence, soft)
        return _answer(network, codes, (), None)[0]

    def posteriors(
        self, evidence: RowsGiven = None, variables: Any = None, soft: Soft = None
    ) -> dict[Label, Array]:
        """P(variable | all evidence), {name: (rows, states)}; an observed one is certain.

        Evidence that these variables do not depend on, given the rest, is not looked at.
        """
        asked = range(len(self.names)) if variables is None else numbers_of(self.names, variables)
        if evidence is None and not soft:
            alone = forward_marginals(self.graph, self.tables, asked)
            if alone is not None:
                return {self.names[v]: p[None] for v, p in alone.items()}
        network, codes = self._read(evidence, soft, asked)
        log, found = _answer(network, codes, asked, frozenset(asked))
        check_rows_possible(log)
        return {self.names[v]: found[v] for v in asked}

    def joint(self, variables: Any, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """P(variables | evidence), (rows, states of the first, of the second, …)."""
        asked = numbers_of(self.names, variables)
        network, codes = self._read(evidence, soft, asked)
        if len(asked) > 1:
            return _joint(network, codes, asked)
        log, found = _answer(network, codes, asked, frozenset(asked))
        check_rows_possible(log)
        return found[asked[0]]

    def sampled(
        self,
        variables: Any,
        evidence: RowsGiven = None,
        soft: Soft = None,
        rng: np.random.Generator | int | None = None,
    ) -> SampledTable:
        """`joint` with standard errors: exact where it can be, else by drawing a few variables.

        `rng` draws; the same seed gives the same answer.
        """
        from latentia.exact.sampled_answers import SampledTable

        asked = numbers_of(self.names, variables)
        network, codes = self._read(evidence, soft, asked)
        shape = [network.states[v] for v in asked]
        found = SampledTable(np.empty((len(codes), *shape)), np.zeros((len(codes), *shape)), 0)
        return _sampled(network, codes, asked, found, np.random.default_rng(rng))

    def sampled_log_evidence(
        self,
        evidence: RowsGiven = None,
        soft: Soft = None,
        rng: np.random.Generator | int | None = None,
    ) -> Array:
        """log P(evidence), (rows,): exact where it can be, else estimated by weighted draws."""
        from latentia.exact.sampled_answers import estimated_logs

        network, codes = self._read(evidence, soft)
        try:
            return _answer(network, codes, (), None)[0]
        except PlanError:
            generator = np.random.default_rng(rng)
            return estimated_logs(network.graph, network.tables, codes, generator)

    def query(self, variables: Any, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """P(variables | one row of evidence), (states of the first, of the second, …)."""
        table = self.joint(variables, evidence, soft)
        if len(table) != 1:
            raise EvidenceError(
                f"query answers one row of evidence, got {len(table)}. Use joint or posteriors."
            )
        return np.asarray(table[0])

    def sample(
        self, n: int, rng: np.random.Generator | int | None = None, latents: bool = False
    ) -> StateCodes:
        """n independent rows of codes: (n, observables), or (n, all variables)."""
        from latentia.exact.drawing_rows import draw_rows

        if n < 0:
            raise DataError(f"expected a number of rows of 0 or more, got {n}.")
        codes = draw_rows(self.graph, self.tables, n, np.random.default_rng(rng))
        return codes if latents else codes[:, self.graph.observed]

    def evidence(self, columns: Any) -> StateCodes:
        """StateCodes (rows, observables), as `sample` gives them -> (rows, all variables)."""
        return with_latents(self, self.graph.observed, columns)

    def _read(
        self, evidence: RowsGiven, soft: Soft, asked: Sequence[int] = ()
    ) -> tuple[_Network, StateCodes]:
        """StateCodes, and the network that they are of: soft evidence is a column of its own."""
        codes, weights = read_codes(self, evidence, soft)
        network = _Network(self.graph, self.tables, self.states)
        return _with_soft(network, codes, weights, asked) if weights else (network, codes)


@final
@dataclass(frozen=True, slots=True)
class _Network:
    """A graph and its tables, by number."""

    graph: LatentGraph
    tables: Mapping[int, Array]
    states: tuple[int, ...]


def _with_soft(
    network: _Network, codes: StateCodes, weights: Mapping[int, Array], asked: Sequence[int]
) -> tuple[_Network, StateCodes]:
    """Each soft variable gets a child whose states are the likelihoods: P(row's own | v) ∝ λ(v).

    One that has no children, and is neither asked for nor seen, is summed out at once: it becomes
    that child of its parents.
    """
    graph, tables, states = network.graph, dict(network.tables), list(network.states)
    names, edges, added = list(graph.names), list(graph.edges), []
    inner = {a for a, _ in graph.edges}.union(asked)
    codes = codes.copy()
    for v, likelihood in weights.items():  # (rows or 1, states)
        different, which = different_likelihoods(likelihood)
        if v not in inner and (codes[:, v] < 0).all():
            blank = (different == 1.0).all(axis=1)  # says nothing
            codes[:, v] = np.where(blank[which], -1, which)
            tables[v], states[v] = tables[v] @ different.T, len(different)
            continue
        edges.append((v, len(names)))
        tables[len(names)] = np.ascontiguousarray(different.T)  # (states of v, likelihoods)
        names.append(("likelihood of", graph.names[v]))
        states.append(len(different))
        added.append(np.broadcast_to(which, len(codes)))
    wide = LatentGraph(tuple(names), tuple(edges), graph.latent, tuple(states))
    return _Network(wide, tables, tuple(states)), np.column_stack([codes, *added])


def different_likelihoods(rows: Array) -> tuple[Array, StateCodes]:
    """Different rows of a matrix, and which of them each row is.

    One number a row is sorted instead of the rows; should different rows share one, rows are.
    """
    key = rows @ np.random.default_rng(0).random(rows.shape[1])
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    if (rows[first][which] == rows).all():
        return rows[first], which
    different, which = np.unique(rows, axis=0, return_inverse=True)
    return different, which.ravel()


# --- answers of many patterns ---------------------------------------------------------------------


def _answer(
    network: _Network, codes: StateCodes, asked: Iterable[int], touched: frozenset[int] | None
) -> tuple[Array, dict[int, Array]]:
    """log of all that meets `touched`, (rows,), and P(v | row), (rows, states) each.

    Too many variables at once may be too wide where each by itself is not: what lies below none of
    its evidence then falls away.
    """
    wanted = tuple(dict.fromkeys(asked))
    try:
        return _answer_all(network, codes, wanted, touched)
    except PlanError:
        if len(wanted) < 2 or touched is None:
            raise
    log = np.zeros(len(codes))
    found: dict[int, Array] = {}
    half = len(wanted) // 2
    for some in (wanted[:half], wanted[half:]):
        own, answers = _answer(network, codes, some, frozenset(some))
        log = np.minimum(log, own)  # -inf where one of them is impossible
        found |= answers
    return log, found


def _answer_all(
    network: _Network, codes: StateCodes, wanted: Scope, touched: frozenset[int] | None
) -> tuple[Array, dict[int, Array]]:
    from latentia.exact.answer_wiring import wired_patterns

    log = np.zeros(len(codes))
    found = {v: np.empty((len(codes), network.states[v])) for v in wanted}
    for place, wiring in wired_patterns(network.graph, codes, frozenset(wanted), touched):
        part = codes[place]
        own, answers = _answer_alike(network, part, wiring)
        log[place] = own
        for v in wanted:
            seen = _certain(part[:, v], network.states[v]) if v not in answers else answers[v]
            found[v][place] = seen
    return log, found


def _certain(codes: StateCodes, states: int) -> Array:
    """1 at the state that is seen: (rows, states)."""
    return np.asarray(codes[:, None] == np.arange(states), dtype=float)


# --- answers of a wiring --------------------------------------------------------------------------


def _answer_alike(
    network: _Network, codes: StateCodes, wiring: AnswerWiring
) -> tuple[Array, dict[int, Array]]:
    """Rows of one group: (rows,), and (rows, states) of what is not seen in all of them."""
    parents = network.graph.parents()
    log = np.zeros(len(codes))
    with np.errstate(divide="ignore"):
        for v in wiring.closed:
            flat = _joint_code(codes, (*parents[v], v), network.states)
            log += np.log(network.tables[v].ravel()[flat])
    found: dict[int, Array] = {}
    for part in wiring.parts:
        own, answers = _answer_piece(network, codes, part)
        log += own
        found |= answers
    return log, found


def _answer_piece(
    network: _Network, codes: StateCodes, part: WiredPiece
) -> tuple[Array, dict[int, Array]]:
    """Each different row of the piece's columns once."""
    from latentia.data.sources.memory import equal_rows
    from latentia.exact.estep import row_answers
    from latentia.exact.lost_rows import possible_rows, row_in_logs

    piece = part.piece
    columns = [codes[:, v] for v in piece.columns]
    first, place = equal_rows(
        [c + 1 for c in columns], [network.states[v] + 1 for v in piece.columns]
    )
    rows = Rows(tuple(c[first] for c in columns))
    number = piece.number
    asked = [number[v] for v in part.asked]
    at = {k: i for i, k in enumerate(piece.graph.observed)}
    own = piece.inside(network.tables)
    log, answers = row_answers(part.estep, own, rows, asked, careful=True)
    lost = np.flatnonzero(log == -np.inf)
    if lost.size:
        some = Rows(tuple(c[lost] for c in rows.codes))
        for i in lost[possible_rows(part.estep, own, some)]:
            row = [int(c[i]) for c in rows.codes]
            hidden = [k for k in asked if k in piece.graph.latent or row[at[k]] < 0]
            log[i], found = row_in_logs(piece, own, row, hidden)
            for k in asked:
                if k not in hidden:
                    answers[k][:, i] = np.arange(len(answers[k])) == row[at[k]]
            for k, x in zip(hidden, found, strict=True):
                answers[k][:, i] = x
    return log[place], {v: answers[number[v]].T[place] for v in part.asked}


def _joint(network: _Network, codes: StateCodes, asked: Sequence[int]) -> Array:
    """P(asked | evidence), (rows, states …): every joint state in turn as evidence.

    What does not meet the variables asked for cancels, so that it is not computed.
    """
    sizes = [network.states[v] for v in asked]
    states = np.indices(sizes).reshape(len(sizes), -1).T  # (joint states, variables)
    logs = np.empty((len(codes), len(states)))
    step = max(1, MOST_ROWS // len(states))
    for start in range(0, len(codes), step):
        part = codes[start : start + step]
        wide = np.repeat(part, len(states), axis=0)
        told, tried = wide[:, asked], np.tile(states, (len(part), 1))
        wide[:, asked] = tried
        own = _answer(network, wide, (), frozenset(asked))[0]
        against = ((told >= 0) & (told != tried)).any(axis=1)
        logs[start : start + step] = np.where(against, -np.inf, own).reshape(len(part), -1)
    top = logs.max(axis=1, keepdims=True)
    check_rows_possible(top[:, 0])
    shares = np.exp(logs - top)
    return np.asarray((shares / shares.sum(axis=1, keepdims=True)).reshape(-1, *sizes))


def _sampled(
    network: _Network,
    codes: StateCodes,
    asked: Sequence[int],
    found: SampledTable,
    rng: np.random.Generator,
) -> SampledTable:
    """Filled in, pattern of evidence by pattern of evidence."""
    from latentia.exact.sampled_answers import SampledTable, find_cutset, sample_answers

    patterns, which, _ = patterns_of(codes >= 0)
    drawn = 0

    def ask_one(some: StateCodes, v: int) -> Array:
        log, answers = _answer(network, some, (v,), frozenset((v,)))
        check_rows_possible(log)
        return answers[v]

    def ask(some: StateCodes) -> Array:
        return ask_one(some, asked[0]) if len(asked) == 1 else _joint(network, some, asked)

    for k, seen in enumerate(patterns):
        place = np.flatnonzero(which == k)
        try:
            found.table[place] = ask(codes[place])
        except PlanError:
            known = frozenset(np.flatnonzero(seen).tolist())
            told = known | frozenset(asked) if len(asked) > 1 else known  # tried state by state
            cut = find_cutset(network.graph, told, frozenset(asked))
            own = sample_answers(
                network.graph, network.tables, codes[place], cut, ask, ask_one, rng
            )
            found.table[place], found.error[place] = own.table, own.error
            drawn = max(drawn, len(cut))
    return SampledTable(found.table, found.error, drawn)


def _joint_code(codes: StateCodes, scope: Scope, states: Sequence[int]) -> StateCodes:
    flat = np.zeros(len(codes), dtype=np.int64)
    for v in scope:
        flat = flat * states[v] + codes[:, v]
    return flat

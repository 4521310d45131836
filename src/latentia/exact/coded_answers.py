"""Answers for rows of codes, by a graph's tables: patterns of evidence, their wirings, pieces.

Rows with like evidence are taken together; each different row of a piece is answered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.data.rows import Rows
from latentia.errors import PlanError
from latentia.exact.patterns import patterns_of
from latentia.exact.reading_evidence import StateCodes
from latentia.exact.tabular_model import check_rows_possible
from latentia.structure.graph import LatentGraph
from latentia.typing import Array

if TYPE_CHECKING:
    from latentia.exact.answer_wiring import AnswerWiring, WiredPiece
    from latentia.exact.estep_wiring import Scope
    from latentia.exact.sampled_answers import SampledTable

MOST_ROWS = 2**18  # rows of a joint question at a time


@final
@dataclass(frozen=True, slots=True)
class NumberedTables:
    """A graph and its tables, by number."""

    graph: LatentGraph
    tables: Mapping[int, Array]
    states: tuple[int, ...]


def with_likelihoods(
    network: NumberedTables, codes: StateCodes, weights: Mapping[int, Array], asked: Sequence[int]
) -> tuple[NumberedTables, StateCodes]:
    """Each soft variable gets a child whose states are the likelihoods: P(row's own | v) ∝ λ(v).

    One that has no children, and is neither asked for nor seen, is summed out at once: it becomes
    that child of its parents.
    """
    if not len(codes):  # no rows: no likelihoods to have states
        return network, codes
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
    return NumberedTables(wide, tables, tuple(states)), np.column_stack([codes, *added])


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


def answer_codes(
    network: NumberedTables, codes: StateCodes, asked: Iterable[int], touched: frozenset[int] | None
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
        own, answers = answer_codes(network, codes, some, frozenset(some))
        log = np.minimum(log, own)  # -inf where one of them is impossible
        found |= answers
    return log, found


def _answer_all(
    network: NumberedTables, codes: StateCodes, wanted: Scope, touched: frozenset[int] | None
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
    network: NumberedTables, codes: StateCodes, wiring: AnswerWiring
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
    network: NumberedTables, codes: StateCodes, part: WiredPiece
) -> tuple[Array, dict[int, Array]]:
    """Each different row of the piece's columns once."""
    from latentia.data.sources.memory import equal_rows
    from latentia.exact.lost_rows import possible_rows, row_in_logs
    from latentia.exact.row_posteriors import row_answers

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


def joint_of_codes(network: NumberedTables, codes: StateCodes, asked: Sequence[int]) -> Array:
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
        own = answer_codes(network, wide, (), frozenset(asked))[0]
        against = ((told >= 0) & (told != tried)).any(axis=1)
        logs[start : start + step] = np.where(against, -np.inf, own).reshape(len(part), -1)
    top = logs.max(axis=1, keepdims=True)
    check_rows_possible(top[:, 0])
    shares = np.exp(logs - top)
    return np.asarray((shares / shares.sum(axis=1, keepdims=True)).reshape(-1, *sizes))


def sampled_of_codes(
    network: NumberedTables,
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
        log, answers = answer_codes(network, some, (v,), frozenset((v,)))
        check_rows_possible(log)
        return answers[v]

    def ask(some: StateCodes) -> Array:
        return ask_one(some, asked[0]) if len(asked) == 1 else joint_of_codes(network, some, asked)

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

"""Candidates that differ in their numbers of states: each starts from a smaller one as well.

A maximum with one state more is often near to the smaller one with a state split in two. So every
candidate climbs from such splits besides starts of its own, and none ends below the smaller one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.exact.estep_wiring import Scope
from latentia.exact.table_answers import TableAnswers
from latentia.networks.accelerate import Tables, free_parameters
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes, Label

MOST_SPLITS = 6  # starts of a candidate that are a smaller one with a state split
TILT = 0.6  # of the logs of both halves, apart from each other
BLUR = 0.02  # share of all cells alike: a probability of zero would stay so


@final
@dataclass(frozen=True, slots=True)
class Fitted:
    """A candidate learned from some rows, and what it says of others."""

    states: Mapping[Label, int]  # of the latents
    log_likelihood: float
    parameters: int
    converged: bool
    shares: tuple[Array, ...]  # P(state) of each latent
    log_rows: Callable[[Rows], Array]  # log P(row), (n,)
    posteriors: Callable[[Rows], list[Array]]  # P(state | row) of each latent, (n, states)
    tables: Tables | None = None  # by the graph's numbers, where they can be split


def fit_candidate(
    graph: LatentGraph,
    source: Source,
    settings: TableSettings,
    rng: np.random.Generator,
    before: Fitted | None = None,
) -> Fitted:
    """The graph's own tables, with the states of a smaller candidate split as further starts."""
    given = list(settings.given)
    if before is not None and before.tables is not None:
        given += split_starts(graph, before.tables, rng)
    found = learn_tables(graph, source, replace(settings, given=tuple(given)), rng)
    rests = all(piece.converged for piece in found.pieces)
    return fitted_tables(graph, found.tables, found.log_likelihood, rests)


def fitted_tables(
    graph: LatentGraph, tables: Tables, log_likelihood: float, converged: bool = True
) -> Fitted:
    """Tables as a candidate."""
    names = [graph.names[v] for v in sorted(graph.latent)]
    answers = TableAnswers(graph, {graph.names[v]: t for v, t in tables.items()})

    def log_rows(rows: Rows) -> Array:
        return answers.log_evidence(_wide(graph, rows))

    def posteriors(rows: Rows) -> list[Array]:
        codes = _wide(graph, rows)
        possible = np.isfinite(answers.log_evidence(codes))
        found = []
        for name, alone in zip(names, shares, strict=True):
            own = np.repeat(alone[None, :], len(codes), axis=0)
            if possible.any():
                own[possible] = answers.posteriors(codes[possible], [name])[name]
            found.append(own)
        return found

    alone = answers.posteriors(None, names) if names else {}
    shares = tuple(np.asarray(alone[name][0]) for name in names)
    counts = {name: graph.states[graph.index(name)] or 1 for name in names}
    parameters = free_parameters(tables)
    return Fitted(
        counts, log_likelihood, parameters, converged, shares, log_rows, posteriors, tables
    )


def _wide(graph: LatentGraph, rows: Rows) -> Codes:
    """Codes (rows, all variables), -1 where unknown."""
    codes = np.full((len(rows), len(graph.names)), -1, dtype=np.int64)
    for v, own in zip(graph.observed, rows.codes, strict=True):
        codes[:, v] = own
    return codes


# --- splits ---------------------------------------------------------------------------------------


def split_starts(
    graph: LatentGraph, tables: Tables, rng: np.random.Generator
) -> list[dict[int, Array]]:
    """Starts for the graph from tables with fewer states: each splits another state first."""
    parents = graph.parents()
    wanted = {v: (graph.states[v] or 1) for v in sorted(graph.latent)}
    lacking = {v: count - tables[v].shape[-1] for v, count in wanted.items()}
    if any(count < 0 for count in lacking.values()):
        return []
    grown = [v for v, count in lacking.items() if count]
    if not grown:
        return [dict(tables)]
    first = grown[0]
    order = np.argsort(-_sizes(tables[first]))[:MOST_SPLITS]
    starts = []
    for state in order:
        found = split_state(parents, tables, first, int(state), rng)
        for v in grown:
            for _ in range(lacking[v] - (v == first)):
                largest = int(np.argmax(_sizes(found[v])))
                found = split_state(parents, found, v, largest, rng)
        starts.append(found)
    return starts


def _sizes(table: Array) -> Array:
    """About P(state): the mean over the states of parents."""
    return np.asarray(table.reshape(-1, table.shape[-1]).mean(axis=0))


def split_state(
    parents: Sequence[Scope], tables: Tables, v: int, state: int, rng: np.random.Generator
) -> dict[int, Array]:
    """Tables with one state of a variable split in two halves that tell a little different things.

    The new one comes last. Together both say what the state said, but for a little blur.
    """
    found = dict(tables)
    own = np.concatenate([tables[v], tables[v][..., [state]]], axis=-1)
    own[..., [state, -1]] /= 2
    found[v] = own
    for child, above in enumerate(parents):
        if v not in above:
            continue
        axis, table = list(above).index(v), found[child]
        half = np.take(table, [state], axis)
        half = (1 - BLUR) * half + BLUR / half.shape[-1]
        tilt = TILT * rng.standard_normal(half.shape)
        one, other = half * np.exp(tilt), half * np.exp(-tilt)
        kept = [np.take(table, [k], axis) for k in range(table.shape[axis])]
        kept[state] = one / one.sum(axis=-1, keepdims=True)
        kept.append(other / other.sum(axis=-1, keepdims=True))
        found[child] = np.concatenate(kept, axis=axis)
    return found


# --- is one state more needed? --------------------------------------------------------------------


def bootstrap_ratios(
    small: tuple[LatentGraph, Fitted],
    large: LatentGraph,
    rows: Rows,
    count: int,
    settings: TableSettings,
    rng: np.random.Generator,
) -> Array:
    """2 log of likelihood ratios of both candidates, on rows drawn from the smaller one: (count,).

    Each drawn table has as many rows as there are, with holes where they have them.
    """
    graph, truth = small
    assert truth.tables is not None
    answers = TableAnswers(graph, {graph.names[v]: t for v, t in truth.tables.items()})
    holes = np.stack([c < 0 for c in rows.codes], axis=1)
    times = np.maximum(np.rint(rows.weights), 1).astype(np.int64)
    holes = holes.repeat(times, axis=0)
    ratios = np.empty(count)
    for k, seed in enumerate(rng.spawn(count)):
        drawn = np.where(holes, -1, answers.sample(len(holes), seed))
        source = LocalRows(Rows(tuple(np.ascontiguousarray(c) for c in drawn.T)), threads=1)
        own = replace(settings, given=(truth.tables,))
        null = fit_candidate(graph, source, own, seed)
        other = fit_candidate(large, source, settings, seed, null)
        ratios[k] = 2.0 * (other.log_likelihood - null.log_likelihood)
    return ratios

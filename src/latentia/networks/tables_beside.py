"""The graph's own tables beside what answers, so that latents have names (design 13).

A closed form has no states, and a network of separators has states without names. So the tables of
the graph are learned as well, as cheaply as may be: a refined network of the graph itself has them;
one of separators that stand for one latent each tells where to start; all others race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import keep_rows
from latentia.errors import LatentiaError
from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators
from latentia.networks.accelerate import ENOUGH, Tables
from latentia.networks.discrete_network import Network, plan_refinement
from latentia.networks.own_tables import LearnedTables, climb_tables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.small_classes import race_small_class, small_class_rows
from latentia.networks.state_order import local_orders
from latentia.networks.tables import told_pieces
from latentia.networks.to_operators import renumbered
from latentia.structure.calibrating import calibrated
from latentia.structure.directing import with_arrows
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.state_network import own_network
from latentia.typing import Array, Label

POOL = 25_000  # different rows on which tables race; where there are more, they climb on from there
BLUR = 0.02  # of first tables, towards all states alike: a climb cannot leave zeros
PATIENCE = 30.0  # E-steps after which more and more is small enough: the columns have their answers
FEW_STARTS = 3  # of a kind, in one round: what is at stake are names, not predictions


def with_tables_beside(
    plan: Plan,
    operators: Operators,
    source: Source,
    smoothing: float | str,
    pool: Rows | None = None,
    network: Network | None = None,
    start: Tables | None = None,
) -> Operators:
    """The same operators with tables of the graph beside them; or the reason why there are none.

    `pool` holds some of the rows of `source`, or all; `start` are tables, and `network` is one of
    the plan's refinement, to start from.
    """
    graph = plan.graph
    if operators.plan.graph == graph and operators.tables:
        orders = local_orders(graph, operators.tables)
        return _beside(operators, graph, renumbered(graph, operators.tables, orders))
    if not graph.latent:
        return operators.told(nameless="there are no latents.")
    try:
        alike, chords = with_arrows(graph)
        refined = (operators if operators.tables else network) if alike is graph else None
        graph = alike
        first = start or (refined and first_tables(plan, refined.plan.graph, refined.tables))
        found = _learned(graph, source, smoothing, pool, first)
    except LatentiaError as error:  # the model of the columns stands all the same
        return operators.told(nameless=str(error))
    told = tuple(f"latents: {line}" for line in (*told_pieces(found), *_told_chords(graph, chords)))
    return _beside(operators, graph, found.tables).told(pieces=told)


def _told_chords(graph: LatentGraph, chords: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """A line about chords that cycles needed to have arrows, if any."""
    if not chords:
        return ()
    shown = ", ".join(f"{graph.names[a]} -- {graph.names[b]}" for a, b in chords[:6])
    more = " …" if len(chords) > 6 else ""
    return (f"edges in cycles have no tables: chords were added, {shown}{more}",)


def _beside(operators: Operators, graph: LatentGraph, tables: Tables) -> Operators:
    cpts = {graph.names[v]: table for v, table in tables.items()}
    return replace(operators, beside=TableAnswers(graph, cpts))


def _learned(
    graph: LatentGraph,
    source: Source,
    smoothing: float | str,
    pool: Rows | None,
    start: Tables | None,
) -> LearnedTables:
    rng = np.random.default_rng(0)
    if pool is None:
        pool, all_there = keep_rows(source, POOL, rng)
        source = LocalRows(pool) if all_there else source
    settings = TableSettings(
        smoothing=smoothing, local=FEW_STARTS, random=FEW_STARTS, rounds=1, closely=ENOUGH
    )
    whole = isinstance(source, LocalRows) and source.rows is pool
    few = small_class_rows(graph, source) if whole else None
    if few is not None:
        return race_small_class(graph, few, smoothing, start)
    if start is None:
        found = learn_tables(graph, LocalRows(pool), settings, rng)
        if whole:
            return found
        start = found.tables
    return climb_tables(graph, source, start, settings, PATIENCE, rested=False)


def first_tables(plan: Plan, inner: LatentGraph, tables: Tables) -> Tables | None:
    """Tables of the graph, as the refined network `inner` of the plan has them or tells them.

    Of separators it can tell if each latent has one for itself with as many states; the end of a
    chain starts as a copy of its neighbour. Tables are then shares of what the network says of
    them: P(parents, variable) / P(parents).
    """
    graph = plan.graph
    if inner == graph:
        return tables
    stands = _stand_ins(plan, inner)
    if stands is None:
        return None
    network = _Joints(plan_refinement(plan)[1], inner, tables)
    found: dict[int, Array] = {}
    for v, above in enumerate(graph.parents()):
        states = graph.states[v] or 1
        shares = network.of([stands[u] for u in (*above, v)])
        total = shares.sum(axis=-1, keepdims=True)
        rows = np.where(total > 0, shares / np.where(total > 0, total, 1.0), 1.0 / states)
        found[v] = (1.0 - BLUR) * rows + BLUR / states
    return found


def _stand_ins(plan: Plan, inner: LatentGraph) -> dict[int, Label] | None:
    """The variable of the network that says what each of the graph would say."""
    graph, own = plan.graph, own_network(plan, copies=True)
    if own is None:
        return None
    positive = plan_refinement(plan)[0]
    named = {plan.nodes[k].separator: name for name, k in positive.node_of.items()}
    found: dict[int, Label] = {v: graph.names[v] for v in graph.observed}
    for name, k in own.node_of.items():
        v, other = graph.index(name), named.get(plan.nodes[k].separator)
        if other is None or inner.states[inner.index(other)] != graph.states[v]:
            return None
        found[v] = other
    return found


@final
class _Joints:
    """Joint distributions of a few variables of a network: of most some clique tells them."""

    def __init__(self, plan: Plan, graph: LatentGraph, tables: Tables) -> None:
        self.graph, self.tables = graph, tables
        self.axes: Sequence[tuple[int, ...]] = ()
        self.beliefs: Sequence[Array] = ()
        if plan.graph == graph:
            families = [((*above, v), tables[v]) for v, above in enumerate(graph.parents())]
            states = [count or 1 for count in graph.states]
            self.axes, self.beliefs = calibrated(plan.tree, states, families)

    def of(self, names: Sequence[Label]) -> Array:
        """P of these variables, one axis each; a variable that comes twice agrees with itself."""
        once = list(dict.fromkeys(names))
        table = self._once([self.graph.index(name) for name in once])
        places = [once.index(name) for name in names]
        letters = "abcdefghijklmnopqrstuvwxyz"
        if places == list(range(len(once))):
            return table
        eyes = [np.eye(table.shape[k]) for k in places]
        marks = [f"{letters[k]}{letters[len(once) + i]}" for i, k in enumerate(places)]
        out = letters[len(once) : len(once) + len(places)]
        found: Array = np.einsum(f"{letters[: len(once)]},{','.join(marks)}->{out}", table, *eyes)
        return found

    def _once(self, variables: Sequence[int]) -> Array:
        wanted = set(variables)
        for own, belief in zip(self.axes, self.beliefs, strict=True):
            if wanted.issubset(own):
                left = belief.sum(axis=tuple(k for k, v in enumerate(own) if v not in wanted))
                kept = [v for v in own if v in wanted]
                return np.asarray(left.transpose([kept.index(v) for v in variables]))
        names = self.graph.names
        network = TableAnswers(self.graph, {name: self.tables[v] for v, name in enumerate(names)})
        return np.asarray(network.joint([names[v] for v in variables])[0])

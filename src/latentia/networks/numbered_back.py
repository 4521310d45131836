"""What was learned under other numbers of variables and states, as the user numbers them.

The distribution is the same: axes of tables change places, and states of columns along them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.errors import LatentiaError
from latentia.exact.own_network import OwnNetwork
from latentia.exact.table_answers import TableAnswers
from latentia.inference.linear_part import Linear, linear_in_order
from latentia.inference.operators import Operators
from latentia.inference.table_form import GraphTables, TableForm
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.renumbering import new_numbers, numbered_as, plan_numbered_as
from latentia.typing import Array, Codes, Label


@final
@dataclass(frozen=True, slots=True)
class Numbering:
    """How the user numbers variables, and for columns the learned code of each of their states."""

    graph: LatentGraph
    codes: Mapping[Label, Codes]  # of columns whose states were renumbered

    def tables(
        self, graph: LatentGraph, found: LatentGraph, tables: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Tables (parents …, variable, …) of a graph as those of the same graph, renumbered."""
        to, made = new_numbers(graph, found), {}
        own, theirs = graph.parents(), found.parents()
        for v, table in tables.items():
            family = [to[u] for u in (*own[v], v)]
            axes = [family.index(u) for u in (*theirs[to[v]], to[v])]
            rest = range(len(family), table.ndim)
            moved = table.transpose([*axes, *rest])
            for axis, u in enumerate((*theirs[to[v]], to[v])):
                moved = self._states(moved, axis, found.names[u])
            made[to[v]] = np.ascontiguousarray(moved)
        return {v: made[v] for v in sorted(made)}

    def leaf(self, plan: Plan, k: int, table: Array) -> Array:
        """What a leaf's joint states tell, (states, …), its columns and theirs in order."""
        names = [plan.graph.names[v] for v in plan.nodes[k].columns]
        sizes = [plan.graph.states[v] or 1 for v in plan.nodes[k].columns]
        place = {name: i for i, name in enumerate(self.graph.names)}
        order = sorted(range(len(names)), key=lambda i: place[names[i]])
        rest = table.shape[1:]
        moved = table.reshape(*sizes, *rest)
        moved = moved.transpose([*order, *range(len(names), moved.ndim)])
        for axis, i in enumerate(order):
            moved = self._states(moved, axis, names[i])
        return np.ascontiguousarray(moved).reshape(-1, *rest)

    def _states(self, table: Array, axis: int, name: Label) -> Array:
        codes = self.codes.get(name)
        if codes is None or table.shape[axis] != len(codes):
            return table
        return table.take(codes, axis=axis)

    def network(self, network: GraphTables) -> TableAnswers:
        """Tables of a graph, with their answers."""
        graph = numbered_as(network.graph, self.graph)
        tables = self.tables(network.graph, graph, network.tables)
        return TableAnswers(graph, {graph.names[v]: table for v, table in tables.items()})


def operators_back(operators: Operators, numbering: Numbering) -> Operators:
    """The same distribution under the user's numbers."""
    plan = operators.plan
    back = plan_numbered_as(plan, numbering.graph)
    to = new_numbers(plan.graph, back.graph)
    home = {v: k for k in plan.leaves for v in plan.nodes[k].columns}

    def leaves(tables: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(numbering.leaf(plan, k, t) for k, t in zip(plan.leaves, tables, strict=True))

    targets = {to[v]: numbering.leaf(plan, home[v], t) for v, t in operators.targets.items()}
    linear, beside = operators.linear, operators.beside
    return replace(
        operators,
        plan=back,
        leaves=leaves(operators.leaves),
        marginals=leaves(operators.marginals),
        raw=leaves(operators.raw) if operators.raw else (),
        tables=numbering.tables(plan.graph, back.graph, operators.tables),
        gaussians=numbering.tables(plan.graph, back.graph, operators.gaussians),
        targets=dict(sorted(targets.items())),
        linear=None if linear is None else _line(linear, plan.graph, back.graph, numbering),
        network=_answering(operators.network, numbering),
        beside=None if beside is None else numbering.network(beside),
    )


def _answering(network: TableForm | None, numbering: Numbering) -> OwnNetwork | None:
    if network is None:
        return None
    if not isinstance(network, OwnNetwork):
        raise LatentiaError(f"{type(network).__name__} is learned under the user's numbers only.")
    answers = numbering.network(network.answers)
    column = {answers.graph.names[v]: i for i, v in enumerate(answers.graph.observed)}
    names = [network.graph.names[v] for v in network.graph.observed]
    return OwnNetwork(answers, tuple(column[names[i]] for i in network.leaves))


def _line(linear: Linear, graph: LatentGraph, found: LatentGraph, numbering: Numbering) -> Linear:
    names = [graph.names[v] for v in graph.observed]
    place = {name: i for i, name in enumerate(names)}
    order = [place[found.names[v]] for v in found.observed]
    return linear_in_order(linear, order, [numbering.codes.get(names[i]) for i in order])

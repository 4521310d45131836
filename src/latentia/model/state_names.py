"""Order and names of latents' states: what a user asks for, checked, and put into a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import dense_columns
from latentia.data.columns.masses import cell_values
from latentia.errors import DataError, UnknownNameError
from latentia.inference.operators import Operators
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Cell, Codes, Label

if TYPE_CHECKING:
    from latentia.exact.table_answers import TableAnswers
    from latentia.networks.learner import Learner

# --- what is asked for ----------------------------------------------------------------------------


OrderBy: TypeAlias = "Label | ByName[Label]"  # along which column the states of latents rise


def checked_names(
    graph: LatentGraph, name_states: ByName[Sequence[Cell]] | None
) -> dict[Label, tuple[Cell, ...]]:
    """Names by latent: one for each state, no two alike; an error that says what is wrong."""
    return named_states(
        {graph.names[v]: graph.states[v] for v in sorted(graph.latent)}, name_states
    )


def named_states(
    latents: ByName[int | None], name_states: ByName[Sequence[Cell]] | None
) -> dict[Label, tuple[Cell, ...]]:
    """The same for latents with these numbers of states (None: not known yet)."""
    if name_states is None:
        return {}
    if not isinstance(name_states, Mapping):
        raise DataError(
            "expected name_states to be a dict of latent -> list of names, such as "
            f"{{'class': ['low', 'high']}}, got {type(name_states).__name__}."
        )
    found = {}
    for name, given in name_states.items():
        if name not in latents:
            raise UnknownNameError("latent (in name_states)", name, latents)
        if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise DataError(f"expected a list of names for the states of {name!r}, got {given!r}.")
        names, count = tuple(np.asarray(given, dtype=object).tolist()), latents[name]
        if count is not None and len(names) != count:
            raise DataError(
                f"{name!r} has {count} states, got {len(names)} names for them: {list(names)}. "
                "Name every state, in the order of the model."
            )
        if len({str(each) for each in names}) != len(names):
            raise DataError(f"the states of {name!r} need different names, got {list(names)}.")
        found[name] = names
    return found


def checked_order(graph: LatentGraph, order_by: OrderBy) -> dict[int, int]:
    """Latent -> the column along which its states go, by number."""
    columns = [graph.names[v] for v in graph.observed]
    latents = [graph.names[v] for v in sorted(graph.latent)]
    found = ordered_along(latents, columns, order_by)
    return {graph.index(name): graph.index(column) for name, column in found.items()}


def ordered_along(
    latents: Sequence[Label], columns: Sequence[Label], order_by: OrderBy
) -> dict[Label, Cell]:
    """Latent -> the column along which its states go, by name; those by size are not there."""
    if order_by is None or (isinstance(order_by, str) and order_by == "size"):
        return {}
    given = order_by if isinstance(order_by, Mapping) else dict.fromkeys(latents, order_by)
    found = {}
    for name, column in given.items():
        if name not in latents:
            raise UnknownNameError("latent (in order_by)", name, latents)
        if isinstance(column, str) and column == "size" and column not in columns:
            continue
        if column not in columns:
            raise UnknownNameError("column (in order_by)", column, columns)
        found[name] = column
    return found


# --- what is learned ------------------------------------------------------------------------------


def with_ordered_states(
    operators: Operators,
    users: LatentGraph,
    columns: Sequence[Column],
    order_by: OrderBy,
    learner: Learner,
) -> Operators:
    """The same distribution, with the states of latents by size, or along a column.

    States that known tables number stay as they are; latents that share tables go alike.
    """
    from latentia.networks.knowledge import read_knowledge
    from latentia.networks.state_order import state_orders

    own = operators.own_tables(users)
    if own is None or not own[0].directed or not own[0].latent:
        return operators
    graph, tables = own
    values = {v: cell_values(c) for v, c in dense_columns(graph.observed, columns).items()}
    able = learner.abilities
    knowledge = read_knowledge(graph, able.known, able.tied, able.smoothing)
    orders = state_orders(graph, tables, checked_order(graph, order_by), values, operators.weight)
    return renumber_states(operators, users, knowledge.orders(orders))


def renumber_states(
    operators: Operators, users: LatentGraph, orders: Mapping[int, Codes]
) -> Operators:
    """The same distribution; state k of a latent is what was state orders[k]."""
    from latentia.exact.mixture_network import MixtureNetwork
    from latentia.exact.own_network import OwnNetwork
    from latentia.networks.to_operators import operators_of, renumbered

    if all((np.diff(order) > 0).all() for order in orders.values()):
        return operators
    own = operators.own_tables(users)
    if own is None or isinstance(operators.network, MixtureNetwork):
        return operators
    graph = own[0]
    tables = renumbered(graph, own[1], orders)
    if isinstance(operators.network, OwnNetwork):
        answers = _answers(graph, tables)
        return replace(operators, network=OwnNetwork(answers, operators.network.leaves))
    if operators.beside is not None:
        return replace(operators, beside=_answers(graph, tables))
    leaves = renumbered(graph, operators.gaussians, orders)
    ascent = operators.provenance.ascent
    found = operators_of(operators.plan, tables, operators.weight, ascent, leaves)
    return replace(
        operators,
        leaves=found.leaves,
        tensors=found.tensors,
        marginals=found.marginals,
        tables=found.tables,
        gaussians=found.gaussians,
    )


def _answers(graph: LatentGraph, tables: Mapping[int, Array]) -> TableAnswers:
    from latentia.exact.table_answers import TableAnswers

    return TableAnswers(graph, {graph.names[v]: table for v, table in tables.items()})

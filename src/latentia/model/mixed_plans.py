"""Plans for graphs with continuous columns: planned on few states, asked on grids (design 7)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latentia.data.columns.bells import bell_column, missed_by_masses
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import (
    PAIRED_POINTS,
    ContinuousColumn,
    dense_columns,
    straightened,
)
from latentia.data.columns.levelling import count_steps, ladder_of, levelled
from latentia.data.rows import Source
from latentia.data.sources.sketch import ColumnSketch
from latentia.exact.estep_wiring import check_graph
from latentia.inference.operators import Operators, answered_marginal
from latentia.networks.learner import Abilities
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.kept_plans import plan_again
from latentia.structure.plan import Plan, checked_groups
from latentia.typing import Label

FEW = 6  # states that stand for a continuous column while ranks are planned
KERNELS_JUDGED = (0.04, 0.96)  # levels: kernels smooth beyond the ends of the rows …
KERNELS_LEVELLED = 2000.0  # … and rows, below which a curve tells more of chance than of levels
UNKNOWN = 6  # … and for a latent whose number of states is not known


def has_continuous(columns: Iterable[Column]) -> bool:
    return any(c.continuous for c in columns)


def no_dense_parents(graph: LatentGraph, columns: Sequence[Column]) -> bool:
    """Is every continuous column without children?"""
    above = {graph.names[a] for a, _ in graph.edges}
    return not any(c.continuous and c.name in above for c in columns)


def known_ranks(plan: Plan) -> bool:
    """Were all latents given with their numbers of states?"""
    most = max((node.rank for node in plan.nodes), default=1)
    return most <= max(
        (math.prod(plan.graph.states[v] or 1 for v in n.separator) for n in plan.nodes), default=1
    )


def prepare_mixed(
    graph: LatentGraph,
    columns: Sequence[Column],
    able: Abilities,
    sketches: Mapping[Label, ColumnSketch] | None = None,
    bent: Collection[Label] = (),
) -> tuple[Plan, tuple[Column, ...]]:
    """Which columns share leaves, their grids, and the plan.

    For Gaussian leaves `sketches` tell what the columns look like; those of `bent` go on a curve.
    """
    if able.straight:
        columns = [straightened(c) for c in columns]
    if able.gaussian:  # leaves that need states above
        sized = graph.with_states({c.name: c.cells for c in columns})
        check_graph(sized)
        columns = bell_columns(sized, columns, able, sketches or {}, bent)
    groups = able.groups
    if groups is None:
        groups = pair_children(graph, columns) if able.pairs else []
    groups = checked_groups(groups)
    placed = paired_grids(columns, groups)
    return plan_mixed(graph, placed, groups, able.most_directions), placed


def bell_columns(
    graph: LatentGraph,
    columns: Sequence[Column],
    able: Abilities,
    sketches: Mapping[Label, ColumnSketch],
    bent: Collection[Label],
) -> list[Column]:
    """Continuous columns on scales for Gaussian leaves; tied ones share theirs, and go straight."""
    tied = {name for group in able.tied or () for name in group}
    parents, found = graph.parents(), []
    for v, c in zip(graph.observed, columns, strict=True):
        numbers = sketches[c.name].numbers if c.name in sketches else None
        if not isinstance(c, ContinuousColumn):
            found.append(c)
        elif c.name in tied or numbers is None:
            found.append(without_atoms(straightened(c)))
        else:
            states = math.prod(graph.states[u] or 1 for u in parents[v])
            found.append(bell_column(c, numbers, 0 if c.name in bent else states * able.mixture))
    return found


def missed_levels(
    operators: Operators, columns: Sequence[Column], sketches: Mapping[Label, ColumnSketch]
) -> dict[Label, float]:
    """By how much Gaussian leaves miss the levels of columns; more than 1 is too much."""
    plan, found = operators.plan, {}
    place = {v: i for i, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
    for v, c in dense_columns(plan.graph.observed, columns).items():
        numbers = sketches[c.name].numbers
        if _of_bells(operators, v) and numbers is not None:
            found[c.name] = missed_by_masses(c, numbers, operators.marginals[place[v]])
    return found


def _of_bells(operators: Operators, v: int) -> bool:
    """Is the leaf of a continuous column made of Gaussians? Those of tables all are."""
    return operators.network is not None or v in operators.gaussians


def level_columns(
    operators: Operators,
    columns: Sequence[Column],
    sketches: Mapping[Label, ColumnSketch],
    source: Source,
    tied: Collection[Label],
) -> tuple[Column, ...]:
    """Columns whose levels bells or kernels miss, on curves on which they meet them: one pass."""
    plan, ladders = operators.plan, {}
    for i, (v, c) in enumerate(zip(plan.graph.observed, columns, strict=True)):
        numbers = sketches[c.name].numbers if c.name in sketches else None
        smoothed = v in operators.targets and operators.weight >= KERNELS_LEVELLED
        smoothed = smoothed or _of_bells(operators, v)
        if numbers is None or not smoothed or c.name in tied:
            continue
        if isinstance(c, ContinuousColumn):
            ladders[i] = ladder_of(c, numbers)
    if not ladders:
        return tuple(columns)
    steps = source.fold(partial(count_steps, ladders)).sums
    found = list(columns)
    for i, ladder in ladders.items():
        v = plan.graph.observed[i]
        judged = KERNELS_JUDGED if v in operators.targets else (0.0, 1.0)
        found[i] = levelled(ladder, steps[str(i)], answered_marginal(operators, v), judged)
    return tuple(found)


def without_atoms(column: Column) -> Column:
    """The same column with values that stand alone as points of a grid that reaches them."""
    if not isinstance(column, ContinuousColumn) or not column.atoms:
        return column
    z = column.scaled(np.array(column.atoms))
    low, high = min(column.low, float(z.min())), max(column.high, float(z.max()))
    room = 0.05 * (high - low)
    if low < column.low and not column.walls[0]:
        low -= room
    if high > column.high and not column.walls[1]:
        high += room
    return replace(column, atoms=(), low=low, high=high)


def pair_children(graph: LatentGraph, columns: Sequence[Column]) -> list[tuple[Label, Label]]:
    """The two continuous children of a latent whose states are not counted share a leaf.

    A latent with a known number of states tells its children apart one by one.
    """
    kinds = {c.name: c.continuous for c in columns}
    if not graph.directed:
        return []
    below: dict[int, list[int]] = {}
    for v, above in enumerate(graph.parents()):
        only = above[0] if len(above) == 1 and above[0] in graph.latent else None
        if only is not None and v not in graph.latent and kinds[graph.names[v]]:
            below.setdefault(only, []).append(v)
    below = {h: pair for h, pair in below.items() if graph.states[h] is None}
    childless = set(graph.observed) - {a for a, _ in graph.edges}
    return [
        (graph.names[pair[0]], graph.names[pair[1]])
        for pair in below.values()
        if len(pair) == 2 and set(pair) <= childless
    ]


def paired_grids(
    columns: Sequence[Column], groups: Iterable[Iterable[Label]]
) -> tuple[Column, ...]:
    """Coarser grids for continuous columns that share a leaf with others."""
    together = {name for group in groups if len(list(group)) > 1 for name in group}
    return tuple(
        replace(c, points=PAIRED_POINTS)
        if isinstance(c, ContinuousColumn) and c.name in together
        else c
        for c in columns
    )


def plan_mixed(
    graph: LatentGraph,
    columns: Sequence[Column],
    groups: Iterable[Iterable[Label]] = (),
    rank: int = 30,
) -> Plan:
    """A plan whose leaves are grids; separators with unknown latents get `rank` directions."""
    most = max([FEW, *(s + 1 for s in graph.states if s is not None and s < 24)])
    few = {c.name: min(c.cells, most) for c in columns}
    unknown = {v for v in graph.latent if graph.states[v] is None}
    small = graph.with_states({**few, **{graph.names[v]: UNKNOWN for v in unknown}})
    plan = plan_again(small, tuple(map(tuple, groups)))
    hidden = {
        plan.graph.index(graph.names[v]) for v in unknown if graph.names[v] in plan.graph.names
    }
    nodes = tuple(
        replace(node, rank=rank + 1) if node.separator & hidden else node for node in plan.nodes
    )
    names = {c.name: c.cells for c in columns}
    full = tuple(
        names.get(name, count)
        for name, count in zip(plan.graph.names, plan.graph.states, strict=True)
    )
    return replace(
        plan,
        graph=replace(relevant(plan.graph), states=full),
        nodes=nodes,
        notes=() if unknown else plan.notes,
    )

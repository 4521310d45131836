"""Operators as JSON values and a table of named arrays, and back.

Shapes are not written down: they follow from the plan and the rank of each node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.errors import StoreError
from latentia.inference.linear_part import Slot, linear_slots
from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent, Choice, Provenance, SeparatorReport
from latentia.store.array_table import (
    LARGEST_NUMBER,
    Name,
    Shape,
    Written,
    check_shares,
    check_sizes,
    numbered,
    of_kind,
    tree_shapes,
)
from latentia.store.continuous_record import (
    Smoothing,
    check_gaussians,
    gaussian_shapes,
    linear_shapes,
    read_blur,
    read_linear,
    write_blur,
    write_gaussians,
)
from latentia.store.plain import LARGEST_COUNT, fields, items, number, pack, text, whole, wholes
from latentia.structure.plan import Plan
from latentia.typing import Array, Given

MOST_ROWS = 2**62


# -- writing ---------------------------------------------------------------------------------------


def write_operators(operators: Operators) -> Written:
    """JSON values, and arrays whose memory is to be written in order."""
    from latentia.assess.jackknife import node_ranks

    if operators.diagonals:
        raise StoreError(
            "a model in Gram form holds its training rows and is not stored. "
            "Learn it with form='finite' or PBP() to keep it."
        )
    arrays = list(_arrays(operators).values())
    for array in arrays:
        if array.dtype != np.float64:
            raise StoreError(f"operators must be 64-bit numbers, got {array.dtype}.")
    axes = [_memory_order(array) for array in arrays]
    record = {
        **_write_additions(operators),
        "ranks": node_ranks(operators),
        "weight": float(operators.weight),
        "mix": float(operators.mix),
        "reports": [_write_report(k, report) for k, report in operators.provenance.reports.items()],
        "turned": [[i, order] for i, order in enumerate(axes) if order != sorted(order)],
    }
    return record, [array.transpose(order) for array, order in zip(arrays, axes, strict=True)]


def _arrays(operators: Operators) -> dict[Name, Array]:
    """All arrays in the order of the file, as `Blueprint.shapes` has it."""
    leaves = numbered("leaf", operators.raw or operators.leaves)  # raw ones are smoothed again …
    shares = {} if operators.raw else numbered("marginal", operators.marginals)  # … and bring these
    found = {**leaves, **shares, **numbered("tensor", operators.tensors)}
    found |= numbered("table", operators.tables) | numbered("gaussian", operators.gaussians)
    if operators.linear is not None:
        found["mean", 0] = operators.linear.mean
        found["covariance", 0] = operators.linear.covariance
    return found


def _memory_order(array: Array) -> list[int]:
    """Axes from the slowest to the fastest: sums depend on it in the last bit."""
    return sorted(range(array.ndim), key=lambda axis: -array.strides[axis])


def _write_additions(operators: Operators) -> dict[str, Given]:
    """Fields of learners of tables (files of version 2) and of continuous columns (version 3)."""
    ascent = operators.provenance.ascent
    found: dict[str, Given] = {}
    if ascent is not None or operators.tables:
        climb = ascent and [[list(p) for p in ascent.paths], list(ascent.converged), ascent.best]
        found = {"tables": bool(operators.tables), "ascent": climb}
    if operators.raw or any(operators.blur):
        found["kernel"] = write_blur(operators)
    if operators.gaussians:
        found["gaussians"] = write_gaussians(operators)
    return found


def _write_report(node: int, report: SeparatorReport) -> list[Given]:
    return [
        node,
        int(report.rank),
        int(report.wanted),
        [pack(float(x), "a correlation") for x in report.correlations],
        pack(float(report.condition), "a condition"),
    ]


# -- reading ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a record says of operators before one of their arrays is read."""

    plan: Plan
    columns: Sequence[Column]
    weight: float
    mix: float
    reports: Mapping[int, SeparatorReport]
    ascent: Ascent | None
    smoothing: Smoothing
    slots: tuple[Slot, ...] | None  # None: answers lean on nothing
    shapes: Mapping[Name, Shape]
    axes: Mapping[Name, Sequence[int]]  # from the slowest to the fastest in memory

    @property
    def stored(self) -> dict[Name, Shape]:
        """Shapes as they lie in the file."""
        return {n: tuple(shape[a] for a in self.axes[n]) for n, shape in self.shapes.items()}


def read_blueprint(record: object, plan: Plan, columns: Sequence[Column]) -> Blueprint:
    """The JSON values of operators over this plan."""
    known = ("ranks", "weight", "mix", "reports", "turned")
    there = record if isinstance(record, dict) else {}
    more = ["tables", "ascent"] if "tables" in there else []
    more += [name for name in ("kernel", "gaussians") if name in there]
    ranks, weight, mix, reports, turned, *rest = fields(record, *known, *more)
    given = dict(zip(more, rest, strict=True))
    smoothing = read_blur(given.get("kernel"))
    has_tables = given.get("tables", False)
    if type(has_tables) is not bool:
        raise StoreError(f"expected true or false for tables, got {has_tables!r:.80}.")
    slots = None if smoothing.lean is None else linear_slots(columns)
    shapes = tree_shapes(plan, wholes(ranks, LARGEST_COUNT, lowest=1, length=len(plan.nodes)))
    if smoothing.raw:  # raw leaves bring their marginals with them
        shapes = {name: shape for name, shape in shapes.items() if name[0] != "marginal"}
    shapes |= numbered("table", _table_shapes(plan) if has_tables else [])
    shapes |= gaussian_shapes(given.get("gaussians", []), plan)
    shapes |= {} if slots is None else linear_shapes(slots)
    return Blueprint(
        plan=plan,
        columns=columns,
        weight=number(weight, 0.0, LARGEST_NUMBER),
        mix=number(mix, 0.0, 1.0),
        reports=dict(_read_report(report, len(plan.nodes)) for report in items(reports)),
        ascent=_read_ascent(given.get("ascent")),
        smoothing=smoothing,
        slots=slots,
        shapes=shapes,
        axes=_read_axes(turned, shapes),
    )


def build_operators(blueprint: Blueprint, stored: Mapping[Name, Array]) -> Operators:
    """The operators of a blueprint and of its arrays, which lie as in the file."""
    arrays = {
        name: stored[name].transpose(np.argsort(axes)) for name, axes in blueprint.axes.items()
    }
    check_sizes(arrays.values(), "operators")
    smoothing, leaves = blueprint.smoothing, tuple(of_kind(arrays, "leaf").values())
    shares = of_kind(arrays, "marginal").values()
    marginals = tuple(leaf[:, 0] for leaf in leaves) if smoothing.raw else tuple(shares)
    check_shares(marginals)
    linear = None
    if blueprint.slots is not None and smoothing.lean is not None:
        both = arrays["mean", 0], arrays["covariance", 0]
        linear = read_linear(blueprint.slots, *both, blueprint.weight, smoothing.lean)
    learned = Operators(
        plan=blueprint.plan,
        leaves=leaves,
        tensors=of_kind(arrays, "tensor"),
        marginals=marginals,
        weight=blueprint.weight,
        mix=blueprint.mix,
        tables=of_kind(arrays, "table"),
        blur=smoothing.blur,
        floor=smoothing.floor,
        gaussians=check_gaussians(
            of_kind(arrays, "gaussian"), blueprint.plan.graph, blueprint.columns
        ),
        linear=linear,
        provenance=Provenance(blueprint.reports, ascent=blueprint.ascent),
    )
    if not smoothing.raw:
        return learned
    from latentia.kernels.smooth_leaves import smooth_again

    return smooth_again(learned, blueprint.columns)


def _table_shapes(plan: Plan) -> list[Shape]:
    """Of P(variable | parents), by variable."""
    states = [count or 1 for count in plan.graph.states]
    families = ((*above, v) for v, above in enumerate(plan.graph.parents()))
    return [tuple(states[u] for u in family) for family in families]


def _read_axes(turned: object, shapes: Mapping[Name, Shape]) -> dict[Name, Sequence[int]]:
    """Orders of axes: those of most arrays as they come, some turned."""
    axes: dict[Name, Sequence[int]] = {n: range(len(shape)) for n, shape in shapes.items()}
    names = list(shapes)
    for turn in items(turned):
        which, given = items(turn, 2)
        name = names[whole(which, len(names))]
        order = wholes(given, len(shapes[name]))
        if sorted(order) != list(range(len(shapes[name]))):
            raise StoreError(f"expected an order of {len(shapes[name])} axes, got {given!r:.80}.")
        axes[name] = order
    return axes


def _read_ascent(record: object) -> Ascent | None:
    if record is None:
        return None
    paths, converged, best = items(record, 3)
    count = len(items(paths))
    if any(type(verdict) is not bool for verdict in items(converged, count)):
        raise StoreError(f"expected true or false for every start, got {converged!r:.80}.")
    found = (tuple(number(x, -LARGEST_NUMBER, LARGEST_NUMBER) for x in items(p)) for p in paths)
    return Ascent(tuple(found), tuple(converged), whole(best, count))


def _read_report(record: object, nodes: int) -> tuple[int, SeparatorReport]:
    node, rank, wanted, correlations, condition = items(record, 5)
    return whole(node, nodes), SeparatorReport(
        rank=whole(rank, LARGEST_COUNT),
        wanted=whole(wanted, LARGEST_COUNT),
        correlations=tuple(number(x) for x in items(correlations)),
        condition=number(condition),
    )


# -- how the learner came to them ------------------------------------------------------------------


def write_choice(choice: Choice) -> list[Given]:
    """[chosen, [name, loss, error] of each candidate, rows held out, rows learned from]."""
    figures = [
        [name, float(choice.losses[name]), float(choice.errors[name])] for name in choice.losses
    ]
    record = [choice.chosen, figures, choice.held_out, choice.learned_from]
    left_out = [[name, why] for name, why in choice.left_out.items()]
    return [*record, left_out] if left_out else record  # as older files have it


def read_choice(record: object) -> Choice:
    parts = items(record, 5 if len(items(record)) > 4 else 4)
    chosen, figures, held_out, learned_from, *more = parts
    left_out = [items(pair, 2) for pair in items(more[0] if more else [])]
    rows = [items(row, 3) for row in items(figures)]
    names = [text(name) for name, _, _ in rows]
    if len(set(names)) < len(names):
        raise StoreError(f"expected different candidates, got {names!r:.80}.")
    losses, errors = ([number(row[k], 0.0, LARGEST_NUMBER) for row in rows] for k in (1, 2))
    return Choice(
        text(chosen),
        dict(zip(names, losses, strict=True)),
        dict(zip(names, errors, strict=True)),
        whole(held_out, MOST_ROWS),
        whole(learned_from, MOST_ROWS),
        {text(name): text(why) for name, why in left_out},
    )


def read_embedding_settings(record: object) -> dict[str, float]:
    """Of a kernel embedding, to look at: pairs of name and value."""
    pairs = [items(pair, 2) for pair in items(record)]
    return {text(name): number(value, 0.0, LARGEST_NUMBER) for name, value in pairs}

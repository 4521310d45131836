"""Records: a fitted LatentModel as JSON values and a list of arrays, and back.

Shapes are not written down: they follow from the plan and the rank of each node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import numpy as np

from latentia.assess.diagnostics import diagnose
from latentia.data.columns.column import Column
from latentia.errors import LatentiaError, StoreError
from latentia.inference.linear_part import linear_slots
from latentia.inference.operators import Ascent, Choice, Operators, SeparatorReport
from latentia.kernels.embedding import smooth_again
from latentia.kernels.settings import KernelSettings
from latentia.model.latent_model import LatentModel
from latentia.model.mixed_plans import column_cells
from latentia.model.training import LEARNERS
from latentia.store.column_record import read_column, write_column
from latentia.store.gaussians import gaussian_shapes, read_gaussians, write_gaussians
from latentia.store.kernel_record import read_blur, read_linear, write_smoothing
from latentia.store.plain import (
    LARGEST_COUNT,
    fields,
    items,
    number,
    pack,
    text,
    unpack,
    whole,
    wholes,
)
from latentia.store.replicates import read_replicates, replicate_shapes, write_replicates
from latentia.store.structure_record import read_graph, read_plan, write_graph, write_plan
from latentia.structure.graph import LatentGraph, as_graph
from latentia.structure.plan import Plan
from latentia.typing import Array

Shape: TypeAlias = tuple[int, ...]
Fetch: TypeAlias = Callable[[list[Shape]], Sequence[Array]]

MOST_ROWS = 2**62
LARGEST_NUMBER = 1e100  # messages are scaled at every step, so that answers cannot overflow


# -- the whole model -------------------------------------------------------------------------------


def write_record(model: LatentModel) -> tuple[dict[str, Any], list[Array]]:
    """Everything a model knows: JSON values, and arrays whose memory is to be written in order."""
    operators = model.operators_
    if operators.diagonals:
        raise StoreError(
            "a model in Gram form holds its training rows and is not stored. "
            "Learn it with form='finite' or PBP() to keep it."
        )
    leaves = operators.raw or (*operators.leaves, *operators.marginals)  # raw: smoothed again
    tensors = [operators.tensors[k] for k in sorted(operators.tensors)]
    tables = [operators.tables[v] for v in sorted(operators.tables)]
    gaussians = [operators.gaussians[v] for v in sorted(operators.gaussians)]
    linear = operators.linear
    lines = [] if linear is None else [linear.mean, linear.covariance]
    arrays = [*leaves, *tensors, *tables, *gaussians, *lines]
    for array in arrays:
        if array.dtype != np.float64:
            raise StoreError(f"operators must be 64-bit numbers, got {array.dtype}.")
    axes = [_memory_order(array) for array in arrays]
    missing = model.diagnostics_.missing
    record: dict[str, Any] = {
        "kind": "LatentModel",
        "parameters": write_parameters(model, model.plan_),
        "plan": write_plan(model.plan_),
        "states": [write_column(c) for c in model.columns_],
        "operators": {
            **_write_operators(operators),
            "turned": [[i, a] for i, a in enumerate(axes) if a != sorted(a)],
        },
        "fit": {
            "learner": model.diagnostics_.learner,
            "missing": [float(missing[c.name]) for c in model.columns_],
        },
    }
    if operators.choice is not None:
        record["choice"] = _write_choice(operators.choice)
    if operators.settings:
        record["settings"] = [[name, float(x)] for name, x in operators.settings.items()]
    if operators.plan is not model.plan_:  # a refined model answers by a network of its own
        record["network"] = write_plan(operators.plan)
    written = [array.transpose(a) for array, a in zip(arrays, axes, strict=True)]
    if hasattr(model, "error_bars_"):
        record["replicates"], more = write_replicates(model.error_bars_)
        written += more
    return record, written


def read_record(record: Any, fetch: Fetch) -> LatentModel:
    """The model of a record; `fetch` brings the arrays once their shapes are known."""
    there = record if isinstance(record, dict) else {}
    more = [
        name for name in ("network", "choice", "settings", "replicates") if name in there
    ]  # some models, newer files
    kind, parameters, structure, states, learned, fit, *rest = fields(
        record, "kind", "parameters", "plan", "states", "operators", "fit", *more
    )
    given = dict(zip(more, rest, strict=True))
    if kind != "LatentModel":
        raise StoreError(f"expected a LatentModel, got {kind!r}. Update latentia.")
    plan = read_plan(structure)
    columns = read_columns(states, plan)
    inner = read_plan(given["network"]) if "network" in given else plan
    if [inner.graph.states[v] for v in inner.graph.observed] != [column_cells(c) for c in columns]:
        raise StoreError("expected the network of a refined model to have the model's columns.")
    bars = given.get("replicates")
    beyond = [] if bars is None else replicate_shapes(bars, inner)
    last: list[Array] = []

    def fetch_all(shapes: list[Shape]) -> Sequence[Array]:
        """Arrays come at once; those of error bars are the last."""
        found = fetch([*shapes, *beyond])
        last.extend(found[len(shapes) :])
        return found[: len(shapes)]

    operators = _read_operators(learned, inner, columns, fetch_all)
    if "choice" in given:
        operators = replace(operators, choice=_read_choice(given["choice"]))
    if "settings" in given:
        operators = replace(operators, settings=_read_settings(given["settings"]))
    learner, missing = fields(fit, "learner", "missing")
    shares = zip(columns, items(missing, len(columns)), strict=True)
    gaps = {column.name: number(share) for column, share in shares}
    model = LatentModel(**read_parameters(parameters))
    model._keep(plan, operators, columns, diagnose(operators, text(learner), gaps))
    if bars is not None:
        model.error_bars_ = read_replicates(bars, inner, last)
    return model


def read_columns(record: Any, plan: Plan) -> tuple[Column, ...]:
    observed = plan.graph.observed
    return tuple(
        read_column(states, plan.graph.names[v], plan.graph.states[v] or 0)
        for v, states in zip(observed, items(record, len(observed)), strict=True)
    )


# -- parameters ------------------------------------------------------------------------------------


def write_parameters(model: LatentModel, plan: Plan) -> dict[str, Any]:
    graph = None if model.graph is None else _graph_given(model, plan)
    latents = None
    if graph is not None and model.latents is not None:
        latents = {graph.names[v]: graph.states[v] for v in sorted(graph.latent)}
    given = model.state_names
    names = None if given is None else {name: list(states) for name, states in given.items()}
    return {
        "graph": None if graph is None else write_graph(graph),
        "latents": pack(latents, "a latent"),
        "learner": _write_learner(model.learner),
        "kinds": pack(None if model.kinds is None else dict(model.kinds), "a kind of column"),
        "state_names": pack(names, "a name in state_names"),
    }


def read_parameters(record: Any) -> dict[str, Any]:
    graph, latents, learner, kinds, names = fields(
        record, "graph", "latents", "learner", "kinds", "state_names"
    )
    found = {"latents": unpack(latents), "kinds": unpack(kinds), "state_names": unpack(names)}
    for name, value in found.items():
        if value is not None and not isinstance(value, dict):
            raise StoreError(f"expected a dict for the parameter {name}, got {value!r:.80}.")
    return {
        "graph": None if graph is None else read_graph(graph),
        "learner": _read_learner(learner),
        **found,
    }


def _graph_given(model: LatentModel, plan: Plan) -> LatentGraph:
    try:
        given = model.graph
        if callable(given):
            given = given([c.name for c in model.columns_])
        return as_graph(given, model.latents)
    except LatentiaError:  # a generator of edges is used up by fit
        return plan.graph


def _write_learner(learner: Any) -> dict[str, Any]:
    """A name, a known kind with plain parameters, or else what it prints."""
    if isinstance(learner, str):
        return {"name": learner}
    name = type(learner).__name__
    if _kinds().get(name) is type(learner):
        try:
            values = learner.get_params(deep=False)
            if isinstance(values.get("kernel"), KernelSettings):
                values["kernel"] = asdict(values["kernel"])
            return {"kind": name, "parameters": {k: pack(_lists(v), k) for k, v in values.items()}}
        except StoreError:
            pass
    return {"text": repr(learner)}


def _lists(value: Any) -> Any:
    """Tables of a setting ({variable: array}) as lists."""
    if isinstance(value, Mapping):
        return {name: _lists(table) for name, table in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read_learner(record: Any) -> Any:
    if isinstance(record, dict) and set(record) == {"text"}:
        return "pbp"
    if isinstance(record, dict) and set(record) == {"name"}:
        if text(record["name"]) not in LEARNERS:
            raise StoreError(f"expected a learner among {list(LEARNERS)}, got {record['name']!r}.")
        return record["name"]
    kind, values = fields(record, "kind", "parameters")
    made = _kinds().get(text(kind))
    if made is None:
        raise StoreError(f"expected a learner among {list(_kinds())}, got {kind!r:.80}.")
    names = list(made().get_params(deep=False))
    known = [name for name in names if isinstance(values, dict) and name in values]
    parameters = zip(known, fields(values, *known), strict=True)  # the others are newer: defaults
    return made(**{name: unpack(value) for name, value in parameters})


def _kinds() -> dict[str, Any]:
    """Learners whose parameters are kept: those of the estimator's table, by class name."""
    return {kind.__name__: kind for kind in LEARNERS.values()}


# -- what was learned ------------------------------------------------------------------------------


def _memory_order(array: Array) -> list[int]:
    """Axes from the slowest to the fastest: sums depend on it in the last bit."""
    return sorted(range(array.ndim), key=lambda axis: -array.strides[axis])


def _write_operators(operators: Operators) -> dict[str, Any]:
    plan = operators.plan
    leaf = {k: operators.leaves[x].shape[1] for x, k in enumerate(plan.leaves)}
    inner = {k: operators.tensors[k].shape[-1] for k in plan.inner}
    ranks = {**leaf, **inner, **dict.fromkeys(plan.roots, 1)}
    return {
        **_write_tables(operators),
        "ranks": [ranks[k] for k in range(len(plan.nodes))],
        "weight": float(operators.weight),
        "mix": float(operators.mix),
        "reports": [
            [
                k,
                int(report.rank),
                int(report.wanted),
                [pack(float(x), "a correlation") for x in report.correlations],
                pack(float(report.condition), "a condition"),
            ]
            for k, report in operators.reports.items()
        ],
    }


def _write_tables(operators: Operators) -> dict[str, Any]:
    """Fields of learners of tables (files of version 2) and of continuous columns (version 3)."""
    ascent = operators.ascent
    found: dict[str, Any] = {}
    if ascent is not None or operators.tables:
        climb = ascent and [[list(p) for p in ascent.paths], list(ascent.converged), ascent.best]
        found = {"tables": bool(operators.tables), "ascent": climb}
    if operators.raw or any(operators.blur):
        found["kernel"] = write_smoothing(operators)
    if operators.gaussians:
        found["gaussians"] = write_gaussians(operators)
    return found


def _write_choice(choice: Choice) -> list[Any]:
    figures = [
        [name, float(choice.losses[name]), float(choice.errors[name])] for name in choice.losses
    ]
    return [choice.chosen, figures, choice.held_out, choice.learned_from]


def _read_choice(record: Any) -> Choice:
    chosen, figures, held_out, learned_from = items(record, 4)
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
    )


def _read_settings(record: Any) -> dict[str, float]:
    found = {}
    for pair in items(record):
        name, value = items(pair, 2)
        found[text(name)] = number(value, 0.0, LARGEST_NUMBER)
    return found


def _read_ascent(record: Any) -> Ascent | None:
    if record is None:
        return None
    paths, converged, best = items(record, 3)
    count = len(items(paths))
    if any(type(verdict) is not bool for verdict in items(converged, count)):
        raise StoreError(f"expected true or false for every start, got {converged!r:.80}.")
    found = (tuple(number(x, -LARGEST_NUMBER, LARGEST_NUMBER) for x in items(p)) for p in paths)
    return Ascent(tuple(found), tuple(converged), whole(best, count))


def _read_operators(record: Any, plan: Plan, columns: Sequence[Column], fetch: Fetch) -> Operators:
    known = ("ranks", "weight", "mix", "reports", "turned")
    there = record if isinstance(record, dict) else {}
    more = ["tables", "ascent"] if "tables" in there else []
    more += [name for name in ("kernel", "gaussians") if name in there]
    ranks, weight, mix, reports, turned, *rest = fields(record, *known, *more)
    given = dict(zip(more, rest, strict=True))
    smooth = read_blur(given.get("kernel"))
    has_tables, climb = given.get("tables", False), given.get("ascent")
    leaves = given.get("gaussians", [])
    if type(has_tables) is not bool:
        raise StoreError(f"expected true or false for tables, got {has_tables!r:.80}.")
    sizes = wholes(ranks, LARGEST_COUNT, lowest=1, length=len(plan.nodes))
    shapes = _shapes(plan, sizes, raw=smooth.raw)
    tensors = len(shapes)
    if has_tables:
        shapes += _table_shapes(plan)
    tables = len(shapes)
    shapes += gaussian_shapes(leaves, plan)
    lines = len(shapes)
    slots = None if smooth.lean is None else linear_slots(columns)
    if slots is not None:
        size = sum(slot.size for slot in slots)
        shapes += [(size,), (size, size)]
    axes = {i: list(range(len(shape))) for i, shape in enumerate(shapes)}
    for turn in items(turned):
        which, order = items(turn, 2)
        place = whole(which, len(shapes))
        if sorted(wholes(order, len(shapes[place]))) != axes[place]:
            raise StoreError(f"expected an order of {len(axes[place])} axes, got {order!r:.80}.")
        axes[place] = order
    found = fetch([tuple(shape[a] for a in axes[i]) for i, shape in enumerate(shapes)])
    arrays = [array.transpose(np.argsort(axes[i])) for i, array in enumerate(found)]
    for array in arrays:
        if not (array.min() >= -LARGEST_NUMBER and array.max() <= LARGEST_NUMBER):
            raise StoreError(f"expected finite numbers up to {LARGEST_NUMBER:g} in operators.")
    n = len(plan.leaves)
    first = n if smooth.raw else 2 * n  # raw leaves bring their marginals with them
    marginals = [t[:, 0] for t in arrays[:n]] if smooth.raw else arrays[n : 2 * n]
    for mu in marginals:
        if mu.min() < 0 or abs(mu.sum() - 1) > 1e-6:
            raise StoreError("expected the probabilities of a column to be positive with sum 1.")
    learned = Operators(
        plan=plan,
        leaves=tuple(arrays[:n]),
        tensors=dict(zip(sorted({*plan.inner, *plan.roots}), arrays[first:tensors], strict=True)),
        marginals=tuple(marginals),
        weight=number(weight, 0.0, LARGEST_NUMBER),
        mix=number(mix, 0.0, 1.0),
        reports=dict(_read_report(report, len(plan.nodes)) for report in items(reports)),
        tables=dict(enumerate(arrays[tensors:tables])),
        ascent=_read_ascent(climb),
        blur=smooth.blur,
        floor=smooth.floor,
        gaussians=read_gaussians(leaves, arrays[tables:lines]),
        linear=read_linear(slots, arrays[lines:], number(weight, 0.0, LARGEST_NUMBER), smooth.lean),
    )
    return smooth_again(learned, columns) if smooth.raw else learned


def _shapes(plan: Plan, ranks: Sequence[int], raw: bool) -> list[Shape]:
    """Of leaf tables, of marginals (unless leaves are raw), and of tensors by node."""
    states = plan.leaf_states()
    shapes: list[Shape] = [(states[x], ranks[k]) for x, k in enumerate(plan.leaves)]
    shapes += [] if raw else [(count,) for count in states]
    for k in sorted({*plan.inner, *plan.roots}):
        below = tuple(ranks[c] for c in plan.nodes[k].children)
        shapes.append(below if plan.nodes[k].parent == k else (*below, ranks[k]))
    return shapes


def _table_shapes(plan: Plan) -> list[Shape]:
    """Of P(variable | parents), by variable."""
    states = [count or 1 for count in plan.graph.states]
    families = ((*above, v) for v, above in enumerate(plan.graph.parents()))
    return [tuple(states[u] for u in family) for family in families]


def _read_report(record: Any, nodes: int) -> tuple[int, SeparatorReport]:
    node, rank, wanted, correlations, condition = items(record, 5)
    return whole(node, nodes), SeparatorReport(
        rank=whole(rank, LARGEST_COUNT),
        wanted=whole(wanted, LARGEST_COUNT),
        correlations=tuple(number(x) for x in items(correlations)),
        condition=number(condition),
    )

"""Moments and frozen models as JSON values and a list of arrays, and back.

Here the shapes are written down: sums are whatever a learner asked for. They are bounded by the
length of the file, and a frozen basis has to evaluate a row before it is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from latentia.closed_form.basis import Basis, Coordinates, Round
from latentia.closed_form.frozen import Frozen, FrozenBasis, FrozenSpectral, FrozenTables
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.moments import Moments
from latentia.data.rows import Rows
from latentia.errors import StoreError
from latentia.model.frozen_model import FrozenModel
from latentia.model.latent_model import LatentModel
from latentia.store.array_table import Fetch, Shape, Written
from latentia.store.model_record import read_columns, read_parameters, write_parameters
from latentia.store.plain import LARGEST_COUNT, fields, items, number, pack, text, whole, wholes
from latentia.store.structure_record import read_plan, write_plan
from latentia.structure.plan import Plan
from latentia.typing import Array, Given

MOST_ROWS = 2**53
MOST_AXES = 8


# -- moments ---------------------------------------------------------------------------------------


def write_moments(moments: Moments) -> Written:
    """The sums by name, and what they were gathered for."""
    arrays = [np.asarray(total, dtype=float) for total in moments.sums.values()]
    record = {
        "kind": "Moments",
        "of": moments.kind,
        "weight": float(moments.weight),
        "rows": int(moments.rows),
        "sums": [[name, list(a.shape)] for name, a in zip(moments.sums, arrays, strict=True)],
    }
    return record, arrays


def read_moments(record: object, fetch: Fetch) -> Moments:
    _, of, weight, rows, sums = fields(record, "kind", "of", "weight", "rows", "sums")
    pairs = [items(pair, 2) for pair in items(sums)]
    names = [text(name) for name, _ in pairs]
    if len(set(names)) != len(names):
        raise StoreError("two sums have the same name.")
    arrays = _finite(fetch([_shape(shape) for _, shape in pairs]))
    found = dict(zip(names, arrays, strict=True))
    return Moments(text(of), number(weight, 0.0, 1e300), whole(rows, MOST_ROWS), found)


def _shape(record: object) -> Shape:
    shape = wholes(record, LARGEST_COUNT)
    if len(shape) > MOST_AXES or math.prod(shape) > LARGEST_COUNT:
        raise StoreError(f"expected an array of sensible shape, got {list(shape)!r:.80}.")
    return shape


def _finite(arrays: Sequence[Array]) -> Sequence[Array]:
    for array in arrays:
        if not np.isfinite(array).all():
            raise StoreError("expected finite numbers.")
    return arrays


# -- frozen models ---------------------------------------------------------------------------------


def write_frozen(frozen: FrozenModel) -> Written:
    """Parameters, plan, states, and the basis where there is one."""
    learned, arrays = _write_learned(frozen.frozen)
    record: dict[str, Given] = {
        "kind": "FrozenModel",
        "parameters": write_parameters(frozen.model, frozen.plan),
        "plan": write_plan(frozen.plan),
        "states": [
            [pack(state, f"a state of column {c.name!r}") for state in c.labels]
            for c in frozen.columns
        ],
        "frozen": learned,
        "shapes": [list(array.shape) for array in arrays],
    }
    return record, arrays


def read_frozen(record: object, fetch: Fetch) -> FrozenModel:
    _, parameters, structure, states, learned, shapes = fields(
        record, "kind", "parameters", "plan", "states", "frozen", "shapes"
    )
    plan = read_plan(structure)
    columns = tuple(c for c in read_columns(states, plan) if isinstance(c, DiscreteColumn))
    if len(columns) != len(plan.graph.observed):
        raise StoreError("expected discrete columns in a frozen model.")
    arrays = _finite(fetch([_shape(shape) for shape in items(shapes)]))
    frozen = _read_learned(learned, plan, list(arrays))
    # shapes that do not fit together fail here, and not at some question later
    frozen.summary(Rows(tuple(np.zeros(1, dtype=np.int8) for _ in columns)))
    return FrozenModel(LatentModel(**read_parameters(parameters)), plan, columns, frozen)


def _write_learned(frozen: Frozen) -> Written:
    if isinstance(frozen, FrozenTables):
        return {"tables": None if frozen.ridge is None else [float(x) for x in frozen.ridge]}, []
    if isinstance(frozen, FrozenSpectral):
        return {"spectral": frozen.repair}, []
    if not isinstance(frozen, FrozenBasis):
        raise StoreError(f"a {type(frozen).__name__} cannot be kept in a file.")
    basis, arrays = frozen.basis, []
    for side in (*basis.inside, *basis.outside):
        arrays += [] if side is None else list(side.tables)
    arrays += list(basis.correlations)
    for done in basis.rounds:
        for k in sorted(done):
            arrays += [done[k].inside, done[k].outside]
    facts = {
        "pilot": float(frozen.pilot),
        "regularize": frozen.regularize,
        "weights": [float(w) for w in basis.weights],
        "features": [list(map(int, pair)) for pair in basis.features],
        "shares": [float(s) for s in basis.shares],
        "rounds": [sorted(done) for done in basis.rounds],
    }
    return {"basis": facts}, arrays


def _read_learned(record: object, plan: Plan, arrays: list[Array]) -> Frozen:
    if isinstance(record, dict) and set(record) == {"tables"}:
        ridge = record["tables"]
        pair = None if ridge is None else [number(x, 0.0, 1e300) for x in items(ridge, 2)]
        return FrozenTables(plan, None if pair is None else (pair[0], pair[1]))
    if isinstance(record, dict) and set(record) == {"spectral"}:
        return FrozenSpectral(plan, _flag(record["spectral"]))
    (facts,) = fields(record, "basis")
    pilot, regularize, weights, features, shares, rounds = fields(
        facts, "pilot", "regularize", "weights", "features", "shares", "rounds"
    )
    count = len(plan.nodes)
    left = iter(arrays)
    inside = _read_sides(plan, left, inner=True)
    outside = _read_sides(plan, left, inner=False)
    pairs = [wholes(pair, LARGEST_COUNT, length=2) for pair in items(features, count)]
    basis = Basis(
        inside=inside,
        outside=outside,
        correlations=tuple(_next(left) for _ in range(count)),
        weights=tuple(number(w, 1e-300, 1e300) for w in items(weights, count)),
        features=tuple((a, b) for a, b in pairs),
        shares=tuple(number(s, 1e-300, 1.0 + 1e-9) for s in items(shares, count)),
        rounds=tuple(
            {k: Round(_next(left), _next(left)) for k in wholes(done, count)}
            for done in items(rounds)
        ),
    )
    if next(left, None) is not None:
        raise StoreError("the file has more arrays than its basis.")
    return FrozenBasis(plan, basis, number(pilot, 1e-300, 1e300), _flag(regularize))


def _read_sides(plan: Plan, left: Iterator[Array], inner: bool) -> tuple[Coordinates | None, ...]:
    """Blocks follow from the plan, tables from the file."""
    sides: list[Coordinates | None] = []
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            sides.append(None)
            continue
        blocks = (node.inside if inner else node.outside).wide
        tables = tuple(_next(left) for _ in blocks)
        for block, table in zip(blocks, tables, strict=True):
            if table.ndim != 2 or len(table) != plan.block_states(block):
                raise StoreError(f"a table of node {k} has shape {table.shape}.")
            if table.shape[1] != tables[0].shape[1]:
                raise StoreError(f"the tables of node {k} differ in their coordinates.")
        sides.append(Coordinates.of(blocks, tables))
    return tuple(sides)


def _next(left: Iterator[Array]) -> Array:
    found: Array | None = next(left, None)
    if found is None:
        raise StoreError("the file has fewer arrays than its basis.")
    return found


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise StoreError(f"expected true or false, got {value!r:.80}.")
    return value

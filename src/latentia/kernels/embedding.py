"""Predictive states in an RKHS: stages 1 and 2 from sums over rows (design 7).

Per separator an inside block α (the two nearest leaves below) and an outside block β (the leaves
around), each with kernel features A and B. Pass 1 sums their second moments; then

    J = (C_ββ + λ₁)⁻¹ C_βα,   Jᵀ C_ββ J = Q diag(e) Qᵀ,   f = [1, Qᵀ A],
    η̃ = [1, (e + λ₂)⁻¹ Qᵀ Jᵀ C_ββ (C_ββ + λ₁)⁻¹ B],   W = E[(f_a ⊗ f_b) η̃ᵀ].

Pass 2 sums products of f and η̃, and of the leaves' hat functions and η̃.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.values import Values
from latentia.data.moments import Moments, add_to, outer_sum
from latentia.data.rows import Rows, Source, row_chunks
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, UnknownNameError
from latentia.inference.linear_part import fit_linear, linear_slots, sum_linear
from latentia.inference.operators import Operators
from latentia.inference.provenance import Provenance, SeparatorReport
from latentia.kernels.feature_maps import BlockMap, coordinates, make_map
from latentia.kernels.settings import KernelSettings
from latentia.kernels.smooth_leaves import hats, on_grids
from latentia.linear_algebra import eigh, one_thread, ridge_solver
from latentia.structure.plan import Plan
from latentia.typing import Array

MOST_KEPT = 2**23  # features of all rows that are kept between the passes, instead of made twice


@final
@dataclass(frozen=True, slots=True)
class Sides:
    """Block maps of every separator, shared where two separators look at the same columns."""

    maps: tuple[BlockMap, ...]
    inside: Mapping[int, int]  # node -> map
    outside: Mapping[int, int]  # that of the inside where nothing is outside


@final
@dataclass(frozen=True, slots=True)
class Embedding:
    """f = [1, Q (φ_α − μ_α)] and η̃ = [1, V (φ_β − μ_β)] of every separator."""

    sides: Sides
    inside: Mapping[int, tuple[Array, Array]]  # node -> (Q: (r − 1, features), μ)
    outside: Mapping[int, tuple[Array, Array]]
    strengths: Mapping[int, Array]  # e, by node
    weight: float
    fingerprint: str = field(default="", compare=False)


def choose_sides(
    plan: Plan,
    columns: Sequence[Column],
    sample: Array,
    settings: KernelSettings,
    weight: Array | None = None,
) -> Sides:
    """α and β of every separator and their maps; landmarks given, or from a sample."""
    features = settings.features
    if settings.landmarks is not None:
        sample, weight = _given_landmarks(columns, settings.landmarks), None
        features = max(sample.shape[1], 1)
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    members = [tuple(place[v] for v in plan.nodes[k].columns) for k in plan.leaves]
    found: dict[tuple[int, ...], int] = {}
    maps: list[BlockMap] = []

    def map_of(leaves: Sequence[int]) -> int:
        block = tuple(sorted(i for x in leaves for i in members[x]))
        if block not in found:
            found[block] = len(maps)
            maps.append(
                make_map(
                    columns,
                    block,
                    sample,
                    settings.bandwidth,
                    settings.kernel,
                    settings.map,
                    features if settings.map == "nystroem" else settings.features,
                    settings.seed,
                    weight=weight,
                )
            )
        return found[block]

    inside, outside = {}, {}
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        own = [b[0] for b in node.inside.wide if len(b) == 1]
        others = [b[0] for b in node.outside.wide if len(b) == 1]
        inside[k] = map_of(own[: settings.inside])
        outside[k] = map_of(others[: settings.outside]) if others else inside[k]
    return Sides(tuple(maps), inside, outside)


def in_single(sides: Sides) -> Sides:
    """The same, whose features are computed in single precision: to compare, not to answer."""
    return replace(sides, maps=tuple(replace(m, single=True) for m in sides.maps))


def _given_landmarks(columns: Sequence[Column], given: object) -> Array:
    """Coordinates of rows that the user chose; all columns must be there."""
    if not isinstance(given, Mapping):
        raise DataError(f"expected landmarks as a dict of columns, got {type(given).__name__}.")
    missing = [c.name for c in columns if c.name not in given]
    if missing:
        raise UnknownNameError("column in landmarks", missing[0], list(given))
    values = [np.atleast_1d(np.asarray(given[c.name])) for c in columns]
    if len({len(v) for v in values}) != 1 or not len(values[0]):
        raise DataError("expected landmarks with the same number of values in every column.")
    codes = [c.place(Values(v)) for c, v in zip(columns, values, strict=True)]
    return coordinates(columns, codes)


@final
@dataclass(frozen=True, slots=True)
class Looked:
    """Some rows, their coordinates, and what every map makes of them."""

    rows: Rows
    z: Array  # (columns, n)
    unmixed: tuple[Array, ...]


def look_at_rows(columns: Sequence[Column], sides: Sides, rows: Rows) -> Iterator[Looked]:
    """Rows with their features, some at a time."""
    for part in row_chunks(len(rows), _width(sides)):
        block = rows[part]
        z = coordinates(columns, block.codes)
        yield Looked(block, z, tuple(m.unmixed(z) for m in sides.maps))


def look_once(columns: Sequence[Column], sides: Sides, source: Source) -> list[Looked] | None:
    """Features of few rows in memory, kept for both passes; None of many."""
    if not isinstance(source, LocalRows) or len(source.rows) > source.block_rows:
        return None
    if len(source.rows) * _width(sides) > MOST_KEPT:
        return None
    return list(look_at_rows(columns, sides, source.rows))


def sum_sides(
    columns: Sequence[Column], sides: Sides, rows: Rows, looked: Iterable[Looked] | None = None
) -> Moments:
    """Pass 1: Σ w φ_β φ_βᵀ, and Σ w 1_α φ_α φ_βᵀ over rows that have all of α."""
    sums: dict[str, Array] = {}
    for part in look_at_rows(columns, sides, rows) if looked is None else looked:
        z, weight = part.z, part.rows.weight
        phi = [_with_one(unmixed) for unmixed in part.unmixed]
        whole = not np.isnan(z).any()
        for m in sorted({*sides.outside.values()}):
            total = _weighted(phi[m], weight) @ phi[m].T
            add_to(sums, f"outside/{m}", np.asarray(total, dtype=float))
        for k, a in sides.inside.items():
            here = None if whole else present(sides.maps[a], z)
            own = _weighted(_weighted(phi[a], weight), here)
            total = own @ phi[sides.outside[k]].T
            add_to(sums, f"across/{k}", np.asarray(total, dtype=float))
    for m in sorted({*sides.outside.values()}):
        sums[f"outside/{m}"] = _mixed(sums[f"outside/{m}"], sides.maps[m], sides.maps[m])
    for k, a in sides.inside.items():
        other = sides.maps[sides.outside[k]]
        sums[f"across/{k}"] = _mixed(sums[f"across/{k}"], sides.maps[a], other)
    return Moments("kernel sides", rows.total, len(rows), sums)


def _mixed(total: Array, one: BlockMap, other: BlockMap) -> Array:
    """Sums of products of φ from those of what was not mixed: rows are many, landmarks few."""
    for block in (one, other):  # left, then right as left of the transposed
        if block.mixes_last:
            total = np.concatenate([total[:1], block.mixing @ total[1:]])
        total = total.T
    return np.ascontiguousarray(total)


def embed(plan: Plan, sides: Sides, pairs: Moments, settings: KernelSettings) -> Embedding:
    """Stages 1A and 2's eigenproblem, for every separator."""
    N = pairs.weight
    l1, l2 = (r / N for r in settings.ridge)
    inside, outside, strengths = {}, {}, {}
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        own = pairs.sums[f"outside/{sides.outside[k]}"] / N
        mean_b, C = own[0, 1:], own[1:, 1:] - np.outer(own[0, 1:], own[0, 1:])
        cross = pairs.sums[f"across/{k}"]  # (1 + a, 1 + b)
        if not cross[0, 0] > 0:
            raise DataError("no row has values in all columns of a group; bring rows that have.")
        cross = cross / cross[0, 0]
        mean_a = cross[1:, 0]
        D = (cross[1:, 1:] - np.outer(mean_a, cross[0, 1:])).T  # (b, a)
        solve = ridge_solver(C, l1)
        alone = sides.outside[k] == sides.inside[k]  # with nothing outside there is no state
        keep = 0 if alone else min(node.rank - 1, settings.rank, D.shape[1])
        J, e, Q = state_directions(C, D, solve, max(keep, 1))
        good = e[::-1] > max(1e-9, 1e-12 * float(e[-1]))
        good &= keep > 0  # a separator of rank one: its sides are independent
        e, Q = e[::-1][good], Q[:, ::-1][:, good]
        V = solve(C @ (J @ Q)) / (e + l2)
        inside[k] = (np.ascontiguousarray(Q.T), mean_a)
        outside[k] = (np.ascontiguousarray(V.T), mean_b)
        strengths[k] = e
    return Embedding(sides, inside, outside, strengths, N)


def state_directions(
    C: Array, D: Array, solve: Callable[[Array], Array], largest: int | None = None
) -> tuple[Array, Array, Array]:
    """J = C⁻¹ D, (b, a), and the rising e, (k,), and Q, (a, k), of Jᵀ C J."""
    J = solve(D)
    S = J.T @ C @ J
    return J, *eigh((S + S.T) / 2, largest)


def sum_embedded(
    plan: Plan,
    columns: Sequence[Column],
    found: Embedding,
    rows: Rows,
    looked: Iterable[Looked] | None = None,
) -> Moments:
    """Pass 2: Σ w f_a ⊗ f_b ⊗ η̃ and Σ w hats ⊗ η̃, each with the weight of the rows that have it."""
    sums: dict[str, Array] = {}
    inner = sorted({*plan.inner, *plan.roots})
    slots = linear_slots(columns)
    for part in look_at_rows(columns, found.sides, rows) if looked is None else looked:
        block, weight = part.rows, part.rows.weight
        f, here, eta = _coordinates(found, part)
        for k in inner:
            node = plan.nodes[k]
            above = [] if node.parent == k else [eta[k]]
            factors = [f[c] for c in node.children] + above
            factors[-1] = _weighted(factors[-1], weight)
            add_to(sums, f"products/{k}", outer_sum(factors, None))
            marks = [np.stack([np.ones(len(block)), here[c]]) for c in node.children]
            add_to(sums, f"present/{k}", outer_sum(marks, weight))
        for x, k in enumerate(plan.leaves):
            H = hats(plan, columns, k, block.codes)  # (n, cells)
            add_to(sums, f"leaf/{x}", np.asarray(H.T @ _weighted(eta[k], weight).T, dtype=float))
        for name, total in (
            {} if slots is None else sum_linear(slots, block.codes, block.weight)
        ).items():
            add_to(sums, name, total)
    return Moments("kernel products", rows.total, len(rows), sums)


def _coordinates(
    found: Embedding, part: Looked
) -> tuple[dict[int, Array], dict[int, Array], dict[int, Array]]:
    """f, which rows have it, and η̃ of every separator; each map is looked at once."""
    asked: dict[int, list[tuple[str, int, Array, Array]]] = {}
    for k, (Q, mean) in found.inside.items():
        asked.setdefault(found.sides.inside[k], []).append(("f", k, Q, mean))
        asked.setdefault(found.sides.outside[k], []).append(("eta", k, *found.outside[k]))
    sides: dict[str, dict[int, Array]] = {"f": {}, "eta": {}}
    here = {}
    for m, wanted in asked.items():
        block = found.sides.maps[m]
        joint = block.project(np.concatenate([own for *_, own, _ in wanted]), part.unmixed[m])
        there, start = present(block, part.z), 0
        for side, k, matrix, mean in wanted:
            own = np.empty((1 + len(matrix), len(there)), joint.dtype)
            own[0] = 1.0
            shift = (matrix @ mean).astype(joint.dtype, copy=False)[:, None]
            np.subtract(joint[start : start + len(matrix)], shift, out=own[1:])
            start += len(matrix)
            if side == "f":
                here[k] = there
                own[1:] *= there
            sides[side][k] = own
    return sides["f"], here, sides["eta"]


def learn_embedded(
    plan: Plan, columns: Sequence[Column], source: Source, sample: Rows, settings: KernelSettings
) -> Operators:
    """Two passes over the rows; landmarks from a sample of them."""
    with one_thread():  # blocks of rows run beside each other; small products do not gain
        z = coordinates(columns, sample.codes)
        sides = choose_sides(plan, columns, z, settings, sample.weight)
        few = look_once(columns, sides, source)
        pairs = source.fold(partial(sum_sides, columns, sides, looked=few))
        found = embed(plan, sides, pairs, settings)
        products = source.fold(partial(sum_embedded, plan, columns, found, looked=few))
        return on_grids(raw_operators(plan, columns, found, products), columns, settings)


def raw_operators(
    plan: Plan, columns: Sequence[Column], found: Embedding, products: Moments
) -> Operators:
    """Operators on the grid, leaves not smoothed yet."""
    N = products.weight
    tensors = {}
    for k in sorted({*plan.inner, *plan.roots}):
        M, w = products.sums[f"products/{k}"], products.sums[f"present/{k}"]
        for axis in range(w.ndim):
            w = np.repeat(w, [1, M.shape[axis] - 1], axis=axis)
        if M.ndim > w.ndim:
            w = w[..., None]
        tensors[k] = M / np.maximum(w, 1e-300)
    raw = []
    for x in range(len(plan.leaves)):
        total = products.sums[f"leaf/{x}"]
        raw.append(total / total[:, 0].sum())
    reports = {
        k: SeparatorReport(
            1 + len(e), plan.nodes[k].rank, tuple(map(float, np.sqrt(e))), float("nan")
        )
        for k, e in found.strengths.items()
    }
    marginals = tuple(np.ascontiguousarray(t[:, 0]) for t in raw)
    slots = linear_slots(columns)
    linear = None if slots is None else fit_linear(slots, products.sums, N)
    return Operators(
        plan, tuple(raw), tensors, marginals, N, 0.0, linear=linear, provenance=Provenance(reports)
    )


def present(block: BlockMap, z: Array) -> Array:
    return (~np.isnan(z[list(block.members)]).any(axis=0)).astype(float)


def _width(sides: Sides) -> int:
    return sum(_size(m) for m in sides.maps)


def _size(block: BlockMap) -> int:
    if block.waves is not None:
        return len(block.waves[0])
    return len(block.mixing) or max(block.discrete)


def _weighted(values: Array, weight: Array | None) -> Array:
    return values if weight is None else values * weight.astype(values.dtype)


def _with_one(values: Array) -> Array:
    return np.concatenate([np.ones((1, values.shape[1]), values.dtype), values])

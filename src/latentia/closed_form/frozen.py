"""Frozen learners: all that is learned comes from one kind of sum, fixed before the rows are read.

For rows that can be read only once, for `partial_fit`, and for learning across sites (design 4.2).
The coordinates θ and η of every separator are frozen from a pilot; one pass then gathers
C_θη = E[θ ηᵀ], C_xη = E[1_x ηᵀ] and M = E[θ_1 ⊗ θ_2 ⊗ η] in them, and

    W = M C_θη⁻¹,   t = C_xη C_θη⁻¹

hold for any coordinates of full rank. The pilot keeps more of them than the rank asks for; the
canonical ones among these are chosen when the sums are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol, final

import numpy as np

from latentia.closed_form.basis import Basis, canonical_basis
from latentia.closed_form.evaluating import evaluator
from latentia.closed_form.pairs import PairLayout, pair_layout, sum_pairs
from latentia.closed_form.published.spectral import solve_stacked, sum_stacked
from latentia.closed_form.published.two_stage_tables import check_cores, solve_tables, sum_tables
from latentia.closed_form.sharpen import needs_sharpening, sharpen
from latentia.closed_form.solving import constant_exact, shrink_products
from latentia.data.moments import Moments, outer_sum
from latentia.data.rows import Rows, Source, row_chunks
from latentia.errors import DataError, MomentsError
from latentia.inference.operators import Operators, smooth_unseen
from latentia.inference.provenance import Provenance, SeparatorReport
from latentia.linear_algebra import canonical, one_thread, pseudo_inverse
from latentia.structure.plan import Plan
from latentia.typing import Array

SPARE = 1  # times as many directions again as the rank asks for


class Frozen(Protocol):
    """What to sum, and how to solve for operators from the sums."""

    @property
    def plan(self) -> Plan: ...

    @property
    def kind(self) -> str:
        """Of the moments that belong to it."""
        ...

    def summary(self, rows: Rows) -> Moments:
        """The sums over one block of rows."""
        ...

    def solve(self, moments: Moments) -> Operators:
        """Operators from the sums over all rows."""
        ...


@final
@dataclass(frozen=True, slots=True)
class FrozenTables:
    """The algorithm as published needs counts only: nothing depends on a pilot."""

    plan: Plan
    ridge: tuple[float, float] | None = None

    @property
    def kind(self) -> str:
        return f"tables of plan {self.plan.fingerprint}"

    def summary(self, rows: Rows) -> Moments:
        return sum_tables(self.plan, rows)

    def solve(self, moments: Moments) -> Operators:
        check_cores(self.plan)
        _check_kind(self, moments)
        return solve_tables(self.plan, moments, self.ridge)


@final
@dataclass(frozen=True, slots=True)
class FrozenSpectral:
    """The spectral algorithm needs counts only, too."""

    plan: Plan
    repair: bool = True

    @property
    def kind(self) -> str:
        return f"stacked tables of plan {self.plan.fingerprint}"

    def summary(self, rows: Rows) -> Moments:
        return sum_stacked(self.plan, rows)

    def solve(self, moments: Moments) -> Operators:
        check_cores(self.plan)
        _check_kind(self, moments)
        return solve_stacked(self.plan, moments, self.repair)


@final
@dataclass(frozen=True, slots=True)
class FrozenBasis:
    """Coordinates of every separator, found from a pilot of `pilot` rows."""

    plan: Plan
    basis: Basis
    pilot: float  # Σ w of the rows that it was found from
    regularize: bool = True
    own: bool = False  # found from the very rows that are summed: these are no news to it

    @property
    def layout(self) -> PairLayout:
        return pair_layout(self.plan)

    @property
    def kind(self) -> str:
        return f"frozen sums of plan {self.plan.fingerprint} in basis {self.basis.fingerprint}"

    def summary(self, rows: Rows) -> Moments:
        return sum_frozen(self, rows)

    def solve(self, moments: Moments) -> Operators:
        _check_kind(self, moments)
        with one_thread():
            return solve_frozen(self, moments)


def freeze_basis(plan: Plan, pilot: Source, regularize: bool = True) -> FrozenBasis:
    """Coordinates from a pilot: one pass over it, three on loops."""
    layout = pair_layout(plan)
    pairs = pilot.fold(partial(sum_pairs, layout))
    if not pairs.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    loops = needs_sharpening(plan)
    with one_thread():
        basis = canonical_basis(layout, pairs, regularize, spare=0 if loops else SPARE)
    if loops:
        basis = sharpen(layout, basis, pilot, regularize, leaves_too=True)
    return FrozenBasis(plan, basis, pairs.weight, regularize)


def sum_frozen(frozen: FrozenBasis, rows: Rows) -> Moments:
    """Σ w of θθᵀ, ηηᵀ and θηᵀ at every separator, 1_x ηᵀ at leaves, θ_1 ⊗ θ_2 ⊗ η at cliques."""
    plan, basis, layout = frozen.plan, frozen.basis, frozen.layout
    width = max(map(layout.width, range(len(layout.spans))), default=1) + 2 * sum(
        basis.size(k) for k in range(len(plan.nodes))
    )
    evaluate = evaluator(layout, basis, leaves_too=True)
    sums: dict[str, Array] = {}

    def add(name: str, factors: list[Array], weight: Array | None) -> None:
        sums[name] = sums.get(name, 0.0) + outer_sum(factors, weight)

    for part in row_chunks(len(rows), width):
        block = rows[part]
        values = evaluate(block)
        for k, node in enumerate(plan.nodes):
            below = [values.theta[c] for c in node.children]
            if node.parent == k:
                add(f"products/{k}", below, block.weight)
                continue
            theta, eta = values.theta[k], values.eta[k]
            add(f"theta/{k}", [theta, theta], block.weight)
            add(f"eta/{k}", [eta, eta], block.weight)
            add(f"cross/{k}", [theta, eta], block.weight)
            if node.is_leaf:
                add(f"leaf/{k}", [values.marks[k] * basis.shares[k], eta], block.weight)
            else:
                add(f"products/{k}", [*below, eta], block.weight)
    return Moments(frozen.kind, rows.total, len(rows), sums)


@final
@dataclass(frozen=True, slots=True)
class _Turn:
    """Canonical coordinates as affine maps of the frozen ones: [1, z] = A θ and B η."""

    A: Array  # (1 + k, q)
    B: Array  # (1 + k, q)
    U: Array  # (q - 1, k)
    d: Array  # (k,)


def solve_frozen(frozen: FrozenBasis, moments: Moments) -> Operators:
    """W = M C_θη⁻¹ in the canonical coordinates of all rows, tempered as in the closed form."""
    plan, N = frozen.plan, moments.weight
    if not N > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    turns = {k: _turn(plan, k, moments) for k, n in enumerate(plan.nodes) if n.parent != k}
    gains = {k: _gain(frozen, k, turn.d, N) for k, turn in turns.items()}
    tensors, reports = {}, {}
    for k in sorted({*plan.inner, *plan.roots}):
        node = plan.nodes[k]
        maps = [turns[c].A for c in node.children]
        maps += [] if node.parent == k else [turns[k].B]
        M = constant_exact(_turned(moments.sums[f"products/{k}"] / N, maps))
        M = shrink_products(M, N) if frozen.regularize else M
        tensors[k] = M if node.parent == k else M * np.concatenate([[1.0], gains[k]])
    leaves, marginals = [], []
    for k in plan.leaves:
        table, mu = _leaf(frozen, k, moments, turns[k], gains[k])
        leaves.append(table)
        marginals.append(mu)
    for k, turn in turns.items():
        condition = float(1.0 / turn.d[-1]) if len(turn.d) else 1.0
        wanted = plan.nodes[k].rank
        reports[k] = SeparatorReport(1 + len(turn.d), wanted, tuple(map(float, turn.d)), condition)
    mix = N**-0.5 if frozen.regularize else 0.0
    return Operators(
        plan,
        tuple(leaves),
        tensors,
        tuple(marginals),
        N,
        mix,
        provenance=Provenance(reports, moments),
    )


def _turn(plan: Plan, k: int, moments: Moments) -> _Turn:
    """CCA of the frozen coordinates over all rows."""
    N, sums = moments.weight, moments.sums
    theta, eta, cross = (sums[f"{name}/{k}"] / N for name in ("theta", "eta", "cross"))
    a, b = theta[0, 1:], eta[0, 1:]
    found = canonical(
        theta[1:, 1:] - np.outer(a, a),
        cross[1:, 1:] - np.outer(a, b),
        eta[1:, 1:] - np.outer(b, b),
        plan.nodes[k].rank - 1,
    )
    return _Turn(_affine(found.U, a), _affine(found.V, b), found.U, found.d)


def _affine(U: Array, mean: Array) -> Array:
    """[1, Uᵀ(z - mean)] as a matrix on [1, z]."""
    top = np.concatenate([[1.0], np.zeros(len(mean))])
    return np.vstack([top, np.column_stack([-(U.T @ mean), U.T])])


def _turned(M: Array, maps: list[Array]) -> Array:
    """Each axis of M by its map."""
    for axis, A in enumerate(maps):
        M = np.moveaxis(np.tensordot(A, M, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(M)


def _gain(frozen: FrozenBasis, k: int, d: Array, N: float) -> Array:
    """g = d / (d² + ν²/2) as in the closed form; the noise is that of the frozen coordinates.

    Coordinates of a basis that was found from these rows have the noise of all its features.
    """
    if not frozen.regularize:
        return np.asarray(1.0 / d, dtype=float)
    one, other = frozen.basis.features[k]
    count = frozen.basis.size(k) - 1
    spread = (one**0.5 + other**0.5) ** 2 if frozen.own else 4.0 * count
    noise = spread / (N * frozen.basis.weights[k] / frozen.pilot)
    return np.asarray(d / (d**2 + noise / 2), dtype=float)


def _leaf(
    frozen: FrozenBasis, k: int, moments: Moments, turn: _Turn, gain: Array
) -> tuple[Array, Array]:
    """t(x) = C_xη C_θη⁻¹, and where that is noise, the plain regression C_xθ C_θθ⁻¹."""
    N, sums = moments.weight, moments.sums[f"leaf/{k}"]  # (states, q)
    counts = sums[:, 0]
    if not counts.sum() > 0:
        names = [str(frozen.plan.graph.names[v]) for v in frozen.plan.nodes[k].columns]
        raise DataError(
            f"no row has a value in {' and '.join(names)}. "
            "Drop the column from the graph, or bring rows that have it."
        )
    mu = counts / counts.sum()
    seen = (sums / counts.sum()) @ turn.B.T[:, 1:]  # E[1_x z_η], (states, k)
    seen = seen - np.outer(mu, seen.sum(axis=0))
    z = _leaf_values(frozen, k, float(counts.sum()) / N) @ turn.U
    z = z - mu @ z
    plain = (mu[:, None] * z) @ pseudo_inverse((mu[:, None] * z).T @ z, 1e-10)
    table = seen * gain + plain * (1.0 - turn.d * gain)
    if frozen.regularize:
        smooth = smooth_unseen(mu, N)
        never = mu == 0
        table = np.where(never[:, None], 0.0, table) * (smooth / np.where(never, 1.0, mu))[:, None]
        mu = smooth
    return np.column_stack([mu, table]), mu


def _leaf_values(frozen: FrozenBasis, k: int, share: float) -> Array:
    """Mean over the holes of θ without its one, at every state: (states, q - 1)."""
    basis = frozen.basis
    steps = [done[k] for done in basis.rounds if k in done]
    if steps:
        inside = steps[-1].inside
        return np.asarray(inside[0] + inside[1:] * (share / basis.shares[k]), dtype=float)
    side = basis.inside[k]
    assert side is not None
    return side.tables[0] * share


def _check_kind(frozen: Frozen, moments: Moments) -> None:
    if moments.kind != frozen.kind:
        raise MomentsError(
            f"expected {frozen.kind}, got {moments.kind}. Moments can be solved only by what they "
            "were gathered for: the same graph, columns, states and frozen basis."
        )

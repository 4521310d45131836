"""The kernel trick: predictive messages as weights over the training rows (design 7, Gram form).

With Gram matrices L of θ^S (the product over α(S) of one kernel per column) and G of η^S,

    Γ = (G + λ₁N)⁻¹ G,   B = Γ (Γ L Γ + λ₂N)⁻¹ Γ,
    up: h_S = L B Π h_k,   root: w = 1/N Π h_k,   down: w_k = (B L w) ∘ Π h of the others.

A leaf sends h_d = k(x_d, x), or 1 where nothing is observed; E[f(X) | e] = Σ w_d f(x_d) / Σ w_d.
So all messages have N coordinates, and an operator couples its children's coordinate by coordinate:
it is the diagonal tensor T[d, d, c] = (B L)[d, c]. That is all that Operators need, and every
question is answered by the same code as in the finite form. Training costs N³: this is a reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.data.columns.column import Column, Places, is_present
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.rows import Rows, Source
from latentia.errors import DataError, UnknownNameError
from latentia.inference.operators import Operators, smooth_unseen
from latentia.kernels.feature_maps import BlockMap, as_kernel, coordinates
from latentia.linear_algebra import eigh, ridge_solver
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array, Given

LARGEST_GRAM = 5000  # rows: 200 MB and some 10 s for each clique
UNITS = ("sd", "own")
SINGULAR = 1e-12  # eigenvalues below this share of the largest are zero, where there is no ridge


@final
@dataclass(frozen=True, slots=True)
class PublishedKernel:
    """k((x − y) / σ) per column, multiplied within groups; discrete columns: [x = y].

    The paper's digits are ``PublishedKernel(sigma=10, units="own", ridge=(0.1, 0.1))``.
    """

    kernel: Given = (
        "rbf"  # a name, a scikit-learn kernel, a function; "delta": discrete columns only
    )
    sigma: float = 0.5
    units: str = "sd"  # σ is told in standard deviations of the column, or in its "own" units
    ridge: tuple[float, float] = (0.1, 1.0)  # added to Gram matrices: λ₁N and λ₂N of the moments
    inside: int | None = None  # α: so many nearest leaves; None: the minimal core group
    outside: int | None = None  # β likewise
    floor: float = 0.1  # of P(e) / Π P(e_i), in scores; of continuous columns only
    features: int = 150  # finite form: landmarks …
    rank: int | None = None  # … and directions of a state at most; None: all

    def __post_init__(self) -> None:
        if self.units not in UNITS:
            raise UnknownNameError("units of sigma", self.units, UNITS)
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise DataError(f"expected a positive bandwidth sigma, got {self.sigma!r}.")
        if len(self.ridge) != 2 or not all(r >= 0 for r in self.ridge):
            raise DataError(f"expected ridge=(λ₁N, λ₂N), not negative, got {self.ridge!r}.")
        for name in ("inside", "outside", "rank", "features"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise DataError(f"expected {name} to be positive or None, got {count!r}.")

    @property
    def smooth(self) -> Given:
        """The kernel of continuous columns; with "delta" there are none."""
        return "rbf" if isinstance(self.kernel, str) and self.kernel == "delta" else self.kernel


def as_published_kernel(given: object) -> PublishedKernel:
    """Settings from a kernel, a dict of settings, or as they are."""
    if isinstance(given, PublishedKernel):
        return given
    if isinstance(given, dict):
        names = PublishedKernel.__dataclass_fields__
        for name in given:
            if name not in names:
                raise UnknownNameError("kernel setting", name, names)
        return PublishedKernel(**given)
    if not (isinstance(given, str) and given == "delta"):
        as_kernel(given)  # or an error that lists the kernels
    return PublishedKernel(kernel=given)


def learn_gram(
    plan: Plan,
    columns: Sequence[Column],
    source: Source,
    settings: PublishedKernel,
    ridge: tuple[float, float] | None = None,
) -> Operators:
    """Steps 3 to 6 of the paper in dual form. `ridge` is (λ₁, λ₂) for moments divided by N."""
    rows = rows_in_memory(source)
    columns = in_published_units(columns, settings)
    N, w = rows.total, rows.weights
    ridges = settings.ridge if ridge is None else (ridge[0] * N, ridge[1] * N)
    z = coordinates(columns, rows.codes)
    diagonals: dict[int, Array] = dict.fromkeys(plan.roots, w / N)
    root = np.sqrt(w)
    for k in plan.inner:
        inside, outside = sides_of(plan, k, settings)
        L = _gram(plan, columns, z, inside, settings)
        G = _gram(plan, columns, z, outside, settings)
        B = _dual(L * root * root[:, None], G * root * root[:, None], ridges, plan.nodes[k].rank)
        diagonals[k] = (B * root * root[:, None]) @ L
    leaves = tuple(kernel_table(plan, columns, k, rows.codes, settings) for k in plan.leaves)
    mix = N**-0.5 if ridges[1] > 0 else 0.0
    shares = [t @ (w / N) for t in leaves]
    marginals = seen_marginals(plan, columns, shares, N, mix)
    floor = settings.floor if any(c.continuous for c in columns) else 0.0
    return Operators(plan, leaves, {}, marginals, N, mix, floor=floor, diagonals=diagonals)


def seen_marginals(
    plan: Plan, columns: Sequence[Column], shares: Sequence[Array], N: float, mix: float
) -> tuple[Array, ...]:
    """P̂ of the cells of every leaf, never zero where answers are mixed with independence."""
    kinds = dict(zip(plan.graph.observed, columns, strict=True))
    found = []
    for k, mu in zip(plan.leaves, shares, strict=True):
        if any(kinds[v].continuous for v in plan.nodes[k].columns):
            found.append(np.maximum(mu, 1e-300))  # far from all rows: small, not impossible
        else:
            found.append(smooth_unseen(mu, N) if mix > 0 else mu)
    return tuple(found)


def _dual(L: Array, G: Array, ridges: tuple[float, float], rank: int) -> Array:
    """B = Γ (Γ L Γ + λ₂N)⁻¹ Γ; without a ridge pseudo-inverses, the second cut at the rank."""
    if ridges[0] > 0:
        Gamma = ridge_solver(G, ridges[0])(G)
    else:
        e, V = eigh(G)
        V = V[:, e > SINGULAR * e[-1]]
        Gamma = V @ V.T
    S = Gamma.T @ L @ Gamma
    if ridges[1] > 0:
        return np.asarray(Gamma @ ridge_solver((S + S.T) / 2, ridges[1])(Gamma.T))
    e, V = eigh((S + S.T) / 2)
    kept = (e > SINGULAR * e[-1]) & (np.arange(len(e)) >= len(e) - rank)
    half = Gamma @ (V[:, kept] / np.sqrt(e[kept]))
    return np.asarray(half @ half.T)


def rows_in_memory(source: Source) -> Rows:
    """All rows, complete and few enough."""
    rows = getattr(source, "rows", None)
    if not isinstance(rows, Rows):
        raise DataError("the Gram form reads rows: bring them into memory, or use form='finite'.")
    if len(rows) > LARGEST_GRAM:
        raise DataError(
            f"the Gram form holds N × N matrices; it takes at most {LARGEST_GRAM:,} rows, got "
            f"{len(rows):,}. Use form='finite' or PBP(), which are linear in rows."
        )
    if not rows.total > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    for codes in rows.codes:
        gone = ~is_present(codes)
        if gone.any():
            raise DataError(
                f"the Gram form compares whole rows; {int(gone.sum())} of {len(rows)} rows miss a "
                "cell of one column. Drop these rows, or use form='finite' or PBP()."
            )
    return rows


def code_columns(plan: Plan) -> tuple[Column, ...]:
    """Columns of a discrete plan, with their codes for states."""
    return tuple(
        DiscreteColumn(plan.graph.names[v], tuple(range(plan.graph.states[v] or 1)))
        for v in plan.graph.observed
    )


def in_published_units(columns: Sequence[Column], settings: PublishedKernel) -> tuple[Column, ...]:
    """Columns whose `spread` is the unit of σ."""
    found: list[Column] = []
    for c in columns:
        if isinstance(c, ContinuousColumn):
            if isinstance(settings.kernel, str) and settings.kernel == "delta":
                raise DataError(
                    f"the delta kernel knows equal from unequal, and {c.name!r} is continuous. "
                    "Use kernel='rbf', or bin the column."
                )
            if settings.units == "own":
                if c.curved:
                    raise DataError(
                        f"column {c.name!r} has long tails and is scaled by a curve inside; it has "
                        "no bandwidth in its own units. Use units='sd'."
                    )
                c = replace(c, spread=1.0 / c.scale)
        found.append(c)
    return tuple(found)


def sides_of(plan: Plan, k: int, settings: PublishedKernel) -> tuple[Block, Block]:
    """α(S) and β(S) as leaves: minimal core groups, or so many of the nearest."""
    node = plan.nodes[k]
    found = []
    for side, count in ((node.inside, settings.inside), (node.outside, settings.outside)):
        single = tuple(b[0] for b in side.wide if len(b) == 1)
        found.append(side.core if count is None else single[:count])
    return (node.first,) if node.is_leaf else found[0], found[1]


def _gram(
    plan: Plan, columns: Sequence[Column], z: Array, block: Block, settings: PublishedKernel
) -> Array:
    """Π over the columns of a group of their kernels, between all rows: (N, N)."""
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    members = tuple(place[v] for x in block for v in plan.nodes[plan.leaves[x]].columns)
    states = tuple(0 if c.continuous else c.cells for c in (columns[i] for i in members))
    own = z[list(members)]
    none = np.zeros((0, 0))
    bare = BlockMap(members, states, own, none, settings.sigma, settings.smooth, unequal=0.0)
    return bare.factors(own)


def kernel_table(
    plan: Plan,
    columns: Sequence[Column],
    leaf: int,
    codes: Sequence[Places],
    settings: PublishedKernel,
) -> Array:
    """k(cell, x_d), each row's sum over the cells of the leaf made one: (cells, n)."""
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    table = np.ones((1, len(codes[0])))
    for v in plan.nodes[leaf].columns:
        part = _column_table(columns[place[v]], codes[place[v]], settings)
        table = (table[:, None, :] * part).reshape(-1, part.shape[1])
    return table


def _column_table(column: Column, codes: Places, settings: PublishedKernel) -> Array:
    """Zero where the cell is missing."""
    if not isinstance(column, ContinuousColumn):
        return np.asarray(codes == np.arange(column.cells)[:, None], dtype=float)
    k = as_kernel(settings.kernel)
    gone = np.isnan(codes)
    x = column.at(np.where(gone, 0.0, codes)) / column.spread
    table = np.zeros((column.cells, len(codes)))
    inner = k(column.grid[:, None] / column.spread / settings.sigma, x / settings.sigma)
    total = inner.sum(axis=0)
    if not (total > 0).all() or (inner < 0).any():
        raise DataError(
            f"a kernel that reads densities must not be negative, nor zero everywhere; this one "
            f"is for column {column.name!r} with sigma={settings.sigma:g}. Use a wider one."
        )
    table[: column.points] = inner / total
    for j in range(len(column.atoms)):
        at = codes == column.points + j
        table[:, at] = 0.0
        table[column.points + j, at] = 1.0
    table[:, gone] = 0.0
    return table

"""Densities on a grid: moments, quantiles and draws from masses of cells, for many rows at once.

Masses are (cells, n). Between grid points a density is linear in z; half a step before either end
it is constant (data.columns.continuous), so that every integral here is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from latentia.typing import Array, Codes

EDGE = 1e-9  # of the grid


class Grid(Protocol):
    """What is asked of a continuous column here."""

    @property
    def points(self) -> int: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def step(self) -> float: ...
    @property
    def grid(self) -> Array: ...
    @property
    def atoms(self) -> tuple[float, ...]: ...
    @property
    def lattice(self) -> tuple[int, int]: ...
    @property
    def single(self) -> bool: ...
    def scaled(self, x: Array) -> Array: ...
    def unscaled(self, z: Array) -> Array: ...
    def slope(self, x: Array) -> Array: ...


def cell_values(column: Grid) -> Array:
    """x of every cell, atoms included."""
    return np.concatenate([column.unscaled(column.grid), np.asarray(column.atoms, dtype=float)])


def means(column: Grid, masses: Array) -> Array:
    """E[x]: (n,)."""
    return np.asarray(cell_values(column) @ masses)


def spreads(column: Grid, masses: Array) -> Array:
    """Standard deviation: (n,)."""
    x = cell_values(column)
    centre = float(x.mean())
    first, second = (x - centre) @ masses, (x - centre) ** 2 @ masses
    return np.asarray(np.sqrt(np.maximum(second - first**2, 0.0)))


def densities(column: Grid, masses: Array, x: Array) -> Array:
    """p(x) per unit of x of one density (masses: (cells,)); at atoms their probability."""
    x = np.asarray(x, dtype=float)
    z = column.scaled(x)
    inner = masses[: column.points] / column.step
    found = np.interp(z, column.grid, inner) * column.slope(x)
    room = EDGE * (column.high - column.low)  # an end that was scaled and back is still one
    found = np.where((z < column.low - room) | (z > column.high + room), 0.0, found)
    for k, atom in enumerate(column.atoms):
        found = np.where(x == atom, masses[column.points + k], found)
    return np.asarray(found)


def _ends(column: Grid) -> Array:
    """z where the pieces of a density meet: low, the grid points, high."""
    return np.concatenate([[column.low], column.grid, [column.high]])


def _levels(column: Grid, masses: Array) -> Array:
    """∫ of the continuous part up to each of `_ends`: (points + 2, n)."""
    m = masses[: column.points]
    pieces = np.concatenate([m[:1] / 2, (m[:-1] + m[1:]) / 2, m[-1:] / 2])
    zero = np.zeros((1, m.shape[1]))
    return np.concatenate([zero, np.cumsum(pieces, axis=0)])


def on_lattice(column: Grid, x: Array) -> Array:
    """The nearest values that the column can have: of whole numbers, a whole number.

    Of decimals that came as floats of 32 bits, these.
    """
    step, per = column.lattice
    if not step:
        return x
    found = np.asarray(np.rint(x * (per / step)) * step / per + 0.0)  # no -0.0
    return found.astype(np.float32).astype(float) if column.single else found


def _upper_end(column: Grid, x: Array) -> Array:
    """Where the stretch ends that stands for the last value of the lattice up to x."""
    step, per = column.lattice
    if not step:
        return x
    return np.asarray((np.floor(x * (per / step) + EDGE) + 0.5) * step / per)


def cdf(column: Grid, masses: Array, x: Array) -> Array:
    """P(X ≤ x) of one density; of a lattice, all that lies nearest to values up to x."""
    x = np.asarray(x, dtype=float)
    z = np.clip(column.scaled(_upper_end(column, x)), column.low, column.high)
    weights = interval_weights(column, np.full_like(z, column.low), z)
    found = masses[: column.points] @ weights
    for k, atom in enumerate(column.atoms):
        found = found + np.where(x >= atom, masses[column.points + k], 0.0)
    return np.asarray(np.clip(found, 0.0, 1.0))


def interval_weights(column: Grid, low: Array, high: Array) -> Array:
    """∫ of each point's hat between z = low and high, in steps: (points, n)."""
    return _hat_integrals(column, high) - _hat_integrals(column, low)


def _hat_integrals(column: Grid, z: Array) -> Array:
    """∫ of each hat from the low end to z, in steps: (points, n)."""
    u = (z - column.low) / column.step - 0.5 - np.arange(column.points)[:, None]
    v = np.clip(u, -1.0, 1.0)
    rising, falling = (v + 1.0) ** 2 / 2, 1.0 - (1.0 - v) ** 2 / 2
    found = np.where(v < 0, rising, falling)
    t = (z - column.low) / column.step  # the outer hats are flat beyond their points
    found[0] = np.where(t < 0.5, t, found[0])
    s = (column.high - z) / column.step
    found[-1] = np.where(s < 0.5, 1.0 - s, found[-1])
    return np.asarray(found)


def interval_likelihood(column: Grid, low: float, high: float) -> Array:
    """Share of each cell between two values: soft evidence for low ≤ x ≤ high, (cells,)."""
    ends = np.clip(column.scaled(np.array([low, high])), column.low, column.high)
    inner = interval_weights(column, ends[:1], ends[1:])[:, 0]
    atoms = [float(low <= a <= high) for a in column.atoms]
    return np.concatenate([np.clip(inner, 0.0, 1.0), atoms])


def quantiles(column: Grid, masses: Array, q: Sequence[float]) -> Array:
    """Smallest x with P(X ≤ x) ≥ q: (len(q), n)."""
    wanted = np.asarray(q, dtype=float)
    if column.atoms:
        return _with_atoms(column, masses, wanted)
    levels = _levels(column, masses)
    x = column.unscaled(_inverse(column, masses, levels, wanted * levels[-1][:, None]).T)
    return on_lattice(column, x)


def _inverse(column: Grid, masses: Array, levels: Array, wanted: Array) -> Array:
    """z where the continuous part reaches the wanted levels, (n, q) -> (n, q)."""
    ends, n = _ends(column), masses.shape[1]
    m = masses[: column.points] / column.step
    heights = np.concatenate([m[:1], m, m[-1:]])  # density at the ends of pieces
    out = np.empty(wanted.shape)
    rows = np.arange(n)
    for j in range(wanted.shape[1]):
        target = np.clip(wanted[:, j], 0.0, levels[-1])
        piece = np.clip((levels < target).sum(axis=0) - 1, 0, len(ends) - 2)
        a, b = heights[piece, rows], heights[piece + 1, rows]
        width, rest = ends[piece + 1] - ends[piece], target - levels[piece, rows]
        # a t + (b − a) t² / (2 width) = rest, in the form that is stable for b = a and a = 0
        root = np.sqrt(np.maximum(a * a + 2.0 * (b - a) * rest / width, 0.0))
        t = np.where(rest > 0, 2.0 * rest / np.maximum(a + root, 1e-300), 0.0)
        out[:, j] = ends[piece] + np.clip(t, 0.0, width)
    return out


def _with_atoms(column: Grid, masses: Array, q: Array) -> Array:
    """Quantiles of densities with atoms, (len(q), n): the continuous part between them."""
    order = np.argsort(column.atoms)
    atoms = np.asarray(column.atoms, dtype=float)[order]
    own = masses[column.points :][order]  # (atoms, n)
    ends = np.clip(column.scaled(_upper_end(column, atoms)), column.low, column.high)
    weights = interval_weights(column, np.full_like(ends, column.low), ends)
    after = weights.T @ masses[: column.points] + np.cumsum(own, axis=0)  # P(X ≤ atom)
    before = after - own
    passed = (after[None] < q[:, None, None]).sum(axis=1)  # atoms below the quantile, (q, n)
    rows, last = np.arange(masses.shape[1]), np.minimum(passed, len(atoms) - 1)
    at_atom = (passed < len(atoms)) & (before[last, rows] < q[:, None])
    taken = np.concatenate([np.zeros((1, len(rows))), np.cumsum(own, axis=0)])[passed, rows]
    wanted = np.maximum(q[:, None] - taken, 0.0).T
    z = _inverse(column, masses, _levels(column, masses), wanted).T
    return np.where(at_atom, atoms[last], on_lattice(column, column.unscaled(z)))


def draw(column: Grid, codes: Codes, rng: np.random.Generator) -> Array:
    """Values for cells that were drawn: by the hat around each point; atoms as they are."""
    codes = np.asarray(codes)
    inside = np.minimum(codes, column.points - 1)
    jitter = rng.random(len(codes)) + rng.random(len(codes)) - 1.0  # triangular on (−1, 1)
    # the outer hats are flat from their point to the end, half a step away
    flat = 0.5 * np.sign(jitter) * (1.0 - (1.0 - np.abs(jitter)) ** 2)
    outer = ((inside == 0) & (jitter < 0)) | ((inside == column.points - 1) & (jitter > 0))
    z = column.grid[inside] + np.where(outer, flat, jitter) * column.step
    x = on_lattice(column, column.unscaled(z))
    for k, atom in enumerate(column.atoms):
        x = np.where(codes == column.points + k, atom, x)
    return np.asarray(x)

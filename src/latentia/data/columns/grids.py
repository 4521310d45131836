"""Laying a grid: atoms, scale, walls and ends of a continuous column, from a sketch of its numbers.

A scale is good if smoothing by a fraction of a standard deviation, which is what learners do, moves
no quantile by much. Straight, asinh and logarithm are tried in turn, then a curve through
quantiles. An end that smoothing would leak over is a wall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np
import scipy

from latentia.data.columns.continuous import LONG_TAIL, POINTS, ContinuousColumn
from latentia.data.columns.scales import Knots, bend, spread_out
from latentia.data.columns.values import EXACT
from latentia.data.sources.sketch import NumberSketch
from latentia.errors import DataError
from latentia.typing import Array, Label

ATOM = 0.02  # share of rows at one value that makes it an atom …
FEWEST_AT_ATOM = 5
FEWEST_BETWEEN = 10  # values that are left to be measured, where ends of whole numbers are atoms
LONELY = 0.5  # … if this share of the other values is seen only once
HEAPED = 3.0  # … or, of whole numbers, if an end is seen so many times as often as what is next
FEW_OF_ALL = 0.5  # … or, of decimals on no lattice, if so few of the values are frequent …
NEARLY_ALL, MOST_OF_ALL = 0.9, 20  # … or if such a share of the rows has one of so few values
MARGIN = 0.05  # of the range, on sides that are not bounds
LARGEST_VALUE = 1e100  # of a column in training
FEWEST_STEPS = 1e4  # of rounding, from the smallest to the largest of large integers
FEWEST_AT_BOUND = 3
BOUND = 0.01  # share of rows at the smallest or largest value that makes it a bound
BLUR = 0.15  # standard deviations of z by which learners may smooth …
LITTLE = 0.006  # … and what that may move of a level to be little …
CLEARLY = 0.6  # … more than on another scale …
MOVED = 0.02  # … or too much, …
MOST_MOVED = 0.03  # … or so much, of the median, that the column is laid on a curve
LEAK = 0.004  # … and over an end, before that is a wall
SAME = 1e-6  # of a value: as good as equal
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
FIRMER = np.array([(4.0 * q * (1.0 - q)) ** 0.25 for q in LEVELS])  # outer levels move less
WIDEST = 1e30  # of a column on a logarithmic scale, largest over smallest
BETWEEN = 0.25  # knots of a curve, in standard deviations …
MANY_PARTS = 5  # … fewer where gaps part it more often
SPARSE = 0.005  # a gap has few rows, such a share of them …
NEIGHBOURS = 0.02  # … and is much wider than such a share on either side of it:
APART = 3.0  # so many times
GAP = 1.0  # of a gap on a curve, in standard deviations of what lies beside it


@final
@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to z, and how the column looks there."""

    centre: float
    scale: float
    warped: bool
    knots: Knots = ()
    cuts: tuple[float, ...] = ()  # z in the middle of wide gaps

    def z(self, x: Array) -> Array:
        y = (x - self.centre) / self.scale
        y = np.arcsinh(y) if self.warped else y
        return bend(self.knots, y) if self.knots else np.asarray(y)

    def spread(self, z: Array, w: Array) -> float:
        """Standard deviation of z; curves are made so that between two gaps it is one."""
        return 1.0 if self.knots else _moments(z, w)[1]


def lay_grid(name: Label, numbers: NumberSketch) -> ContinuousColumn:
    """Centre, scale, tails, bounds and atoms from the numbers."""
    found = measured(name, numbers)
    return lay_on(name, found, choose_scale(found.x, found.w))


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """The numbers of a column: what is measured, rising, with weights, and what stands alone."""

    x: Array
    w: Array
    atoms: tuple[float, ...]
    lattice: tuple[int, int]
    single: bool = False  # floats of 32 bits

    @property
    def half(self) -> float:
        """What stands for a value of a lattice, on either side of it."""
        return 0.5 * self.lattice[0] / self.lattice[1]


def measured(name: Label, numbers: NumberSketch) -> Measured:
    """Atoms apart from the rest, which must be numbers that a grid can hold."""
    atoms = find_atoms(numbers)
    x, w = _rest(numbers, atoms)
    _check_integers(name, numbers, x)
    _check(name, x)
    every = np.concatenate([x, atoms])
    lattice = find_lattice(every)
    return Measured(x, w, tuple(atoms), lattice, is_single(every, lattice))


def lay_on(name: Label, numbers: Measured, scale: Scale) -> ContinuousColumn:
    """The grid of a column on a scale: ends, walls, bounds."""
    x, w, atoms = numbers.x, numbers.w, numbers.atoms
    z = scale.z(x)
    spread = scale.spread(z, w)
    walls = _walls(z, w, spread)
    ends = scale.z(np.array([x[0] - numbers.half, x[-1] + numbers.half]))
    room = MARGIN * float(z[-1] - z[0])
    low = float(ends[0]) if walls[0] else min(float(z[0]) - room, float(ends[0]))
    high = float(ends[1]) if walls[1] else max(float(z[-1]) + room, float(ends[1]))
    for atom in scale.z(np.array(atoms)).tolist():  # a bound that many rows reach
        low = atom if walls[0] and low - room < atom < low else low
        high = atom if walls[1] and high < atom < high + room else high
    if scale.warped and scale.centre == 0.0:  # a logarithm: no room beyond zero
        zero = float(scale.z(np.zeros(1))[0])
        low, high = (max(low, zero), high) if x[0] > 0 else (low, min(high, zero))
    return ContinuousColumn(
        *(name, scale.centre, scale.scale, scale.warped, low, high, spread, POINTS),
        atoms=atoms,
        knots=scale.knots,
        walls=walls,
        lattice=numbers.lattice,
        cuts=scale.cuts,
        single=numbers.single,
    )


def is_single(x: Array, lattice: tuple[int, int]) -> bool:
    """Are decimals floats of 32 bits, 0.1 something else than 0.1?

    >>> x = np.array([0.1, 0.2, 0.7])
    >>> is_single(x, (1, 10)), is_single(x.astype(np.float32).astype(float), (1, 10))
    (False, True)
    """
    if lattice[1] == 1:
        return False
    with np.errstate(over="ignore"):
        return bool(
            (x == x.astype(np.float32)).all() and (x * lattice[1] != np.rint(x * lattice[1])).any()
        )


def find_lattice(x: Array) -> tuple[int, int]:
    """The largest fraction with up to three decimals that all values are multiples of.

    >>> find_lattice(np.array([0.5, 2.0, 3.5])), find_lattice(np.array([10.0, 30.0]))
    ((1, 2), (10, 1))
    >>> find_lattice(np.array([0.12345])), find_lattice(1000 + np.array([0.0, 1e-5, 2e-5]))
    ((0, 1), (0, 1))
    """
    for per in (1, 10, 100, 1000):
        whole = np.rint(x * per)
        most = np.minimum(SAME * np.abs(x), 100.0 * SAME / per)  # floats of 32 bits are not exact
        apart = 2 * len(np.unique(whole)) > len(x)  # values that fall together are no rounding
        if apart and np.abs(whole).max() < EXACT and (np.abs(x - whole / per) <= most).all():
            step = int(np.gcd.reduce(whole.astype(np.int64)))
            common = math.gcd(step, per)
            return (step // common, per // common) if step else (0, 1)
    return 0, 1


def find_atoms(numbers: NumberSketch) -> list[float]:
    """Values with a share of the rows, where most others are seen once, or all of them far less.

    Whole numbers and fixed decimals are seen often as such: of them ends, and heaps, which are
    seen far more than what is beside. Of other decimals few frequent values stand alone.
    """
    seen, weights = numbers.seen.astype(float), numbers.weights
    least = max(ATOM * numbers.weight, FEWEST_AT_ATOM)
    if _all_whole(numbers):
        ends = [numbers.low, numbers.high] if len(seen) > FEWEST_BETWEEN else []
        heaped = [end for end in ends if len(end) > 1 and end[0][1] >= HEAPED * end[1][1]]
        found = {value for (value, weight), *_ in heaped if weight >= least}
        heaps = found | _heaps(numbers, least)
        enough = len(seen) - len(heaps) > FEWEST_BETWEEN
        return sorted(heaps if enough else found)
    often = sorted(x for x, w in numbers.frequent.items() if w >= least)
    others = weights[~np.isin(seen, often)]
    if not often or len(others) < 2:
        return []
    few = len(often) < FEW_OF_ALL * len(seen)
    all_rows = sum(numbers.frequent[x] for x in often) >= NEARLY_ALL * numbers.weight
    few = few or (all_rows and len(often) <= MOST_OF_ALL)
    if (others <= 1).mean() >= LONELY or (few and not find_lattice(seen)[0]):
        return often
    if len(others) <= FEWEST_BETWEEN:
        return []
    above = {x for x in often if numbers.frequent[x] >= HEAPED * others.max()}
    return sorted(above | _heaps(numbers, least))


def _heaps(numbers: NumberSketch, least: float) -> set[float]:
    """Frequent values seen `HEAPED` times as often as those beside them, two on either side."""
    own = dict(zip(numbers.seen.astype(float).tolist(), numbers.weights.tolist(), strict=True))
    own |= {float(x): float(w) for x, w in numbers.frequent.items()}
    values = sorted(own)
    found = set()
    for i, x in enumerate(values):
        beside = [own[v] for v in (*values[max(i - 2, 0) : i], *values[i + 1 : i + 3])]
        if own[x] >= least and beside and own[x] >= HEAPED * max(beside):
            found.add(x)
    return found


def _all_whole(numbers: NumberSketch) -> bool:
    seen = numbers.seen.astype(float)
    return bool((seen == np.rint(seen)).all())


def _rest(numbers: NumberSketch, atoms: Sequence[float]) -> tuple[Array, Array]:
    """Numbers that are no atoms, rising, with their weights; the outermost are among them."""
    own = dict(zip(numbers.seen.astype(float).tolist(), numbers.weights.tolist(), strict=True))
    if not numbers.whole:  # the ends are as many as the others stand for
        share = sum(own.values()) / max(numbers.weight - sum(numbers.frequent.values()), 1.0)
        for x, w in (*numbers.low, *numbers.high):
            own.setdefault(x, w * min(share, 1.0))
    kept = sorted((x, w) for x, w in own.items() if x not in atoms)
    pairs = np.array(kept, dtype=float).reshape(-1, 2)
    return pairs[:, 0], _rounded(pairs[:, 1])


def _rounded(w: Array) -> Array:
    """Nine digits, so that the order in which blocks were added does not show."""
    if (w == np.rint(w)).all():
        return w
    unit = 10.0 ** (np.floor(np.log10(w)) - 8.0)
    return np.asarray(np.rint(w / unit) * unit)


def _check_integers(name: Label, numbers: NumberSketch, x: Array) -> None:
    large = numbers.seen.dtype.kind != "f" and np.abs(x).max() > EXACT
    if large and np.ptp(x) < FEWEST_STEPS * np.spacing(np.abs(x).max()):
        raise DataError(
            f"column {name!r} holds integers around {x[0]:.6g} that are too close together to be "
            f"measured as decimal numbers. Subtract {int(numbers.seen[0])} from them, or pass "
            f"kinds={{{name!r}: 'discrete'}}."
        )


def _check(name: Label, x: Array) -> None:
    if np.abs(x).max() > LARGEST_VALUE or 0 < np.ptp(x) < 1.0 / LARGEST_VALUE:
        raise DataError(
            f"column {name!r} runs from {x[0]:.3g} to {x[-1]:.3g}: its squares cannot "
            f"be summed (values up to ±{LARGEST_VALUE:.0e}, ranges from {1 / LARGEST_VALUE:.0e} "
            "can). Scale it, or take its logarithm."
        )
    if x[0] == x[-1]:
        raise DataError(
            f"column {name!r} has a single value ({float(x[0])!r}); a continuous column needs "
            f"two. Drop it from the graph, or pass kinds={{{name!r}: 'discrete'}}."
        )


# --- scales ---------------------------------------------------------------------------------------


def choose_scale(x: Array, w: Array) -> Scale:
    """The plainest scale on which smoothing moves little; a curve where none is good enough."""
    noise = 0.25 / math.sqrt(effective_rows(w))  # levels of few rows move by themselves
    found = [(moved_by_smoothing(scale, x, w), scale) for scale in candidates(x, w)]
    (moved, best), better = found[0], min(found, key=lambda pair: pair[0])
    if moved > LITTLE + 0.4 * noise and (moved > MOVED + noise or better[0] < CLEARLY * moved):
        moved, best = better
    gaps = _gaps(best.z(x), _middles(w))
    if (_moved(best, x, w) > (LITTLE if gaps else MOST_MOVED * FIRMER) + noise).any():
        bare = replace(best, knots=())
        bent = replace(bare, knots=curve_through(bare.z(x), w)[0])
        if moved_by_smoothing(bent, x, w) < moved:
            return bent
    return best


def effective_rows(w: Array) -> float:
    """Rows of equal weight that would tell as much."""
    w = w / w.max()  # squares of tiny weights would be nothing
    return float(w.sum() ** 2 / (w @ w))


def candidates(x: Array, w: Array) -> list[Scale]:
    """Straight where tails are short; the logarithm of what is positive; asinh of the rest."""
    low, middle, high = _quantiles(x, w, (0.25, 0.5, 0.75))
    mean, sd = _moments(x, w)
    found = []
    long = high > low and float(x[-1] - x[0]) > LONG_TAIL * (high - low)
    if not long:
        found.append(Scale(mean, sd, False))
    if x[0] > 0 or x[-1] < 0:
        small, large = sorted([abs(float(x[0])), abs(float(x[-1]))])
        log = Scale(0.0, max(small / 2.0, large / WIDEST), True)
        found.append(replace(log, knots=_standardised(log.z(x), w)))
    if high > low:
        found.append(Scale(middle, (high - low) / 1.35, True))
    return found or [Scale(mean, sd, False)]


def moved_by_smoothing(scale: Scale, x: Array, w: Array) -> float:
    """How far smoothing moves the levels of a column, rising x, at most."""
    return float(_moved(scale, x, w).max())


def _moved(scale: Scale, x: Array, w: Array) -> Array:
    """How far it moves each of them."""
    z = scale.z(x)
    spread = scale.spread(z, w)
    if not spread > 0:
        return np.full(len(LEVELS), math.inf)
    total = float(w.sum())
    share = np.cumsum(w) / total
    at = np.minimum(np.searchsorted(share, LEVELS), len(z) - 1)
    walls = _walls(z, w, spread)
    found = _smoothed(z, w / total, z[at], BLUR * spread, walls)
    # half of those at the point itself: ties are smoothed to both sides
    return np.abs(found - (share[at] - 0.5 * w[at] / total))


def _smoothed(z: Array, p: Array, at: Array, h: float, walls: tuple[bool, bool]) -> Array:
    """P(Z + h ε ≤ at), folded back at walls."""
    images = [z, *([2.0 * z[0] - z] if walls[0] else []), *([2.0 * z[-1] - z] if walls[1] else [])]
    low = float(z[0]) if walls[0] else -math.inf
    found = np.zeros(len(at))
    for image in images:
        below = scipy.special.ndtr((at[:, None] - image) / h)
        found += (below - scipy.special.ndtr((low - image) / h)) @ p
    return found


def _walls(z: Array, w: Array, spread: float) -> tuple[bool, bool]:
    """Ends at which many rows lie, or over which smoothing would leak."""
    p, h = w / w.sum(), BLUR * spread
    leaks = (
        float(scipy.special.ndtr((z[0] - z) / h) @ p),
        float(scipy.special.ndtr((z - z[-1]) / h) @ p),
    )
    least = max(BOUND * float(w.sum()), FEWEST_AT_BOUND)
    most = LEAK + 2.0 / effective_rows(w)  # the outermost rows themselves leak that much
    return bool(w[0] >= least or leaks[0] > most), bool(w[-1] >= least or leaks[1] > most)


def _standardised(y: Array, w: Array) -> Knots:
    """The straight line that gives a column mean 0 and variance 1."""
    mean, sd = _moments(y, w)
    return tuple((float(end), (float(end) - mean) / sd) for end in (y[0], y[-1]))


def curve_through(y: Array, w: Array) -> tuple[Knots, tuple[float, ...]]:
    """Knots that make a bell of what lies between two wide gaps: quantiles, and the gaps' edges.

    And z in the middle of the gaps.
    """
    starts = [0, *(i + 1 for i in _gaps(y, _middles(w))), len(y)]
    between = BETWEEN * math.ceil(len(starts) / MANY_PARTS)
    z, chosen, end, inner = np.empty(len(y)), set[int](), 0.0, 0.0
    for first, last in pairwise(starts):
        own = w[first:last]
        score = scipy.special.ndtri(_middles(own))
        inner += float(own.sum()) * _moments(score, own)[1] ** 2
        z[first:last] = score - score[0] + end
        end = float(z[last - 1]) + GAP
        wanted = np.arange(z[first], z[last - 1], between)
        chosen |= {first, last - 1, *(first + np.searchsorted(z[first:last], wanted)).tolist()}
    mean, sd = _moments(z, w)[0], math.sqrt(inner / float(w.sum())) or 1.0  # 0: single values
    z = (z - mean) / sd
    knots = spread_out([(float(y[i]), float(z[i])) for i in sorted(chosen)])
    return knots, tuple(float(z[i - 1] + z[i]) / 2.0 for i in starts[1:-1])


def _gaps(y: Array, level: Array) -> list[int]:
    """Places after which a wide gap comes: the widest of each stretch with few rows."""
    at = np.arange(NEIGHBOURS + SPARSE, 1.0 - NEIGHBOURS - SPARSE, SPARSE / 2)
    half = SPARSE / 2
    far, near, after, beyond = (
        np.interp(at + d, level, y) for d in (-half - NEIGHBOURS, -half, half, half + NEIGHBOURS)
    )
    wide = after - near > APART * np.maximum(near - far, beyond - after)
    places = np.flatnonzero(wide)
    found = set()
    for stretch in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        if len(stretch):
            first = max(int(np.searchsorted(level, at[stretch[0]] - half, side="right")) - 1, 0)
            last = max(int(np.searchsorted(level, at[stretch[-1]] + half)) + 1, first + 2)
            found.add(first + int(np.argmax(np.diff(y[first:last]))))
    return sorted(found)


def _moments(x: Array, weight: Array) -> tuple[float, float]:
    """Mean and standard deviation."""
    mean = float(np.average(x, weights=weight))
    return mean, math.sqrt(float(np.average((x - mean) ** 2, weights=weight)))


def _quantiles(x: Array, weight: Array, q: Sequence[float]) -> list[float]:
    """Of rising values, each in the middle of its own weight; the unit of weights is no matter."""
    return [float(v) for v in np.interp(q, _middles(weight), x)]


def _middles(w: Array) -> Array:
    """Level of each of rising values, in the middle of its own weight."""
    return np.asarray((np.cumsum(w) - 0.5 * w) / w.sum())

"""Weights of a linear pool, by what its members said of cells held out.

Of numbers by the continuous ranked probability score, which is a quadratic form of the weights,

    CRPS = Σ_cells width (Σ_m w_m F_m − 1{x ≥ truth})² = wᵀ G w,

of states by log loss, climbed by EM. Both are drawn towards equal weights by a few rows.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import betainc, logsumexp

from latentia.linear_algebra import pseudo_inverse
from latentia.typing import Array, Codes

DRAWN = 5.0  # rows of equal weights
LEAST = 0.03  # of a weight: less is none
STEPS = 200
SHARPNESS = (0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.5, 5.0)
DRAWN_SHARPNESS = 10.0  # nats that a column must gain to be e times as sharp as all are
DRAWN_POWER = 20.0  # the same for states, whose rows held out tell less
LEAST_MASS = 1e-4  # of a true cell: outliers are not what sharpness is for


def crps_form(values: Array, masses: Array, truth: Array, weight: Array) -> Array:
    """G of members (members, cells, n) whose cells have `values`, at values `truth`, (n,)."""
    order = np.argsort(values, kind="stable")
    width = np.diff(values[order])
    levels = np.cumsum(masses[:, order], axis=1)[:, :-1]  # P(X ≤ x) between cells
    apart = levels - (values[order][:-1, None] >= truth)
    cross = np.einsum("mcn,lcn,c,n->ml", apart, apart, width, weight / weight.sum(), optimize=True)
    return np.asarray(cross)


def least_form(form: Array, rows: float) -> Array:
    """Weights of least wᵀ G w, positive, sum one: all sets of members are looked at."""
    m = len(form)
    pull = DRAWN / rows * float(np.trace(form)) / m
    drawn = form + pull * np.eye(m)
    aim = np.full(m, pull / m)  # (w − 1/m)² in full: wᵀw − 2 wᵀ1/m + …
    best, level = np.full(m, 1.0 / m), np.inf
    for size in range(1, m + 1):
        for some in map(list, combinations(range(m), size)):
            own = _on_simplex(drawn[np.ix_(some, some)], aim[some])
            if own is None:
                continue
            found = np.zeros(m)
            found[some] = own
            now = float(found @ drawn @ found - 2.0 * found @ aim)
            if now < level:
                best, level = found, now
    return trimmed(best)


def _on_simplex(form: Array, aim: Array) -> Array | None:
    """argmin wᵀ A w − 2 wᵀ b with Σ w = 1; None where a weight is negative."""
    inverse = pseudo_inverse(form)
    ones = inverse.sum(axis=1)
    free = inverse @ aim
    found = free + ones * (1.0 - free.sum()) / max(float(ones.sum()), 1e-300)
    return found if (found >= 0).all() else None


def likeliest(chances: Array, weight: Array) -> Array:
    """Weights of most Σ w log Σ_m w_m P_m, drawn to equal ones; chances (members, n) of truths."""
    m = len(chances)
    found = np.full(m, 1.0 / m)
    for _ in range(STEPS):
        told = chances * found[:, None]
        told /= told.sum(axis=0)
        found = (told @ weight + DRAWN / m) / (weight.sum() + DRAWN)
    return trimmed(found)


def trimmed(weights: Array) -> Array:
    """Without those that hardly count."""
    kept = np.where(weights < LEAST, 0.0, weights)
    return np.asarray(kept / kept.sum())


def sharpness_gains(masses: Array, order: Codes, truth: Codes, weight: Array) -> Array:
    """Log-likelihoods of the true cells' levels at every `SHARPNESS` of a mixture (cells, n)."""
    place = np.empty(len(order), dtype=int)
    place[order] = np.arange(len(order))
    levels = np.minimum(np.cumsum(masses[order], axis=0), 1.0)
    own, row = place[truth], np.arange(len(truth))
    above = levels[own, row]
    below = np.where(own > 0, levels[np.maximum(own - 1, 0), row], 0.0)
    told = [betainc(a, a, above) - betainc(a, a, below) for a in SHARPNESS]
    return np.array([weight @ np.log(np.maximum(mass, LEAST_MASS)) for mass in told])


def power_gains(masses: Array, truth: Codes, weight: Array) -> Array:
    """Log-likelihoods of true states at every `SHARPNESS` of a mixture (states, n).

    None below one: members that know how sure they are make a mixture that is too unsure.
    """
    logs = np.log(np.maximum(masses, 1e-300))
    own = logs[truth, np.arange(len(truth))]
    told = [np.exp(a * own - logsumexp(a * logs, axis=0)) for a in SHARPNESS]
    found = np.array([weight @ np.log(np.maximum(mass, LEAST_MASS)) for mass in told])
    return np.where(np.array(SHARPNESS) < 1.0, -np.inf, found)


def settled_sharpness(gains: Array, pull: float = DRAWN_SHARPNESS) -> list[float]:
    """The sharpness of each column from gains (columns, sharpnesses), drawn to that of all."""
    logs = np.log(SHARPNESS)
    of_all = logs[int(np.argmax(gains.sum(axis=0) - pull * logs**2))]
    drawn = gains - pull * (logs - of_all) ** 2
    return [SHARPNESS[i] for i in drawn.argmax(axis=1)]


def chances_of(masses: Array, truth: Codes) -> Array:
    """P of the true cells, (members, n); masses (members, cells, n)."""
    return np.asarray(masses[:, truth, np.arange(len(truth))])

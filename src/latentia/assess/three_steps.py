"""Outcomes of latent classes by three steps: classes, assignments, and outcomes given these.

Rows are assigned to classes with errors, P(assigned s | class c) = D(c, s), that are known from the
memberships. What outcomes are like in assigned classes is blurred by them; two corrections undo it
(Bolck, Croon and Hagenaars 2004; Vermunt 2010):

    BCH    every row counts for all classes, by weights A D⁻¹, some of them negative
    ML     Σ log Σ_c P(c) D(c, assigned) f(y | c), D held fixed, is climbed by EM

Errors are of the sandwich form: row by row, whatever the shape of the outcome. They do not cover
that of the first step, as is usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import DataError
from latentia.linear_algebra import condition_number, rank_above_rounding, symmetric_inverse
from latentia.typing import Array, Codes

MOST_STEPS = 5000
NEAR = 1e-12  # gain a row at which EM rests
LEAST_SHARE = 1e-300
STEP = 1e-5  # of derivatives, in units of the parameters
SMALL_SPREAD = 1e-6  # of the outcome's own: no class is narrower


@final
@dataclass(frozen=True, slots=True)
class Estimates:
    """Of every class: a mean, or probabilities of states; and the covariance of all of them."""

    values: Array  # (classes, k): k = 1 for a mean
    covariance: Array  # (classes * k, classes * k)

    @property
    def errors(self) -> Array:
        """Standard errors, (classes, k)."""
        variance = np.maximum(np.diag(self.covariance), 0.0)
        return np.asarray(np.sqrt(variance).reshape(self.values.shape))


def assigned_shares(p: Array, modal: bool) -> Array:
    """(n, classes): 1 at the most probable class, or the memberships themselves."""
    if not modal:
        return p
    return np.asarray(np.eye(p.shape[1])[p.argmax(axis=1)])


def misclassification(p: Array, assigned: Array, weight: Array) -> Array:
    """D(c, s) = P(assigned s | class c) by memberships p, (classes, classes)."""
    whole = (p * weight[:, None]).sum(axis=0)
    if not whole.min() > 0:
        raise DataError(
            f"class {int(whole.argmin())} has no member among these rows. Bring rows in which all "
            "classes appear, or learn a model with fewer states."
        )
    return np.asarray((p * weight[:, None]).T @ assigned / whole[:, None])


def corrected_weights(p: Array, assigned: Array, weight: Array) -> Array:
    """The weights of BCH: for how much of each class a row counts, (n, classes)."""
    D = misclassification(p, assigned, weight)
    if condition_number(D) > 1e8:
        raise DataError(
            "rows cannot be told apart by their classes well enough: the errors of assignment "
            "cannot be undone. Use correction='ML' with assignment='proportional', or fewer states."
        )
    return np.asarray(assigned @ np.linalg.inv(D))


def weighted_estimates(shares: Array, Y: Array, weight: Array) -> Estimates:
    """Means of Y, (n, k), over rows that count `shares`, (n, classes), for each class."""
    own = shares * weight[:, None]
    whole = own.sum(axis=0)
    values = own.T @ Y / whole[:, None]
    # what each row adds to each mean: (n, classes, k)
    pull = own[:, :, None] * (Y[:, None, :] - values[None, :, :]) / whole[None, :, None]
    flat = pull.reshape(len(Y), -1)
    return Estimates(values, flat.T @ flat)


# --- maximum likelihood ---------------------------------------------------------------------------


def likely_means(x: Array, log_assigned: Array, log_share: Array, weight: Array) -> Estimates:
    """Means of a number that is normal in every class, with a spread of its own."""
    classes = log_assigned.shape[1]
    centre = float(np.average(x, weights=weight))
    spread = float(np.sqrt(np.average((x - centre) ** 2, weights=weight)))
    if not spread > 0:
        raise DataError("an outcome with a single value cannot differ between classes.")
    z = (x - centre) / spread

    def log_density(theta: Array) -> Array:  # (n, classes)
        mean, log_s = theta[:classes], theta[classes:]
        return -0.5 * ((z[:, None] - mean) / np.exp(log_s)) ** 2 - log_s

    def maximise(r: Array) -> Array:
        whole = np.maximum(r.sum(axis=0), LEAST_SHARE)
        mean = r.T @ z / whole
        variance = (r * (z[:, None] - mean) ** 2).sum(axis=0) / whole
        return np.concatenate([mean, 0.5 * np.log(np.maximum(variance, SMALL_SPREAD**2))])

    def scores(theta: Array, r: Array) -> Array:
        mean, log_s = theta[:classes], theta[classes:]
        u = (z[:, None] - mean) / np.exp(log_s)
        return np.concatenate([r * u / np.exp(log_s), r * (u * u - 1.0)], axis=1)

    theta, V = _climbed(log_density, maximise, scores, log_assigned + log_share, weight)
    return Estimates(
        (centre + spread * theta[:classes])[:, None], V[:classes, :classes] * spread**2
    )


def likely_shares(
    codes: Codes, states: int, log_assigned: Array, log_share: Array, weight: Array
) -> Estimates:
    """Probabilities of the states of an outcome in every class."""
    classes = log_assigned.shape[1]
    seen = np.eye(states)[codes]  # (n, states)

    def table(theta: Array) -> Array:  # (classes, states): the last one has no parameter
        logits = np.concatenate(
            [theta.reshape(classes, states - 1), np.zeros((classes, 1))], axis=1
        )
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def log_density(theta: Array) -> Array:
        return np.log(np.maximum(table(theta), LEAST_SHARE)).T[codes]

    def maximise(r: Array) -> Array:
        p = np.maximum(r.T @ seen, 1e-12)
        log = np.log(p)
        return np.asarray((log[:, :-1] - log[:, -1:]).ravel())

    def scores(theta: Array, r: Array) -> Array:
        gap = seen[:, None, :-1] - table(theta)[None, :, :-1]  # (n, classes, states - 1)
        return np.asarray((r[:, :, None] * gap).reshape(len(seen), -1))

    theta, V = _climbed(log_density, maximise, scores, log_assigned + log_share, weight)
    p = table(theta)
    blocks = np.zeros((classes * states, classes * (states - 1)))  # d p / d θ
    for c in range(classes):
        slope = np.diag(p[c]) - np.outer(p[c], p[c])
        rows = slice(c * states, (c + 1) * states)
        blocks[rows, c * (states - 1) : (c + 1) * (states - 1)] = slope[:, :-1]
    return Estimates(p, blocks @ V @ blocks.T)


def _climbed(
    log_density: Callable[[Array], Array],
    maximise: Callable[[Array], Array],
    scores: Callable[[Array, Array], Array],
    log_prior: Array,
    weight: Array,
) -> tuple[Array, Array]:
    """EM from the assignments on: parameters, and their covariance by the sandwich."""

    def memberships(theta: Array) -> tuple[Array, float]:
        joint = log_prior + log_density(theta)
        top = joint.max(axis=1, keepdims=True)
        p = np.exp(joint - top)
        whole = p.sum(axis=1, keepdims=True)
        return p / whole, float((np.log(whole) + top)[:, 0] @ weight)

    first = np.exp(log_prior - log_prior.max(axis=1, keepdims=True))
    theta = maximise(first / first.sum(axis=1, keepdims=True) * weight[:, None])
    r, level = memberships(theta)
    for _ in range(MOST_STEPS):
        theta = maximise(r * weight[:, None])
        r, above = memberships(theta)
        if above - level < NEAR * weight.sum():
            break
        level = above

    def slope(at: Array) -> Array:
        own = memberships(at)[0]
        return np.asarray(scores(at, own).T @ weight)

    H = np.empty((len(theta), len(theta)))
    for k in range(len(theta)):
        step = np.zeros(len(theta))
        step[k] = STEP * max(1.0, abs(theta[k]))
        H[:, k] = (slope(theta + step) - slope(theta - step)) / (2 * step[k])
    each = scores(theta, r) * weight[:, None]
    back = symmetric_inverse(-(H + H.T) / 2, 1e-10)
    return theta, back @ (each.T @ each) @ back


# --- do classes differ? ---------------------------------------------------------------------------


def wald_test(found: Estimates) -> tuple[float, int, float]:
    """χ² of all classes being alike, its degrees of freedom, and the probability of as much."""
    classes, k = found.values.shape
    free = max(k - 1, 1)  # probabilities add up to one
    kept = [c * k + j for c in range(classes) for j in range(free)]
    V = found.covariance[np.ix_(kept, kept)]
    values = found.values[:, :free].ravel()
    C = np.zeros(((classes - 1) * free, classes * free))
    for c in range(1, classes):
        for j in range(free):
            C[(c - 1) * free + j, [j, c * free + j]] = -1.0, 1.0
    gap, spread = C @ values, C @ V @ C.T
    chi2 = float(gap @ symmetric_inverse(spread, 1e-10) @ gap)
    freedom = rank_above_rounding(spread) or 1
    return chi2, freedom, _tail(chi2, freedom)


def _tail(chi2: float, freedom: int) -> float:
    from scipy.stats import chi2 as law

    return float(law.sf(max(chi2, 0.0), freedom)) if math.isfinite(chi2) else 0.0

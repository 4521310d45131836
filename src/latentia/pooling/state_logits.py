"""Multinomial logits on the same features with slopes of rising freedom.

Of states s, features x and slopes b of which a pull p holds each back to zero, the least of

    −Σ_i w_i log P(s_i | x_i) / Σ_i w_i + p/2 Σ_s |b_s|²,    P(s | x) ∝ exp(a_s + b_s · x).

In the axes of the features' Gram, each divided by the root of its curvature where all states are
alike often, all ways down are about as steep: L-BFGS needs a tenth of the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import minimize

from latentia.linear_algebra import eigh
from latentia.typing import Array, Codes

STEPS = 60  # most of them; not at rest is near enough: rows held out tell how good it is
AT_REST = 1e-3  # slope of the mean loss, in the axes above: its level is 1e-4 nats away at most
MEMORY = 15  # steps that L-BFGS knows


@final
@dataclass(frozen=True, slots=True, eq=False)
class StateLogit:
    """a and b of the states that were seen."""

    intercept: Array  # (states,)
    slopes: Array  # (states, width)


def fit_logits(
    features: Array, codes: Codes, weight: Array, freedoms: Sequence[float]
) -> list[StateLogit]:
    """A logit for each freedom, the variance of slopes, rising; codes 0 … of at least two states.

    Of two states the difference of slopes has that variance.
    """
    many = int(codes.max()) + 1
    share = weight / weight.sum()
    centre = share @ features
    apart = features - centre
    values, axes = eigh((apart * share[:, None]).T @ apart)
    values, along = np.maximum(values, 0.0), apart @ axes
    truth = np.zeros((len(codes), many))
    truth[np.arange(len(codes)), codes] = 1.0
    often = share @ truth
    start = np.vstack([np.log(often) - np.log(often).mean(), np.zeros((len(values), many))])
    found = []
    for freedom in freedoms:
        pull = (2.0 if many == 2 else 1.0) / (freedom * weight.sum())
        start = _least(along, values, truth, share, pull, start)
        slopes = (axes @ start[1:]).T
        found.append(StateLogit(start[0] - slopes @ centre, slopes))
    return found


def _least(
    along: Array, values: Array, truth: Array, share: Array, pull: float, start: Array
) -> Array:
    """Intercepts and slopes along the axes, (1 + width, states), of the least loss."""
    often = share @ truth
    held = np.append(0.0, np.full(len(values), pull))[:, None]
    root = np.sqrt(np.append(1.0, values)[:, None] * (often * (1.0 - often)) + held)
    grown = np.column_stack([np.ones(len(along)), along])

    def loss(flat: Array) -> tuple[float, Array]:
        own = flat.reshape(start.shape) / root
        log_p = grown @ own
        log_p -= log_p.max(axis=1, keepdims=True)
        p = np.exp(log_p)
        total = p.sum(axis=1)
        level = share @ (np.log(total) - (log_p * truth).sum(axis=1))
        slope = grown.T @ ((p / total[:, None] - truth) * share[:, None]) + held * own
        return float(level + 0.5 * (held * own**2).sum()), (slope / root).ravel()

    begin = (start * root).ravel()
    options = {"maxiter": STEPS, "maxcor": MEMORY, "gtol": AT_REST, "ftol": 0.0}
    end = minimize(loss, begin, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(end.x.reshape(start.shape) / root)

"""Rows that have a column, weighed as rows that lack it would be (inverse odds; Rubin 1976).

Where cells are missing more often in some rows than in others, answers are asked for there: of
professors, say, whose salaries spread wider than others'. How sure answers may be is told by rows
held out that have the cell, each weighed by the odds P(missing | rest) / P(present | rest).
"""

from __future__ import annotations

import numpy as np

from latentia.pooling.state_logits import fit_logits
from latentia.typing import Array, Bools

FEWEST = 30  # rows of either kind
FREEDOM = 0.3  # variance of the logit's slopes
LEAST, MOST = 0.2, 4.0  # odds over their mean: no row counts for all others


def hole_odds(
    features: Array, missing: Bools, weight: Array, asked: Array, asked_weight: Array
) -> Array | None:
    """Odds over their mean of rows `asked` (n, width), by rows some of which miss the column.

    None where rows of either kind are too few to tell.
    """
    kinds = missing[weight > 0]
    if min(int(kinds.sum()), int((~kinds).sum())) < FEWEST:
        return None
    (logit,) = fit_logits(features, missing.astype(np.int64), weight, [FREEDOM])
    logs = asked @ (logit.slopes[1] - logit.slopes[0])
    odds = np.exp(logs - logs.max(initial=0.0))
    odds = np.clip(odds / np.average(odds, weights=asked_weight), LEAST, MOST)
    return np.asarray(odds / np.average(odds, weights=asked_weight))

"""Numbers of states from the data: canonical correlations against their noise level."""

from __future__ import annotations

from functools import partial

import numpy as np

from latentia.basis import panel_covariance
from latentia.moments import Rows, pair_layout, sum_pairs
from latentia.plan import make_plan
from latentia.solve import canonical
from latentia.templates import latent_class
from latentia.typing import Codes, Source

__all__ = ["binned", "class_states"]

MOST = 10
BINS = 6  # of a continuous column, while states are counted
ABOVE_NOISE = 1.1


def class_states(sizes: list[int], source: Source) -> int:
    """States of one latent class that tells all columns: 1 + correlations above their noise.

    The columns are dealt to two hands; between hands of p and q features that have nothing to do
    with each other, N rows show canonical correlations up to (√p + √q) / √N.
    """
    if len(sizes) < 2:
        return 1
    columns = [str(i) for i in range(len(sizes))]
    plan = make_plan(latent_class(columns, 2), states=dict(zip(columns, sizes, strict=True)))
    layout = pair_layout(plan)
    moments = source.fold(partial(sum_pairs, layout))
    panel = panel_covariance(layout, 0, moments)
    singles = [b for b in panel.blocks if len(b) == 1]
    a, b = panel.features(singles[::2]), panel.features(singles[1::2])
    S = panel.plain
    found = canonical(S[np.ix_(a, a)], S[np.ix_(a, b)], S[np.ix_(b, b)], MOST - 1)
    noise = (np.sqrt(len(a)) + np.sqrt(len(b))) / np.sqrt(max(moments.weight, 1.0))
    return 1 + int((found.d > ABOVE_NOISE * noise).sum())


def binned(rows: Rows, sizes: list[int]) -> tuple[Rows, list[int]]:
    """Positions of continuous columns cut into bins of equal weight; codes as they are."""
    codes: list[Codes] = []
    counts = []
    for values, size in zip(rows.codes, sizes, strict=True):
        if values.dtype.kind != "f":
            codes.append(values)
            counts.append(size)
            continue
        there = ~np.isnan(values)
        seen, place = np.unique(values[there], return_inverse=True)
        weight = None if rows.weight is None else rows.weight[there]
        mass = np.bincount(place, weight, minlength=len(seen))
        middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-300)
        bins = np.minimum((BINS * middle).astype(np.int8), BINS - 1)
        found = np.full(len(values), -1, dtype=np.int8)
        found[there] = bins[place]
        codes.append(found)
        counts.append(BINS)
    return Rows(tuple(codes), rows.weight), counts

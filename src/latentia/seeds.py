"""Seeds: one reading of `random_state` for everything that draws."""

from __future__ import annotations

import numpy as np

from latentia.errors import DataError
from latentia.typing import Seed


def as_generator(random_state: Seed) -> np.random.Generator:
    """The generator of a seed: an integer, a Generator, a RandomState; None: of no seed.

    >>> int(as_generator(7).integers(100)) == int(as_generator(7).integers(100))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(
            "expected random_state to be a whole number from 0 on, a numpy Generator or None, "
            f"got {random_state!r}."
        ) from None

"""Scratch memory, used again: fresh pages cost more time than the numbers that go there.

Every thread has its own. What is handed out is overwritten when the same name is asked for again,
so that a pass must be done with it, or have copied it, before the next begins.
"""

from __future__ import annotations

import math
import threading

import numpy as np

from latentia.typing import Array

MOST_KEPT = 2**22  # numbers under one name: larger ones are not kept
_held = threading.local()


def scratch(name: str, *shape: int) -> Array:
    """An array of floats with anything in it.

    >>> a = scratch("doc", 2, 3)
    >>> a.shape, scratch("doc", 4).base is a.base
    ((2, 3), True)
    """
    size = math.prod(shape)
    if size > MOST_KEPT:
        return np.empty(shape)
    held: dict[str, Array] = _held.__dict__
    if name not in held or len(held[name]) < size:
        held[name] = np.empty(size)
    return held[name][:size].reshape(shape)

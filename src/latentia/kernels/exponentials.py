"""exp(min(x, 0)) of a large array in place: in the compiled kernel where there is one.

numpy has no vectors for exp in double precision on most processors, and features of kernels are
little else.
"""

from __future__ import annotations

import ctypes

import numpy as np

from latentia.native.loading import kernel
from latentia.typing import Array


def exp_negative(values: Array) -> Array:
    """exp(min(values, 0)), written over the values."""
    own = kernel()
    if own is None or values.dtype != np.float64 or not values.flags.c_contiguous:
        np.minimum(values, 0.0, out=values)
        return np.asarray(np.exp(values, out=values))
    own.function("exp_negative")(ctypes.c_void_p(values.ctypes.data), ctypes.c_int64(values.size))
    return values

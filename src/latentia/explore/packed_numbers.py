"""Numbers as text in a page: 64-bit floats, or places among the few different ones of a table."""

from __future__ import annotations

import base64

import numpy as np

from latentia.typing import Array, CellArray

MOST_DIFFERENT = 2**16  # numbers that a place of two bytes can tell apart


def packed_numbers(numbers: Array) -> dict[str, str]:
    """``{"numbers": …}``, or ``{"numbers": …, "places": …}``, whichever is shorter; base64.

    Numbers are 64-bit floats, places 16-bit whole numbers, lowest byte first. Nothing is rounded.
    """
    flat = np.ascontiguousarray(numbers, dtype="<f8").ravel()
    different, places = np.unique(flat, return_inverse=True)
    if different.size > MOST_DIFFERENT or 8 * different.size + 2 * flat.size >= 8 * flat.size:
        return {"numbers": _base64(flat)}
    return {"numbers": _base64(different), "places": _base64(places.astype("<u2"))}


def _base64(numbers: CellArray) -> str:
    return base64.b64encode(numbers.tobytes()).decode("ascii")

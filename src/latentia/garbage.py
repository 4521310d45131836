"""Garbage: where thousands of lasting values are made at once, nobody need look for any.

Python looks for values that hold each other whenever enough new ones are there, and goes through
all that lasts again and again: a tenth to a third of the time of a plan of thousands of columns.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_LOCK = Lock()
_INSIDE: list[bool] = []  # for each that is inside: was the collector at work before?


@contextmanager
def uncollected() -> Iterator[None]:
    """The first to come in stops the collector, the last to leave lets it go on, if it did before.

    >>> with uncollected(), uncollected():
    ...     gc.isenabled()
    False
    """
    with _LOCK:
        _INSIDE.append(_INSIDE[0] if _INSIDE else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            if _INSIDE.pop() and not _INSIDE:
                gc.enable()

"""Aliases and the few small protocols of the library."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from latentia.data.moments import Moments, Rows

__all__ = ["Additive", "Array", "Codes", "Label", "Source", "Summary"]

Label: TypeAlias = Hashable
Array: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.signedinteger[Any]]
Summary: TypeAlias = "Callable[[Rows], Moments]"


class Additive(Protocol):
    """A value of some rows; `+` makes that of two disjoint sets of rows."""

    def __add__(self, other: Self, /) -> Self: ...


Sum = TypeVar("Sum", bound=Additive)


class Source(Protocol):
    """Rows somewhere: in memory, on disk, on a cluster. Its one verb adds up a summary of them."""

    def fold(self, summary: Callable[[Rows], Sum]) -> Sum:
        """Σ over blocks of `summary(block)`."""
        ...

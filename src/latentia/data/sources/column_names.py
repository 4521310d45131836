"""Names of columns, among which one is found at once, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Self, SupportsIndex, final

from latentia.typing import Cell, Label


@final
class ColumnNames(tuple[Label, ...]):
    """A tuple that knows where each name is: tables of genes have 20,000.

    >>> names = ColumnNames(("a", 1, "b"))
    >>> 1.0 in names, "c" in names, names.index("b")
    (True, False, 2)
    """

    @classmethod
    def of(cls, names: tuple[Label, ...]) -> Self:
        """As they are, if they know it already."""
        return names if isinstance(names, cls) else cls(names)

    @cached_property
    def _places(self) -> Mapping[Label, int]:
        """Of equal names the first."""
        return {name: i for i, name in reversed(list(enumerate(self)))}

    def __contains__(self, name: Cell) -> bool:
        try:
            return name in self._places
        except TypeError:  # no name is a list
            return False

    def index(self, name: Cell, start: SupportsIndex = 0, stop: SupportsIndex | None = None) -> int:
        """Where it is first."""
        if start == 0 and stop is None and name in self:
            return self._places[name]
        return super().index(name, start, len(self) if stop is None else stop)

"""Names of answers: what states and columns are called in a table of answers, never two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol

from latentia.errors import DataError
from latentia.typing import Cell, Label


class Named(Protocol):
    """What is asked of a column here."""

    @property
    def name(self) -> Label: ...
    @property
    def continuous(self) -> bool: ...
    @property
    def labels(self) -> tuple[Cell, ...]: ...
    @property
    def summary_names(self) -> tuple[Cell, ...]: ...


def printed_apart(labels: Sequence[Cell], what: str) -> tuple[Cell, ...]:
    """The labels; those that print alike as Python writes them.

    >>> printed_apart([1, "1", 2], "states")
    ('1', "'1'", 2)
    """
    return _apart(labels, [repr(label) for label in labels], what)


def answer_labels(column: Named) -> tuple[Cell, ...]:
    """The columns of a table with the posterior of one column; no two print alike."""
    return column.summary_names


def joint_labels(columns: Iterable[Named]) -> list[tuple[Cell, ...]]:
    """Labels ``column=state`` for each column, () for continuous ones; no two are alike.

    Where two would be (column ``a`` with state ``b=1`` beside column ``a=b`` with state 1), both
    are written as Python does: ``'a'='b=1'``.
    """
    return _joint(columns, lambda c: () if c.continuous else c.labels)


def joint_summary_labels(columns: Iterable[Named]) -> list[tuple[Cell, ...]]:
    """The same with what is told of continuous columns: ``column=mean`` and so on."""
    return _joint(columns, lambda c: c.summary_names if c.continuous else c.labels)


def _joint(
    columns: Iterable[Named], told: Callable[[Named], tuple[Cell, ...]]
) -> list[tuple[Cell, ...]]:
    pairs = [[(c.name, state) for state in told(c)] for c in columns]
    flat = [pair for own in pairs for pair in own]
    plain = [f"{name}={state}" for name, state in flat]
    exact = [f"{name!r}={state!r}" for name, state in flat]
    found = iter(_apart(plain, exact, "the columns of the answer"))
    return [tuple(next(found) for _ in own) for own in pairs]


def _apart(labels: Sequence[Cell], exact: Sequence[str], what: str) -> tuple[Cell, ...]:
    """Labels, or their exact form where two print alike or are equal."""
    printed = Counter(map(str, labels))
    equal = Counter(labels)
    found: list[Hashable] = [
        label if printed[str(label)] == 1 and equal[label] == 1 else precise
        for label, precise in zip(labels, exact, strict=True)
    ]
    if len(set(map(str, found))) < len(found):
        twice = [name for name, count in Counter(map(str, found)).items() if count > 1]
        raise DataError(f"{what} cannot be told apart: {twice[0]!r} names two. Rename one of them.")
    return tuple(found)

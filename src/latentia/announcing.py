"""Telling: warnings where the caller stands, and how far long work has come."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from latentia.typing import Cell, Foreign


Verbose: TypeAlias = "bool | Callable[[str], None]"


HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(message: str, kind: type[Warning]) -> None:
    """A warning that points at the first line outside this library and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _inside(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(message, kind, stacklevel=level)


_Subject: TypeAlias = tuple[type[Warning], object]  # a kind of note, and what it is about


class Notes:
    """What is to be told of a question that is answered block by block: once, with all counts.

    Kept are, by kind and subject, the number of cells or rows, the first of them, and the words.
    """

    def __init__(self) -> None:
        self.found: dict[_Subject, tuple[int, Cell, Callable[[int, Cell], str]]] = {}
        self.told: set[_Subject] = set()

    @contextmanager
    def taking(self) -> Iterator[None]:
        """What is noted meanwhile, in this thread, is kept."""
        token = _NOTES.set(self)
        try:
            yield
        finally:
            _NOTES.reset(token)

    def add(
        self, key: _Subject, count: int, first: object, say: Callable[[int, Cell], str]
    ) -> None:
        before, earlier, _ = self.found.get(key, (0, first, say))
        self.found[key] = (before + count, earlier, say)

    def tell(self) -> None:
        """Warn of what was not told yet."""
        for key, (count, first, say) in list(self.found.items()):
            if key not in self.told:
                self.told.add(key)
                warn(say(count, first), key[0])


_NOTES: ContextVar[Notes | None] = ContextVar("_NOTES", default=None)


_CLIMBS: ContextVar[Callable[[int, float], None] | None] = ContextVar("_CLIMBS", default=None)


@contextmanager
def hearing_climbs(listener: Callable[[int, float], None] | None) -> Iterator[None]:
    """Climbs meanwhile, in this thread, tell `listener` their steps and the last gain in nats."""
    token = _CLIMBS.set(listener)
    try:
        yield
    finally:
        _CLIMBS.reset(token)


def tell_climb(steps: int, gain: float) -> None:
    """What a climb says after a step; nothing where nobody listens."""
    listener = _CLIMBS.get()
    if listener is not None:
        listener(steps, gain)


def note(
    kind: type[Warning], about: object, count: int, first: object, say: Callable[[int, Cell], str]
) -> None:
    """A warning of so many cells or rows; of a question in blocks, kept until its end."""
    notes = _NOTES.get()
    if notes is None:
        warn(say(count, first), kind)
    else:
        notes.add((kind, about), count, first, say)


def _inside(path: str) -> bool:
    return path.startswith(HERE) or f"{os.sep}sklearn{os.sep}" in path


@contextmanager
def announcing(verbose: object, total: int, what: str) -> Iterator[Callable[[str], None]]:
    """A function to be called with a line after each of `total` pieces of work.

    `verbose` True prints the lines, below a bar where stdout is a terminal and rich is there; a
    function gets them; False keeps silent.
    """
    if callable(verbose):
        yield verbose
    elif not verbose:
        yield lambda line: None
    elif (bar := _bar() if sys.stdout.isatty() else None) is None:
        yield lambda line: print(line, flush=True)
    else:
        with bar:
            task = bar.add_task(what, total=total)

            def advance(line: str) -> None:
                bar.console.print(line, markup=False, highlight=False)
                bar.advance(task)

            yield advance


def _bar() -> Foreign:
    try:
        from rich.progress import Progress
    except ImportError:
        return None
    return Progress(transient=True)

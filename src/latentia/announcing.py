"""Telling how far long work has come: lines, a bar in a terminal, or a function of the caller's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Verbose: TypeAlias = "bool | Callable[[str], None]"


@contextmanager
def announcing(verbose: Any, total: int, what: str) -> Iterator[Callable[[str], None]]:
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


def _bar() -> Any:
    try:
        from rich.progress import Progress
    except ImportError:
        return None
    return Progress(transient=True)

"""Telling: warnings where the caller stands, and how far long work has come."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Verbose: TypeAlias = "bool | Callable[[str], None]"


HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(message: str, kind: type[Warning]) -> None:
    """A warning that points at the first line outside this library and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _inside(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(message, kind, stacklevel=level)


def _inside(path: str) -> bool:
    return path.startswith(HERE) or f"{os.sep}sklearn{os.sep}" in path


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

"""How the command line ends: what it lacks, who still reads it, Ctrl-C, and what is left to do."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

NEEDED = ("typer", "rich", "pyarrow")
INTERRUPTED = 130  # what shells report for Ctrl-C


def missing(library: str) -> str:
    """What to say when one of the libraries of the command line is not there."""
    name = library.split(".")[0]
    return f"the command line needs {name}, which is not installed: pip install 'latentia[cli]'"


def flush_quietly() -> None:
    """Empty the buffer of stdout; if nobody reads it any more (`| head`), nobody is told."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """The process of the command ends as soon as all that is to be done at its end has been done.

    The interpreter would go on and take itself apart, while threads of Arrow may still be at work:
    one that then wants to give back a buffer of Python's aborts the process, answered as it is.
    """
    code = 0
    try:
        yield
    except SystemExit as ended:
        if isinstance(ended.code, str) or not _is_the_process():
            raise
        code = ended.code or 0
    if _is_the_process():
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                stream.flush()
        os._exit(code)


def _is_the_process() -> bool:
    """Is this the script `latentia` or `python -m latentia`, and no other program that calls it?"""
    own = sys.modules["__main__"]
    name = getattr(getattr(own, "__spec__", None), "name", None)
    return (
        name == "latentia.__main__" or Path(getattr(own, "__file__", None) or "").stem == "latentia"
    )


def leave_when_interrupted() -> None:
    """From here on Ctrl-C ends the process at once and quietly: there is nothing to tidy up.

    As an exception it could come out anywhere: libraries that are loading turn it into errors of
    their own, and what is raised within a callback is printed and forgotten. A process that is told
    to ignore it (nohup, or & in a script) goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler and _in_main_thread():
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that Ctrl-C ends by KeyboardInterrupt, so that half a file is taken away."""
    if signal.getsignal(signal.SIGINT) is not _leave or not _in_main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()

"""How the command line ends: what it lacks, and who still reads it."""

from __future__ import annotations

import os
import sys

NEEDED = ("typer", "rich", "pyarrow")


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

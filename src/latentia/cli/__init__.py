"""The command `latentia`. Loaded by that command only, so that `import latentia` stays slim.

A new command is one function in `commands`; it reads with `asking` and `reading`, and answers
through `screen` with what `views` and `writing` make of the answer.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

NEEDED = ("typer", "rich", "pyarrow")


def main() -> None:
    """Run the command line; ends the process with 0, 1, 2, 3 or 130 (see `latentia --help`)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a bar must not crash an ASCII terminal
    try:
        from latentia.cli import checks, reproducing  # noqa: F401 (their commands join the app)
        from latentia.cli.commands import app

        app(prog_name="latentia")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in NEEDED:
            raise
        print(f"latentia: {missing(error.name or '')}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        flush_quietly()


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

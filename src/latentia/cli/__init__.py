"""The command `latentia`. Loaded by that command only, so that `import latentia` stays slim.

A new command is one function in a module that `application` names; it reads with `asking` and
`reading`, and answers through `screen` with what `views` and `writing` make of the answer.
"""

import sys  # and nothing else: what is loaded here comes before anyone listens to Ctrl-C


def main() -> None:
    """Run the command line; ends the process with 0, 1, 2, 3 or 130 (see `latentia --help`)."""
    try:
        from latentia.cli.leaving import leave_when_interrupted, leaving_at_once

        leave_when_interrupted()
        with leaving_at_once():
            _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    from latentia.cli.leaving import NEEDED, flush_quietly, missing

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a bar must not crash an ASCII terminal
    try:
        from latentia.cli.application import application

        application(prog_name="latentia")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in NEEDED:
            raise
        print(f"latentia: {missing(error.name or '')}", file=sys.stderr)
        sys.exit(1)
    finally:
        flush_quietly()

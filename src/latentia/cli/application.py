"""The application with all its commands: each module of commands joins it when it is imported."""

from __future__ import annotations

from latentia.cli import (  # noqa: F401 (their commands join)
    ask_commands,
    check_command,
    fit_command,
    reproducing,
    show_commands,
)
from latentia.cli.options import app

application = app

"""All commands, joined to the app. A new one is a module beside these, and a name here."""

from __future__ import annotations

from latentia.cli import (  # noqa: F401 (their commands join the app)
    ask_commands,
    check_command,
    fit_command,
    reproducing,
    show_commands,
)
from latentia.cli.options import app as app

"""The application with all its commands: each module of commands joins it when it is imported."""

from __future__ import annotations

from latentia.cli import check_command, commands, reproducing  # noqa: F401 (their commands join)
from latentia.cli.options import app

application = app

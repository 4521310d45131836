"""The application with all its commands, which are loaded when they are called."""

from __future__ import annotations

from latentia.cli.options import app

application = app

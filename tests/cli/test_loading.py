"""What the command line loads: nothing heavy for help, the module of a command for the command."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application
from latentia.cli.command_group import COMMANDS

HEAVY = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "polars", "narwhals", "joblib", "rich")

LOADED = """
import sys
sys.argv = ["latentia", *{words!r}]
from latentia.cli import main
try:
    main()
except SystemExit:
    pass
names = sorted({{name.split(".")[0] for name in sys.modules}})
own = sorted(name for name in sys.modules if name.startswith("latentia."))
print("\\n" + " ".join(names) + "\\n" + " ".join(own))
"""


def loaded(*words: str) -> tuple[set[str], set[str]]:
    """Libraries, and modules of our own, that a command line has loaded when it ends."""
    code = LOADED.format(words=list(words))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, names, own = done.stdout.splitlines()
    return set(names.split()), set(own.split())


@pytest.mark.parametrize("words", [("--help",), ("--version",), ()])
def test_help_loads_no_library_but_typer(words: tuple[str, ...]) -> None:
    names, own = loaded(*words)
    assert not names & set(HEAVY)
    assert len(own) <= 8  # the command line's own few modules, and no command
    assert not own & {f"latentia.cli.{module}" for module, _ in COMMANDS.values()}


def test_a_command_loads_its_module_only() -> None:
    _, own = loaded("plan", "--help")
    assert "latentia.cli.show_commands" in own
    assert "latentia.cli.fit_command" not in own
    assert "latentia.reproduce.running" not in own


def test_a_question_loads_little(tmp_path: Path) -> None:
    """Neither scikit-learn nor any library of frames, no scipy, a quarter of ours."""
    rows = {c: np.arange(60) % m for c, m in zip("abc", (2, 3, 4), strict=True)}
    path = tmp_path / "m.latentia"
    lt.LatentModel("H->a; H->b; H->c", {"H": 2}).fit(rows).save(path)
    names, own = loaded("query", str(path), "a", "--given", "b=1")
    assert not names & {*HEAVY, "threadpoolctl", "html"} - {"numpy", "rich"}
    assert not own & {"latentia.networks.em", "latentia.model.training"}  # what learns
    packages = {name.split(".")[1] for name in own}
    assert not packages & {"closed_form", "kernels", "networks", "native", "pooling"}
    assert not own & {"latentia.exact.estep", "latentia.data.sources.opening"}  # of many rows
    assert "latentia.cli.answer_blocks" not in own  # which predict needs
    assert len(own) <= 103  # of 492; a value or two in each, which take a millisecond to make


def test_what_help_tells_is_what_commands_say() -> None:
    """Names, modules and first sentences, against the commands as they register."""
    for module in {module for module, _ in COMMANDS.values()}:
        import_module(f"latentia.cli.{module}")
    told = {}
    for each in application.registered_commands:
        assert each.callback is not None
        name = each.name or each.callback.__name__
        first = (inspect.getdoc(each.callback) or "").splitlines()[0]
        told[name] = (each.callback.__module__.removeprefix("latentia.cli."), first)
    assert told == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found_by_its_name(name: str) -> None:
    found = CliRunner().invoke(application, [name, "--help"])
    assert found.exit_code == 0
    assert COMMANDS[name][1].split()[0] in found.output


def test_a_name_that_is_none_is_answered_by_one_that_is() -> None:
    found = CliRunner().invoke(application, ["qery"])
    assert found.exit_code == 2
    assert "Did you mean 'query'?" in found.output
    assert isinstance(typer.main.get_command(application), typer.core.TyperGroup)

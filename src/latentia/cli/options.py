"""The command itself, and the options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from latentia.cli.command_group import group_of
from latentia.version import LIBRARY

if TYPE_CHECKING:
    from latentia.typing import Facts, Foreign

UNKNOWN = ("error", "missing", "warn")

PLAIN: Facts = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # graphs are full of brackets
}


def _commands(name: str) -> Facts:
    """The command of this name, made without others of its module; all, if it is none."""
    one = typer.Typer(**PLAIN)
    one.registered_commands = [c for c in app.registered_commands if _name(c) == name]
    if len(one.registered_commands) == 1:
        return {name: typer.main.get_command(one)}
    group: Foreign = typer.main.get_command(app)
    return dict(group.commands)


def _name(command: Foreign) -> str:
    return str(command.name or command.callback.__name__)


app: typer.Typer = typer.Typer(
    cls=group_of(_commands),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    **PLAIN,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"latentia {LIBRARY}")
        raise typer.Exit


def _known_choice(word: str | None) -> str | None:
    if word is not None and word not in UNKNOWN:
        raise typer.BadParameter(f"expected one of {', '.join(UNKNOWN)}, got {word!r}.")
    return word


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")]
Debug: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Latents: TypeAlias = Annotated[
    str, typer.Option(metavar="A=3,B=2", help="Latent variables and their numbers of states.")
]
Kinds: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="x=continuous,…",
        help="Kinds of columns, continuous or discrete, where the rule is not wanted.",
    ),
]
Model: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help="A file made by `fit`.")]
Data: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV with a line of names (also .gz; - is standard input), Parquet or Arrow; also a "
        "folder or a pattern of such; empty cells, NA, N/A, NaN and null are missing.",
    ),
]
Unknown: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        callback=_known_choice,
        help="What becomes of cells that are no state of the model: error, missing, or warn.",
    ),
]
Weights: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="How many times each row counts.")
]
Out: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Where to: .csv, .csv.gz or .parquet; default: stdout."),
]
ErrorBars: TypeAlias = Annotated[
    bool,
    typer.Option("--error-bars", help="Keep what `query --confidence` needs: one more pass."),
]
Confidence: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar=".9", help="Intervals of sampling error; after `fit --error-bars`."),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Settings of the learner, such as restarts=20, n_jobs=-1 or random_state=0; tables "
        'and groups as JSON: tied=[["x","y"]], known=@tables.json (null: to be learned).',
    ),
]


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Latent-variable graphical models, learned in closed form from sums over rows.

    \b
    Start here:
      latentia plan "H->X; H->Y; H->Z" --latents H=2 --states 3
      latentia fit rows.csv --graph "H->X; H->Y; H->Z" --latents H=2 --out m.latentia
      latentia query m.latentia X --given Y=1

    \b
    Exit codes: 0 fine, 1 cannot be done as asked, 2 wrong usage,
    3 a file is missing or cannot be read, 130 interrupted.
    """

"""The commands by name: the module of each is loaded when the command is called, not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from typer.core import TyperGroup

from latentia.garbage import uncollected

if TYPE_CHECKING:
    from latentia.typing import Foreign

# module and first sentence of every command; tests compare them with the commands themselves
COMMANDS = {
    "query": ("query_command", "Ask for the posterior of columns or latents, given others."),
    "predict": ("ask_commands", "Predict a column or a latent from all other cells of each row."),
    "score": ("ask_commands", "Say how probable rows are: mean log P(present cells)."),
    "sample": ("ask_commands", "Draw rows, or sequences, from the learned distribution."),
    "effect": ("why_commands", "Say what becomes of a variable when another is set by hand."),
    "explain": ("why_commands", "Say how far each piece of evidence has moved an answer."),
    "check": (
        "check_command",
        "Say whether a model fits rows: column by column, pair by pair, and what to look at.",
    ),
    "compare": (
        "compare_command",
        "Compare numbers of states of latents, by criteria and on held-out rows.",
    ),
    "explore": (
        "explore_command",
        "Show a model in the browser: click what is known, and see what follows.",
    ),
    "fit": ("fit_command", "Learn a model from the rows of a table."),
    "decode": ("sequence_commands", "Tell the hidden states of sequences, row by row."),
    "forecast": ("sequence_commands", "Tell what comes next in every sequence."),
    "profile": (
        "profile_command",
        "Show the states of a latent: how large they are, and every column in each of them.",
    ),
    "structure": (
        "structure_command",
        "Find a graph for a table: which columns hang together, and latents that tie them.",
    ),
    "synthesize": (
        "synthesize_command",
        "Draw rows like those of a table: find a structure, learn it, and sample.",
    ),
    "reproduce": ("reproducing", "Repeat the paper's experiments and write a report."),
    "plan": ("show_commands", "Show how a graph would be learned, before any data."),
    "inspect": ("show_commands", "Show a model: graph, columns, diagnostics, plan."),
}


def group_of(build: Callable[[str], Foreign]) -> type[TyperGroup]:
    """A group that knows its commands by name; `build` makes one of the modules loaded so far."""

    class CommandGroup(TyperGroup):
        def list_commands(self, ctx: object) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: object, cmd_name: str) -> Foreign:
            known = cmd_name in COMMANDS
            with uncollected():
                for module in (
                    {COMMANDS[cmd_name][0]} if known else {m for m, _ in COMMANDS.values()}
                ):
                    import_module(f"latentia.cli.{module}")
            self.commands = build(cmd_name)  # for a name that is none: what may have been meant
            return self.commands.get(cmd_name)

        def format_commands(self, ctx: object, formatter: Foreign) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, told) for name, (_, told) in COMMANDS.items()])

    return CommandGroup

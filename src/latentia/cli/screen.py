"""Screen: where answers, notes and progress go, and how trouble ends a command."""

from __future__ import annotations

import json
import math
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TextIO, final

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from latentia.cli.leaving import INTERRUPTED, NEEDED, flush_quietly, interruptible, missing
from latentia.data.sources.progress import show_progress
from latentia.errors import LatentiaError, LatentiaWarning, StoreError
from latentia.spelling import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from latentia.typing import Facts, Given

PATIENCE = 0.5  # seconds before work counts as long and shows progress
UNCUT = 10_000  # columns of a pipe: tables are never cut there
ASCII = str.maketrans("αβ×█▏▎▍▌▋▊▉▁▂▃▄▅▆▇", "abx#       .,:-=+*", "…")


@final
@dataclass(frozen=True, slots=True)
class Screen:
    """Answers go to stdout; notes, progress and errors to stderr."""

    as_json: bool
    quiet: bool
    debug: bool
    out: Console
    err: Console
    notes: list[str] = field(default_factory=list)
    lines: list[Callable[[str], None]] = field(default_factory=list)  # of work that goes on

    @property
    def terminal(self) -> bool:
        """Does a person read stdout?"""
        return sys.stdout.isatty()

    def fits(self, part: RenderableType) -> bool:
        """Is there room for it without cutting or wrapping?"""
        wide = self.out.options.update(max_width=UNCUT)
        return self.out.measure(part, options=wide).maximum <= self.out.width

    def show(self, *parts: RenderableType) -> None:
        """Print for people: styled in a terminal, plain in a pipe."""
        with self.out.capture() as captured:
            for part in parts:
                plain = isinstance(part, str)
                self.out.print(printable(part, keep="\n") if plain else part, soft_wrap=plain)
        text = captured.get()
        if self.out.options.ascii_only:
            text = text.translate(ASCII)
        if not self.terminal:
            text = "".join(line.rstrip() + "\n" for line in text.splitlines())
        sys.stdout.write(text)

    def dump(self, facts: Facts) -> None:
        """Print for machines: one JSON document on one line, numbers at full precision."""
        notes = list(dict.fromkeys([*facts.get("notes", ()), *self.notes]))
        document = _plain({**facts, "notes": notes})
        text = json.dumps(document, allow_nan=False, default=str)
        sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")  # the one that json leaves

    def note(self, text: str) -> None:
        """One line on stderr, once."""
        if text not in self.notes:
            self.notes.append(text)
            if not self.quiet:
                self._line("note: ", "yellow", text)

    def fail(self, text: str) -> None:
        self._line("latentia: ", "bold red", text)

    def _line(self, start: str, style: str, text: str) -> None:
        one = " ".join(text.split())
        line = Text.assemble((start, style), printable(one))
        self.err.print(line, soft_wrap=not self.err.is_terminal)  # in a pipe one line stays one

    def _tell(self, line: str) -> None:
        """Beside the work that goes on now: a lazy answer is computed while it is written."""
        for say in self.lines[-1:]:
            say(line)

    @contextmanager
    def working(self, what: str) -> Iterator[Callable[[str], None]]:
        """A spinner with the time spent, in a terminal and for long work only.

        How far the work has come is shown beside it; what it yields can be told so, too.
        """
        if self.quiet or not self.err.is_interactive:
            yield lambda line: None
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        task = progress.add_task(printable(what), total=None)
        timer = threading.Timer(PATIENCE, progress.start)
        timer.daemon = True
        timer.start()
        say = partial(_said, progress, task, what)
        self.lines.append(say)
        try:
            with show_progress(lambda step: self._tell(str(step))):
                yield say
        finally:
            self.lines.remove(say)
            timer.cancel()
            timer.join()  # from here on it has started the spinner or never will
            progress.stop()


def _said(progress: Progress, task: TaskID, what: str, line: str) -> None:
    progress.update(task, description=printable(f"{what}; {line}"))


@contextmanager
def answering(as_json: bool, quiet: bool, debug: bool) -> Iterator[Screen]:
    """A command's surroundings: warnings become notes, errors become a sentence and a code."""
    screen = Screen(as_json, quiet, debug, _console(sys.stdout), _console(sys.stderr))
    try:
        with interruptible(), warnings.catch_warnings():
            warnings.simplefilter("default" if debug else "ignore")
            warnings.simplefilter("always", LatentiaWarning)
            shown = warnings.showwarning
            warnings.showwarning = _as_note(screen, shown)
            yield screen
        sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        flush_quietly()
        raise typer.Exit(141) from None  # what the shell reports for other tools, too
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            told = printable(traceback.format_exc(), keep="\n")
            screen.err.print(Text(told), soft_wrap=True)
        code, sentence = _explain(error)
        screen.fail(sentence)
        raise typer.Exit(code) from None


def _console(file: TextIO) -> Console:
    width = None if file.isatty() else UNCUT
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def _as_note(screen: Screen, otherwise: Callable[..., None]) -> Callable[..., None]:
    def show(
        message: Warning | str, category: type[Warning], *place: Given, **named: Given
    ) -> None:
        if issubclass(category, LatentiaWarning):
            screen.note(str(message))
        else:
            otherwise(message, category, *place, **named)

    return show


def _explain(error: BaseException) -> tuple[int, str]:
    """The exit code of an error, and the sentence for it."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted."
        case OSError(strerror=str(reason), filename=name) if name is not None:
            return 3, f"cannot open {str(name)!r}: {reason[:1].lower()}{reason[1:]}."
        case OSError() | StoreError():
            return 3, str(error)
        case LatentiaError():
            return 1, str(error)
        case ModuleNotFoundError(name=str(name)) if name.split(".")[0] in NEEDED:
            return 1, missing(name)
        case MemoryError():
            return 1, "not enough memory for this. Use fewer rows, states or latents."
        case _:
            what = f"{type(error).__name__}: {error}"
            return 1, f"unexpected {what} (a mistake of ours; --debug shows where it happened)"


def _plain(value: object) -> object:
    """What JSON can hold: names as text, numpy numbers as numbers, no infinities."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # numpy arrays and numbers
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value

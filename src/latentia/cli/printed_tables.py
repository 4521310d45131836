"""Tables, headings and bars as the terminal shows them, and names in little room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from latentia.spelling import printable

if TYPE_CHECKING:
    from latentia.typing import Cell

View: TypeAlias = list[RenderableType]
Fits: TypeAlias = Callable[[RenderableType], bool]

BAR = 24
MOST_LINES = 20  # of a long table in a terminal


def headed_table(*headers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    numbers = ("rank", "probability", "states", "missing", "weakest correlation")
    for header in headers:
        table.add_column(printable(header), justify="right" if header in numbers else "left")
    return table


def add_cells(table: Table, *cells: object, style: str = "") -> None:
    """A row; what comes from data is spelled so that it cannot write elsewhere on the screen."""
    shown = (cell if isinstance(cell, Text) else printable(cell) for cell in cells)
    table.add_row(*shown, style=style)


def first_that_fits(fits: Fits, *tables: Table) -> Table:
    """The first that fits, or the last."""
    return next(filter(fits, tables), tables[-1])


def paired_lines(*pairs: tuple[str, object]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    for name, value in pairs:
        add_cells(table, name, value)
    return table


def heading(text: str) -> Text:
    return Text(printable(text), style="bold cyan")


def share_bar(p: float) -> Text:
    eighths = round(max(min(p, 1.0), 0.0) * BAR * 8)
    return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style="cyan")


def cell_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if value % 1 else f"{value:g}"
    return str(value)


def listed_names(items: Iterable[Cell], most: int = 4, mark: str = ",") -> str:
    texts = [str(item) for item in items]
    return mark.join(texts[:most]) + (f"{mark}… ({len(texts)})" if len(texts) > most else "")


def listed_set(names: Iterable[Cell], most: int) -> str:
    return "{" + listed_names(names, most) + "}"


def shape_text(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape))


def counted_text(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"

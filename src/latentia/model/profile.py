"""Profile: what the states of a latent look like, in words, as a frame and as a picture."""

from __future__ import annotations

import html
import importlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia import doors
from latentia.data.columns.times import TimeColumn
from latentia.errors import DataError
from latentia.spelling import printable
from latentia.typing import Array, Cell, Foreign, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

SIZE = "(size)"
MOST_TOLD = 3  # columns that tell a state from the others, in words
MOST_COLUMNS = 12  # of the table, in words
MOST_STATES = 8  # of a column, in words
SPREAD = ("mean", "deviation", "0.05", "0.25", "0.5", "0.75", "0.95")  # of a continuous column
DEVIATION = 1  # its place among these
FRAMES = ("pandas", "polars", "pyarrow")
LEAST_SHIFT = 0.2  # of a mean, in deviations of the column: less is neither high nor low
BITS = float(np.log(2.0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ColumnProfile:
    """One column in every state of the latent.

    `table`: P(label | state), (states, labels); of a continuous column its figures, such as the
    mean, instead of probabilities.
    """

    name: Label
    labels: tuple[Hashable, ...]
    table: Array
    overall: Array  # (labels,): the same without knowing the state
    information: float  # I(column; latent), in nats
    continuous: bool = False
    errors: Array | None = None  # standard errors, shaped as the table
    information_error: float | None = None
    places: Array | None = None  # (states,): where each state's mean lies, from 0 to 1
    times: TimeColumn | None = None  # whose figures are days or seconds

    def told(self, j: int, x: float) -> Cell:
        """A figure as a table has it: of times a time, or a stretch of time."""
        if self.times is None:
            return x
        if j == DEVIATION:
            return self.times.apart(x)
        (found,) = self.times.spelled(np.array([x])).tolist()
        return found

    def shown(self, j: int, x: float, digits: int = 4) -> str:
        """The same for people."""
        if not self.continuous:
            return f"{x:.3f}"
        if self.times is None:
            return figure(x, digits)
        return self.times.shown_apart(x) if j == DEVIATION else self.times.shown(x)

    @property
    def bits(self) -> float:
        """What the column tells of the latent, or the latent of the column, in bits."""
        return self.information / BITS


@final
@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """The table between two latents that an edge ties: P(below | above)."""

    above: Label
    below: Label
    rows: tuple[Hashable, ...]  # states of `above`
    columns: tuple[Hashable, ...]  # states of `below`
    table: Array  # (rows, columns)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Sizes of a latent's states, and every column in each of them; most telling columns first."""

    latent: Label
    states: tuple[Hashable, ...]
    shares: Array  # P(state)
    columns: tuple[ColumnProfile, ...]  # most telling first
    links: tuple[Link, ...] = ()
    weight: float = 0.0  # rows that the model was learned from
    errors: Array | None = None  # standard errors of the shares
    notes: tuple[str, ...] = ()  # where the states are in doubt

    @property
    def sizes(self) -> dict[Label, float]:
        """P(state) by name of the state."""
        return dict(zip(self.states, self.shares.tolist(), strict=True))

    def __getitem__(self, column: Label) -> ColumnProfile:
        for found in self.columns:
            if found.name == column:
                return found
        raise KeyError(f"{column!r} is no column of this profile")

    def plot(self) -> Drawing:
        """Sizes, a line for every state across the columns, and all shares as a heat map."""
        return doors.draw_profile(self)

    def to_dict(self) -> dict[str, list[Cell]]:
        """One row for every state of every column, and one column for every state of the latent.

        With error bars, each is followed by its standard error.
        """
        told = [*self.states]
        names = [printable(state) for state in told]
        found: dict[str, list[Cell]] = {"column": [SIZE], "state": [""]}
        for k, name in enumerate(names):
            found[name] = [float(self.shares[k])]
            if self.errors is not None:
                found[f"± {name}"] = [float(self.errors[k])]
        found |= {"all": [1.0], "bits": [float("nan")]}
        for c in self.columns:
            for j, label in enumerate(c.labels):
                found["column"].append(c.name)
                found["state"].append(label)
                for k, name in enumerate(names):
                    found[name].append(c.told(j, float(c.table[k, j])))
                    if self.errors is not None:
                        own = c.errors
                        found[f"± {name}"].append(float("nan") if own is None else float(own[k, j]))
                found["all"].append(c.told(j, float(c.overall[j])))
                found["bits"].append(c.bits)
        return found

    def to_frame(self, kind: str | None = None) -> Foreign:
        """The same as a data frame: "pandas", "polars" or "pyarrow"; default the first there is."""
        if kind is not None and kind not in FRAMES:
            raise DataError(f"expected a frame of {', '.join(FRAMES)}, got {kind!r}.")
        columns = self.to_dict()
        if len({type(s) for s in columns["state"]}) > 1 and kind != "pandas":
            columns["state"] = [str(s) for s in columns["state"]]
            columns["column"] = [str(s) for s in columns["column"]]
        for name in FRAMES if kind is None else (kind,):
            try:
                library = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            return library.table(columns) if name == "pyarrow" else library.DataFrame(columns)
        raise DataError("there is no library of data frames. Install pandas, or use to_dict().")

    # -- words ---------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """One line."""
        rows = f", learned from {self.weight:,.0f} rows" if self.weight else ""
        return (
            f"{printable(self.latent)}: {len(self.states)} states over {len(self.columns)} "
            f"columns{rows}"
        )

    def words(self) -> list[str]:
        """A line for every state: its size, and what tells it from the others."""
        names = [printable(state) for state in self.states]
        wide = max(map(len, names), default=0)
        lines = []
        for k, name in enumerate(names):
            told = "; ".join(_told(self.columns, k)) or "like all the others"
            error = "" if self.errors is None else f" ± {self.errors[k]:.1%}"
            lines.append(f"{name.ljust(wide)}  {self.shares[k]:6.1%}{error}  {told}")
        return lines

    def _table(self) -> list[list[str]]:
        head = ["column", "state", *map(printable, self.states), "all", "bits"]
        rows = [head]
        for c in self.columns[:MOST_COLUMNS]:
            for j in _shown(c):
                first = j == _shown(c)[0]
                told = [_number(c, c.table[k, j], c.errors, k, j) for k in range(len(self.states))]
                overall = _number(c, float(c.overall[j]), None, 0, j)
                bits = f"{c.bits:.3f}" if first else ""
                name = printable(c.name) if first else ""
                rows.append([name, printable(c.labels[j]), *told, overall, bits])
        return rows

    def __repr__(self) -> str:
        lines = [self.title, *(f"  {line}" for line in self.words())]
        lines += [f"  ! {note}" for note in self.notes]
        rows = self._table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines.append("")
        for row in rows:
            left = [x.ljust(w) for x, w in zip(row[:2], widths[:2], strict=True)]
            right = [x.rjust(w) for x, w in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join([*left, *right]).rstrip())
        if len(self.columns) > MOST_COLUMNS:
            lines.append(f"… and {len(self.columns) - MOST_COLUMNS} columns that tell less")
        for link in self.links:
            lines += ["", *_link_lines(link)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>" for row in rows
        )
        names = "".join(f"<th>{html.escape(x)}</th>" for x in head)
        notes = "".join(f"<p>! {html.escape(note)}</p>" for note in self.notes)
        return (
            f"{self.plot()._repr_html_()}{notes}<details><summary>as a table</summary>"
            f"<table><tr>{names}</tr>{cells}</table></details>"
        )


def _shown(c: ColumnProfile) -> list[int]:
    """Which labels there is room for: all, or the most frequent ones; mean and spread."""
    if c.continuous:
        return [0, 1]
    if len(c.labels) <= MOST_STATES:
        return list(range(len(c.labels)))
    return sorted(np.argsort(-c.overall, kind="stable")[:MOST_STATES].tolist())


def figure(x: float, digits: int = 3) -> str:
    """A number with so many digits, as people write it: no powers of ten between 1e-4 and 1e6.

    >>> figure(7998.2), figure(0.01234), figure(-41.9), figure(0.0), figure(2.5e9)
    ('8,000', '0.0123', '-41.9', '0', '2.5e+09')
    """
    if x == 0 or not np.isfinite(x) or not 1e-4 <= abs(x) < 1e6:
        return f"{x:.{digits}g}"
    places = digits - 1 - int(np.floor(np.log10(abs(x))))
    rounded = round(x, places)
    text = f"{rounded:,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _number(c: ColumnProfile, x: float, errors: Array | None = None, k: int = 0, j: int = 0) -> str:
    told = c.shown(j, x)
    if errors is None:
        return told
    return f"{told} ± {c.shown(DEVIATION if c.times else j, float(errors[k, j]), 2)}"


def _told(columns: Sequence[ColumnProfile], k: int) -> list[str]:
    """What is seen in state k more than elsewhere, the strongest first."""
    found: list[tuple[float, str]] = []
    for c in columns:
        name = printable(c.name)
        if c.continuous:
            place = 0.5 if c.places is None else float(c.places[k])
            away, shift = abs(place - 0.5), float(c.table[k, 0] - c.overall[0])
            if abs(shift) < LEAST_SHIFT * c.overall[1] or shift * (place - 0.5) <= 0:
                continue  # the mean says something else than the middle: neither high nor low
            mean, overall = (c.shown(0, float(x), 3) for x in (c.table[k, 0], c.overall[0]))
            word = _word(c, shift > 0)
            found.append((away, f"{name} {word}, {mean} on average, overall {overall}"))
            continue
        j = int(np.argmax(c.table[k] - c.overall))
        away = float(c.table[k, j] - c.overall[j])
        share, overall = f"{c.table[k, j]:.0%}", f"{c.overall[j]:.0%}"
        found.append((away, f"{name} = {printable(c.labels[j])} in {share}, overall {overall}"))
    found = [(away, words) for away, words in found if away > 0.02]
    return [words for _, words in sorted(found, key=lambda each: -each[0])[:MOST_TOLD]]


def _word(c: ColumnProfile, above: bool) -> str:
    if c.times is not None:
        return "late" if above else "early"
    return "high" if above else "low"


def _link_lines(link: Link) -> list[str]:
    """P(below | above), a row for each state above."""
    head = [f"{printable(link.below)} →", *map(printable, link.columns)]
    rows = [head] + [
        [f"{printable(link.above)} = {printable(state)}", *(f"{x:.3f}" for x in link.table[i])]
        for i, state in enumerate(link.rows)
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return [
        "  ".join(
            [
                row[0].rjust(widths[0]),
                *(x.rjust(w) for x, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]

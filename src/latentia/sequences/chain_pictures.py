"""What pictures of a chain show: moves of a latent, one decoded sequence, one forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentia import doors
from latentia.data.columns.column import Column
from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.sequences.chain_questions import Chain, decode_states
from latentia.sequences.families import families_of
from latentia.sequences.long_rows import LongSteps
from latentia.sequences.step_data import Sequences
from latentia.spelling import printable
from latentia.typing import Array, Cell, CellArray, Given, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

MOST_PANELS = 6  # configurations of other parents
MOST_PAST = 60  # steps before a forecast


def only_latent(chain: Chain, name: Label | None) -> int:
    """The latent of this name; the only one, if none is named."""
    latents = sorted(chain.slice.latent)
    names = [chain.slice.names[v] for v in latents]
    if name is None and len(latents) == 1:
        return latents[0]
    if name not in names:
        if not names:
            raise EvidenceError("the slice has no latent.")
        if name is None:
            raise EvidenceError(f"name one of the latents {', '.join(map(str, names))}.")
        raise UnknownNameError("latent", name, names)
    return latents[names.index(name)]


def draw_latent_moves(chain: Chain, name: Label | None) -> Drawing:
    """The table of a latent's moves; one panel for each state of other parents."""
    v = only_latent(chain, name)
    names, sizes = chain.slice.names, chain.sizes
    for n, family in enumerate(families_of(chain.slice)):
        if family.variable == v and (v, 1) in family.parents:
            table = np.moveaxis(chain.tables[n], family.parents.index((v, 1)), -2)
            others = [p for p in family.parents if p != (v, 1)]
            panels = []
            for at in np.ndindex(*(sizes[u] for u, _ in others)):
                told = ", ".join(
                    f"{names[u]}{' before' if lag else ''} = {_state(chain, u, k)}"
                    for (u, lag), k in zip(others, at, strict=True)
                )
                panels.append((told or f"P(next {names[v]} | {names[v]})", table[at]))
            return doors.draw_moves(names[v], panels[:MOST_PANELS], chain.labels(v))
    raise EvidenceError(f"{names[v]!r} does not tell its own next step; it has no moves.")


def _state(chain: Chain, v: int, k: int) -> str:
    return printable(chain.labels(v)[k])


def one_sequence(read: LongSteps, which: Given) -> tuple[Cell, Sequences]:
    """The label and the steps of one sequence; the first, if none is named."""
    if which is None:
        k = int(np.argmax(np.diff(read.sequences.offsets) > 0))
    elif which in read.labels:
        k = read.labels.index(which)
    else:
        raise UnknownNameError("sequence", which, read.labels)
    return read.labels[k], read.sequences.some([k])


def draw_decoded_steps(chain: Chain, read: LongSteps, which: Given) -> Drawing:
    """Path and columns of one sequence."""
    only = sorted(chain.slice.latent)
    if not only:
        raise EvidenceError("the slice has no latent; there is nothing to decode.")
    label, one = one_sequence(read, which)
    layout, path = decode_states(chain, one)
    paths = {chain.slice.names[v]: (layout.values[v, 0][path], chain.labels(v)) for v in only}
    strips = [
        (chain.columns[v].name, *shown_cells(chain.columns[v], one.cells[v]))
        for v in chain.slice.told
    ]
    return doors.draw_decoded(f"The most probable path of {printable(label)}", paths, strips)


def shown_cells(column: Column, cells: CellArray) -> tuple[Array, tuple[Cell, ...]]:
    """Numbers in their own units, or places of states; NaN where missing."""
    if column.continuous:
        return column.of_measures(cells), ()
    return np.where(cells < 0, np.nan, cells.astype(float)), tuple(column.labels)


def draw_forecast_steps(
    chain: Chain, read: LongSteps, told: dict[Label, Cell], which: Given, columns: Given
) -> Drawing:
    """The last steps of one sequence, and the rows of its forecast."""
    label, one = one_sequence(read, which)
    ahead = int(told["ahead"].max())
    start = read.labels.index(label) * ahead
    wanted = [columns] if isinstance(columns, str) else columns
    names = [chain.columns[v].name for v in chain.slice.columns]
    fans = []
    for v in chain.slice.columns:
        column = chain.columns[v]
        if wanted is not None and column.name not in wanted:
            continue
        past, states = shown_cells(column, one.cells[v][-MOST_PAST:])
        keys = [f"{column.name}={s}" for s in (states or ("0.05", "0.5", "0.95"))]
        if any(key not in told for key in keys):
            raise DataError(f"the forecast of {column.name!r} cannot be shown.")
        rows = np.array([told[key][start : start + ahead] for key in keys], dtype=float)
        fans.append(
            (column.name, past, None, rows, states) if states else (column.name, past, rows)
        )
    for name in wanted or ():
        if name not in names:
            raise UnknownNameError("column", name, names)
    return doors.draw_forecast(f"The next {ahead} steps of {printable(label)}", fans)

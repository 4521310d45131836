"""What the states of a chain's latent look like: sizes, columns in every state, moves."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
import scipy

from latentia import doors
from latentia.assess.jackknife import jackknife_error
from latentia.data.columns.column import Column
from latentia.errors import EvidenceError
from latentia.model.profile import ColumnProfile, Link, Profile
from latentia.sequences.chain_errors import ChainReplicates
from latentia.sequences.chain_questions import Chain
from latentia.sequences.families import families_of
from latentia.sequences.hidden_states import Tables
from latentia.spelling import printable
from latentia.typing import Array, Cell, Foreign, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

MOST_TOLD = 3  # columns in the words of a state
MOST_SHOWN = 8  # states of a column in words
TELLING = 1.2  # times as probable as overall: worth a word


@final
@dataclass(frozen=True, slots=True, eq=False)
class StepColumn:
    """One column in every state: P(label | state), or mean and deviation, with standard errors."""

    name: Label
    labels: tuple[Hashable, ...]
    table: Array  # (states, labels)
    errors: Array
    overall: Array  # (labels,)
    information: float  # what column and latent tell of each other, in nats
    continuous: bool


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChainProfile:
    """Sizes of a latent's states, columns in each of them, and moves between them.

    Errors of a model with error bars (``fit(..., error_bars=True)``) are those of a sample of
    sequences. Others are those of shares and means if the states had been seen as often as they are
    expected: that they are not seen is not in them.
    """

    latent: Label
    states: tuple[Hashable, ...]
    shares: Array  # (states,) of all steps
    steps: float
    columns: tuple[StepColumn, ...]  # most telling first
    moves: Array | None  # P(next | state), (states, states); None: it has none
    move_errors: Array | None
    share_errors: Array | None = None  # of the sizes: with error bars only

    @property
    def durations(self) -> Array | None:
        """Mean number of steps that a state lasts, (states,)."""
        if self.moves is None:
            return None
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (1.0 - np.diagonal(self.moves)))

    def __getitem__(self, name: Label) -> StepColumn:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{name!r} is no column of this profile")

    def to_dict(self) -> dict[str, list[Cell]]:
        """One row for every state of every column; a column, and its error, for every state."""
        names = [printable(state) for state in self.states]
        found: dict[str, list[Cell]] = {"column": ["(size)"], "state": [""]}
        for k, name in enumerate(names):
            error = float("nan") if self.share_errors is None else float(self.share_errors[k])
            found[name], found[f"± {name}"] = [float(self.shares[k])], [error]
        found |= {"all": [1.0], "bits": [float("nan")]}
        blocks = [
            (c.name, c.labels, c.table, c.errors, c.overall, c.information) for c in self.columns
        ]
        if self.moves is not None and self.move_errors is not None:
            rows = (self.moves, self.move_errors, self.shares @ self.moves, np.nan)
            blocks.append((f"{self.latent}'", self.states, *rows))
        for column, labels, table, errors, overall, information in blocks:
            for j, label in enumerate(labels):
                found["column"].append(column)
                found["state"].append(label)
                for k, name in enumerate(names):
                    found[name].append(float(table[k, j]))
                    found[f"± {name}"].append(float(errors[k, j]))
                found["all"].append(float(overall[j]))
                found["bits"].append(float(information / np.log(2.0)))
        return found

    def to_frame(self) -> Foreign:
        """The same as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def plot(self) -> Drawing:
        """Sizes, a line for every state across the columns, moves, and all shares as a heat map."""
        columns = [
            ColumnProfile(
                c.name, c.labels, c.table, c.overall, c.information, c.continuous,
                places=scipy.special.ndtr((c.table[:, 0] - c.overall[0]) / c.overall[1])
                if c.continuous and c.overall[1] > 0 else None,
            )
            for c in self.columns
        ]  # fmt: skip
        links: tuple[Link, ...] = ()
        if self.moves is not None:
            links = (
                Link(self.latent, f"next {self.latent}", self.states, self.states, self.moves),
            )
        return doors.draw_profile(
            Profile(self.latent, self.states, self.shares, tuple(columns), links, self.steps)
        )

    def words(self) -> list[str]:
        """A line for every state: its size, how long it lasts, what tells it from the others."""
        lines = []
        names = [printable(state) for state in self.states]
        wide = max(map(len, names), default=0)
        for k, share in enumerate(self.shares):
            told = "; ".join(_told(self.columns, k)) or "like all the others"
            lasts = self.durations
            length = "" if lasts is None else f", lasts {lasts[k]:.1f} steps"
            error = "" if self.share_errors is None else f" ± {self.share_errors[k]:.1%}"
            lines.append(f"{names[k].ljust(wide)}  {share:6.1%}{error}{length}: {told}")
        return lines

    def __repr__(self) -> str:
        head = (
            f"{printable(self.latent)}: {len(self.shares)} states over {len(self.columns)} columns"
            f", learned from {self.steps:,.0f} steps"
        )
        return "\n".join([head, *(f"  {line}" for line in self.words())])


def _told(columns: tuple[StepColumn, ...], k: int) -> list[str]:
    found = []
    for c in columns[:MOST_TOLD]:
        if c.continuous:
            found.append(f"{printable(c.name)} {c.table[k, 0]:.4g} ± {c.table[k, 1]:.2g}")
            continue
        ratio = c.table[k] / np.maximum(c.overall, 1e-300)
        best = int(np.argmax(np.where(c.table[k] >= 0.1, ratio, 0.0)))
        if ratio[best] >= TELLING:
            found.append(
                f"{printable(c.name)} = {printable(c.labels[best])} {c.table[k, best]:.0%}"
            )
    return found


def profile_chain(
    chain: Chain, counts: Tables | None, v: int, replicates: ChainReplicates | None = None
) -> ChainProfile:
    """From the expected counts of all tables; errors from those of replicates."""
    found = _profile(chain, counts, v)
    if replicates is None:
        return found
    others = [_profile(chain, r.counts, v) for r in replicates.without]
    columns = tuple(
        replace(c, errors=jackknife_error([o[c.name].table for o in others])) for c in found.columns
    )
    moves = None
    if found.moves is not None:
        moves = jackknife_error([o.moves for o in others if o.moves is not None])
    sizes = jackknife_error([o.shares for o in others])
    return replace(found, columns=columns, move_errors=moves, share_errors=sizes)


def _profile(chain: Chain, counts: Tables | None, v: int) -> ChainProfile:
    if counts is None:
        raise EvidenceError(
            "this model was not learned here: it has tables, but no counts to profile. Fit it."
        )
    states = chain.sizes[v]
    families = families_of(chain.slice)
    size = sum(
        counts[n].reshape(-1, states).sum(axis=0) for n, f in enumerate(families) if f.variable == v
    )
    columns: list[StepColumn] = []
    for u in chain.slice.columns:
        own = [
            _by_state(counts[n], f.parents.index((v, 0)), bool(chain.sizes[u]))
            for n, f in enumerate(families)
            if f.variable == u and (v, 0) in f.parents
        ]
        if own:
            columns.append(_column(chain.columns[u], np.sum(own, axis=0)))
    columns.sort(key=lambda c: -c.information)
    moves = [
        _by_state(counts[n], f.parents.index((v, 1)), True)
        for n, f in enumerate(families)
        if f.variable == v and (v, 1) in f.parents
    ]
    table, errors = _shares(moves[0]) if moves else (None, None)
    total = float(np.sum(size))
    return ChainProfile(
        chain.slice.names[v], chain.labels(v), np.asarray(size) / total, total, tuple(columns),
        table, errors,
    )  # fmt: skip


def _by_state(counts: Array, axis: int, discrete: bool) -> Array:
    """Counts by the state of one parent, the others summed out: (states, cells or 3)."""
    rows = counts if discrete else counts[..., 0, :]
    rows = np.moveaxis(rows, axis, 0)
    return np.asarray(rows.reshape(len(rows), -1, rows.shape[-1]).sum(axis=1))


def _shares(counts: Array) -> tuple[Array, Array]:
    rows = np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    p = counts / rows
    return p, np.sqrt(p * (1.0 - p) / np.maximum(rows, 1.0))


def _column(column: Column, counts: Array) -> StepColumn:
    if column.continuous:
        return _bell(column, counts)
    p, errors = _shares(counts)
    overall = counts.sum(axis=0) / max(counts.sum(), 1e-300)
    weight = counts.sum(axis=1) / max(counts.sum(), 1e-300)
    ratio = np.log(np.maximum(p, 1e-300) / np.maximum(overall, 1e-300))
    told = float((weight[:, None] * p * ratio).sum())
    return StepColumn(column.name, tuple(column.labels), p, errors, overall, told, False)


def _bell(column: Column, sums: Array) -> StepColumn:
    """Mean and deviation in the column's own units; of a curved scale the median, half a spread."""
    rows = np.concatenate([sums, sums.sum(axis=0, keepdims=True)])
    n = np.maximum(rows[:, 0], 1e-300)
    mean = rows[:, 1] / n
    sd = np.sqrt(np.maximum(rows[:, 2] / n - mean**2, 0.0))
    middle = column.of_measures(mean)
    spread = (column.of_measures(mean + sd) - column.of_measures(mean - sd)) / 2
    table = np.stack([middle, spread], axis=1)
    root = np.sqrt(np.maximum(n, 1.0))[:, None]
    errors = np.stack([spread, spread / np.sqrt(2.0)], axis=1) / root
    share = rows[:-1, 0] / n[-1]
    told = np.log(sd[-1]) - float(share @ np.log(np.maximum(sd[:-1], 1e-12)))
    labels = ("median" if column.curved else "mean", "deviation")
    information = max(0.0, float(told))
    return StepColumn(column.name, labels, table[:-1], errors[:-1], table[-1], information, True)

"""Questions to a learned chain: filter, smooth, decode, forecast, sample. Steps in, steps out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.sources.progress import answer_progress
from latentia.errors import DataError
from latentia.sequences.best_path import best_path
from latentia.sequences.cell_beliefs import cell_beliefs, latent_beliefs
from latentia.sequences.chain_wiring import Wired, column_choice, wire_groups
from latentia.sequences.compiled_chain import compiled_best_path
from latentia.sequences.expectation import at_rest, filtered, smoothed
from latentia.sequences.families import families_of
from latentia.sequences.hidden_states import ChainLayout, Tables, make_layout
from latentia.sequences.packing import Indices, InRow
from latentia.sequences.slices import Slice
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, CellArray


@final
@dataclass(frozen=True, slots=True)
class Chain:
    """A slice with its columns and tables: what was learned."""

    slice: Slice
    columns: Mapping[int, Column]  # and inputs
    tables: Tables  # by number of family
    named: Mapping[int, tuple[Hashable, ...]] = field(default_factory=dict)  # states of latents

    def labels(self, v: int) -> tuple[Hashable, ...]:
        """The states of a variable by name; of a latent without names numbers."""
        if v in self.slice.latent:
            return self.named.get(v, tuple(range(self.sizes[v])))
        return self.columns[v].labels

    def labelled(self, v: int, codes: CellArray) -> CellArray:
        """States of a latent for their codes."""
        if v not in self.named:
            return codes
        names = np.empty(self.sizes[v], dtype=object)
        names[:] = self.named[v]
        return names[codes]

    @property
    def sizes(self) -> tuple[int, ...]:
        """States of every variable; 0: continuous."""
        return tuple(
            size
            if size is not None
            else (0 if self.columns[v].continuous else self.columns[v].cells)
            for v, size in enumerate(self.slice.states)
        )

    def layout(self, holes: frozenset[int]) -> ChainLayout:
        return make_layout(self.slice, self.sizes, holes)


@final
@dataclass(frozen=True, slots=True)
class Beliefs:
    """Beliefs of joint states at every step, (states, steps), and log P(cells | before)."""

    layout: ChainLayout
    belief: Array
    log_scale: Array

    def of(self, v: int) -> Array:
        """P(latent), (its states, steps)."""
        return latent_beliefs(self.layout, v, self.belief)


def asked_groups(layout: ChainLayout, sequences: Sequences) -> Iterator[Wired]:
    """Groups of sequences one after the other; who listens hears how many steps are done."""
    groups = wire_groups(layout, sequences, questions=True)
    say, done = answer_progress().sharing("answering"), 0
    for wired in groups:
        yield wired
        done += wired.sequences.steps
        if len(groups) > 1:
            say(done / max(1, sequences.steps))


def filter_states(chain: Chain, sequences: Sequences, scored: bool = True) -> Beliefs:
    """P(z_t | x_1 … x_t); not `scored`: log P(cells | before) is told where it is -inf only."""
    layout = chain.layout(sequences.holes())
    parts = []
    for wired in asked_groups(layout, sequences):
        found, used = filtered(wired, chain.tables, scored)
        place = used.packing.place
        parts.append((found.alpha[:, place], found.log_scale[place]))
    return _beliefs(layout, parts)


def smooth_states(chain: Chain, sequences: Sequences) -> Beliefs:
    """P(z_t | x_1 … x_T)."""
    layout = chain.layout(sequences.holes())
    parts = []
    for wired in asked_groups(layout, sequences):
        found, used = smoothed(wired, chain.tables)
        place = used.packing.place
        parts.append((found.gamma[:, place], found.log_scale[place]))
    return _beliefs(layout, parts)


def _beliefs(layout: ChainLayout, parts: list[tuple[Array, Array]]) -> Beliefs:
    """Groups of sequences, one behind the other."""
    if len(parts) == 1:
        return Beliefs(layout, *parts[0])
    belief = np.concatenate([p.T for p, _ in parts]).T
    return Beliefs(layout, belief, np.concatenate([q for _, q in parts]))


def decode_states(chain: Chain, sequences: Sequences) -> tuple[ChainLayout, Indices]:
    """The best path of joint states, (steps,); sequences that cannot be have none."""
    layout = chain.layout(sequences.holes())
    paths = []
    for wired in asked_groups(layout, sequences):
        path, gain = _best(wired, chain.tables)
        if np.isneginf(gain).any():
            raise DataError(
                "some sequences cannot be under the model: no path explains their cells. "
                "score_samples tells the rows (-inf)."
            )
        paths.append(path)
    return layout, np.concatenate(paths)


def _best(wired: Wired, tables: Tables) -> tuple[Indices, Array]:
    """The best path, and parts of its scores."""
    if isinstance(wired.packing, InRow):
        return compiled_best_path(wired, tables)
    (path, gain), used = at_rest(wired, lambda w: best_path(w, tables))
    return path[used.packing.place], gain


def believed_cells(
    chain: Chain, found: Beliefs, sequences: Sequences, v: int, at: Indices
) -> Array:
    """P(cell of column v) at some steps where it is missing: (cells, len(at))."""
    choice = column_choice(found.layout, sequences, v)
    return cell_beliefs(
        found.layout, chain.tables, chain.columns[v], v, found.belief[:, at], choice[at]
    )


def sample_steps_of(
    chain: Chain, count: int, length: int, rng: np.random.Generator, inputs: Mapping[int, CellArray]
) -> dict[int, Array]:
    """Codes of latents and discrete columns, z of continuous ones: (count, length) each.

    `inputs` are the codes of given columns, (count, length).
    """
    drawn: dict[int, Array] = {v: np.asarray(x) for v, x in inputs.items()}
    for v in range(len(chain.slice.names)):
        if v not in drawn:
            drawn[v] = np.zeros((count, length), dtype=float if chain.sizes[v] == 0 else np.intp)
    families = families_of(chain.slice)
    turns = _order_within(chain.slice)
    for t in range(length):
        for v in turns:
            if v in inputs:
                continue
            n = next(
                k
                for k, f in enumerate(families)
                if f.variable == v and (f.goes_on if t else f.starts)
            )
            above = tuple(drawn[u][:, t - lag] for u, lag in families[n].parents)
            rows = chain.tables[n][above] if above else chain.tables[n][None].repeat(count, axis=0)
            if chain.sizes[v]:
                level = np.cumsum(rows, axis=1)
                u = rng.random((count, 1)) * level[:, -1:]
                drawn[v][:, t] = np.minimum((u >= level).sum(axis=1), rows.shape[1] - 1)
            else:
                leaf = rows[:, 0]
                drawn[v][:, t] = rng.normal(leaf[:, 1], np.sqrt(leaf[:, 2]))
    return drawn


def _order_within(slice_: Slice) -> list[int]:
    """Variables of a step, parents first."""
    done: list[int] = []
    left = list(range(len(slice_.names)))
    while left:
        for v in left:
            if all(lag or u in done for u, lag in slice_.parents[v]):
                done.append(v)
                left.remove(v)
                break
    return done

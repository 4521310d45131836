"""PlainNetwork: what files of networks hold, whatever their syntax; checked while it is built."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from latentia.errors import FormatError, PlanError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.file_text import FileText
from latentia.structure.graph import LatentGraph, find_cycle
from latentia.structure.reading_graphs import Latents, as_graph
from latentia.typing import Array

MOST_CELLS = 50_000_000  # of all tables of a network together
SUM_TOLERANCE = 1.001e-6  # as TabularModel has it
Scope: TypeAlias = tuple[str, ...]
Fill: TypeAlias = Callable[[list[tuple[str, ...]]], Array]  # states of each axis -> table
ORDERS = ("min_fill", "min_weight")
YES, NO = ("yes", "true", "1"), ("no", "false", "0")


@final
@dataclass(frozen=True, slots=True)
class PlainNetwork:
    """Variables with named states, tables by their axes, and which variables are latent."""

    states: Mapping[str, tuple[str, ...]]  # of every variable, in order
    tables: Mapping[Scope, Array]  # axes (parents …, variable), or those of a potential
    latents: frozenset[str] = frozenset()
    directed: bool = True

    def graph(self, latents: Latents = None) -> LatentGraph:
        """The graph, with `latents` besides those that the file marks."""
        number = {name: v for v, name in enumerate(self.states)}
        if self.directed:
            edges = [(number[a], number[scope[-1]]) for scope in self.tables for a in scope[:-1]]
        else:
            pairs = {
                (min(number[a], number[b]), max(number[a], number[b]))
                for scope in self.tables
                for k, a in enumerate(scope)
                for b in scope[:k]
            }
            edges = sorted(pairs)
        ready = LatentGraph(
            names=tuple(self.states),
            edges=tuple(edges),
            latent=frozenset(number[name] for name in self.latents),
            states=tuple(map(len, self.states.values())),
            directed=self.directed,
        )
        return ready if latents is None else as_graph(ready, latents)

    def model(self, latents: Latents = None, order: str | None = None) -> TabularModel:
        """The model with these tables; by the first order whose cliques are not too large."""
        graph = self.graph(latents)
        keyed = {(s[-1] if self.directed else s): table for s, table in self.tables.items()}
        if order is not None:
            return TabularModel(graph, keyed, order=order, state_names=self.states)
        for tried in ORDERS:
            try:
                return TabularModel(graph, keyed, order=tried, state_names=self.states)
            except PlanError:
                if tried == ORDERS[-1]:
                    raise
        raise AssertionError("unreachable: the last order returns or raises")


@final
@dataclass(slots=True)
class Draft:
    """A network that is being read; variables and tables may come in any order."""

    source: FileText
    directed: bool = True
    normalize: bool = False
    states: dict[str, tuple[str, ...]] = field(default_factory=dict)
    latents: set[str] = field(default_factory=set)
    _tables: dict[str, tuple[Scope, Fill, int]] = field(default_factory=dict)

    def add_variable(self, name: str, states: Sequence[str], line: int) -> None:
        """A variable, once, with one or more different states."""
        if not name:
            self.source.fail(line, "expected the name of a variable, got none.")
        if name in self.states:
            self.source.fail(line, f"variable {name!r} is there twice. Rename or remove one.")
        if not states or not all(states):
            self.source.fail(line, f"expected the names of the states of {name!r}, got too few.")
        if len(set(states)) < len(states):
            twice = Counter(states).most_common(1)[0][0]
            self.source.fail(
                line, f"expected different states of {name!r}, got {twice!r} twice. Rename one."
            )
        self.states[name] = tuple(states)

    def mark_latent(self, name: str, told: str, line: int) -> None:
        """Note what a property `latent` says."""
        if told.strip().lower() in YES:
            self.latents.add(name)
        elif told.strip().lower() not in NO:
            self.source.fail(line, f"expected latent = yes or no of {name!r}, got {told[:40]!r}.")

    def add_table(self, scope: Sequence[str], fill: Fill, line: int) -> None:
        """The table of the last variable of `scope`, given the others; `fill` makes it later."""
        child = scope[-1]
        if child in self._tables:
            self.source.fail(
                line,
                f"{child!r} has two tables, the first in line {self._tables[child][2]}. "
                "Remove one.",
            )
        if len(set(scope)) < len(scope):
            self.source.fail(line, f"expected different variables in a table, got {list(scope)}.")
        self._tables[child] = (tuple(scope), fill, line)

    def finish(self) -> PlainNetwork:
        """The network, if every variable has a table and nothing contradicts itself."""
        self._check_variables()
        left, tables = MOST_CELLS, {}
        for name in self.states:
            if name not in self._tables:
                self.source.fail(None, f"expected a table for {name!r}, got none. Add it.")
            scope, fill, line = self._tables[name]
            axes = [self.states[v] for v in scope]
            cells = math.prod(map(len, axes))
            left -= cells
            if left < 0:
                self.source.fail(
                    line,
                    f"expected at most {MOST_CELLS:,} cells in all tables, got {cells:,} in that "
                    f"of {name!r}. Divorce its parents, or give it fewer.",
                )
            tables[scope] = self._checked(scope, fill(axes), line)
        return PlainNetwork(self.states, tables, frozenset(self.latents), self.directed)

    def _check_variables(self) -> None:
        if not self.states:
            self.source.fail(None, "expected a network, got no variables. Is the file cut off?")
        for scope, _, line in self._tables.values():
            for name in scope:
                if name not in self.states:
                    self.source.fail(line, f"variable {name!r} is not declared. Is it spelt alike?")
        if len(self.latents) == len(self.states):
            self.source.fail(None, "every variable is marked as latent; at least one must not be.")
        number = {name: v for v, name in enumerate(self.states)}
        edges = [(number[a], number[s[-1]]) for s, _, _ in self._tables.values() for a in s[:-1]]
        cycle = find_cycle(len(number), edges)
        if cycle:
            names = list(self.states)
            path = " -> ".join(names[v] for v in [*cycle[:20], cycle[0]])
            line = self._tables[names[cycle[0]]][2]
            self.source.fail(line, f"the parents go in a circle: {path}. Drop an edge.")

    def _checked(self, scope: Scope, table: Array, line: int) -> Array:
        sums = table.sum(axis=-1)
        if table.min() >= 0 and np.abs(sums - 1).max() <= SUM_TOLERANCE:  # not if any is NaN
            return table
        if not np.isfinite(table).all() or (table < 0).any():
            odd = table[~np.isfinite(table) | (table < 0)][0]
            self.source.fail(
                line, f"expected probabilities in the table of {scope[-1]!r}, got {odd:g}."
            )
        if self.normalize and (sums > 0).all():
            return np.asarray(table / sums[..., None])
        off = np.abs(sums - 1)
        if off.max() > SUM_TOLERANCE:
            where = np.unravel_index(int(off.argmax()), off.shape)
            given = ", ".join(
                f"{v}={self.states[v][k]}" for v, k in zip(scope[:-1], where, strict=True)
            )
            self.source.fail(
                line,
                f"expected the probabilities of {scope[-1]!r}{f' given {given}' * bool(given)} to "
                f"sum to 1, got {sums[where]:.8g}. If they are rounded, pass normalize=True.",
            )
        return table


def filled(source: FileText, numbers: Array, line: int) -> Fill:
    """A table whose cells come in order, the last axis fastest."""

    def fill(axes: list[tuple[str, ...]]) -> Array:
        shape = [len(states) for states in axes]
        if numbers.size != math.prod(shape):
            product = " × ".join(map(str, shape))
            source.fail(
                line,
                f"expected {math.prod(shape):,} numbers ({product}), got {numbers.size:,}. "
                "Is the table complete, and are its parents all named?",
            )
        return numbers.reshape(shape)

    return fill


def spelled(names: Sequence[object], what: str) -> tuple[str, ...]:
    """Names as files hold them, all different; anything may be a name, and is written as it prints.

    >>> spelled(["a", 1], "variables")
    ('a', '1')
    """
    found = tuple(map(str, names))
    if len(set(found)) < len(found) or not all(found):
        raise FormatError(
            f"expected {what} that differ in print and are not empty, got {list(names)!r:.120}. "
            "Rename some before writing."
        )
    odd = next((name for name in found if not name.isprintable()), None)
    if odd is not None:
        raise FormatError(
            f"{what}: {odd!r} holds characters that are not printed, which files of other tools "
            "cannot hold. Rename it before writing."
        )
    return found

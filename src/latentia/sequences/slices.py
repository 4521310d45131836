"""Slice: one step of a sequence and what ties it to the next; a primed name is the next step's.

``z -> z', z -> word`` says that the latent of a step tells the next one's and the word of its own
step. A comma behind which an arrow follows starts a new tie, so that the line above reads as it is
meant; `;` and new lines do so as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

from latentia.errors import GraphError, UnknownNameError
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph, find_cycle
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.typing import Given, Label

Parent: TypeAlias = tuple[int, int]  # variable, and how many steps before: 0 or 1
PRIMES = "'′’"
_ARROW = re.compile(r"->|<-|--")


@final
@dataclass(frozen=True, slots=True)
class Slice:
    """Variables of one step, and the parents of each: in its step, or in the step before.

    >>> print(read_slice("z -> z', z -> word", {"z": 3}))
    (z[3])->(z[3])'; (z[3])->word
    """

    names: tuple[Label, ...]
    latent: frozenset[int]
    given: frozenset[int]  # inputs: they are told, never predicted
    states: tuple[int | None, ...]  # of latents; None: of columns, told by the rows
    parents: tuple[tuple[Parent, ...], ...]  # in the order given: axes of tables

    def __post_init__(self) -> None:
        n = len(self.names)
        if len(set(self.names)) != n or len(self.states) != n or len(self.parents) != n:
            raise GraphError("the names of a slice must differ, and have states and parents each.")
        for v in sorted(self.latent):
            if self.states[v] is None:
                raise GraphError(
                    f"the latent {self.names[v]!r} needs a number of states: "
                    f"latents={{{self.names[v]!r}: 4}}."
                )
        for v in sorted(self.given):
            if self.parents[v]:
                raise GraphError(
                    f"{self.names[v]!r} is given, not modelled, and cannot have parents. Drop the "
                    "arrows to it, or drop it from given=."
                )
        within = [(u, v) for v, above in enumerate(self.parents) for u, lag in above if lag == 0]
        cycle = find_cycle(len(self.names), within)
        if cycle:
            path = " -> ".join(printable(self.names[v]) for v in (*cycle, cycle[0]))
            raise GraphError(
                f"one step has a cycle: {path}. Reverse or drop an arrow, or let it lead to the "
                "next step (a primed name)."
            )
        if not self.columns:
            raise GraphError("every variable is latent or given; at least one must be a column.")

    @property
    def columns(self) -> tuple[int, ...]:
        """What is observed and modelled, in input order."""
        aside = self.latent | self.given
        return tuple(v for v in range(len(self.names)) if v not in aside)

    @property
    def told(self) -> tuple[int, ...]:
        """Columns and inputs: what a table must have, in input order."""
        return tuple(v for v in range(len(self.names)) if v not in self.latent)

    def index(self, name: Label) -> int:
        """The number of the variable called `name`."""
        try:
            return self.names.index(name)
        except ValueError:
            raise UnknownNameError("variable", name, self.names) from None

    def __str__(self) -> str:
        def show(v: int) -> str:
            count = "" if self.states[v] is None else f"[{self.states[v]}]"
            shown = f"{printable(self.names[v])}{count}"
            return f"({shown})" if v in self.latent else shown

        parts = [
            f"{show(u)}->{show(v)}" + "'" * lag
            for v, above in enumerate(self.parents)
            for u, lag in above
        ]
        tied = {v for v, above in enumerate(self.parents) if above}
        tied |= {u for above in self.parents for u, _ in above}
        alone = [show(v) for v in range(len(self.names)) if v not in tied]
        return "; ".join(sorted(parts, key=lambda p: not p.endswith("'")) + alone)


def read_slice(graph: GraphLike, latents: Latents = None, given: Iterable[Label] = ()) -> Slice:
    """Text or edges with primed names, read as a slice.

    >>> read_slice("z -> z'; z -> a, b", {"z": 2}).parents
    (((0, 1),), ((0, 0),), ((0, 0),))
    """
    if isinstance(graph, Slice):
        return graph
    read = as_graph(_apart(graph) if isinstance(graph, str) else graph)
    if not read.directed:
        raise GraphError("a slice needs arrows (->): undirected ties (--) have no next step.")
    names = tuple(dict.fromkeys(_plain(name) for name in read.names))
    number = {name: v for v, name in enumerate(names)}
    counts = _latent_counts(latents, names, read)
    inputs = frozenset(_named(number, name, "given column") for name in _listed(given))
    both = inputs & {number[name] for name in counts}
    if both:
        raise GraphError(f"{names[min(both)]!r} is both latent and given. Keep one.")
    parents: list[list[Parent]] = [[] for _ in names]
    for a, b in read.edges:
        u, v, lag = _tie(read.names[a], read.names[b], number)
        if (u, lag) not in parents[v]:
            parents[v].append((u, lag))
    states = tuple(counts.get(name) for name in names)
    latent = frozenset(number[name] for name in counts)
    return Slice(names, latent, inputs, states, tuple(map(tuple, parents)))


def tells_next_step(text: str) -> bool:
    """Does a name end in a prime? An apostrophe within a name is a letter like others.

    >>> tells_next_step("z -> z', z -> word"), tells_next_step("class -> l'été, won't")
    (True, False)
    """
    return re.search(rf"[{PRIMES}]\s*(\[|,|;|\n|-|<|→|←|$)", text) is not None


def _apart(text: str) -> str:
    """`a -> b, c -> d` as `a -> b; c -> d`: a comma behind which an arrow follows parts two ties.

    >>> _apart("z -> z', z -> word, pitch")
    "z -> z'; z -> word, pitch"
    """
    statements = []
    for statement in re.split(r"[;\n]", text):
        parts: list[str] = []
        for word in statement.split(","):
            if parts and not (_ARROW.search(word) and _ARROW.search(parts[-1])):
                parts[-1] += "," + word
            else:
                parts.append(word.strip() if parts else word)
        statements.extend(parts)
    return "; ".join(s for s in statements if s.strip())


def _primed(name: Label) -> bool:
    return isinstance(name, str) and len(name) > 1 and name[-1] in PRIMES


def _plain(name: Label) -> Label:
    if not _primed(name):
        return name
    assert isinstance(name, str)
    if _primed(name[:-1]):
        raise GraphError(
            f"{name!r} is two steps ahead; only the next step (one prime) can be told. Add a "
            "latent that remembers."
        )
    return name[:-1].rstrip()


def _tie(a: Label, b: Label, number: Mapping[Label, int]) -> tuple[int, int, int]:
    """Parent, child and the steps between them."""
    lag = int(_primed(b)) - int(_primed(a))
    if lag < 0:
        raise GraphError(f"{a!r} -> {b!r} leads back in time. Turn it, or prime {b!r} too.")
    return number[_plain(a)], number[_plain(b)], lag


def _latent_counts(
    latents: Latents, names: tuple[Label, ...], read: LatentGraph
) -> dict[Label, int]:
    """Numbers of states of latents, from `latents` or from z[3] in the text."""
    told = {_plain(n): count for n, count in zip(read.names, read.states, strict=True) if count}
    pairs = latents.items() if isinstance(latents, Mapping) else [(n, None) for n in latents or ()]
    found = {}
    for name, count in pairs:
        if name not in names:
            raise UnknownNameError("latent", name, names, "Is it spelt as in the slice?")
        count = told.get(name) if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise GraphError(
                f"the latent {name!r} needs a whole number of states from 1 on, got {count!r}: "
                f"latents={{{name!r}: 4}}."
            )
        found[name] = int(count)
    return found


def _listed(given: Given) -> list[Label]:
    return [given] if isinstance(given, str) else list(given or ())


def _named(number: Mapping[Label, int], name: Label, what: str) -> int:
    if name not in number:
        raise UnknownNameError(what, name, number, "Is it spelt as in the slice?")
    return number[name]

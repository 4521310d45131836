"""Can an effect be told from the columns alone? Back-door and front-door sets, and the rest.

    P(y | do x) = Σ_z P(y | x, z) P(z)                              z a back-door set
    P(y | do x) = Σ_z P(z | x) Σ_x' P(y | x', z) P(x')              z a front-door set

Beyond these, the algorithm of Tian, Shpitser and Pearl, which is complete: where it fails, two
models with the same columns have different effects. Latents take part by their projection: columns
with a common latent cause are joined by a two-headed edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.structure.separation import (
    ancestors,
    descendants,
    separated,
    without_incoming,
    without_outgoing,
)
from latentia.typing import Label


@final
@dataclass(frozen=True, slots=True)
class Identification:
    """How an effect follows from the columns, if it does."""

    treatments: tuple[Label, ...]
    outcomes: tuple[Label, ...]
    given: tuple[Label, ...]
    identified: bool
    back_door: tuple[Label, ...] | None  # None: there is no such set
    front_door: tuple[Label, ...] | None
    acts: bool = True  # whether any arrows lead from a treatment to an outcome or what is given
    latents: tuple[Label, ...] = ()  # that are asked for, given or set, or that confound

    @property
    def words(self) -> str:
        """One sentence."""
        if not self.acts:
            return f"no arrows lead from {_listed(self.treatments)} to {_listed(self.outcomes)}."
        if self.back_door is not None:
            if not self.back_door:
                return "told by the columns: nothing confounds it (the empty back-door set)."
            return f"told by the columns: back-door set {_listed(self.back_door)}."
        if self.front_door is not None:
            return f"told by the columns: front-door set {_listed(self.front_door)}."
        if self.identified:
            return "told by the columns, though no back-door or front-door set does it alone."
        are = "is" if len(self.latents) == 1 else "are"
        return f"not told by the columns alone: {_listed(self.latents)} {are} latent."


def _listed(names: Iterable[Label]) -> str:
    return ", ".join(printable(name) for name in names)


def identify(
    graph: LatentGraph,
    treatments: Sequence[int],
    outcomes: Sequence[int],
    given: Sequence[int] = (),
) -> Identification:
    """Whether P(outcomes | given, do treatments) follows from the columns, and by what.

    Back-door and front-door sets are looked for where one treatment has one outcome.
    """
    asked = (*treatments, *outcomes, *given)
    hidden = [v for v in asked if v in graph.latent]
    back = front = None
    known = not hidden and _identified(graph, treatments, outcomes, given)
    acts = bool(descendants(graph.parents(), treatments).intersection((*outcomes, *given)))
    if known and acts and len(treatments) == len(outcomes) == 1:
        back = back_door_set(graph, treatments[0], outcomes[0], given)
        if back is None and not given:
            front = front_door_set(graph, treatments[0], outcomes[0])
    if not known and not hidden:
        hidden = _confounders(graph, treatments, (*outcomes, *given))

    def names(some: Iterable[int]) -> tuple[Label, ...]:
        return tuple(graph.names[v] for v in some)

    return Identification(
        names(treatments),
        names(outcomes),
        names(given),
        known,
        None if back is None else names(back),
        None if front is None else names(front),
        acts,
        () if known else names(hidden),
    )


# --- back-door and front-door ---------------------------------------------------------------------


def back_door_set(
    graph: LatentGraph, x: int, y: int, given: Sequence[int] = ()
) -> tuple[int, ...] | None:
    """Columns that block every back-door path from x to y, with none of x's descendants.

    If any set does it together with what is given, all columns above x, y and the given that do
    not lie below x do; one after the other is then left out that is not needed.
    """
    parents = graph.parents()
    below = descendants(parents, [x])
    if below.intersection(given):
        return None
    paths = without_outgoing(parents, [x])
    above = ancestors(parents, (x, y, *given))
    allowed = [v for v in graph.observed if v in above and v not in below and v not in given]
    return _smallest(lambda some: separated(paths, [x], [y], (*some, *given)), allowed, y)


def front_door_set(graph: LatentGraph, x: int, y: int) -> tuple[int, ...] | None:
    """Columns between x and y that nothing confounds with x, and only x with y.

    Where some set does it, it lies in the largest one, found by leaving out what is in the way.
    """
    parents = graph.parents()
    unblocked = without_outgoing(parents, [x])
    others = (v for v in graph.observed if v not in (x, y))
    kept = [v for v in others if separated(unblocked, [x], [v], ())]
    while True:
        paths = without_outgoing(parents, kept)
        fine = [v for v in kept if separated(paths, [v], [y], [x])]
        if fine == kept:
            break
        kept = fine

    def does(some: Sequence[int]) -> bool:
        if y in descendants(without_incoming(parents, some), [x]):
            return False  # a way from x to y that passes none of them
        paths = without_outgoing(parents, some)
        return separated(paths, some, [y], [x])

    return _smallest(does, kept, y) if kept else None


def _smallest(
    does: Callable[[Sequence[int]], bool], allowed: Sequence[int], last: int
) -> tuple[int, ...] | None:
    """Of a set that does it, what is left when nothing more can be spared."""
    kept = [v for v in allowed if v != last]
    if not does(kept):
        return None
    for v in list(kept):
        fewer = [u for u in kept if u != v]
        if does(fewer):
            kept = fewer
    return tuple(kept)


# --- in general -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Mixed:
    """The columns alone: arrows that lead through latents, and groups with a common latent."""

    parents: tuple[frozenset[int], ...]
    groups: tuple[frozenset[int], ...]

    def parts(self, among: frozenset[int]) -> list[frozenset[int]]:
        """What common latents hold together."""
        part = {v: {v} for v in among}
        for group in self.groups:
            joined: set[int] = set()
            for v in group & among:
                if part[v] is not joined:
                    joined = _larger(joined, part[v], part)
        return [frozenset(x) for x in {id(x): x for x in part.values()}.values()]

    def above(self, of: Iterable[int], among: frozenset[int]) -> frozenset[int]:
        inside = [self.parents[v] & among if v in among else () for v in range(len(self.parents))]
        return ancestors([tuple(p) for p in inside], of)


def _larger(one: set[int], other: set[int], part: dict[int, set[int]]) -> set[int]:
    """The union of two parts: the smaller is put into the larger."""
    small, large = sorted((one, other), key=len)
    large |= small
    for v in small:
        part[v] = large
    return large


def project(graph: LatentGraph) -> tuple[tuple[frozenset[int], ...], tuple[frozenset[int], ...]]:
    """The graph of the columns alone: parents of each, and groups with a common latent cause."""
    parents = graph.parents()
    direct: list[frozenset[int]] = []
    told: dict[int, set[int]] = {
        v: set() for v in graph.latent
    }  # columns with a way through latents
    for v in range(len(parents)):
        seen, todo = set[int](), list(parents[v]) if v not in graph.latent else []
        while todo:
            u = todo.pop()
            if u not in seen:
                seen.add(u)
                todo += parents[u] if u in graph.latent else ()
        direct.append(frozenset(seen) - graph.latent)
        for u in seen & graph.latent:
            told[u].add(v)
    return tuple(direct), tuple(frozenset(group) for group in told.values() if len(group) > 1)


def _identified(
    graph: LatentGraph, treatments: Sequence[int], outcomes: Sequence[int], given: Sequence[int]
) -> bool:
    """P(outcomes | given, do treatments): what is given and acts as if set is set (rule 2)."""
    parents = graph.parents()
    for z in given:
        rest = [v for v in given if v != z]
        cut = without_outgoing(without_incoming(parents, treatments), [z])
        if separated(cut, outcomes, [z], (*treatments, *rest)):
            return _identified(graph, (*treatments, z), outcomes, rest)
    mixed, columns = _Mixed(*project(graph)), frozenset(graph.observed)
    free = columns - set(treatments)
    needed = mixed.above((*outcomes, *given), free)
    whole = mixed.parts(columns)
    return all(
        _follows(mixed, part, next(home for home in whole if part <= home))
        for part in mixed.parts(needed)
    )


def _follows(mixed: _Mixed, part: frozenset[int], home: frozenset[int]) -> bool:
    """Whether Q[part] can be computed from Q[home] (Tian's Identify)."""
    above = mixed.above(part, home)
    if above == part:
        return True
    if above == home:
        return False
    return _follows(mixed, part, next(p for p in mixed.parts(above) if part <= p))


def _confounders(
    graph: LatentGraph, treatments: Sequence[int], outcomes: Sequence[int]
) -> list[int]:
    """Latents that would have to be seen: those above a treatment and, without it, an outcome."""
    parents = graph.parents()
    over = ancestors(parents, treatments)
    beside = ancestors(without_outgoing(parents, treatments), outcomes)
    found = [v for v in sorted(graph.latent) if v in over and v in beside]
    return found or sorted(graph.latent & (over | beside))

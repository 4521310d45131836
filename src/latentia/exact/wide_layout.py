"""Wide latents: where the cells of tables go in an E-step of matrix products, decided once.

All tables lie one after the other in a vector, followed by a one and a nought. Every factor of the
E-step is a product of cells of it, vector[places]: M(s, u) of a clique, and P(x | u) of the columns
of a pack, by their joint code. Counts go back the same way: what is counted at places is added up
there. Packs of the same shape are made together, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.exact.estep_wiring import Clique, EStep, Family, Pack, Witness
from latentia.typing import Array, Codes, Floats

MOST_MARKS = 128  # codes of all witnesses of a pack: wider ones are looked up
LEAST_WIDE = 24  # states of what comes in from which products pay


@final
@dataclass(frozen=True, slots=True)
class WideClique:
    """A clique whose message is P M, (rows, lower) times (lower, upper)."""

    parent: int  # its own number at a root
    packs: tuple[int, ...]
    children: tuple[int, ...]
    families: tuple[Codes, ...]  # places of each table, (upper, lower)
    sizes: tuple[int, int]  # upper, lower
    depths: tuple[float, ...]  # log of the codes of each pack


@final
@dataclass(frozen=True, slots=True)
class AlikePacks:
    """Packs whose witnesses have the same numbers of codes, and whose scopes as many states."""

    packs: tuple[int, ...]
    places: tuple[Codes, ...]  # of each witness in turn, (packs, codes, states)
    half: int  # witnesses of the first half, which are multiplied out together
    high: Codes  # of each joint code of each pack: its code of the first half, packs in turn
    low: Codes  # … and of the second


@final
@dataclass(frozen=True, slots=True)
class WideLayout:
    """Where cells go; made from the wiring of an E-step."""

    estep: EStep
    cliques: tuple[WideClique, ...]
    shapes: Mapping[int, tuple[int, ...]]  # variable -> shape of its table, as the vector has them
    size: int  # of the vector, without the one and the nought
    alike: tuple[AlikePacks, ...]
    every: Codes  # places of all cells that are counted: of families by clique, then of packs
    marks: tuple[Array, ...]  # of each pack: 1 where a joint code has a witness's code
    single_marks: tuple[Floats, ...]  # the same in single precision

    def vector(self, tables: Mapping[int, Array]) -> Array:
        """All tables one after the other, a one and a nought."""
        return np.concatenate([*(tables[v].ravel() for v in self.shapes), (1.0, 0.0)])

    def tables(self, vector: Array) -> dict[int, Array]:
        """Views of the tables, (parents …, variable)."""
        found, start = {}, 0
        for v, shape in self.shapes.items():
            stop = start + math.prod(shape)
            found[v] = vector[start:stop].reshape(shape)
            start = stop
        return found


def wide_layout(estep: EStep) -> WideLayout | None:
    """The layout, made once; None where the wiring is of another kind, or narrow."""
    if "wide" not in estep.kept:
        estep.kept["wide"] = _made(estep) if _fits(estep) else None
    found: WideLayout | None = estep.kept["wide"]
    return found


def _fits(estep: EStep) -> bool:
    """A tree of products: nothing shared or summed out in a clique, nothing but codes below one."""
    plain = all(c.alike and not c.shared and not c.sums.gone for c in estep.cliques)
    few = all(_codes(p) <= MOST_MARKS for p in estep.packs)
    wide = sum(c.sizes[2] >= LEAST_WIDE for c in estep.cliques) * 2 > len(estep.cliques)
    return plain and few and wide and not estep.dense and not estep.free


def _codes(pack: Pack) -> int:
    return sum(w.codes for w in pack.witnesses)


def _made(estep: EStep) -> WideLayout:
    parents = estep.parents
    used = {w.variable for p in estep.packs for w in p.witnesses if not w.seen}
    used |= {f.variable for c in estep.cliques for f in c.families}
    shapes = {v: tuple(estep.states[u] for u in (*parents[v], v)) for v in used}
    # tables with as many states together: an M-step divides each kind at once
    shapes = dict(sorted(shapes.items(), key=lambda item: (item[1][-1], item[0])))
    starts, size = {}, 0
    for v, shape in shapes.items():
        starts[v] = size + np.arange(math.prod(shape)).reshape(shape)
        size += math.prod(shape)
    cliques = tuple(
        WideClique(
            parent=clique.parent,
            packs=tuple(p for x in clique.inputs for p in x.packs),
            children=tuple(x.child for x in clique.inputs if x.child >= 0),
            families=tuple(_family_places(clique, starts[f.variable], f) for f in clique.families),
            sizes=clique.sizes[1:],
            depths=tuple(math.log(estep.packs[p].codes) for x in clique.inputs for p in x.packs),
        )
        for clique in estep.cliques
    )
    own = {
        p: [_places(w, estep.size(pack.scope), starts, size) for w in pack.witnesses]
        for p, pack in enumerate(estep.packs)
    }
    shaped: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for p, places in own.items():
        shaped.setdefault(tuple(x.shape for x in places), []).append(p)
    alike = tuple(
        _alike(ps, [np.stack(x) for x in zip(*(own[p] for p in ps), strict=True)])
        for ps in shaped.values()
    )
    every = [x.ravel() for c in cliques for x in c.families]
    every += [x.ravel() for places in own.values() for x in places]
    marks = tuple(_marks(pack) for pack in estep.packs)
    single = tuple(x.astype(np.float32) for x in marks)
    return WideLayout(estep, cliques, shapes, size, alike, np.concatenate(every), marks, single)


def _alike(packs: Sequence[int], places: Sequence[Codes]) -> AlikePacks:
    half = (len(places) + 1) // 2
    many, few = (math.prod(x.shape[1] for x in part) for part in (places[:half], places[half:]))
    pack, high, low = np.indices((len(packs), many, few)).reshape(3, -1)
    return AlikePacks(tuple(packs), tuple(places), half, pack * many + high, pack * few + low)


def _places(witness: Witness, states: int, starts: Mapping[int, Codes], size: int) -> Codes:
    """(codes, states of the scope) of a witness; a missing cell says one."""
    one, nought = size, size + 1
    missing = np.full((1, states), one)
    if witness.seen:
        return np.concatenate([np.where(np.eye(states) > 0, one, nought), missing])
    own = starts[witness.variable]
    if witness.order:
        own = own.transpose(witness.order)
    own = own.reshape(states, -1).T
    return np.concatenate([own, missing]) if witness.holes else own


def _family_places(clique: Clique, own: Codes, family: Family) -> Codes:
    """Places of a table on the axes of its clique, (upper, lower)."""
    own = own.transpose(family.order).reshape(family.spread)
    whole = np.broadcast_to(own, clique.sums.spread).transpose(clique.sums.back[:-1])
    return np.ascontiguousarray(whole).reshape(clique.sizes[1:])


def _marks(pack: Pack) -> Array:
    """(joint codes, codes of all witnesses)."""
    sizes = tuple(w.codes for w in pack.witnesses)
    joint = np.indices(sizes).reshape(len(sizes), -1)
    marks = [own[:, None] == np.arange(n) for own, n in zip(joint, sizes, strict=True)]
    return np.concatenate(marks, axis=1).astype(float)

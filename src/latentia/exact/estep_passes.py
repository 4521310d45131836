"""One pass up and one down the cliques of an E-step, for a block of rows (formulas: estep.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.errors import EvidenceError
from latentia.exact.estep_wiring import Clique, EStep, Input, Placing
from latentia.typing import Array, Codes

if TYPE_CHECKING:
    from latentia.data.columns.column import Places

RESCALE = 16  # columns
TINY = 1e-200  # a row's product below this: every factor is rescaled
SMALLEST = 1e-300
LEAST_SHARE = 1e-260  # of a density against that of the likeliest state, where care is taken


@final
@dataclass(frozen=True, slots=True)
class Factors:
    """The tables of an E-step in the form in which rows need them."""

    packs: tuple[Array, ...]  # (states of the scope, codes)
    logs: tuple[Array | None, ...]  # log of what was taken out of each code, (codes,), if careful
    psi: tuple[Array, ...]  # (states of each variable of the clique …)
    maps: tuple[Array, ...]  # M: (shared, upper, lower)
    careful: bool  # rescale every factor


@final
@dataclass(frozen=True, slots=True)
class Upward:
    """What the pass up leaves at each clique."""

    products: tuple[Array, ...]  # P: (shared · lower, n)
    messages: tuple[Array, ...]  # m: (shared · upper, n); at a root (1, n)
    log: Array  # log P(row) of all but the packs without scope, (n,)


class _Running:
    """A product of factors, rescaled where many columns have gone in; the logs are kept."""

    __slots__ = ("careful", "columns", "log", "sound", "value")

    def __init__(self, careful: bool) -> None:
        self.value: Array | None = None
        self.log: Array | float = 0.0
        self.columns = 0
        self.careful = careful
        self.sound = True

    def times(self, factor: Array, columns: int) -> None:
        self.value = factor if self.value is None else self.value * factor
        self.columns += columns
        if self.columns > RESCALE or self.careful:
            top = self.value.max(axis=tuple(range(self.value.ndim - 1)))  # (n,)
            self.sound = self.sound and bool(top.min(initial=1.0) > TINY)
            top = np.where(top > 0, top, 1.0)
            self.value = self.value / top
            self.log = self.log + np.log(top)
            self.columns = 1


def collect(
    estep: EStep,
    factors: Factors,
    codes: Sequence[Places],
    n: int,
    dense: Sequence[tuple[Array, Array]] = (),
) -> Upward | None:
    """Up: m(s) = Σ_u M(s, u) P(u); None where a row came near the smallest numbers.

    `codes` are those of the packs, (n,) each; `dense` the densities of continuous columns by state
    of their parents, (states, n), relative to the largest, and the log of that, (n,). Careful
    factors always give an answer; the log is -inf where a row has no probability at all.
    """
    count = len(estep.cliques)
    products, messages = [np.zeros(0)] * count, [np.zeros(0)] * count
    columns = [0] * count
    log: Array = np.zeros(n)
    for k in reversed(range(count)):
        clique = estep.cliques[k]
        running = _Running(factors.careful)
        for x in clique.inputs:
            if x.child < 0:
                part = _looked_up(factors, x, codes, estep, dense)
                log = log + part.log
                running.sound &= part.sound
                value, more = part.value, part.columns
            else:
                value, more = messages[x.child], columns[x.child]
            if value is not None:
                running.times(value if clique.alike else _spread(x.placing, value), more)
        shared, _, lower = clique.sizes
        P = _filled(running.value, clique, shared * lower, n)
        log = log + running.log
        products[k], columns[k] = P, running.columns
        messages[k] = np.matmul(factors.maps[k], P.reshape(shared, lower, n)).reshape(-1, n)
        if clique.parent == k:
            Z = messages[k][0]
            running.sound = running.sound and bool(Z.min(initial=1.0) > TINY)
            with np.errstate(divide="ignore"):
                log = log + np.log(Z)
        if not running.sound and not factors.careful:
            return None
    return Upward(tuple(products), tuple(messages), log)


def _looked_up(
    factors: Factors,
    x: Input,
    codes: Sequence[Places],
    estep: EStep,
    dense: Sequence[tuple[Array, Array]],
) -> _Running:
    """The product of the packs and densities of one scope."""
    running = _Running(factors.careful)
    for p in x.packs:
        running.times(factors.packs[p].take(codes[p], axis=1), len(estep.packs[p].witnesses))
        taken = factors.logs[p]
        if taken is not None:
            running.log = running.log + taken.take(codes[p])
    if x.dense >= 0:
        value, log = dense[x.dense]
        running.times(np.maximum(value, LEAST_SHARE) if factors.careful else value, 1)
        running.log = running.log + log
    return running


def _filled(value: Array | None, clique: Clique, size: int, n: int) -> Array:
    """The product on all its axes, (size, n); ones where nothing came in."""
    if value is None:
        return np.ones((size, n))
    if not clique.alike:
        value = np.broadcast_to(value, (*clique.inputs[0].placing.product, n))
    return np.ascontiguousarray(value.reshape(size, n))


def distribute(
    estep: EStep,
    factors: Factors,
    up: Upward,
    weight: Array | None,
    wanted: Iterable[int] | None = None,
) -> Iterator[tuple[int, Array, Array]]:
    """Down, parents first: (clique, D, belief), (shared · upper, n) and (shared · lower, n).

    Both belong to P(· | row) times the weight of the row; belief(u) = P(u) Σ_s M(s, u) D(s).
    `wanted`: go to these cliques only, and those above them.
    """
    above: dict[int, Array] = {}
    way = None if wanted is None else _with_above(estep, wanted)
    for k, clique in enumerate(estep.cliques):
        if way is not None and k not in way:
            continue
        P = up.products[k]
        n = P.shape[1]
        if clique.parent == k:
            D = (1.0 if weight is None else weight) / up.messages[k]
        else:
            D = above.pop(k)
        turned = factors.maps[k].swapaxes(1, 2)
        G = np.matmul(turned, D.reshape(*clique.sizes[:2], n)).reshape(-1, n)
        belief = G * P
        yield k, D, belief
        for x in clique.inputs:
            if x.child < 0 or (way is not None and x.child not in way):
                continue
            own = marginal(x.placing, belief)
            above[x.child] = own / np.maximum(up.messages[x.child], SMALLEST)


def _with_above(estep: EStep, cliques: Iterable[int]) -> set[int]:
    found: set[int] = set()
    for k in cliques:
        while k not in found:
            found.add(k)
            k = estep.cliques[k].parent
    return found


def _spread(placing: Placing, x: Array) -> Array:
    """(states of the scope, n) on the axes of the product, for broadcasting."""
    return x.reshape(*placing.sizes, -1).transpose(placing.order).reshape(*placing.spread, -1)


def marginal(placing: Placing, product: Array) -> Array:
    """Σ over the axes that the scope has not: (states of the scope, n)."""
    if placing.same:
        return product
    n = product.shape[-1]
    kept = product.reshape(*placing.product, n).sum(axis=placing.gone)
    return np.asarray(kept.transpose(placing.back).reshape(-1, n))


def check_possible(up: Upward, first: int | Codes) -> None:
    """Every row of the block, which starts at row `first` or has these numbers, is possible."""
    impossible = np.flatnonzero(~np.isfinite(up.log))
    if impossible.size:
        at = int(impossible[0])
        raise no_probability(f"row {first + at if isinstance(first, int) else first[at]}")


def no_probability(what: str) -> EvidenceError:
    return EvidenceError(
        f"{what} has probability zero under the tables (values never seen together in training, or "
        "starting tables with zeros). Make one of its cells missing to marginalise it; smoothing "
        "keeps learned tables from zeros."
    )

"""Which states of two chains are the same, and one of them renumbered to fit."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import ArrayLike

from latentia.announcing import warn
from latentia.errors import DataError, IdentifiabilityWarning
from latentia.model.aligning import POOR, Alignment, Match
from latentia.sequences.chain_pictures import only_latent
from latentia.sequences.chain_questions import Chain, smooth_states
from latentia.sequences.fitting_chains import renamed
from latentia.typing import Array, Given, TableLike

if TYPE_CHECKING:
    from latentia.sequences.sequence_model import SequenceModel

DRAWN = (40, 100)  # sequences and steps by which states are matched, if none are given


def align_chains(
    model: SequenceModel,
    other: SequenceModel,
    X: TableLike = None,
    lengths: ArrayLike | None = None,
) -> Alignment:
    """Match the states of every latent that both have, by P(state | all rows of the sequence)."""
    own, others = model._chain, _fitted(other)
    pairs = _pairs(own, others)
    if X is None:
        if own.slice.given:
            raise DataError("the slice has inputs: pass rows that tell them.")
        drawn = model.sample(*DRAWN, random_state=0)
        X = {own.columns[v].name: drawn[own.columns[v].name] for v in own.slice.columns}
        lengths = [DRAWN[1]] * DRAWN[0]
    left, right = (
        smooth_states(m.fitted_.chain, m._read(X, lengths)[0].sequences) for m in (model, other)
    )
    matches = [_match(own, others, a, b, left.of(a), right.of(b)) for a, b in pairs]
    for m in matches:
        if m.agreement < POOR:
            warn(
                f"the states of {m.latent!r} are matched with {m.agreement:.0%} of steps in "
                "agreement; they may not be the same. Do they have as many states, and the same "
                "columns?",
                IdentifiabilityWarning,
            )
    return Alignment(tuple(matches), _renumbered(other, own, pairs, matches))


def _fitted(other: Given) -> Chain:
    if not hasattr(getattr(other, "fitted_", None), "chain"):
        raise DataError(f"expected another fitted SequenceModel, got {type(other).__name__}.")
    found: Chain = other._chain
    return found


def _pairs(own: Chain, others: Chain) -> list[tuple[int, int]]:
    """Latents of the same name; or the only ones that there are."""
    names = [others.slice.names[v] for v in sorted(others.slice.latent)]
    found = [
        (v, others.slice.index(own.slice.names[v]))
        for v in sorted(own.slice.latent)
        if own.slice.names[v] in names
    ]
    if found:
        return found
    return [(only_latent(own, None), only_latent(others, None))]


def _match(own: Chain, others: Chain, a: int, b: int, left: Array, right: Array) -> Match:
    table = left @ right.T / left.shape[1]
    first, second = scipy.optimize.linear_sum_assignment(table, maximize=True)
    found = dict(zip(first.tolist(), second.tolist(), strict=True))
    mine, theirs = own.labels(a), others.labels(b)
    mapping = {s: theirs[found[k]] if k in found else None for k, s in enumerate(mine)}
    kept = [found[k] for k in range(len(mine)) if k in found]
    order = np.array([*kept, *(k for k in range(len(theirs)) if k not in kept)])
    best = np.full(len(mine), -1)
    best[first] = second
    agreement = float((best[left.argmax(axis=0)] == right.argmax(axis=0)).mean())
    return Match(own.slice.names[a], others.slice.names[b], mapping, table, agreement, order)


def _renumbered(
    other: SequenceModel, own: Chain, pairs: list[tuple[int, int]], matches: list[Match]
) -> SequenceModel:
    """A copy of the second model with the states of the first, and its names where they fit."""
    fitted, chain = other.fitted_, other.fitted_.chain
    orders = {b: m.order for (_, b), m in zip(pairs, matches, strict=True)}
    named = {v: tuple(chain.named[v][k] for k in orders.get(v, range(len(chain.named[v]))))
             for v in chain.named}  # fmt: skip
    for a, b in pairs:
        if own.sizes[a] == chain.sizes[b] and a in own.named:
            named[b] = own.named[a]
    tables = renamed(chain.slice, chain.tables, orders)
    counts = None if fitted.counts is None else renamed(chain.slice, fitted.counts, orders)
    found = copy.copy(other)
    found.fitted_ = replace(
        fitted,
        chain=replace(chain, tables=tables, named=named),
        learned=replace(fitted.learned, tables=tables),
        counts=counts,
    )
    found.name_states = {chain.slice.names[v]: list(x) for v, x in named.items()} or None
    return found

"""Alignment: which states of two models are the same, and one of them renumbered to fit.

Rows are shared out to the states of both models; P(k in the one, l in the other) of the matched
states is largest (the Hungarian method). Rows are those given, or drawn from the first model.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
import scipy

from latentia.announcing import warn
from latentia.assess.identifying import latent_doubts
from latentia.errors import DataError, IdentifiabilityWarning
from latentia.model.latent_questions import OwnTables
from latentia.model.state_names import renumber_states
from latentia.networks.arrow_order import renumbered_arrows, renumbered_errors
from latentia.spelling import printable
from latentia.typing import Array, Cell, Codes, Given, Label, TableLike

if TYPE_CHECKING:
    from latentia.model.latent_model import LatentModel

DRAWN = 4000  # rows by which states are matched, if none are given
POOR = 0.8  # share of rows on which matched states should agree


@final
@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The states of one latent in two models."""

    latent: Label  # in the first
    other: Label  # in the second
    mapping: Mapping[Cell, Cell]  # state of the first -> state of the second, None: it has no like
    table: Array  # P(state of the first, state of the second), over rows
    agreement: float  # share of rows that both models put into matched states
    order: Codes  # the second's codes in the order of the first; those without a like come last


@final
@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Matches by latent, and the second model with its states numbered and named as the first's."""

    matches: tuple[Match, ...]
    model: Given  # of the kind that was given

    @property
    def mapping(self) -> dict[Label, dict[Label, Cell]]:
        """{latent: {state of the first model: state of the second}}."""
        return {m.latent: dict(m.mapping) for m in self.matches}

    @property
    def agreement(self) -> dict[Label, float]:
        """{latent: share of rows that both models put into matched states}."""
        return {m.latent: m.agreement for m in self.matches}

    def __repr__(self) -> str:
        lines = []
        for m in self.matches:
            pairs = ", ".join(
                f"{printable(a)} → {'none' if b is None else printable(b)}"
                for a, b in m.mapping.items()
            )
            lines.append(f"{printable(m.latent)}: {pairs}; agree on {m.agreement:.1%} of rows")
        return "\n".join(lines)


def align_models(
    model: LatentModel, other: LatentModel, rows: TableLike, own: OwnTables, others: OwnTables
) -> Alignment:
    """Match the states of every latent that both models have."""
    pairs = _pairs(own, others)
    drawn = model.sample(DRAWN, random_state=0, joint=True) if rows is None else rows
    matches = [
        _match(own, others, a, b, _shares(model, drawn, a), _shares(other, drawn, b))
        for a, b in pairs
    ]
    for m in matches:
        doubts = latent_doubts(
            own.answers, m.latent, model.operators_.weight, counted=not own.mixed
        )
        if m.agreement < POOR or doubts:
            why = " ".join(doubts) or "Do they have as many states, and the same columns?"
            warn(
                f"the states of {m.latent!r} are matched with {m.agreement:.0%} of rows in "
                f"agreement; they may not be the same. {why}",
                IdentifiabilityWarning,
            )
    return Alignment(tuple(matches), _renumbered(other, others, own, matches))


def _pairs(own: OwnTables, others: OwnTables) -> list[tuple[Label, Label]]:
    """Latents of the same name; or the only ones that there are."""
    shared = [(name, name) for name in own.hidden if name in others.hidden]
    if not shared and len(own.hidden) == len(others.hidden) == 1:
        shared = [(own.hidden[0], others.hidden[0])]
    if not shared:
        raise DataError(
            f"expected latents of the same name, got {list(own.hidden)} and {list(others.hidden)}."
        )
    return shared


def _shares(model: LatentModel, rows: TableLike, name: Label) -> Array:
    """P(state | row), (rows, states)."""
    found = model.predict_latent(rows, name, unknown="missing")
    if hasattr(found, "read_all"):
        found = found.read_all().to_pandas()
    if hasattr(found, "compute"):
        found = found.compute()
    if isinstance(found, Mapping):
        return np.column_stack(list(found.values()))
    return np.asarray(found, dtype=float)


def _match(
    own: OwnTables, others: OwnTables, a: Label, b: Label, left: Array, right: Array
) -> Match:
    table = left.T @ right / len(left)
    first, second = scipy.optimize.linear_sum_assignment(table, maximize=True)
    mine: tuple[Hashable, ...] = own.latent(a).labels
    theirs: tuple[Hashable, ...] = others.latent(b).labels
    found = dict(zip(first.tolist(), second.tolist(), strict=True))
    mapping = {s: theirs[found[k]] if k in found else None for k, s in enumerate(mine)}
    kept = [found[k] for k in range(len(mine)) if k in found]
    order = np.array([*kept, *(k for k in range(len(theirs)) if k not in kept)])
    best = np.full(len(mine), -1)
    best[first] = second
    agreement = float((best[left.argmax(axis=1)] == right.argmax(axis=1)).mean())
    return Match(a, b, mapping, table, agreement, order)


def _renumbered(
    other: LatentModel, others: OwnTables, own: OwnTables, matches: list[Match]
) -> LatentModel:
    """A copy of the second model with the states of the first, and its names where they fit."""
    orders = {others.graph.index(m.other): m.order for m in matches}
    found = copy.copy(other)
    found.operators_ = renumber_states(other.operators_, other.plan_.graph, orders)
    found.__dict__.pop("error_bars_", None)  # of the old numbers
    _renumber_logits(found, {m.other: m.order for m in matches})
    names = {h: others.latent(h).labels for h in others.hidden if h in (other.name_states or {})}
    for m in matches:
        mine = own.latent(m.latent).labels
        if len(m.mapping) == len(m.order) and list(mine) != list(range(len(mine))):
            names[m.other] = mine
        elif m.other in names:
            names[m.other] = tuple(names[m.other][k] for k in m.order)
    found.name_states = {name: list(labels) for name, labels in names.items()} or None
    return found


def _renumber_logits(model: LatentModel, orders: Mapping[Label, Codes]) -> None:
    """What covariates do to its latents goes by the same numbers."""
    for kept in ("link_", "class_logit_"):
        link = model.__dict__.get(kept)
        if link is not None and link.latent in orders:
            setattr(model, kept, link.renumbered(orders[link.latent]))
    beside = model.__dict__.get("logits_")
    if beside is not None:
        for name, order in orders.items():
            h = beside.graph.index(name)
            errors = renumbered_errors(beside.network, beside.errors, h, order)
            network = renumbered_arrows(beside.network, h, order)
            beside = replace(beside, network=network, errors=errors)
        model.logits_ = beside

"""The figures of a profile: sizes, every column given every state, and what each column tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.announcing import warn
from latentia.assess.identifying import latent_doubts
from latentia.assess.jackknife import jackknife_error
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import cdf, means, quantiles, spreads
from latentia.data.columns.times import TimeColumn
from latentia.errors import IdentifiabilityWarning, UnknownNameError
from latentia.exact.table_answers import TableAnswers
from latentia.model.latent_questions import OwnTables
from latentia.model.profile import SPREAD, ColumnProfile, Link, Profile
from latentia.typing import Array, Label

QUANTILES = tuple(float(q) for q in SPREAD[2:])


@final
@dataclass(frozen=True, slots=True)
class _Figures:
    """What is told of one set of tables."""

    shares: Array  # (states,)
    columns: Mapping[int, tuple[Array, Array, float]]  # table, overall, information


def profile_of(
    own: OwnTables, name: Label, weight: float, others: Sequence[OwnTables] = ()
) -> Profile:
    """The profile of a latent by name; an error for what is none."""
    if name not in own.hidden:
        raise UnknownNameError("latent", name, own.hidden)
    notes = latent_doubts(own.answers, name, weight, own.latent(name).labels, not own.mixed)
    if notes:
        warn(" ".join(notes), IdentifiabilityWarning)
    return make_profile(own, name, weight, [each.answers for each in others], notes)


def make_profile(
    own: OwnTables,
    name: Label,
    weight: float,
    others: Sequence[TableAnswers] = (),
    notes: Sequence[str] = (),
) -> Profile:
    """The profile of a latent; `others` are the same tables without one group of rows each."""
    h = own.graph.index(name)
    found = _figures(own.answers, own.variables, h)
    replicas = [_figures(each, own.variables, h) for each in others]
    columns = []
    for v, (table, overall, told) in found.columns.items():
        column = own.variables[v]
        discrete = not column.continuous
        columns.append(
            ColumnProfile(
                column.name,
                column.labels if discrete else SPREAD,
                table,
                overall,
                told,
                not discrete,
                _error([each.columns[v][0] for each in replicas]),
                _scalar(_error([np.array(each.columns[v][2]) for each in replicas])),
                _places(column, table, own, v),
                column if isinstance(column, TimeColumn) else None,
            )
        )
    columns.sort(key=lambda c: -c.information)  # stable: ties in the order of the graph
    return Profile(
        name,
        own.latent(name).labels,
        found.shares,
        tuple(columns),
        links_of(own, h),
        weight,
        _error([each.shares for each in replicas]),
        tuple(notes),
    )


def _figures(answers: TableAnswers, variables: Sequence[Column], h: int) -> _Figures:
    graph = answers.graph
    shares = answers.posteriors(None, [graph.names[h]])[graph.names[h]][0]
    observed = [v for v in graph.observed if v != h]
    given = given_states(answers, h, observed, shares > 0)
    columns = {}
    for v in observed:
        masses = given[v]  # (states, cells); of a state that there is not, those of all
        overall = shares @ masses
        masses = np.where((shares > 0)[:, None], masses, overall)
        told = mutual_information(shares, masses)
        column = variables[v]
        if isinstance(column, ContinuousColumn):
            columns[v] = (_spread(column, masses), _spread(column, overall[None])[0], told)
        else:
            columns[v] = (masses, overall, told)
    return _Figures(shares, columns)


def given_states(
    answers: TableAnswers, h: int, variables: Sequence[int], alive: Array
) -> dict[int, Array]:
    """P(variable | state of h), (states, cells) each; zeros for states that there are not."""
    evidence = np.full((len(alive), len(answers.names)), -1)
    evidence[:, h] = np.arange(len(alive))
    names = [answers.names[v] for v in variables]
    told = answers.posteriors(evidence[alive], names)
    found = {}
    for v, name in zip(variables, names, strict=True):
        found[v] = np.zeros((len(alive), answers.states[v]))
        found[v][alive] = told[name]
    return found


def mutual_information(shares: Array, masses: Array) -> float:
    """Σ_k p_k Σ_x P(x | k) log P(x | k) / P(x), in nats; never negative.

    >>> round(mutual_information(np.array([0.5, 0.5]), np.eye(2)), 4)  # log 2
    0.6931
    """
    overall = shares @ masses
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(masses > 0, np.log(masses / overall), 0.0)
    return max(float(shares @ (masses * logs).sum(axis=1)), 0.0)


def _spread(column: ContinuousColumn, masses: Array) -> Array:
    """Mean, deviation and quantiles, (states, figures)."""
    levels = quantiles(column, masses.T, QUANTILES)
    return np.column_stack([means(column, masses.T), spreads(column, masses.T), levels.T])


def _places(column: Column, table: Array, own: OwnTables, v: int) -> Array:
    """Where the mean of each state lies between the least and the most, 0 and 1.

    Of a discrete column the mean code; of a continuous one the share of values below its mean.
    """
    if isinstance(column, ContinuousColumn):
        name = own.graph.names[v]
        overall = own.answers.posteriors(None, [name])[name][0]
        return cdf(column, overall, table[:, 0])
    return np.asarray(table @ np.arange(table.shape[1]) / max(table.shape[1] - 1, 1))


def links_of(own: OwnTables, h: int) -> tuple[Link, ...]:
    """Tables between the latent and latents that an edge ties to it, parents first."""
    graph, latent = own.graph, own.graph.latent
    pairs = [(a, b) for a, b in graph.edges if b == h and a in latent]
    pairs += [(a, b) for a, b in graph.edges if a == h and b in latent]
    found = []
    for above, below in pairs:
        shares = own.answers.posteriors(None, [graph.names[above]])[graph.names[above]][0]
        table = given_states(own.answers, above, [below], shares > 0)[below]
        rows, columns = own.variables[above].labels, own.variables[below].labels
        found.append(Link(graph.names[above], graph.names[below], rows, columns, table))
    return tuple(found)


# --- errors ---------------------------------------------------------------------------------------


def _error(replicas: Sequence[Array]) -> Array | None:
    """Standard error by the jackknife; None without error bars."""
    return jackknife_error(replicas) if replicas else None


def _scalar(x: Array | None) -> float | None:
    return None if x is None else float(x)

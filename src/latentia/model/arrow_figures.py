"""Coefficients and profiles of a network of arrows, in the columns' own units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.announcing import warn
from latentia.assess.identifying import latent_doubts
from latentia.assess.report import aligned
from latentia.data.columns.continuous import dense_columns
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import IdentifiabilityWarning, NotLearnedError
from latentia.exact.arrow_answers import log_joint, posterior_shares
from latentia.exact.arrows import LineArrow, LogitArrow, feature_spans
from latentia.exact.table_answers import TableAnswers
from latentia.model.arrow_learning import ArrowModel
from latentia.model.coefficients import INTERCEPT, Coefficients
from latentia.model.latent_questions import OwnTables
from latentia.model.profile import Link, Profile
from latentia.model.profiling import make_profile
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Cell, Foreign, Label

Names = Mapping[Label, Sequence[Cell]]


@final
@dataclass(frozen=True, slots=True)
class LineCoefficients:
    """x = Σ values[c] · covariates + noise, for every joint state c of the discrete parents."""

    column: Label
    given: tuple[Label, ...]  # discrete parents
    states: tuple[tuple[Cell, ...], ...]  # their joint states
    covariates: tuple[str, ...]  # the intercept first
    values: Array  # (joint states, covariates)
    errors: Array
    deviations: Array  # (joint states,): of the noise
    deviation_errors: Array

    def to_dict(self) -> list[dict[str, Cell]]:
        """One dict for each joint state and covariate; the deviation of the noise comes last."""
        found: list[dict[str, Cell]] = []
        for c, state in enumerate(self.states):
            where = {str(name): s for name, s in zip(self.given, state, strict=True)}
            own = zip(self.covariates, self.values[c], self.errors[c], strict=True)
            for name, value, error in own:
                z = value / error if error > 0 else math.copysign(math.inf, value)
                p = math.erfc(abs(z) / math.sqrt(2.0))
                told = {"estimate": float(value), "error": float(error), "z": z, "p_value": p}
                found.append({**where, "covariate": name, **told})
            sd, error = float(self.deviations[c]), float(self.deviation_errors[c])
            told = {"estimate": sd, "error": error, "z": math.nan, "p_value": math.nan}
            found.append({**where, "covariate": "(deviation)", **told})
        return found

    def to_frame(self) -> Foreign:
        """The same as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        rows = [(*(printable(g) for g in self.given), "covariate", "estimate", "± error")]
        for row in self.to_dict():
            shown = [printable(row[str(g)]) for g in self.given]
            figures = (f"{row['estimate']:.4f}", f"{row['error']:.4f}")
            rows.append((*shown, printable(row["covariate"]), *figures))
        return "\n".join([f"{printable(self.column)} by its parents", *aligned(rows)])


def coefficients_of(
    model: ArrowModel, name: Label, robust: bool, names: Names
) -> Coefficients | LineCoefficients:
    """Of a variable with a logit or a line; an error for others."""
    v = model.graph.index(name)
    arrow = model.network.arrows.get(v)
    if isinstance(arrow, LogitArrow):
        return _logit(model, v, arrow, robust, names)
    if isinstance(arrow, LineArrow):
        return _line(model, v, arrow, robust, names)
    why = "is taken as it is" if arrow is None else "has a table"
    raise NotLearnedError(
        f"{name!r} {why}, so that it has no coefficients: see cpts_. Where all parents are "
        f"discrete, link={{{name!r}: 'logit'}} makes a logit."
    )


def labels_in(model: ArrowModel, v: int, names: Names) -> tuple[Cell, ...]:
    """States of a variable, as the user calls them."""
    own = names.get(model.graph.names[v])
    return model.variables[v].labels if own is None else tuple(own)


def _units(model: ArrowModel, parents: Sequence[int], width: int, at: Mapping[int, int]) -> Array:
    """J with coefficients in own units = J · those in standard units."""
    J = np.eye(width)
    for u, column in dense_columns(parents, [model.variables[u] for u in parents]).items():
        J[at[u], at[u]] = 1.0 / column.scale
        J[0, at[u]] = -column.centre / column.scale
    return J


def _logit(
    model: ArrowModel, v: int, arrow: LogitArrow, robust: bool, names: Names
) -> Coefficients:
    spans = feature_spans(model.network, v)
    features = [INTERCEPT]
    for u in spans:
        name = model.graph.names[u]
        if u in model.network.dense:
            features.append(str(name))
        else:
            features += [f"{name}={label}" for label in labels_in(model, u, names)[1:]]
    J = _units(model, list(spans), len(features), {u: s.start for u, s in spans.items()})
    whole = np.kron(np.eye(len(arrow.B) - 1), J)
    V = _covariance(model, v, robust)
    labels = labels_in(model, v, names)
    covariance = whole @ V @ whole.T
    return Coefficients(model.graph.names[v], labels, tuple(features), arrow.B @ J.T, covariance)


def _covariance(model: ArrowModel, v: int, robust: bool) -> Array:
    """Of the coefficients of a variable."""
    if v not in model.errors:
        raise NotLearnedError(
            f"{model.graph.names[v]!r} has too many coefficients, one set for each joint state of "
            "its discrete parents, for errors of all. Give it fewer parents."
        )
    return model.errors[v].robust if robust else model.errors[v].plain


def _line(
    model: ArrowModel, v: int, arrow: LineArrow, robust: bool, names: Names
) -> LineCoefficients:
    column = dense_columns([v], [model.variables[v]])[v]
    above = model.graph.parents()[v]
    lines = [u for u in above if u in model.network.dense]
    kinds = [u for u in above if u not in model.network.dense]
    D = 1 + len(lines)
    J = column.scale * _units(model, lines, D, {u: j for j, u in enumerate(lines, 1)})
    values = arrow.lines.reshape(-1, D) @ J.T
    values[:, 0] += column.centre
    V = _covariance(model, v, robust)
    count = len(values)
    errors = np.empty(values.shape)
    for c in range(count):
        own = J @ V[c * D : (c + 1) * D, c * D : (c + 1) * D] @ J.T
        errors[c] = np.sqrt(np.maximum(np.diag(own), 0.0))
    deviations = column.scale * np.sqrt(arrow.variances.reshape(-1))
    spread = np.sqrt(np.maximum(np.diag(V)[count * D :], 0.0))
    return LineCoefficients(
        model.graph.names[v],
        tuple(model.graph.names[u] for u in kinds),
        tuple(itertools.product(*(labels_in(model, u, names) for u in kinds))),
        (INTERCEPT, *(str(model.graph.names[u]) for u in lines)),
        values,
        errors,
        deviations,
        deviations * spread / 2.0,
    )


# --- profiles -------------------------------------------------------------------------------------


def star_tables(model: ArrowModel, h: int, names: Names) -> OwnTables:
    """A latent in the middle and every column around it: P(latent), P(column | latent)."""
    network, graph = model.network, model.graph
    columns = list(graph.observed)
    blank = np.full((1, len(graph.names)), np.nan)
    share = posterior_shares(log_joint(network, blank, (h,)))[0][0]
    states = len(share)
    tables: dict[Label, Array] = {graph.names[h]: share}
    for v in columns:
        both = posterior_shares(log_joint(network, blank, (h, v)))[0][0]
        whole = both.sum(axis=1, keepdims=True)
        flat = np.full(both.shape, 1.0 / both.shape[1])
        tables[graph.names[v]] = np.where(whole > 0, both / np.where(whole > 0, whole, 1), flat)
    order = (h, *columns)
    edges = tuple((0, k) for k in range(1, len(order)))
    sizes = (states, *(len(network.axis(v)) for v in columns))
    star = LatentGraph(tuple(graph.names[v] for v in order), edges, frozenset({0}), sizes)
    latent = DiscreteColumn(graph.names[h], labels_in(model, h, names))
    variables = (latent, *(model.variables[v] for v in columns))
    return OwnTables(TableAnswers(star, tables), {}, variables)


def profile_arrows(model: ArrowModel, name: Label, names: Names) -> Profile:
    """Sizes, every column in every state, and tables between latents."""
    own = star_tables(model, model.graph.index(name), names)
    notes = latent_doubts(own.answers, name, model.weight, own.latent(name).labels, False)
    if notes:
        warn(" ".join(notes), IdentifiabilityWarning)
    found = make_profile(own, name, model.weight, (), notes)
    return replace(found, links=_links(model, model.graph.index(name), names))


def _links(model: ArrowModel, h: int, names: Names) -> tuple[Link, ...]:
    graph = model.graph
    pairs = [(a, b) for a, b in graph.edges if b == h and a in graph.latent]
    pairs += [(a, b) for a, b in graph.edges if a == h and b in graph.latent]
    blank, found = np.full((1, len(graph.names)), np.nan), []
    for a, b in pairs:
        both = posterior_shares(log_joint(model.network, blank, (a, b)))[0][0]
        table = both / np.maximum(both.sum(axis=1, keepdims=True), 1e-300)
        rows, columns = labels_in(model, a, names), labels_in(model, b, names)
        found.append(Link(graph.names[a], graph.names[b], rows, columns, table))
    return tuple(found)

"""from_stepmix: latent class models of StepMix, with their tables and names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latentia.errors import DataError, GraphError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.foreign_tables import refuse
from latentia.typing import Array, Cell, Foreign, Given, Label

BINARY = ("binary", "bernoulli", "binary_nan", "bernoulli_nan")
CATEGORICAL = ("categorical", "multinoulli", "categorical_nan", "multinoulli_nan")
NEVER = 1e-14  # StepMix fills columns with fewer outcomes than the longest with 1e-15


def from_stepmix(model: Given, latent: Label = "class") -> TabularModel:
    """The model of a fitted StepMix with binary and categorical columns.

    States are the codes 0, 1, … of StepMix. The structural part comes along where it is such
    columns, too.
    """
    if type(model).__module__.split(".")[0] != "stepmix":
        refuse("a fitted StepMix", model, "Networks are read by lt.from_pgmpy or lt.from_pyagrum.")
    if not hasattr(model, "_mm") or not hasattr(model, "get_parameters"):
        raise DataError("expected a fitted StepMix, got one without parameters. Call its fit.")
    found = model.get_parameters()
    tables = _part(model.measurement, found["measurement"], list(model.x_names_), "measurement")
    if "structural" in found:
        names = list(model.y_names_)
        tables |= _part(model.structural, found["structural"], names, "structural")
    if latent in tables:
        raise GraphError(
            f"the latent is called {latent!r}, as one of the columns. Name it: latent="
        )
    weights = np.asarray(found["weights"], dtype=float)
    cpts: dict[Label, Array] = {latent: weights / weights.sum(), **tables}
    graph: dict[Label, list[Label]] = {latent: [], **{name: [latent] for name in tables}}
    return TabularModel(graph, cpts, latents=[latent])


def _part(
    kind: object, found: Mapping[str, Foreign], names: list[Cell], what: str
) -> dict[Label, Array]:
    """Tables P(column | class) of a part, or of several beside each other."""
    if isinstance(kind, Mapping):
        tables: dict[Label, Array] = {}
        start = 0
        for key, told in kind.items():
            count = int(told["n_columns"])
            tables |= _part(told["model"], found[key], names[start : start + count], what)
            start += count
        return tables
    if kind in BINARY:
        shares = np.asarray(found["pis"], dtype=float)  # (classes, columns)
        return {n: np.stack([1 - shares[:, k], shares[:, k]], -1) for k, n in enumerate(names)}
    if kind in CATEGORICAL:
        cells = np.asarray(found["pis"], dtype=float)
        cells = cells.reshape(len(cells), len(names), int(found["max_n_outcomes"]))
        return {name: _outcomes(cells[:, k]) for k, name in enumerate(names)}
    raise DataError(
        f"expected a {what} model of binary or categorical columns, got {kind!r}, which has no "
        "tables. Learn it by lt.LatentModel(..., learner='em')."
    )


def _outcomes(cells: Array) -> Array:
    """Without the outcomes that no row had, at the end; rows sum to one."""
    used = np.flatnonzero((cells > NEVER).any(axis=0))
    kept = cells[:, : int(used[-1]) + 1]
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))

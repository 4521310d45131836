"""from_hmmlearn and to_hmmlearn: hidden Markov models of hmmlearn, number by number."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from copy import copy

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError, GraphError, MissingLibraryError
from latentia.sequences.chain_questions import Chain
from latentia.sequences.families import families_of
from latentia.sequences.fitting_chains import FittedChain
from latentia.sequences.learn_chain import LearnedChain
from latentia.sequences.long_rows import Naming
from latentia.sequences.sequence_model import SequenceModel
from latentia.sequences.slices import Slice, read_slice
from latentia.typing import Array, Cell, Foreign, Label

REACH = 6.0  # deviations beyond the outermost means that the grids of forecasts reach


def from_hmmlearn(
    model: Foreign, columns: Sequence[Label] | None = None, states: Sequence[Cell] | None = None
) -> SequenceModel:
    """The model of a fitted CategoricalHMM, or of a GaussianHMM with columns that do not covary.

    `columns` names its features, `states` those of a categorical one; default: x, or x0, x1, …,
    and whole numbers. The latent is called z.
    """
    kind = type(model).__name__
    if type(model).__module__.split(".")[0] != "hmmlearn" or kind not in (
        "CategoricalHMM",
        "GaussianHMM",
    ):
        raise GraphError(
            f"expected a CategoricalHMM or GaussianHMM of hmmlearn, got {kind}. Other emissions "
            "have no counterpart."
        )
    if not hasattr(model, "transmat_") or not hasattr(model, "startprob_"):
        raise DataError(f"this {kind} is not fitted: it has no startprob_ and transmat_.")
    start, move = np.array(model.startprob_, dtype=float), np.array(model.transmat_, dtype=float)
    if kind == "CategoricalHMM":
        emission = np.array(model.emissionprob_, dtype=float)
        names = _names(columns, 1)
        labels = tuple(range(emission.shape[1])) if states is None else tuple(states)
        if len(labels) != emission.shape[1]:
            raise DataError(f"expected {emission.shape[1]} states, got {len(labels)}.")
        tables, told = [emission], [DiscreteColumn(names[0], labels)]
        return _model(names, len(start), [start, move, *tables], told)
    if model.covariance_type not in ("diag", "spherical"):
        raise DataError(
            f"columns of a GaussianHMM with covariance_type={model.covariance_type!r} covary in a "
            "state; only 'diag' and 'spherical' have a counterpart."
        )
    means = np.array(model.means_, dtype=float)
    if not hasattr(model, "n_features"):  # set by fit only; covars_ asks for it
        model = copy(model)
        model.n_features = means.shape[1]
    variances = np.array([np.diagonal(c) for c in model.covars_], dtype=float)
    names = _names(columns, means.shape[1])
    ones = np.ones(len(means))
    pairs = zip(means.T, variances.T, strict=True)
    bells = [np.stack([ones, mean, variance], axis=1)[:, None] for mean, variance in pairs]
    grids = [_grid(n, b) for n, b in zip(names, bells, strict=True)]
    return _model(names, len(start), [start, move, *bells], grids)


def _names(columns: Sequence[Label] | None, count: int) -> list[Label]:
    found: list[Label] = [f"x{k}" for k in range(count)] if count > 1 else ["x"]
    if columns is not None:
        found = [columns] if isinstance(columns, str) else list(columns)
    if len(found) != count or len({*found, "z"}) != count + 1:
        raise DataError(f"expected {count} different column names, none of them 'z', got {found}.")
    return found


def _grid(name: Label, bell: Array) -> ContinuousColumn:
    mean, reach = bell[:, 0, 1], REACH * np.sqrt(bell[:, 0, 2])
    low, high = float((mean - reach).min()), float((mean + reach).max())
    return ContinuousColumn(name, 0.0, 1.0, False, low, high, float(np.sqrt(bell[:, 0, 2].max())))


def _model(
    names: list[Label], states: int, tables: list[Array], columns: Sequence[Column]
) -> SequenceModel:
    slice_ = read_slice([("z", "z'"), *(("z", name) for name in names)], {"z": states})
    chain = Chain(slice_, {slice_.index(c.name): c for c in columns}, dict(enumerate(tables)))
    found = SequenceModel(slice_, {"z": states})
    learned = LearnedChain(dict(chain.tables), "hmmlearn", True, (), 0.0)
    found.fitted_ = FittedChain(chain, learned, Naming(), None)
    return found


def to_hmmlearn(model: SequenceModel) -> Foreign:
    """A CategoricalHMM or a GaussianHMM (diag) of hmmlearn with the same numbers.

    The slice must be one latent that tells the next and all columns: one discrete column, or
    continuous ones on straight scales. Codes of a discrete column count from 0 in the order of its
    states.
    """
    chain = model._chain if hasattr(model, "fitted_") else None
    if not isinstance(model, SequenceModel) or chain is None:
        raise DataError(f"expected a fitted SequenceModel, got {type(model).__name__}.")
    z = _only_chain(chain.slice)
    try:
        hmm = importlib.import_module("hmmlearn.hmm")
    except ImportError:
        raise MissingLibraryError(
            "to_hmmlearn needs hmmlearn, which is not installed: pip install hmmlearn"
        ) from None
    columns = [chain.columns[v] for v in chain.slice.columns]
    start, move, *emissions = [chain.tables[n] for n in _numbers(chain.slice, z)]
    if len(columns) == 1 and not columns[0].continuous:
        found = hmm.CategoricalHMM(len(start), n_features=columns[0].cells, init_params="")
        found.emissionprob_ = emissions[0].copy()
    else:
        found = hmm.GaussianHMM(len(start), "diag", init_params="")
        means, variances = [], []
        for column, bell in zip(columns, emissions, strict=True):
            if not isinstance(column, ContinuousColumn) or column.curved:
                raise DataError(
                    f"{column.name!r} is {'on a curved scale' if column.continuous else 'discrete'}"
                    "; hmmlearn has one discrete column, or continuous ones on straight scales."
                )
            means.append(column.centre + column.scale * bell[:, 0, 1])
            variances.append(column.scale**2 * bell[:, 0, 2])
        found.n_features = len(columns)
        found.means_, found.covars_ = np.array(means).T, np.array(variances).T
    found.startprob_, found.transmat_ = start.copy(), move.copy()
    return found


def _only_chain(slice_: Slice) -> int:
    """The latent of a plain hidden Markov model."""
    latents = sorted(slice_.latent)
    plain = len(latents) == 1 and not slice_.given
    plain = plain and slice_.parents[latents[0]] == ((latents[0], 1),)
    if not plain or any(slice_.parents[v] != ((latents[0], 0),) for v in slice_.columns):
        raise GraphError(f"hmmlearn has chains of one latent that tells all columns, not {slice_}.")
    return latents[0]


def _numbers(slice_: Slice, z: int) -> list[int]:
    """Numbers of the families: start, moves, columns in order."""
    families = families_of(slice_)
    of = {(f.variable, f.when): n for n, f in enumerate(families)}
    return [of[z, "first"], of[z, "later"], *(of[v, "always"] for v in slice_.columns)]

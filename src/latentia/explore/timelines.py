"""What a page shows of sequences: columns, decoded states, surprises and a forecast, as JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from latentia.errors import DataError, LatentiaError, LatentiaWarning
from latentia.explore.explored import differing
from latentia.sequences.chain_forecasts import forecast_steps
from latentia.sequences.chain_pictures import shown_cells
from latentia.sequences.chain_questions import (
    Chain,
    decode_states,
    filter_states,
    smooth_states,
)
from latentia.sequences.long_rows import LongSteps
from latentia.sequences.sequence_model import SequenceModel
from latentia.typing import Array, ByName, Cell, CellArray, Facts, Given, TableLike

MOST_NUMBERS = 120_000  # that are shown; a page stays below 3 MB
MOST_SEQUENCES = 200
LEVELS = ("0.05", "0.5", "0.95")  # of a fan


def timelines(
    model: SequenceModel,
    rows: TableLike,
    *,
    title: str | None = None,
    steps: int = 12,
    lengths: ArrayLike | None = None,
    given: Given = None,
) -> Facts:
    """All that the page of a sequence model shows; `steps` are forecast behind every sequence."""
    if rows is None:
        raise LatentiaError(
            "expected rows=, the sequences to look at, as `decode` takes them: a page of a "
            "sequence model shows timelines."
        )
    model._check_fitted()
    chain = model._chain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)  # rows that cannot be are marked
        read, naming = model._read(rows, lengths)
        blind = bool(chain.slice.given) and given is None  # of inputs to come nothing is known
        ahead = None if blind or not steps else forecast_steps(chain, read, naming, steps, given)
        told = _sequences(chain, read, ahead, steps)
    return {
        "title": title or "Sequences",
        "latents": [_latent(model, v) for v in sorted(chain.slice.latent)],
        "columns": _columns(chain),
        "sequences": told,
        "total": len(read.labels),
    }


def _columns(chain: Chain) -> list[dict[str, Cell]]:
    names = differing(chain.columns[v].name for v in chain.slice.told)
    found = []
    for name, v in zip(names, chain.slice.told, strict=True):
        column = chain.columns[v]
        states = None if column.continuous else differing(column.labels)
        found.append({"name": name, "states": states})
    return found


def _latent(model: SequenceModel, v: int) -> Facts:
    name = model.slice_.names[v]
    profile = model.profile(name)
    lasts = profile.durations
    return {
        "name": differing([name])[0],
        "shares": _rounded(profile.shares),
        "words": [line.partition(": ")[2] for line in profile.words()],
        "lasts": None if lasts is None else _rounded(lasts),
        "moves": None if profile.moves is None else [_rounded(row) for row in profile.moves],
    }


def _sequences(
    chain: Chain, read: LongSteps, ahead: ByName[Cell] | None, steps: int
) -> list[dict[str, Cell]]:
    """As many sequences as fit; of one that is too long, its last steps."""
    wide = len(chain.slice.told) + sum(chain.sizes[v] + 1 for v in chain.slice.latent) + 1
    most = max(MOST_NUMBERS // wide, 1)
    found, left = [], most
    for k, name in enumerate(differing(read.labels[:MOST_SEQUENCES])):
        length = int(np.diff(read.sequences.offsets)[k])
        if left <= 0:
            break
        left -= length
        told = _one(chain, read, k, slice(max(length - most, 0), length))
        own = None if ahead is None else _ahead(chain, ahead, k * steps, steps)
        found.append({"name": name, **told, "ahead": own})
    return found


def _one(chain: Chain, read: LongSteps, k: int, part: slice) -> Facts:
    """One sequence: its cells, its path, P(state | all rows), and what surprises."""
    own = read.sequences.some([k])
    latents = sorted(chain.slice.latent)
    smooth, filtered = smooth_states(chain, own), filter_states(chain, own)
    start = int(read.sequences.offsets[k])
    row = read.row[start : start + own.steps]
    slopes = np.where(row < 0, 0.0, read.log_slopes[np.maximum(row, 0)])
    try:
        layout, path = decode_states(chain, own)
        paths = [layout.values[v, 0][path][part].tolist() for v in latents]
    except DataError:  # no path explains the cells
        paths = []
    return {
        "start": part.start,
        "cells": _cells(chain, own.cells, part),
        "paths": paths,
        "beliefs": [[_rounded(p, 4) for p in smooth.of(v)[:, part]] for v in latents],
        "surprise": _rounded(-(filtered.log_scale + slopes)[part]),
    }


def _cells(chain: Chain, cells: Mapping[int, CellArray], part: slice) -> list[list[float | None]]:
    """Numbers in their own units, or numbers of states; None where missing."""
    found = []
    for v in chain.slice.told:
        found.append(_rounded(shown_cells(chain.columns[v], cells[v][part])[0]))
    return found


def _ahead(
    chain: Chain, told: ByName[Cell], start: int, steps: int
) -> dict[str, list[list[list[float | None]]]]:
    """What may come: quantiles of numbers, probabilities of states, of columns and of latents."""
    columns = []
    for v in chain.slice.told:
        column = chain.columns[v]
        keys = [f"{column.name}={s}" for s in (LEVELS if column.continuous else column.labels)]
        known = all(key in told for key in keys)
        columns.append(
            [_rounded(told[key][start : start + steps]) for key in keys] if known else []
        )
    names = [(chain.slice.names[v], chain.sizes[v]) for v in sorted(chain.slice.latent)]
    latents = [
        [_rounded(told[f"{name}={k}"][start : start + steps]) for k in range(count)]
        for name, count in names
    ]
    return {"columns": columns, "latents": latents}


def _rounded(numbers: Array | Sequence[float], digits: int = 5) -> list[float | None]:
    """So many digits are enough to be drawn and read; None for what is no number."""
    listed = np.asarray(numbers, dtype=float).tolist()
    return [float(f"{x:.{digits}g}") if math.isfinite(x) else None for x in listed]

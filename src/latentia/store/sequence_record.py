"""SequenceModel as a record: its slice, its columns, its tables, and how tables tell sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from latentia.data.columns.column import Column
from latentia.errors import LatentiaError, StoreError
from latentia.model.learners import PBP
from latentia.networks.em import EM
from latentia.networks.stepwise import StepwiseEM
from latentia.sequences.chain_errors import ChainReplicates, Replicate
from latentia.sequences.chain_questions import Chain
from latentia.sequences.families import families_of
from latentia.sequences.fitting_chains import FittedChain, StateWishes
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.learn_chain import LearnedChain
from latentia.sequences.long_rows import Naming
from latentia.sequences.sequence_model import SequenceModel
from latentia.sequences.signed_chain import SignedChain
from latentia.sequences.slices import Slice
from latentia.store.array_table import Fetch, Written, check_shares, check_sizes
from latentia.store.column_record import read_column, write_column
from latentia.store.plain import fields, items, number, pack, text, unpack, whole
from latentia.typing import Array, ByName, Cell, Given

MOST = 2**20  # variables, states, points of a grid
LONGEST_STEP = 2**62
PARAMETERS = ("pseudo_counts", "max_iter", "tol", "known", "learner")
NEWER = ("order_by", "name_states")  # written where they are told
LEARNERS: dict[str, Given] = {"em": EM, "stepwise": StepwiseEM, "pbp": PBP}
BARS = "replicates"  # written of models with error bars: groups, and whether they are stretches
SIGNED = "signed"  # written of models in closed form: coordinates, and the share of the marginal


def write_sequence_model(model: SequenceModel) -> Written:
    """Everything that questions need, and the parameters of the model."""
    fitted = model.fitted_
    chain, slice_ = fitted.chain, fitted.chain.slice
    record = {
        "kind": "SequenceModel",
        "parameters": {name: pack(_plain(getattr(model, name)), name) for name in PARAMETERS},
        "names": [pack(name, "a name") for name in slice_.names],
        "latent": sorted(slice_.latent),
        "given": sorted(slice_.given),
        "counts": [slice_.states[v] for v in sorted(slice_.latent)],
        "parents": [[list(parent) for parent in above] for above in slice_.parents],
        "cells": [chain.columns[v].cells for v in slice_.told],
        "states": [write_column(chain.columns[v]) for v in slice_.told],
        "sequence": pack(fitted.naming.sequence, "the sequence column"),
        "time": pack(fitted.naming.time, "the time column"),
        "step": fitted.step,
        "start": fitted.learned.start,
        "converged": bool(fitted.learned.converged),
        "history": [float(x) for x in fitted.learned.history],
        "log_likelihood": float(fitted.learned.log_likelihood),
        "counted": fitted.counts is not None,
    }
    for name in NEWER:
        if getattr(model, name) is not None:
            record[name] = pack(_plain(getattr(model, name)), name)
    if fitted.signed is not None:
        own = fitted.signed
        record[SIGNED] = {"coordinates": len(own.start), "mix": float(own.mix)}
        return record, [own.operators, own.start, own.low, own.high]
    tables = [chain.tables, *([] if fitted.counts is None else [fitted.counts])]
    if fitted.replicates is not None:
        bars = fitted.replicates
        record[BARS] = {"groups": len(bars.without), "stretches": bars.stretches}
        tables += [x for r in (bars.whole, *bars.without) for x in (r.tables, r.counts)]
    return record, [x[n] for x in tables for n in range(len(families_of(slice_)))]


def read_sequence_model(record: object, fetch: Fetch) -> SequenceModel:
    """The model of a record."""
    newer, closed, bars = {}, None, None
    if isinstance(record, dict):
        newer = {name: unpack(record[name]) for name in NEWER if name in record}
        closed, bars = record.get(SIGNED), record.get(BARS)
        record = {k: value for k, value in record.items() if k not in (*NEWER, SIGNED, BARS)}
    (_, given, names, latent, inputs, counts, parents, cells, states, sequence, time, step, start,
     converged, history, level, counted) = fields(
        record, "kind", "parameters", "names", "latent", "given", "counts", "parents", "cells",
        "states", "sequence", "time", "step", "start", "converged", "history", "log_likelihood",
        "counted",
    )  # fmt: skip
    slice_ = _read_slice(names, latent, inputs, counts, parents)
    told = slice_.told
    columns: dict[int, Column] = {
        v: read_column(own, slice_.names[v], whole(count, MOST, lowest=1))
        for v, own, count in zip(
            told, items(states, len(told)), items(cells, len(told)), strict=True
        )
    }
    for name, flag in (("converged", converged), ("counted", counted)):
        if type(flag) is not bool:
            raise StoreError(f"expected true or false for {name}, got {flag!r:.80}.")
    bare = Chain(slice_, columns, {})
    signed = None if closed is None else _read_signed(bare, closed, fetch)
    groups, stretches = (0, False) if bars is None else _read_groups(bars)
    tables: dict[int, Array] = {}
    sums, replicates = None, None
    if signed is None:
        tables, sums, replicates = _read_tables(bare, fetch, counted, groups, stretches)
    chain = Chain(slice_, columns, tables, _read_names(slice_, newer.get("name_states")))
    path = tuple(number(x, -1e300, 1e300) for x in items(history))
    learned = LearnedChain(
        dict(chain.tables), text(start), converged, path, number(level, -1e300, 1e300)
    )
    every = None if step is None else _read_step(step)
    latents = {slice_.names[v]: slice_.states[v] for v in sorted(slice_.latent)}
    model = SequenceModel(slice_, latents, [slice_.names[v] for v in sorted(slice_.given)])
    for name, value in zip(PARAMETERS, fields(given, *PARAMETERS), strict=True):
        setattr(model, name, _learner(unpack(value)) if name == "learner" else unpack(value))
    for name, value in newer.items():
        setattr(model, name, value)
    naming = Naming(unpack(sequence), unpack(time))
    model.fitted_ = FittedChain(chain, learned, naming, every, sums, signed, replicates)
    return model


def _read_step(step: object) -> int:
    """Below 0: months."""
    if type(step) is int and step < 0:
        return -whole(-step, MOST, lowest=1)
    return whole(step, LONGEST_STEP)


def _read_groups(record: object) -> tuple[int, bool]:
    groups, stretches = fields(record, "groups", "stretches")
    if type(stretches) is not bool:
        raise StoreError(f"expected true or false for stretches, got {stretches!r:.80}.")
    return whole(groups, MOST, lowest=2), stretches


def _read_signed(chain: Chain, record: object, fetch: Fetch) -> SignedChain:
    coordinates, mix = fields(record, "coordinates", "mix")
    sizes = tuple(chain.sizes[v] for v in chain.slice.columns)
    if chain.slice.given or not all(sizes):
        raise StoreError("expected discrete columns and no inputs of a chain in closed form.")
    k = whole(coordinates, MOST, lowest=1)
    operators, start, low, high = fetch([(math.prod(sizes), k, k), (k,), (k,), (k,)])
    check_sizes([operators, start, low, high], "the operators")
    if start[0] != 1.0 or not (low <= high).all() or not (operators[:, 0, 0] > 0).any():
        raise StoreError("the operators of a chain in closed form tell no probabilities.")
    return SignedChain(operators, start, low, high, sizes, number(mix, 0.0, 1.0))


def _read_names(
    slice_: Slice, name_states: ByName[Sequence[Cell]] | None
) -> dict[int, tuple[Cell, ...]]:
    try:
        return StateWishes(name_states=name_states).named(slice_)
    except LatentiaError as error:
        raise StoreError(f"the names of states do not fit the slice: {error}") from None


def _plain(value: Given) -> object:
    """Arrays as lists, learners as their names and the settings that differ from the usual."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(x) for key, x in value.items()}
    for name, kind in LEARNERS.items():
        if type(value) is kind:
            usual = kind().get_params(deep=False)
            own = {k: _plain(x) for k, x in value.get_params(deep=False).items()}
            return {"learner": name, **{k: x for k, x in own.items() if x != usual[k]}}
    return value


def _learner(value: object) -> object:
    """What `_plain` made of a learner, as it was."""
    if not isinstance(value, dict):
        return value
    settings = dict(value)
    name = settings.pop("learner", None)
    if name not in LEARNERS or not set(settings) <= set(LEARNERS[name]().get_params(deep=False)):
        raise StoreError(f"expected a learner with its settings, got {value!r:.80}.")
    return LEARNERS[name](**settings)


def _read_slice(
    names: object, latent: object, given: object, counts: object, parents: object
) -> Slice:
    labels = tuple(unpack(name) for name in items(names))
    n = len(labels)
    hidden = [whole(v, n) for v in items(latent)]
    sizes: list[int | None] = [None] * n
    for v, count in zip(hidden, items(counts, len(hidden)), strict=True):
        sizes[v] = whole(count, MOST, lowest=1)
    above = tuple(
        tuple((whole(u, n), whole(lag, 2)) for u, lag in (items(pair, 2) for pair in items(own)))
        for own in items(parents, n)
    )
    inputs = frozenset(whole(v, n) for v in items(given))
    return Slice(labels, frozenset(hidden), inputs, tuple(sizes), above)


def _read_tables(
    chain: Chain, fetch: Fetch, counted: bool, groups: int, stretches: bool
) -> tuple[dict[int, Array], dict[int, Array] | None, ChainReplicates | None]:
    """Tables, the expected counts behind them, and both of all replicates."""
    layout = ChainLayout(chain.slice, chain.sizes, ())
    families = families_of(chain.slice)
    shapes = [layout.shape(family) for family in families]
    more = 2 * (groups + 1) if groups else 0  # of all steps, and without each group
    arrays = fetch(shapes * (1 + counted + more))
    step = len(shapes)
    sets = [dict(enumerate(arrays[k : k + step])) for k in range(0, len(arrays), step)]
    discrete = [n for n, family in enumerate(families) if chain.sizes[family.variable]]
    own, later = sets[: 1 + counted], sets[1 + counted :]
    for tables in (own[0], *later[::2]):
        _check_tables(tables, discrete)
    for counts in (*own[1:], *later[1::2]):
        check_sizes(counts.values(), "the counts")
        if any((counts[n] < 0).any() for n in discrete):
            raise StoreError("expected counts from 0 on.")
    found = own[1] if counted else None
    if not groups:
        return own[0], found, None
    first, *others = (Replicate(t, c) for t, c in zip(later[::2], later[1::2], strict=True))
    return own[0], found, ChainReplicates(first, tuple(others), stretches)


def _check_tables(found: dict[int, Array], discrete: list[int]) -> None:
    check_sizes(found.values(), "the tables")
    check_shares([found[n] for n in discrete])
    for n in sorted({*found} - {*discrete}):
        if not (found[n][..., 2] > 0).all() or not np.allclose(found[n][..., 0], 1.0):
            raise StoreError("expected positive variances in the tables of continuous columns.")

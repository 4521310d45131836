"""LatentClassifier as a record: what it knows itself, and the record of the model of every class.

The arrays of each class are one row of numbers; their counts are written down, so that all of them
can be checked against the length of the file before one is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import fields as fields_of

import numpy as np
from numpy.typing import ArrayLike

from latentia.errors import StoreError
from latentia.kernels.settings import KernelSettings
from latentia.model.classifier import LatentClassifier
from latentia.store.array_table import Fetch, Shape, Written
from latentia.store.model_record import read_latent_model, write_latent_model
from latentia.store.plain import fields, items, number, pack, text, unpack, whole
from latentia.typing import Array, CellArray, Given

MOST_NUMBERS = 2**31
HOTTEST = 1e6
WIDEST = 2**16  # bytes of a label
PLAIN_LABELS = "biufUO"  # kinds of numpy types that labels have


def write_classifier(model: LatentClassifier) -> Written:
    """Everything that questions need; parameters are those of the models, and a few more."""
    records, arrays = [], []
    for own in model.models_:
        record, parts = write_latent_model(own)
        records.append(record)
        arrays.append(np.concatenate([np.ascontiguousarray(part).ravel() for part in parts]))
    return {
        "kind": "LatentClassifier",
        "parameters": {
            "priors": pack(_plain_priors(model.priors), "priors"),
            "calibrate": bool(model.calibrate),
            "n_jobs": pack(model.n_jobs, "n_jobs"),
        },
        "labels": [model.classes_.dtype.str, [pack(c, "a class") for c in model.classes_.tolist()]],
        "priors": [float(p) for p in model.priors_],
        "temperature": float(model.temperature_),
        "pool": float(model.pool_),
        "chosen": _write_settings(model.settings_),
        "counts": [len(array) for array in arrays],
        "models": records,
    }, arrays


def read_classifier(record: object, fetch: Fetch) -> LatentClassifier:
    """The classifier of a record."""
    _, given, labels, priors, temperature, pool, chosen, counts, records = fields(
        record, "kind", "parameters", "labels", "priors", "temperature", "pool", "chosen",
        "counts", "models",
    )  # fmt: skip
    classes = _read_labels(labels)
    n = len(classes)
    sizes = [whole(count, MOST_NUMBERS, lowest=1) for count in items(counts, n)]
    flat = fetch([(size,) for size in sizes])
    models = [
        read_latent_model(own, _part_of(row))
        for own, row in zip(items(records, n), flat, strict=True)
    ]  # fmt: skip
    if any(own.columns_ != models[0].columns_ for own in models):
        raise StoreError("expected the models of all classes to have the same columns.")
    first = models[0]
    asked, calibrate, n_jobs = fields(given, "priors", "calibrate", "n_jobs")
    if type(calibrate) is not bool:
        raise StoreError(f"expected true or false for calibrate, got {calibrate!r:.80}.")
    model = LatentClassifier(
        first.graph, first.latents, first.learner, first.kinds, unpack(asked), first.state_names,
        calibrate, unpack(n_jobs),
    )  # fmt: skip
    shares = np.array([number(p, 0.0, 1.0) for p in items(priors, n)])
    if not (shares > 0).all() or abs(shares.sum() - 1.0) > 1e-6:
        raise StoreError("expected positive priors with sum 1.")
    if not number(temperature, 0.0, HOTTEST) > 0:
        raise StoreError(f"expected a positive temperature, got {temperature!r:.80}.")
    model.classes_, model.priors_, model.models_ = classes, shares, models
    model.temperature_, model.pool_ = float(temperature), number(pool, 0.0, 1.0)
    model.settings_ = _read_settings(chosen)
    model.columns_ = first.columns_
    model.n_features_in_ = first.n_features_in_
    model.feature_names_in_ = first.feature_names_in_
    return model


def _part_of(row: Array) -> Fetch:
    """Arrays out of one row of numbers, which they fill."""

    def fetch(shapes: list[Shape]) -> Sequence[Array]:
        sizes = [math.prod(shape) for shape in shapes]
        if sum(sizes) != len(row):
            raise StoreError(f"expected {sum(sizes)} numbers for a class, got {len(row)}.")
        ends = np.cumsum([0, *sizes])
        return [row[a:b].reshape(s) for a, b, s in zip(ends[:-1], ends[1:], shapes, strict=True)]

    return fetch


def _read_labels(record: object) -> CellArray:
    """Different classes in their order, of a plain type."""
    kind, values = items(record, 2)
    try:
        dtype = np.dtype(text(kind))
    except TypeError as error:
        raise StoreError(f"expected a type of labels, got {kind!r:.80}.") from error
    if dtype.kind not in PLAIN_LABELS or dtype.fields is not None or dtype.itemsize > WIDEST:
        raise StoreError(f"expected numbers or text as labels, got the type {kind!r:.80}.")
    known = [unpack(value) for value in items(values)]
    found = np.empty(len(known), dtype=dtype)
    found[:] = known
    if not len(found) or len(np.unique(found)) < len(found) or found.tolist() != known:
        raise StoreError("expected different classes, each of the type that is written.")
    return found


def _plain_priors(priors: ArrayLike | None) -> Given:
    """As plain dict or list; arrays become lists."""
    if priors is None or isinstance(priors, dict):
        return priors
    return np.asarray(priors, dtype=float).tolist()


def _write_settings(settings: KernelSettings | None) -> object:
    """Pairs of name and value; none where the kernel is a function of the user's."""
    if settings is None:
        return None
    try:
        return [[name, pack(value, name)] for name, value in asdict(settings).items()]
    except StoreError:
        return None


def _read_settings(record: object) -> KernelSettings | None:
    if record is None:
        return None
    known = {f.name for f in fields_of(KernelSettings)}
    found = {text(name): unpack(value) for name, value in (items(p, 2) for p in items(record))}
    if not set(found) <= known:
        raise StoreError(f"expected settings of a kernel, got {sorted(set(found) - known)!r:.80}.")
    return KernelSettings(**found)

"""Which module keeps which kind of object: loaded when a file has one, or one is to be saved."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from latentia.errors import StoreError
from latentia.typing import Given


class RecordKind(NamedTuple):
    """A class that files can hold, and the module of `store` that reads and writes it."""

    home: str  # the module of the class, below `latentia`
    keeper: str
    what: str  # in read_… and write_…
    fitted: bool = True  # does it have to be, to be written?


KINDS = {
    "LatentModel": RecordKind("model.latent_model", "model_record", "latent_model"),
    "LatentClassifier": RecordKind("model.classifier", "classifier_record", "classifier"),
    "SequenceModel": RecordKind("sequences.sequence_model", "sequence_record", "sequence_model"),
    "FrozenModel": RecordKind("model.frozen_model", "sums", "frozen", fitted=False),
    "Moments": RecordKind("data.moments", "sums", "moments", fitted=False),
}


def reader_of(kind: object) -> Callable[..., Given]:
    """What reads a record of this kind; a kind that is none is that of models, which says so."""
    known = kind if isinstance(kind, str) and kind in KINDS else "LatentModel"
    return _of(KINDS[known], "read")


def writer_of(model: Given) -> Callable[..., Given]:
    """What writes this object, if it can be written."""
    kind = KINDS.get(type(model).__name__)
    if kind is None or type(model).__module__ != f"latentia.{kind.home}":
        raise StoreError(
            f"expected a LatentModel, LatentClassifier or SequenceModel, got "
            f"{type(model).__name__}. Only these, frozen models and moments can be saved."
        )
    if kind.fitted:
        model._check_fitted()
    return _of(kind, "write")


def _of(kind: RecordKind, does: str) -> Callable[..., Given]:
    found: Callable[..., Given] = getattr(
        import_module(f"latentia.store.{kind.keeper}"), f"{does}_{kind.what}"
    )
    return found

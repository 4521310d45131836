"""Files: mutated models, sums and frozen models; an error, the same answers, or sound ones."""

from __future__ import annotations

import importlib.util
import pickle
import struct
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import latentia as lt
from latentia.errors import StoreError

from .evidence import models
from .trial import Finding, check_probabilities, check_scores, matrix


@cache
def mutations() -> Any:
    """Those of the store's own tests."""
    path = Path(__file__).parent.parent / "store" / "test_hostile_files.py"
    spec = importlib.util.spec_from_file_location("latentia_store_hostile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def folder() -> tuple[Any, Path]:
    made = tempfile.TemporaryDirectory(prefix="latentia-fuzz-")
    return made, Path(made.name)  # the first is kept: it removes the folder at the end


@cache
def originals() -> list[tuple[bytes, Any]]:
    """Bytes of stored models, and what they are."""
    path, found = folder()[1] / "original.latentia", []
    for model in models():
        model.save(path)
        found.append((path.read_bytes(), model))
    return found


def probe(model: Any) -> bytes:
    """A few answers of a model."""
    data = {}
    for c in model.columns_:
        data[c.name] = np.empty(2, dtype=object)
        data[c.name][:] = [c.states[0], c.states[-1]] if hasattr(c, "states") else [0.5, 1.5]
    column = model.columns_[0]
    p = matrix(model.predict_proba(data, column.name))
    check_probabilities(p, 2)
    scores = model.score_samples(data)
    check_scores(scores, 2)
    return pickle.dumps((p, scores))


def case(r: Random) -> str:
    kinds = mutations()
    content, model = r.choice(originals())
    honest = r.random() < 0.5
    mutate = r.choice(list(kinds.HONEST if honest else kinds.FORGED))
    try:
        changed = mutate(content, np.random.default_rng(r.getrandbits(32)))
    except struct.error:  # a head that cannot even be written
        return "unchanged"
    path = folder()[1] / "mutated.latentia"
    path.write_bytes(changed)
    try:
        loaded = lt.load(path)
    except StoreError as error:
        if not str(error).startswith(f"{path}: "):
            raise Finding(f"an error that does not name its file: {error}") from None
        return "refused"
    if not isinstance(loaded, lt.LatentModel):
        return "another kind"
    if honest:
        if probe(loaded) != probe(model):
            raise Finding("a file that was changed by chance gives other answers")
        return "same"
    probe(loaded)
    return "forged"

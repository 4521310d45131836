"""Model files with continuous columns: the same answers bit for bit, and no harm from strangers."""

import json
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.test_hostile_files import edit_arrays, edit_json, flip_bits, forged, sections

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.errors import LatentiaError, LatentiaWarning, StoreError
from latentia.store.file import HEAD

pytestmark = pytest.mark.usefixtures("nameless")

GRAPH = "H->G; H->u,v; G->w,k; H->z"
FEW = {"rank": 4, "features": 40, "bandwidth": 0.7, "evidence": 0.25, "own": 0.12}
FEW |= {"ridge": (0.1, 1.0)}
LEARNERS = {
    "known": (lt.PBP(refine=False, kernel=lt.KernelSettings(**FEW)), {"H": 2, "G": 2}),  # type: ignore[arg-type]
    "paired": (lt.PBP(refine=False, kernel=FEW), ["H", "G"]),
    "gaussian": (lt.EM(2, tol=1e-2, random_state=0), {"H": 2, "G": 2}),
    "refined": (lt.PBP(refine=True), {"H": 2, "G": 2}),
}


def rows(n: int = 300, seed: int = 0) -> dict[str, Any]:
    """Plain, heavy-tailed, zero-inflated, many integers, and discrete."""
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    g = np.where(rng.random(n) < 0.8, h, 1 - h)
    return {
        "u": 3.0 * h + rng.normal(size=n),
        "v": rng.standard_t(1, n) * (1 + h),
        "w": np.where(rng.random(n) < 0.3, 0.0, np.exp(g + rng.normal(size=n))),
        "k": rng.poisson(60 + 30 * g),
        "z": np.array(["lo", "hi"], dtype=object)[h],
    }


def fitted(kind: str) -> lt.LatentModel:
    learner, latents = LEARNERS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        return lt.LatentModel(GRAPH, latents, learner, kinds={"k": "continuous"}).fit(rows())


def told(ask: Any, *given: Any) -> Any:
    try:
        return ask(*given)
    except LatentiaError as error:
        return str(error)


def answers(model: lt.LatentModel) -> list[str]:
    data = {name: cells[:6] for name, cells in rows(seed=1).items()}
    with warnings.catch_warnings(), np.printoptions(floatmode="unique"):
        warnings.simplefilter("ignore")
        density = told(model.query, "u", {"v": 1.0, "w": (0, 2), "z": "lo"})
        found = [
            getattr(density, "masses", density),
            getattr(density, "log_evidence", 0.0),
            told(model.query, "z", {"u": 1.0, "k": 70}),
            told(model.predict, data, "w"),
            told(model.predict_quantiles, data, "v"),
            told(model.score_samples, data),
            told(model.sample, 7, 3),
            told(model.marginals, data),
            told(model.predict_latent, data, "H"),
            told(lambda: model.cpts_),
            *(model.columns_, model.diagnostics_, str(model.plan_)),
        ]
        return [repr(answer) for answer in found]


@pytest.mark.parametrize("kind", LEARNERS)
def test_answers_are_the_same_bit_for_bit(kind: str, tmp_path: Path) -> None:
    model, path = fitted(kind), tmp_path / "m.latentia"
    grids = {c.name: c for c in model.columns_ if isinstance(c, ContinuousColumn)}
    assert set(grids) == {"u", "v", "w", "k"}
    assert grids["v"].warped
    assert kind == "gaussian" or grids["w"].atoms == (0.0,)
    model.save(path)
    again = lt.load(path)
    assert answers(again) == answers(model)
    assert HEAD.unpack(path.read_bytes()[: HEAD.size])[1] == 5  # "k" is a lattice
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        refitted = again.fit(rows())
    assert answers(refitted)[:8] == answers(model)[:8]


def test_raw_leaves_are_kept_once(tmp_path: Path) -> None:
    model = fitted("known")
    model.save(tmp_path / "m")
    leaves = sum(t.nbytes for t in model.operators_.raw)
    tensors = sum(t.nbytes for t in model.operators_.tensors.values())
    linear = model.operators_.linear
    lines = 0 if linear is None else linear.mean.nbytes + linear.covariance.nbytes
    assert HEAD.unpack((tmp_path / "m").read_bytes()[: HEAD.size])[3] == leaves + tensors + lines


def test_a_graph_from_a_function(tmp_path: Path) -> None:
    model = lt.LatentModel(
        lambda names: lt.templates.latent_class(names), learner=lt.PBP(kernel=FEW)
    ).fit(rows())
    model.save(tmp_path / "m")
    graph = lt.load(tmp_path / "m").graph
    assert graph.states == (None,) * 6


def test_gaussian_leaves_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "m"
    fitted("gaussian").save(path)
    record, arrays = sections(path.read_bytes())
    leaves = record["operators"]["gaussians"]
    assert len(leaves) == 4
    for wrong in ([[0, 1]], [leaves[0], leaves[0]], [[leaves[0][0], 0]], leaves[:2]):
        record["operators"]["gaussians"] = wrong
        (tmp_path / "n").write_bytes(forged(json.dumps(record).encode(), arrays))
        with pytest.raises(StoreError):
            lt.load(tmp_path / "n")
    record["operators"]["gaussians"] = leaves
    negative = arrays[:-24] + np.array([1.0, 0.0, -1.0]).tobytes()
    (tmp_path / "n").write_bytes(forged(json.dumps(record).encode(), negative))
    with pytest.raises(StoreError, match="variances"):
        lt.load(tmp_path / "n")


@pytest.mark.parametrize("mutate", [flip_bits, edit_json, edit_arrays], ids=lambda f: f.__name__)
def test_mutated_files(mutate: Any, tmp_path: Path) -> None:
    path, rng, found = tmp_path / "m", np.random.default_rng(3), Counter[str]()
    started = time.monotonic()
    model = fitted("known")
    model.save(path)
    content, right = path.read_bytes(), answers(model)
    for _ in range(150):
        path.write_bytes(mutate(content, rng))
        try:
            loaded = lt.load(path)
        except StoreError:
            found["error"] += 1
            continue
        found["same" if answers(loaded) == right else "other"] += 1
    print(mutate.__name__, dict(found), f"{time.monotonic() - started:.1f} s")
    assert mutate is not flip_bits or set(found) <= {"error", "same"}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("points", 10**6, "whole number from 2 to 1024"),
        ("points", 64, "expected 128 states"),
        ("scale", 0.0, "from 1e-100"),
        ("scale", -1.0, "from 1e-100"),
        ("spread", 1e-300, "from 1e-06"),
        ("warped", 1, "true or false"),
        ("ends", [1.0, 1.0], "from low to high"),
        ("ends", [-1e300, 1e300], "number from"),
        ("atoms", [1.0], "expected 128 states"),
        ("centre", "0", "number from"),
        ("colour", 1, "expected the fields"),
    ],
)
def test_grids_that_cannot_be(field: str, value: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    fitted("known").save(path)
    record, arrays = sections(path.read_bytes())
    record["states"][0][field] = value
    path.write_bytes(forged(json.dumps(record).encode(), arrays))
    with pytest.raises(StoreError, match=says):
        lt.load(path)


def test_smoothing_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "m"
    fitted("known").save(path)
    for kernel in (
        [1, 0.2, 0.1, 0.1],
        [True, -1.0, 0.1, 0.1],
        [True, 0.2, 0.1],
        [True, 0.2, 0.1, 9.0],
    ):
        record, arrays = sections(path.read_bytes())
        record["operators"]["kernel"] = kernel
        (tmp_path / "n").write_bytes(forged(json.dumps(record).encode(), arrays))
        with pytest.raises(StoreError):
            lt.load(tmp_path / "n")

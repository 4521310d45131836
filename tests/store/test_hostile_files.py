"""Thousands of mutated model files, and hostile ones: a clear error, or answers; never a crash.

Mutations without a new checksum must end in an error or in identical answers. Forged files carry a
right checksum: some are sound models of another kind, and must answer without falling over.
"""

import copy
import hashlib
import json
import math
import os
import re
import struct
import subprocess
import sys
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.errors import LatentiaError, StoreError
from latentia.store.file import HEAD, LARGEST_FILE, MAGIC, SIGNED, VERSION

Random = np.random.Generator

MODELS = ("pbp", "paper", lt.EM(2, tol=1e-3, random_state=0))
CELLS: dict[str, list[Any]] = {
    "a": ["lo", "hi", "no"],
    "b": [0, 1],
    "c": [("t", 1), ("t", 2.5)],
    "d": [False, True],
    "e": [1, 2],
}


def small_model(learner: Any) -> lt.LatentModel:
    rng = np.random.default_rng(5)
    hidden, data = rng.random(300), {}
    for name, states in CELLS.items():
        u = np.where(rng.random(300) < 0.7, hidden, rng.random(300))
        data[name] = np.empty(300, dtype=object)
        data[name][:] = [states[int(x * len(states))] for x in u]
    latents = {"H": 2, "G": 2}
    return lt.LatentModel("H->a,b; H->G; G->c,d; e", latents, learner, state_names=CELLS).fit(data)


def told(ask: Any, *given: Any) -> str:
    try:
        return repr(ask(*given))
    except LatentiaError as error:
        return str(error)


def answers(model: lt.LatentModel) -> list[str]:
    """A few of everything; any exception but ours falls through."""
    first, *others, last = model.columns_
    names = [c.name for c in (first, *others)]
    evidence = {last.name: last.states[0], others[0].name: others[0].states[-1]}
    data = {c.name: [c.states[0], c.states[-1]] for c in model.columns_}
    cells = {name: np.fromiter(pair, dtype=object) for name, pair in data.items()}
    questions = [
        (model.query, [first.name], evidence),
        (model.query, names[:2], {last.name: last.states[0]}),
        (model.map_query, names, {last.name: last.states[-1]}),
        (model.predict_latent, cells, "H"),
        (lambda: (model.cpts_, model.converged_, model.n_iter_, model.history_),),
        (model.score_samples, cells),
        (model.marginals, cells),
        (model.sample, 20, 1),
    ]
    with np.printoptions(floatmode="unique"):
        found = [told(*question) for question in questions]
    return [*found, repr(model.diagnostics_), str(model.plan_), repr(model.columns_)]


def outcome(path: Path, content: bytes, right: list[str]) -> str:
    path.write_bytes(content)
    try:
        model = lt.load(path)
    except StoreError as error:
        clear = str(error).startswith(f"{path}: ") and len(str(error)) < 1200
        return "error" if clear else "unclear error"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forged numbers may make no sense
        return "same" if answers(model) == right else "other"


# -- mutations -------------------------------------------------------------------------------------


def sections(content: bytes) -> tuple[Any, bytes]:
    """JSON and arrays of a file."""
    size = HEAD.unpack(content[: HEAD.size])[2]
    return json.loads(content[HEAD.size : HEAD.size + size]), content[HEAD.size + size :]


def forged(text: bytes, arrays: bytes, version: int = VERSION) -> bytes:
    """A file with a right checksum."""
    signed = HEAD.pack(MAGIC, version, len(text), len(arrays), b"")[:SIGNED]
    return signed + hashlib.sha256(signed + text + arrays).digest() + text + arrays


def flip_bits(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(len(content), size=rng.integers(1, 4)):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def swap_bytes(content: bytes, rng: Random) -> bytes:
    width = int(rng.choice([1, 8, 64]))
    a, b = sorted(int(x) for x in rng.integers(len(content) // width, size=2) * width)
    if b < a + width:
        return content
    changed = bytearray(content)
    changed[a : a + width], changed[b : b + width] = content[b : b + width], content[a : a + width]
    return bytes(changed)


def cut(content: bytes, rng: Random) -> bytes:
    end = int(rng.integers(len(content)))
    choice = rng.integers(4)
    if choice == 0:
        return content + content[:end]
    if choice == 1:
        return content[:end] + content[end + int(rng.integers(1, 99)) :]
    if choice == 2:
        return content[:end] + bytes(len(content) - end)
    return content[:end]


def swap_sections(content: bytes, rng: Random) -> bytes:
    size = HEAD.unpack(content[: HEAD.size])[2]
    head, rest = content[: HEAD.size], content[HEAD.size :]
    text, arrays = rest[:size], rest[size:]
    k = 8 * int(rng.integers(1, len(arrays) // 8))
    choices = (
        head + arrays + text,
        head + text + arrays[k:] + arrays[:k],
        head + text + text + arrays,
        head + text + arrays + arrays,
        head + arrays,
        head[:SIGNED] + bytes(32) + rest,
        head[:12] + struct.pack("<IQ", size - k, len(arrays) + k) + head[SIGNED:] + rest,
    )
    return choices[rng.integers(len(choices))]


STRANGE: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1,
        2,
        3,
        7,
        2**31,
        2**63,
        2**64,
        10**300,
        1.5,
        -0.0,
        1e308,
        -1e308,
        1e-320,
    ),
    *("", "x", "nan", [], {}, [0], [[0]], [1, 0], {"tuple": []}, {"tuple": [[]]}, {"float": "inf"}),
    *({"float": "1"}, {"numpy": ["int8", 300]}, {"numpy": ["float16", 1e9]}, {"dict": [[[], 1]]}),
    *({"datetime": "soon"}, {"date": 3}, {"datetime": []}),
    *(
        {"frozenset": [{"dict": []}]},
        {"numpy": ["object", 1]},
        {"date": "2024-13-01"},
        "é" * 40,
        [[]] * 50,
    ),
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything below a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in list(pairs):
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += places(inner)
    return found


def edit_json(content: bytes, rng: Random) -> bytes:
    """Replace, drop, double, rename, swap or nudge something, with a new checksum."""
    record, arrays = sections(content)
    known = places(record)
    for _ in range(int(rng.integers(1, 3))):
        box, key = known[rng.integers(len(known))]
        other, there = known[rng.integers(len(known))]
        if not (key in box if isinstance(box, dict) else key < len(box)):
            continue
        how, value = rng.integers(6), box[key]
        if how == 0 or (how in (3, 4) and not isinstance(value, int | float)):
            box[key] = copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])
        elif how == 1:
            del box[key]
        elif how == 2 and isinstance(box, dict):
            box[f"{key}2"] = box.pop(key)
        elif how == 2:
            box.append(copy.deepcopy(value))
        elif how == 3:
            box[key] = value + int(rng.choice([-2, -1, 1, 2]))
        elif how == 4:
            box[key] = value * int(rng.choice([-1, 0, 2, 10**6]))
        elif (other is not box or there != key) and there in (
            other if isinstance(other, dict) else range(len(other))
        ):
            box[key] = copy.deepcopy(other[there])
    text = json.dumps(record).encode()
    if rng.random() < 0.1:  # a field twice, a number too large, or one that is none
        text = re.sub(rb'("\w+": )', rb"\1 0, \1", text, count=int(rng.integers(1, 5)))
    if rng.random() < 0.1:
        text = re.sub(rb"\d+\.\d+", [b"1e999", b"NaN", b"9" * 5000][rng.integers(3)], text, count=1)
    return forged(text, arrays)


def edit_arrays(content: bytes, rng: Random) -> bytes:
    record, arrays = sections(content)
    numbers = np.frombuffer(arrays, dtype="<f8").copy()
    strange = [np.nan, np.inf, -np.inf, 1e308, -1e99, 1e99, 0.0, -1.0, 1e-320, 2.0]
    for _ in range(int(rng.integers(1, 4))):
        i, j = rng.integers(len(numbers), size=2)
        if rng.random() < 0.5:
            numbers[i] = strange[rng.integers(len(strange))]
        else:
            numbers[[i, j]] = numbers[[j, i]]
    if rng.random() < 0.1:
        numbers = numbers[: rng.integers(len(numbers))]
    return forged(json.dumps(record).encode(), numbers.tobytes())


def edit_head(content: bytes, rng: Random) -> bytes:
    record, arrays = sections(content)
    text = json.dumps(record).encode()
    choice = rng.integers(3)
    if choice == 0:
        return forged(text, arrays, version=int(rng.choice([0, 2, 7, 2**31])))
    if choice == 1:
        k = int(rng.integers(1, 64))
        return forged(text[:-k], text[-k:] + arrays)
    made = bytearray(forged(text, arrays))
    made[12:24] = struct.pack("<IQ", *(int(2 ** rng.integers(32)), int(2 ** rng.integers(64))))
    return bytes(made)


# the short form; LATENTIA_FUZZ=4000 for all of these
SHARE = int(os.environ.get("LATENTIA_FUZZ", "1500")) / 4000
HONEST: dict[Callable[[bytes, Random], bytes], int] = {
    flip_bits: 3000,
    swap_bytes: 1000,
    cut: 1000,
    swap_sections: 1000,
}
FORGED: dict[Callable[[bytes, Random], bytes], int] = {
    edit_json: 3000,
    edit_arrays: 700,
    edit_head: 300,
}


@pytest.mark.parametrize("mutate", [*HONEST, *FORGED], ids=lambda f: f.__name__)
def test_mutated_files(mutate: Callable[[bytes, Random], bytes], tmp_path: Path) -> None:
    path = tmp_path / "m.latentia"
    rng = np.random.default_rng(11)
    started, worked, found = time.monotonic(), time.process_time(), Counter[str]()
    for learner in MODELS:
        model = small_model(learner)
        model.save(path)
        content, right = path.read_bytes(), answers(model)
        assert outcome(path, content, right) == "same"
        for _ in range(math.ceil(SHARE * (HONEST | FORGED)[mutate] / len(MODELS))):
            found[outcome(path, mutate(content, rng), right)] += 1
    print(mutate.__name__, dict(found), f"{time.monotonic() - started:.1f} s")
    assert sum(found.values()) >= SHARE * (HONEST | FORGED)[mutate]
    assert found["error"] > 0.6 * sum(found.values())
    assert set(found) <= ({"error", "same"} if mutate in HONEST else {"error", "same", "other"})
    assert time.process_time() - worked < 300  # 30 s on one core: nothing hangs


# -- hostile files, with little memory -------------------------------------------------------------

LOADER = """
import json, resource, sys, time
import latentia
latentia.load, latentia.errors  # names are loaded when they are first asked for
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29,) * 2)
said = []
for path in sys.argv[1:]:
    started = time.monotonic()
    try:
        latentia.load(path)
        said.append(["loaded", 0.0])
    except latentia.errors.StoreError as error:
        said.append([str(error), time.monotonic() - started])
print(json.dumps(said))
"""


def long_chain(n: int) -> bytes:
    """A sound plan whose nodes all have many leaves below them: listing them takes n² / 2 cells."""
    side = [[], 1, [], 1]

    def node(parent: int, children: list[int], columns: list[int], first: int, last: int) -> Any:
        named = {"parent": parent, "children": children, "separator": [], "columns": columns}
        rest = {"leaves": [first, last], "rank": 1, "inside": side, "outside": side}
        return {**named, **rest}

    nodes = []
    for x in range(n - 1):
        k = 2 * x
        nodes.append(node(max(k - 2, 0), [k + 1, k + 2], [], x, n))
        nodes.append(node(k, [], [x], x, x + 1))
    nodes.append(node(2 * n - 4, [], [n - 1], n - 1, n))
    graph = {"names": list(range(n)), "edges": [], "latent": [], "directed": True}
    plan = {
        "graph": {**graph, "states": [1] * n},
        "cliques": [[v] for v in range(n)],
        "parents": list(range(n)),
        "holds": [[v] for v in range(n)],
        "nodes": nodes,
        "leaves": [*range(1, 2 * n - 2, 2), 2 * n - 2],
        "notes": [],
    }
    ranks = {"ranks": [1] * len(nodes), "weight": 1.0, "mix": 0.0, "turned": []}
    reports = [[k, 1, 1, [], 1.0] for k in range(1, len(nodes))]
    names = ("graph", "latents", "kinds", "state_names")
    record = {
        "library": "0",
        "kind": "LatentModel",
        "parameters": {**dict.fromkeys(names), "learner": {"name": "pbp"}},
        "plan": plan,
        "states": [[0]] * n,
        "operators": {**ranks, "reports": reports},
        "fit": {"learner": "", "missing": [0.0] * n},
    }
    return forged(json.dumps(record).encode(), np.ones(3 * n - 1).tobytes())


def huge_ranks() -> bytes:
    record, arrays = sections(long_chain(3))
    record["operators"]["ranks"] = [1] + [2**31 - 1] * 4
    return forged(json.dumps(record).encode(), arrays)


def zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("model.json", bytes(2**27))


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(HEAD.pack(MAGIC, VERSION, 8, LARGEST_FILE * 2 - HEAD.size - 8, bytes(32)))
        file.truncate(LARGEST_FILE * 2)


HOSTILE: dict[str, tuple[Any, str]] = {
    "zip bomb": (zip_bomb, "got a zip archive"),
    "sparse": (sparse, "at most"),
    "deep": (lambda: forged(b"[" * 2**20 + b"]" * 2**20, b""), "nested 1048576 deep"),
    "deep behind quotes": (
        lambda: forged(b'["]]]]' + b'\\"' * 99 + b'",' * 9 + b"[" * 2**20, b""),
        "deep",
    ),
    "many values": (lambda: forged(b"[" + b"[],[]," * 2**21 + b"0]", b""), "values"),
    "nearly as many": (lambda: forged(b"[" + b"[]," * (2**21 - 2) + b"0]", b""), "a JSON object"),
    "many quotes": (lambda: forged(b'"' + b'\\"' * 2**24, b""), "not a valid model"),
    "many digits": (lambda: forged(b"9" * 2**24, b""), "not a valid model"),
    "too much JSON": (lambda: forged(b" " * (2**26 + 8), b""), "at most"),
    "long chain": (lambda: long_chain(12_000), "too deep"),
    "huge ranks": (huge_ranks, "absurdly many bytes"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by RLIMIT_AS")
def test_hostile_files_need_little_memory_and_time(tmp_path: Path) -> None:
    paths = [tmp_path / kind for kind in HOSTILE]
    for path, (make, _) in zip(paths, HOSTILE.values(), strict=True):
        if make in (zip_bomb, sparse):
            make(path)
        else:
            path.write_bytes(make())
    run = subprocess.run([sys.executable, "-c", LOADER, *paths], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    for (kind, (_, message)), (said, seconds) in zip(
        HOSTILE.items(), json.loads(run.stdout), strict=True
    ):
        assert message in said, kind
        assert seconds < 20, kind


def test_a_short_chain_would_load(tmp_path: Path) -> None:
    """The forgery above is stopped by its size alone."""
    (tmp_path / "m").write_bytes(long_chain(50))
    model = lt.load(tmp_path / "m")
    assert model.query([3]).table.tolist() == [1.0]

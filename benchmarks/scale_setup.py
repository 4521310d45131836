"""What the parts of benchmarks/scale.py share: rows of a random chain, clocks, tables."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import latentia as lt
from latentia.testing.random_models import random_model

CLOSED = lt.PBP(refine=False)  # two passes; a refinement takes as many more as it likes
STATES = 4


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chain(length: int, rank: int) -> tuple[Any, list[str]]:
    names = [f"x{i}" for i in range(length)]
    return lt.templates.hidden_markov(length, rank, names), names


def write_rows(path: Path, rows: int, length: int = 16, rank: int = 4) -> None:
    """Rows of a random chain as int8 in one Parquet file; those of a million are repeated."""
    graph, names = chain(length, rank)
    model = random_model(graph.with_states(dict.fromkeys(names, STATES)), np.random.default_rng(0))
    most = min(rows, 10**6)
    codes = model.sample(most, 1).astype(np.int8)
    rng = np.random.default_rng(2)
    writer, done = None, 0
    while done < rows:
        part = np.ascontiguousarray(codes[rng.permutation(most)][: rows - done].T)
        table = pa.table(dict(zip(names, part, strict=True)))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=2**18)
        done += part.shape[1]
    assert writer is not None
    writer.close()


def clocked(work: Callable[[], Any], repeats: int = 1) -> tuple[float, float]:
    """Wall and CPU seconds of all threads; those of the run that took the least CPU."""
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(found, key=lambda pair: pair[1])


def fit_alone(
    path: Path, length: int = 16, rank: int = 4, repeats: int = 1
) -> tuple[float, float, float]:
    """Wall and CPU seconds of a fit in a new process, and its largest memory beyond imports."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, str(path), length, rank, repeats))
    process.start()
    theirs.close()
    found: tuple[float, float, float] = ours.recv()
    process.join()
    return found


def _child(pipe: Any, path: str, length: int, rank: int, repeats: int) -> None:
    warnings.simplefilter("ignore")  # ranks beyond what the columns can tell
    small, names = chain(3, 2)
    warm = {name: np.arange(64) % STATES for name in names}
    lt.LatentModel(small, learner=CLOSED).fit(warm)  # imports and threads
    pq.read_schema(path)
    graph, _ = chain(length, rank)
    before = _megabytes("VmRSS")
    seconds = clocked(lambda: lt.LatentModel(graph, learner=CLOSED).fit(path), repeats)
    pipe.send((*seconds, _megabytes("VmHWM") - before))


def _megabytes(what: str) -> float:
    """Memory of this process now (VmRSS) or at its largest (VmHWM), as Linux tells it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return float(line.split()[1]) / 1e3
    return float("nan")


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def head(title: str, *columns: str) -> None:
    """The top of a table in Markdown."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns), flush=True)


def line(*cells: object) -> None:
    """One row of it."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def seconds(pair: tuple[float, float]) -> str:
    """CPU (wall)."""
    wall, cpu = pair
    return f"{cpu:.2f} ({wall:.2f})"

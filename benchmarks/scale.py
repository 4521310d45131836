"""How learning and answering grow: rows, variables, ranks, engines; against bare products.

    python benchmarks/scale.py [--quick] [--rows 1e7]

Every figure comes from one run. Work is told in CPU seconds of all threads (with wall time beside
it), so that other work on the machine matters less. Fits run in processes of their own, whose
largest memory is told beyond what the imports take.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import latentia as lt
from latentia.estep import compile_estep, expected_counts
from latentia.frames.local import LocalRows, in_parallel
from latentia.moments import Rows, pair_layout
from latentia.plan import make_plan
from latentia.problem import random_tables
from latentia.testing import random_model

BLOCK = 2**14


def chain(length: int, rank: int) -> tuple[Any, list[str]]:
    names = [f"x{i}" for i in range(length)]
    return lt.templates.hidden_markov(length, rank, names), names


def write_rows(path: Path, rows: int, length: int = 16, rank: int = 4, states: int = 4) -> None:
    """Rows of a random chain as int8 in one Parquet file; those of a million are repeated."""
    graph, names = chain(length, rank)
    model = random_model(graph.with_states(dict.fromkeys(names, states)), np.random.default_rng(0))
    most = min(rows, 10**6)
    codes = model.sample(most, 1).astype(np.int8)
    rng = np.random.default_rng(2)
    writer, done = None, 0
    while done < rows:
        part = codes[rng.permutation(most)][: rows - done]
        table = pa.table({name: part[:, i] for i, name in enumerate(names)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=2**18)
        done += len(part)
    assert writer is not None
    writer.close()


def clocked(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _child(pipe: Any, path: str, length: int, rank: int) -> None:
    graph, names = chain(length, rank)
    warnings.simplefilter("ignore")  # ranks beyond what 4 states can tell
    warm = {name: np.arange(64) % 4 for name in names}
    lt.LatentModel(graph, state_names=dict.fromkeys(names, range(4))).fit(warm)
    pq.read_schema(path)
    before = _megabytes("VmRSS")
    seconds = clocked(lambda: lt.LatentModel(graph).fit(path))
    pipe.send((*seconds, _megabytes("VmHWM") - before))


def _megabytes(what: str) -> float:
    """Memory of this process now (VmRSS) or at its largest (VmHWM), as Linux tells it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return float(line.split()[1]) / 1e3
    return float("nan")


def fit_alone(path: Path, length: int = 16, rank: int = 4) -> tuple[float, float, float]:
    """Wall, CPU and megabytes of a fit in a new process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, str(path), length, rank))
    process.start()
    found: tuple[float, float, float] = ours.recv()
    process.join()
    return found


def bare_products(rows: int, length: int = 16, rank: int = 4, states: int = 4) -> None:
    """The counts and matrix products that two passes cannot do without, on codes that are there."""
    graph, names = chain(length, rank)
    plan = make_plan(graph.with_states(dict.fromkeys(names, states)))
    layout = pair_layout(plan)
    width = layout.width(0)
    inner = len(plan.inner)
    coordinates = np.random.default_rng(0).normal(size=(2 * inner * rank, width))
    codes = np.random.default_rng(1).integers(states, size=(length, BLOCK)).astype(np.int8)
    spans = np.arange(states, dtype=np.int8)

    def block(_: int) -> None:
        marks = (codes[:, None, :] == spans[:, None]).reshape(length * states, BLOCK)
        counted = marks.astype(np.float32)
        counted @ counted.T
        values = coordinates @ marks.astype(float)
        for k in range(inner + 1):
            a, b, c = (values[(k + j) % (2 * inner) * rank :][:rank] for j in range(3))
            (a[:, None, :] * b[None, :, :]).reshape(-1, BLOCK) @ c.T

    for _ in in_parallel(block, range(0, rows, BLOCK)):
        pass


def one_em_iteration(path: Path, length: int = 16, rank: int = 4) -> None:
    graph, names = chain(length, rank)
    known = graph.with_states(dict.fromkeys(names, 4))
    table = pq.read_table(path)
    rows = Rows(tuple(table.column(name).to_numpy() for name in names))
    tables = random_tables(known, np.random.SeedSequence(0))
    estep = compile_estep(known, [])
    EM_TIME.append(clocked(lambda: LocalRows(rows).fold(partial(expected_counts, estep, tables))))


EM_TIME: list[tuple[float, float]] = []


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def by_rows(folder: Path, sizes: Sequence[int]) -> None:
    print("\nchain of 16 columns x 4 states, rank 4; seconds as CPU (wall)")
    print("rows | read | bare products | EM iteration | fit | fit / bare | MB beyond imports")
    times = []
    for n in sizes:
        path = folder / f"rows{n}.parquet"
        write_rows(path, n)
        read = clocked(partial(pq.read_table, path))
        bare = clocked(partial(bare_products, n))
        step = (float("nan"), float("nan"))
        if n <= 10**7:
            one_em_iteration(path)
            step = EM_TIME[-1]
        wall, cpu, memory = fit_alone(path)
        times.append(cpu)
        shown = " | ".join(f"{c:.2f} ({w:.2f})" for w, c in (read, bare, step, (wall, cpu)))
        print(f"{n:.0e} | {shown} | {cpu / bare[1]:.2f} | {memory:.0f}", flush=True)
        path.unlink()
    if len(sizes) > 2:
        print(f"slope in rows, from 10^6 on: {slope(sizes[1:], times[1:]):.2f}")


def by_variables(folder: Path, lengths: Sequence[int], rows: int) -> None:
    print(f"\nvariables, {rows:.0e} rows, rank 4: variables | CPU (wall) seconds")
    times = []
    for length in lengths:
        path = folder / f"long{length}.parquet"
        write_rows(path, rows, length)
        wall, cpu, _ = fit_alone(path, length)
        times.append(cpu)
        print(f"{length} | {cpu:.2f} ({wall:.2f})", flush=True)
    print(f"slope in variables, last half: {slope(lengths[-3:], times[-3:]):.2f}")


def by_rank(folder: Path, ranks: Sequence[int], rows: int) -> None:
    print(f"\nranks, {rows:.0e} rows, 16 columns x 4 states: rank | CPU (wall) seconds")
    path = folder / "ranks.parquet"
    write_rows(path, rows)
    for rank in ranks:
        wall, cpu, _ = fit_alone(path, 16, rank)
        print(f"{rank} | {cpu:.2f} ({wall:.2f})", flush=True)


def by_engine(folder: Path, rows: int) -> None:
    print(f"\nengines, {rows:.0e} rows: engine | wall seconds")
    path = folder / "engines.parquet"
    write_rows(path, rows)
    graph, _ = chain(16, 4)

    def told(name: str, frame: Any) -> None:
        wall, _ = clocked(lambda: lt.LatentModel(graph).fit(frame))
        print(f"{name} | {wall:.2f}", flush=True)

    told("Arrow table in memory", pq.read_table(path))
    told("Parquet file", path)
    try:
        import dask.dataframe as dd

        told("Dask, threads", dd.read_parquet(path, split_row_groups=True))
    except ImportError:
        print("Dask | not installed")
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        frame = session.read.parquet(str(path))
        frame.count()
        told("Spark, local, two cores", frame)
        session.stop()
    except Exception as error:
        print(f"Spark | not run: {type(error).__name__}")


def answering(rows: int) -> None:
    """Rows per second: P(x8 | all others), against its bare products and other libraries."""
    graph, names = chain(16, 4)
    known = graph.with_states(dict.fromkeys(names, 4))
    truth = random_model(known, np.random.default_rng(0))
    codes = truth.sample(rows, 3).astype(np.int8)
    frame = {name: codes[:, i] for i, name in enumerate(names)}
    model = lt.LatentModel(graph).fit({k: v[:100_000] for k, v in frame.items()})
    print(f"\nanswers, {rows:.0e} rows of 16 columns: P(x8 | all others), rows per CPU second")
    ours = 0.0
    for what, dtype in (("double", None), ("single", "float32")):
        wall, cpu = clocked(lambda dtype=dtype: model.predict_proba(frame, "x8", dtype=dtype))
        ours = ours or rows / cpu
        print(f"{what} | {rows / cpu:,.0f} ({rows / wall:,.0f} per second)", flush=True)
    exact, single = (model.predict_proba(frame, "x8", dtype=d) for d in (None, "float32"))
    gap = max(float(np.abs(exact[s] - single[s]).max()) for s in exact)
    print(f"largest error of single precision | {gap:.1e}")
    _, cpu = clocked(partial(bare_messages, model.operators_, rows))
    print(f"bare products | {rows / cpu:,.0f}; ours {ours * cpu / rows:.2f} of that", flush=True)
    for library in (pyagrum_speed, pgmpy_speed):
        try:
            speed = library(truth, names, codes[:200])
            print(f"{library.__name__} | {speed:,.0f}; ours {ours / speed:,.0f} x", flush=True)
        except ImportError:
            print(f"{library.__name__} | not installed")


def bare_messages(operators: Any, rows: int) -> None:
    """The products of one pass up and the way down to one leaf, in blocks, without the rest."""
    plan = operators.plan
    step = 4096
    messages = np.random.default_rng(0).normal(size=(4, step))
    matrices = [
        np.ascontiguousarray(operators.tensors[k].reshape(-1, operators.tensors[k].shape[-1]).T)
        for k in plan.inner
    ]
    depth = len(plan.inner) // 2

    def block(_: int) -> None:
        for matrix in (*matrices, *matrices[:depth]):
            size = round(matrix.shape[1] ** 0.5)
            pair = messages[:size, None, :] * messages[None, :size, :]
            matrix @ pair.reshape(-1, step)[: matrix.shape[1]]

    for _ in in_parallel(block, range(0, rows, step)):
        pass


def pyagrum_speed(truth: Any, names: Sequence[str], codes: Any) -> float:
    import pyagrum as gum

    graph = truth.graph
    network = gum.BayesNet()
    for v, name in enumerate(graph.names):
        network.add(gum.LabelizedVariable(str(name), "", graph.states[v]))
    for a, b in graph.edges:
        network.addArc(str(graph.names[a]), str(graph.names[b]))
    for v, above in enumerate(graph.parents()):
        assert len(above) <= 1  # else the axes may need another order
        network.cpt(str(graph.names[v]))[:] = np.asarray(truth.cpts[graph.names[v]])
    engine = gum.LazyPropagation(network)
    engine.addTarget("x8")
    start = time.process_time()
    for row in codes:
        engine.setEvidence({n: int(row[i]) for i, n in enumerate(names) if n != "x8"})
        engine.makeInference()
        engine.posterior("x8").toarray()
    return len(codes) / (time.process_time() - start)


def pgmpy_speed(truth: Any, names: Sequence[str], codes: Any) -> float:
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    graph = truth.graph
    network = DiscreteBayesianNetwork(
        [(str(graph.names[a]), str(graph.names[b])) for a, b in graph.edges]
    )
    for v, above in enumerate(graph.parents()):
        table = np.asarray(truth.cpts[graph.names[v]])
        parents = [str(graph.names[u]) for u in above]
        flat = table.reshape(-1, table.shape[-1]).T
        sizes = [graph.states[u] for u in above]
        network.add_cpds(
            TabularCPD(str(graph.names[v]), table.shape[-1], flat, parents or None, sizes or None)
        )
    engine = VariableElimination(network)
    few = codes[:20]
    start = time.process_time()
    for row in few:
        engine.query(
            ["x8"], {n: int(row[i]) for i, n in enumerate(names) if n != "x8"}, show_progress=False
        )
    return len(few) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute instead of an hour")
    parser.add_argument("--rows", type=float, default=1e8, help="most rows")
    parser.add_argument("--only", help="rows, variables, ranks, engines or answers")
    given = parser.parse_args()
    most = min(given.rows, 1e6) if given.quick else given.rows
    print(f"{os.cpu_count()} cores, numpy {np.__version__}, latentia {lt.__version__}")
    parts = {
        "rows": lambda f: by_rows(f, [n for n in (10**5, 10**6, 10**7, 10**8) if n <= most]),
        "variables": lambda f: by_variables(
            f, (8, 32, 64, 128) if given.quick else (8, 32, 128, 256, 512), 10**5
        ),
        "ranks": lambda f: by_rank(f, (2, 8, 32) if given.quick else (2, 4, 8, 16, 32), 10**5),
        "engines": lambda f: by_engine(f, 10**5 if given.quick else 10**6),
        "answers": lambda f: answering(10**5 if given.quick else 10**6),
    }
    for name, part in parts.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder))


if __name__ == "__main__":
    main()

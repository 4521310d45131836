"""How learning and answering grow: rows, variables, ranks, engines; against bare products.

    python benchmarks/scale.py [--quick] [--only rows] [--rows 1e7]

Every figure comes from one run (about 20 minutes on one core; `--quick`: two). Work is told in CPU
seconds of all threads, with wall time in brackets, so that other work on the machine matters less.
Fits run in processes of their own, whose largest memory is told beyond what the imports take. Files
of rows are made in a temporary folder and go when they have been read.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from scale_answers import answering
from scale_engines import by_engine
from scale_setup import (
    STATES,
    chain,
    clocked,
    cores,
    fit_alone,
    head,
    line,
    seconds,
    slope,
    write_rows,
)

import latentia as lt
from latentia.closed_form.pairs import pair_layout, sum_pairs
from latentia.closed_form.solving import gather_statistics
from latentia.closed_form.windows import product_windows, sum_windows
from latentia.data.rows import Rows
from latentia.data.sources.all_cores import in_parallel
from latentia.data.sources.memory import LocalRows
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.networks.starts import random_tables
from latentia.structure.plan import make_plan

BLOCK = 2**14  # rows of the bare products at a time: from 2¹³ on they are as fast as can be
MANY = 2**20  # rows in memory that stand for more
NONE = (float("nan"), float("nan"))


def read_once(path: Path) -> None:
    """All columns through pyarrow, batch by batch."""
    for batch in ds.dataset(path).to_batches(batch_size=2**17):
        batch.num_rows  # noqa: B018


def bare_products(rows: int, length: int = 16, rank: int = 4) -> None:
    """The counts and matrix products of two passes, plainly, on codes that are there.

    Indicators of all columns, all their pair counts in one product, all coordinates in one product,
    and the product of three coordinates at every clique. No zero is left out.
    """
    graph, names = chain(length, rank)
    plan = make_plan(graph.with_states(dict.fromkeys(names, STATES)))
    width = pair_layout(plan).width(0)
    inner = len(plan.inner)
    coordinates = np.random.default_rng(0).normal(size=(2 * inner * rank, width))
    codes = np.random.default_rng(1).integers(STATES, size=(length, BLOCK)).astype(np.int8)
    spans = np.arange(STATES, dtype=np.int8)

    kept = threading.local()  # new memory for every block would cost as much as the products

    def block(_: int) -> None:
        if not hasattr(kept, "marks"):
            kept.marks = np.empty((length * STATES, BLOCK), dtype=bool)
            kept.counted = np.empty(kept.marks.shape, dtype=np.float32)
            kept.whole = np.empty(kept.marks.shape)
            kept.values = np.empty((len(coordinates), BLOCK))
            kept.pairs = np.empty((rank * rank, BLOCK))
        np.equal(codes[:, None, :], spans[:, None], out=kept.marks.reshape(length, STATES, BLOCK))
        np.copyto(kept.counted, kept.marks)
        kept.counted @ kept.counted.T
        np.copyto(kept.whole, kept.marks)
        values = np.matmul(coordinates, kept.whole, out=kept.values)
        for k in range(inner + 1):
            a, b, c = (values[(k + j) % (2 * inner) * rank :][:rank] for j in range(3))
            np.multiply(a[:, None, :], b[None, :, :], out=kept.pairs.reshape(rank, rank, BLOCK))
            kept.pairs @ c.T

    for _ in in_parallel(block, range(0, rows, BLOCK)):
        pass


def in_memory(path: Path, names: Sequence[str]) -> Rows:
    """The first rows of a file as codes."""
    table = ds.dataset(path).head(MANY)
    return Rows(tuple(table.column(name).to_numpy() for name in names))


def own_passes(path: Path, rows: int, length: int = 16, rank: int = 4) -> tuple[float, float]:
    """The sums of our two passes alone, on codes in memory (many rows: the first ones again)."""
    graph, names = chain(length, rank)
    plan = make_plan(graph.with_states(dict.fromkeys(names, STATES)))
    held = in_memory(path, names)
    found = gather_statistics(plan, LocalRows(held[: 10**5]))
    windows = product_windows(found.layout, found.basis)

    def work() -> None:
        for start in range(0, rows, MANY):
            source = LocalRows(held[: min(MANY, rows - start)])
            source.fold(partial(sum_pairs, found.layout))
            source.fold(partial(sum_windows, windows))

    return clocked(work, 3 if rows < 10**7 else 1)


def one_em_iteration(path: Path, rows: int, length: int = 16, rank: int = 4) -> tuple[float, float]:
    """One pass of expected counts from random tables, on codes in memory."""
    graph, names = chain(length, rank)
    known = graph.with_states(dict.fromkeys(names, STATES))
    table = ds.dataset(path).head(rows)
    held = Rows(tuple(table.column(name).to_numpy() for name in names))
    tables = random_tables(known, np.random.SeedSequence(0))
    estep = compile_estep(known, [])
    work = partial(sum_counts, estep, tables)
    return clocked(lambda: LocalRows(held).fold(work), 3 if rows < 10**7 else 1)


def by_rows(folder: Path, sizes: Sequence[int]) -> None:
    head(
        "Rows: chain of 16 columns × 4 states (int8, Parquet), rank 4; CPU (wall) seconds",
        *("rows", "read once", "bare products", "our two passes in memory", "one EM iteration"),
        *("fit", "fit / bare", "fit / passes", "MB beyond imports"),
    )
    times = []
    for n in sizes:
        path = folder / f"rows{n}.parquet"
        write_rows(path, n)
        repeats = 3 if n <= 10**6 else 1
        read = clocked(partial(read_once, path), repeats)
        bare = clocked(partial(bare_products, n), repeats)
        passes = own_passes(path, n)
        step = one_em_iteration(path, n) if n <= 10**7 else NONE
        wall, cpu, memory = fit_alone(path, repeats=repeats)
        times.append(cpu)
        path.unlink()
        told = [seconds(pair) for pair in (read, bare, passes, step, (wall, cpu))]
        line(f"{n:.0e}", *told, f"{cpu / bare[1]:.2f}", f"{cpu / passes[1]:.2f}", f"{memory:.0f}")
    for low in (10**5, 10**6):
        kept = [(n, t) for n, t in zip(sizes, times, strict=True) if n >= low]
        if len(kept) > 1:
            print(f"\nslope in rows from {low:.0e} on: {slope(*zip(*kept, strict=True)):.2f}")


def by_variables(folder: Path, lengths: Sequence[int], rows: int) -> None:
    head(f"Variables: {rows:.0e} rows, rank 4", "variables", "fit", "µs per row and variable")
    times = []
    for length in lengths:
        path = folder / f"long{length}.parquet"
        write_rows(path, rows, length)
        wall, cpu, _ = fit_alone(path, length, repeats=3 if length <= 128 else 2)
        times.append(cpu)
        path.unlink()
        line(length, seconds((wall, cpu)), f"{cpu / rows / length * 1e6:.3f}")
    print(f"\nslope in variables: {slope(lengths, times):.2f}; ", end="")
    half = len(lengths) // 2
    print(f"from {lengths[half]} on {slope(lengths[half:], times[half:]):.2f}")


def by_rank(folder: Path, ranks: Sequence[int], rows: int) -> None:
    head(f"Ranks: {rows:.0e} rows, 16 columns × 4 states", "rank", "fit", "passes")
    path = folder / "ranks.parquet"
    for rank in ranks:
        write_rows(path, rows, 16, rank)
        wall, cpu, _ = fit_alone(path, 16, rank, repeats=2 if rank <= 8 else 1)
        path.unlink()
        # joint blocks, which a separator of more states than its columns can tell needs
        line(rank, seconds((wall, cpu)), "2" if rank <= 2 * STATES - 1 else "2 + 2 of sharpening")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two minutes instead of twenty")
    parser.add_argument("--rows", type=float, default=1e8, help="most rows")
    parser.add_argument("--only", help="rows, variables, ranks, engines or answers")
    given = parser.parse_args()
    quick = given.quick
    most = min(given.rows, 1e6) if quick else given.rows
    parts: dict[str, Callable[[Path], None]] = {
        "rows": lambda f: by_rows(f, [n for n in (10**5, 10**6, 10**7, 10**8) if n <= most]),
        "variables": lambda f: by_variables(
            f, (8, 16, 32, 64) if quick else (8, 16, 32, 64, 128, 256, 512), 10**5
        ),
        "ranks": lambda f: by_rank(f, (2, 4, 8) if quick else (2, 4, 8, 16, 32), 10**5),
        "engines": lambda f: by_engine(f, [10**5] if quick else [10**6, 10**7]),
        "answers": lambda _: answering(10**5 if quick else 10**6),
    }
    if given.only not in (None, *parts):
        parser.error(f"--only takes one of {', '.join(parts)}, got {given.only!r}")
    print(
        f"{cores()} core(s), Python {platform.python_version()}, numpy {np.__version__}, ", end=""
    )
    print(f"pyarrow {pa.__version__}, latentia {lt.__version__}")
    start = time.perf_counter()
    for name, part in parts.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="latentia-scale-") as folder:
                part(Path(folder))
    print(f"\n{(time.perf_counter() - start) / 60:.1f} minutes in all")


if __name__ == "__main__":
    main()

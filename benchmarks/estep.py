"""The exact E-step with and without the compiled kernel, ns a row of processor time.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/estep.py

Rows are random and all counted (none are merged); `difference` is the largest of any expected count
between the two, relative to the largest count of its table. Then the E-step of islands in single
precision beside its matrix products alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import latentia as lt
from latentia.data.rows import Rows
from latentia.discovery.column_tree import RootedTree
from latentia.discovery.island_climb import IslandClimb, Known
from latentia.discovery.island_network import (
    IslandLayout,
    IslandRoom,
    IslandTables,
    island_counts,
    island_layout,
)
from latentia.discovery.islands import Islands
from latentia.exact.estep import pack_rows, packed_counts
from latentia.exact.estep_wiring import compile_estep

ROWS = 100_000
REPEATS = 9


def chain(length: int) -> str:
    links = [f"z{i} -> z{i + 1}" for i in range(length - 1)]
    return "; ".join([*links, *(f"z{i} -> x{i}" for i in range(length))])


# graph, states of latents, states of columns
CASES: dict[str, tuple[str, dict[str, int], int]] = {
    "class of 4 states, 10 columns": ("z -> " + ", ".join(f"x{i}" for i in range(10)), {"z": 4}, 4),
    "chain of 8, 4 states": (chain(8), {f"z{i}": 4 for i in range(8)}, 4),
    "tree of 7 columns": (
        "r -> a, b; a -> x0, x1; b -> x2, x3; r -> x4, x5, x6",
        {"r": 4, "a": 4, "b": 4},
        4,
    ),
    "chain of 8, 16 states": (chain(8), {f"z{i}": 16 for i in range(8)}, 8),
}
ISLANDS = ((12, 8, 32), (12, 8, 64), (6, 16, 128))  # islands, binary columns of each, states


def cpu(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least processor seconds of some runs."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def narrow(name: str) -> None:
    text, latents, size = CASES[name]
    rng = np.random.default_rng(0)
    graph = lt.as_graph(text, latents)
    graph = replace(graph, states=tuple(latents.get(str(v), size) for v in graph.names))
    states = [count or 1 for count in graph.states]
    shapes = [[states[u] for u in (*above, v)] for v, above in enumerate(graph.parents())]
    tables = {v: rng.dirichlet(np.ones(s[-1]), s[:-1]) for v, s in enumerate(shapes)}
    estep = compile_estep(graph, [])
    codes = tuple(rng.integers(states[v], size=ROWS).astype(np.int8) for v in graph.observed)
    rows = pack_rows(estep, Rows(codes))
    spent, sums = [], []
    for wish in ("off", "on"):
        os.environ["LATENTIA_KERNEL"] = wish
        sums.append(packed_counts(estep, tables, rows).sums)
        spent.append(1e9 * cpu(lambda: packed_counts(estep, tables, rows)) / ROWS)
    apart = max(np.abs(x - sums[1][n]).max() / np.abs(x).max() for n, x in sums[0].items())
    print(f"| {name} | {spent[0]:.0f} | {spent[1]:.0f} | {apart:.0e} |", flush=True)


def wide(count: int, columns: int, states: int) -> None:
    rng = np.random.default_rng(0)
    order = tuple(range(count))
    tree = RootedTree(above=tuple(range(-1, count - 1)), order=order)
    own = tuple(tuple(range(i * columns, (i + 1) * columns)) for i in order)
    islands = Islands(own, tree, (-1,) * (count * columns))
    layout = island_layout(islands, (2,) * (count * columns), states)
    codes = rng.integers(2, size=(8000, count * columns))
    phi = layout.of_rows(codes)
    climb = IslandClimb(layout, Known(codes), Known(codes[:100]), 1.0, 0)
    tables, some = climb.best_tables, [p[:1000] for p in phi]
    room = IslandRoom()
    step = 1e6 * cpu(lambda: island_counts(layout, tables, some, None, room))
    alone = 1e6 * cpu(lambda: products(layout, tables, some))
    climb.advance(1, watched=False)
    batches = 1e9 * cpu(climb._epoch, 3) / len(codes)
    told = f"{step:.0f} | {alone:.0f} | {step / alone:.1f} | {batches:.0f}"
    print(f"| {count} of {columns} binary columns, {states} states | {told} |", flush=True)


def products(layout: IslandLayout, tables: IslandTables, phi: list[np.ndarray]) -> None:
    """The matrix products of an E-step, and nothing else."""
    messages = [np.ones((k, len(phi[0])), np.float32) for k in layout.states]
    for i, link in enumerate(tables.links):
        tables.weights[i].T @ phi[i].T
        messages[i] @ phi[i]
        if i:
            link @ messages[i]
            link.T @ messages[i - 1]
            messages[i - 1] @ messages[i].T


def main() -> None:
    os.environ["LATENTIA_KERNEL"] = "on"
    lt.show_config()
    print("\n| E-step, ns a row | numpy | kernel | difference |\n|---|---|---|---|")
    for name in CASES:
        narrow(name)
    print("\n| islands, single precision | E-step, ns a row | products | ratio | mini-batches |")
    print("|---|---|---|---|---|")
    for case in ISLANDS:
        wide(*case)


if __name__ == "__main__":
    main()

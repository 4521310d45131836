"""How plan, fit and batch inference grow with rows, variables and rank.

A hidden Markov chain over int8 columns of 4 states. Run: python benchmarks/engine.py [--quick]
Seconds are the best of three runs (one beyond a million rows); a slope is that of log seconds over
the larger half of a sweep. Aims on 2 cores: 10⁶ rows × 16 variables of rank 4 fitted within 3 s,
and 10⁶ rows of evidence answered within 5 s.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from latentia import PBP, TabularModel, make_plan
from latentia.data.rows import Rows
from latentia.data.sources.all_cores import in_parallel
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.structure.templates import hidden_markov

SYMBOLS = 4
BLOCK = 2**12


def chain(length: int, rank: int, seed: int = 0) -> TabularModel:
    """Sticky transitions, so that neighbours tell something of each other."""
    rng = np.random.default_rng(seed)
    graph = hidden_markov(length, rank).with_states({f"X{t}": SYMBOLS for t in range(length)})
    cpts = {"H0": np.full(rank, 1 / rank)}
    for t in range(length):
        if t:
            cpts[f"H{t}"] = 0.6 * np.eye(rank) + 0.4 * rng.dirichlet(np.ones(rank), size=rank)
        cpts[f"X{t}"] = rng.dirichlet(np.full(SYMBOLS, 0.5), size=rank)
    return TabularModel(graph, cpts)


def sample(model: TabularModel, n: int, seed: int = 1) -> Rows:
    """Columns of int8, drawn in parts so that memory stays small."""
    rng = np.random.default_rng(seed)
    parts = [model.sample(min(2**18, n - s), rng).astype(np.int8) for s in range(0, n, 2**18)]
    return Rows(tuple(np.concatenate([p[:, i] for p in parts]) for i in range(parts[0].shape[1])))


def best(call: Callable[[], object], repeats: int) -> float:
    """Least seconds of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(length: int, rank: int, n: int) -> tuple[float, float, float, float]:
    """Seconds to plan, to fit, to score n rows and to answer every column of n rows."""
    model = chain(length, rank)
    rows = sample(model, n)
    repeats = 1 if n > 10**6 else 3
    graph = model.graph
    planning = best(lambda: make_plan(graph), 1)
    plan = make_plan(graph)
    source = LocalRows(rows)
    fitting = best(lambda: PBP(refine=False).learn(plan, source), repeats)
    operators = PBP(refine=False).learn(plan, source)
    v = plan.graph.observed[length // 2]

    def infer(columns: list[int] | None) -> None:
        def block(s: int) -> None:
            seen = read_evidence(plan, [c[s : s + BLOCK] for c in rows.codes])
            answer(operators, seen, columns)

        for _ in in_parallel(block, range(0, n, BLOCK)):
            pass

    return planning, fitting, best(lambda: infer([v]), repeats), best(lambda: infer(None), repeats)


def sweep(title: str, points: list[tuple[int, int, int]], which: int) -> None:
    """Print one table and its slopes."""
    print(f"\n### {title}\n")
    print("| rows | variables | rank | plan s | fit s | one posterior s | all posteriors s |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    found = []
    for length, rank, n in points:
        seconds = measure(length, rank, n)
        found.append(seconds)
        cells = " | ".join(f"{s:.3f}" for s in seconds)
        print(f"| {n:,} | {length} | {rank} | {cells} |", flush=True)
    half = len(points) // 2
    x = np.log([p[which] for p in points[half:]])
    slopes = [np.polyfit(x, np.log([f[c] for f in found[half:]]), 1)[0] for c in range(4)]
    print("| slope | | | " + " | ".join(f"{s:.2f}" for s in slopes) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute instead of ten")
    quick = parser.parse_args().quick
    most = 5 if quick else 7
    base = 10**4 if quick else 10**5
    sweep("Rows", [(16, 4, 10**e) for e in range(3, most + 1)], 2)
    lengths = [4, 8, 16, 32, 64] if quick else [4, 8, 16, 32, 64, 128, 256]
    sweep("Variables", [(length, 4, base) for length in lengths], 0)
    sweep("Rank", [(16, rank, base) for rank in (2, 4, 8, 16)], 1)


if __name__ == "__main__":
    main()

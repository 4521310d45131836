"""Rows of `limits.py` about learning by EM: E-steps, wide latents, mini-batches, whole fits."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import limits
import numpy as np
from limits import ISSUE_PASS, Line, bare_pass, seconds

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.estep import pack_rows, packed_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.networks.em_problem import PACKED_ROWS, pose
from latentia.networks.stepwise_passes import Run, first_sums, one_pass
from latentia.structure import templates

COLUMN_STATES = 4
PROTOTYPE = {"class 4×10": 9.0, "chain 8×4": 60.0, "tree of 7": 39.0, "chain 16×8": 340.0}
OUTSIDE = ("class", "chain")  # structures that rivals can learn, too


def _drawn(graph: lt.LatentGraph, n: int, seed: int = 0) -> tuple[dict[int, Any], Rows]:
    """Random tables of a graph, and rows drawn from them."""
    rng = np.random.default_rng(seed)
    states = [count or 1 for count in graph.states]
    tables = {
        v: rng.dirichlet(np.ones(states[v]), size=[states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }
    model = lt.TabularModel(graph, {graph.names[v]: t for v, t in tables.items()})
    codes = model.sample(n, rng).astype(np.int8)
    return tables, Rows(tuple(np.ascontiguousarray(c) for c in codes.T))


def _sized(graph: lt.LatentGraph, states: int) -> lt.LatentGraph:
    return graph.with_states({graph.names[v]: states for v in graph.observed})


def _nanoseconds(graph: lt.LatentGraph, n: int, single: bool = False) -> float:
    """An E-step, a row; packing the codes is done once for many of them and not counted."""
    tables, rows = _drawn(graph, n)
    wired = compile_estep(graph, ())
    packed = LocalRows(pack_rows(wired, rows), PACKED_ROWS, threads=1)  # as EM has them
    step = partial(packed_counts, wired, tables, single=single)
    return 1e9 * seconds(lambda: packed.fold(step), 9) / n


def estep() -> Iterator[Line]:
    """Nanoseconds a row against those of a prototype in C on its own machine.

    And at the speed of this run, as a bare pass tells: that says little where memory, not
    arithmetic, is what differs (docs/benchmarks.md has the prototype beside ours on one machine).
    """
    codes = np.random.default_rng(0).integers(4, size=(16, 10**6), dtype=np.int8)
    slower = ISSUE_PASS / bare_pass(list(codes))
    n = 10**4 if limits.QUICK else 10**5
    graphs = {
        "class 4×10": templates.latent_class(10, 4),
        "chain 8×4": templates.hidden_markov(8, 4),
        "tree of 7": templates.latent_tree([[["a", "b"], ["c", "d"]], [["e", "f"], ["g", "h"]]], 3),
        "chain 16×8": templates.hidden_markov(16, 8),
    }
    for name, graph in graphs.items():
        took = _nanoseconds(_sized(graph, COLUMN_STATES), n)
        yield Line(f"E-step, {name}", took, PROTOTYPE[name], "ns/row", 1.5)
        yield Line(
            "… at the speed of this run's bare pass", took, slower * PROTOTYPE[name], "ns/row", None
        )


def _islands(count: int, columns: int, k: int) -> lt.LatentGraph:
    """A balanced tree of latents with so many binary columns each."""
    edges = [(f"H{(i - 1) // 2}", f"H{i}") for i in range(1, count)]
    edges += [(f"H{i}", f"X{i}_{j}") for i in range(count) for j in range(columns)]
    return _sized(lt.as_graph(edges, {f"H{i}": k for i in range(count)}), 2)


def _products(count: int, columns: int, k: int, n: int) -> float:
    """Seconds of the matrix products alone, single precision: up, across and down."""
    rng = np.random.default_rng(0)
    phi = rng.random((n, columns)).astype(np.float32)
    W, link = (rng.random((m, k)).astype(np.float32) for m in (columns, k))
    belief = rng.random((n, k)).astype(np.float32)

    def run() -> None:
        for _ in range(count):
            phi @ W, belief @ link, belief @ link.T
            belief.T @ phi, belief.T @ belief

    return seconds(run, 9)


WIDE = ((12, 8, 32), (12, 8, 64), (6, 16, 128))


def wide() -> Iterator[Line]:
    """Latents of many states: the exact E-step against its products alone, both in singles."""
    n = 2048 if limits.QUICK else 8192
    for count, columns, k in WIDE:
        took = _nanoseconds(_islands(count, columns, k), n, single=True)
        floor = 1e9 * _products(count, columns, k, n) / n
        yield Line(f"E-step, {count} islands of {columns}, k = {k}", took, floor, "ns/row", 2.0)


def online() -> Iterator[Line]:
    """Mini-batch EM, 500 rows a step: a pass of `StepwiseEM` that learns, M-steps included.

    The bar of 2,000 ns is of a machine whose products take 583: 3.43 times them.
    """
    n = 2000 if limits.QUICK else 8000
    for count, columns, k in WIDE[:2]:  # the third has no plan, and is learned in pieces
        graph = _islands(count, columns, k)
        start, rows = _drawn(graph, n)
        problem = pose(lt.make_plan(graph), LocalRows(rows, threads=1))
        run, rng = Run(start, first_sums(problem, start), 0.0, ()), np.random.default_rng(0)
        took = seconds(lambda p=problem, r=run, g=rng: one_pass(p, r, 0, 0.6, 500, g), 5)
        what = f"mini-batch EM, {count} islands of {columns}, k = {k}"
        floor = 1e9 * _products(count, columns, k, n) / n
        yield Line(f"{what}, its products", 1e9 * took / n, floor, "ns/row", 3.43)
        yield Line("… against the prototype's machine", 1e9 * took / n, 990.0, "ns/row", None)


# --- whole fits -----------------------------------------------------------------------------------


def outside() -> Iterator[Line]:
    """Times faster than others, whole default fits from arrays to a model that answers."""
    from accuracy import STRUCTURES
    from reference_em import reference_seconds

    sizes = (1000,) if limits.QUICK else (1000, 10_000, 100_000)
    ratios = []
    for name, (graph, _) in STRUCTURES.items():
        for n in sizes:
            _, rows = _drawn(graph, n, seed=7)
            frame = {
                str(graph.names[v]): c for v, c in zip(graph.observed, rows.codes, strict=True)
            }
            lt.LatentModel(graph).fit({c: x[:200] for c, x in frame.items()})  # all is loaded
            own = seconds(lambda g=graph, f=frame: lt.LatentModel(g).fit(f), 2)
            ratios.append(reference_seconds(graph, frame) / own)
            what = f"fit of {name}, {n:,} rows, against the reference EM"
            yield Line(what, ratios[-1], None, "×", 20.0, more=True)
            if name in OUTSIDE:
                yield from _rivals(name, graph, frame, n, own)
    middle = statistics.median(ratios)
    yield Line("… the median of these", middle, None, "×", 50.0, more=True)


def _rivals(name: str, graph: Any, frame: dict[str, Any], n: int, own: float) -> Iterator[Line]:
    X = np.column_stack(list(frame.values())).astype(np.int64)
    k = graph.states[min(graph.latent)]
    if name == "class":
        from stepmix.stepmix import StepMix

        quiet = {"verbose": 0, "progress_bar": 0, "random_state": 0}
        rival = StepMix(k, measurement="categorical", n_init=10, max_iter=200, **quiet)
        took = seconds(lambda: rival.fit(X), 1)
        yield Line(f"… against StepMix, ten starts, {n:,} rows", took / own, None, "×", None, True)
    if name == "chain":
        from hmmlearn.hmm import CategoricalHMM

        one = CategoricalHMM(k, n_iter=200, tol=1e-6 * n, random_state=0, implementation="scaling")
        took = 10 * seconds(lambda: one.fit(X.reshape(-1, 1), [X.shape[1]] * n), 1)
        what = f"… against hmmlearn × 10 (ties its steps), {n:,} rows"
        yield Line(what, took / own, None, "×", None, True)


MORE: dict[str, Callable[[], Iterator[Line]]] = {
    "estep": estep,
    "wide": wide,
    "online": online,
    "outside": outside,
}

"""Answers for many rows, P(x8 | all others): ours, its bare products, pyAgrum and pgmpy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scale_setup import CLOSED, STATES, chain, clocked, head, line

import latentia as lt
from latentia.data.sources.all_cores import in_parallel
from latentia.testing.random_models import random_model

TARGET = "x8"
STEP = 4096


def answering(rows: int) -> None:
    """Rows per CPU second. The other libraries get the tables that EM learned, and so do we."""
    warnings.simplefilter("ignore")  # EM stops early: any tables do
    graph, names = chain(16, 4)
    truth = random_model(graph.with_states(dict.fromkeys(names, STATES)), np.random.default_rng(0))
    codes = truth.sample(rows, 3).astype(np.int8)
    frame = dict(zip(names, np.ascontiguousarray(codes.T), strict=True))
    some = {name: column[:20_000] for name, column in frame.items()}
    closed = lt.LatentModel(graph, learner=CLOSED).fit(some)
    em = lt.LatentModel(graph, learner=lt.EM(restarts=1, max_iter=5, random_state=0)).fit(some)
    head(
        f"Answers: P({TARGET} | 15 others), {rows:.0e} rows of 16 columns × 4 states, rank 4",
        *("who", "rows per CPU second", "of the bare products", "largest difference"),
    )
    limit = rows / clocked(partial(bare_messages, closed.operators_, rows), 3)[1]
    line("the bare matrix products", f"{limit:,.0f}", "1", "")
    speeds = {}
    for name, model in (("closed form", closed), ("EM's tables", em)):
        exact = model.predict_proba(frame, TARGET)
        for what, dtype in (("double", None), ("single", "float32")):
            ask = partial(model.predict_proba, frame, TARGET, dtype=dtype)
            speed = rows / clocked(ask, 3)[1]
            speeds[name, what] = speed
            found = ask()
            gap = max(float(np.abs(exact[s] - found[s]).max()) for s in exact)
            line(f"ours, {name}, {what}", f"{speed:,.0f}", f"{speed / limit:.2f}", f"{gap:.0e}")
    every = rows / clocked(lambda: closed.marginals(frame))[1]
    line("ours, closed form, all 16 columns of a row", f"{every:,.0f}", "", "")
    ours = em.predict_proba({n: c[:200] for n, c in frame.items()}, TARGET)
    ours_table = np.stack([ours[s] for s in ours], axis=1)
    tables = {graph.names[v]: em.operators_.tables[v] for v in range(len(graph.names))}
    for library in (pyagrum_answers, pgmpy_answers):
        name = library.__name__.removesuffix("_answers")
        try:
            speed, found = measured(library, em.operators_.plan.graph, tables, codes[:200])
        except ImportError:
            line(name, "not installed", "", "")
            continue
        gap = float(np.abs(found - ours_table[: len(found)]).max())
        times = speeds["EM's tables", "double"] / speed
        line(f"{name}, EM's tables", f"{speed:,.0f}", f"ours: {times:,.0f} ×", f"{gap:.0e}")


def bare_messages(operators: Any, rows: int) -> None:
    """The products of one pass up and the way down to one leaf, in blocks, without the rest."""
    plan = operators.plan
    messages = np.random.default_rng(0).normal(size=(4, STEP))
    matrices = [
        np.ascontiguousarray(operators.tensors[k].reshape(-1, operators.tensors[k].shape[-1]).T)
        for k in plan.inner
    ]
    # down: once for every node from below the root to the target's leaf
    column = plan.graph.index(TARGET)
    k = next(k for k in plan.leaves if column in plan.nodes[k].columns)
    depth = 0
    while plan.nodes[k].parent != k:
        depth, k = depth + 1, plan.nodes[k].parent

    def block(_: int) -> None:
        for matrix in (*matrices, *matrices[:depth]):
            size = round(matrix.shape[1] ** 0.5)
            pair = messages[:size, None, :] * messages[None, :size, :]
            matrix @ pair.reshape(-1, STEP)[: matrix.shape[1]]

    for _ in in_parallel(block, range(0, rows, STEP)):
        pass


Asking = Callable[[Sequence[int]], Any]


def measured(
    library: Callable[..., Asking], graph: Any, tables: Any, codes: Any
) -> tuple[float, Any]:
    """Rows per CPU second of asking row by row, and the answers."""
    ask = library(graph, tables)
    names = [str(graph.names[v]) for v in graph.observed]
    rows = [{n: int(x) for n, x in zip(names, row, strict=True) if n != TARGET} for row in codes]
    ask(rows[0])
    found: list[Any] = []
    _, cpu = clocked(lambda: found.extend(ask(row) for row in rows))
    return len(rows) / cpu, np.asarray(found)


def pyagrum_answers(graph: Any, tables: Any) -> Callable[[dict[str, int]], Any]:
    import pyagrum as gum

    network = gum.BayesNet()
    for v, name in enumerate(graph.names):
        network.add(gum.LabelizedVariable(str(name), "", graph.states[v]))
    for a, b in graph.edges:
        network.addArc(str(graph.names[a]), str(graph.names[b]))
    for v, above in enumerate(graph.parents()):
        assert len(above) <= 1  # else the axes may need another order
        network.cpt(str(graph.names[v]))[:] = np.asarray(tables[graph.names[v]])
    engine = gum.LazyPropagation(network)
    engine.addTarget(TARGET)

    def ask(row: dict[str, int]) -> Any:
        engine.setEvidence(row)
        engine.makeInference()
        return engine.posterior(TARGET).toarray()

    return ask


def pgmpy_answers(graph: Any, tables: Any) -> Callable[[dict[str, int]], Any]:
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    network = DiscreteBayesianNetwork(
        [(str(graph.names[a]), str(graph.names[b])) for a, b in graph.edges]
    )
    for v, above in enumerate(graph.parents()):
        table = np.asarray(tables[graph.names[v]])
        flat = table.reshape(-1, table.shape[-1]).T
        parents = [str(graph.names[u]) for u in above]
        sizes = [graph.states[u] for u in above]
        network.add_cpds(
            TabularCPD(str(graph.names[v]), table.shape[-1], flat, parents or None, sizes or None)
        )
    engine = VariableElimination(network)

    def ask(row: dict[str, int]) -> Any:
        return engine.query([TARGET], row, show_progress=False).values

    return ask

"""EM and exact inference against the public libraries that have them, side by side in one run.

Run: python benchmarks/rivals.py [--quick] [--only NAME]. Needs stepmix, pgmpy, pyagrum, hmmlearn.
NAME is one of these, or "exact" for inference alone. EM: same rows, same start.

Seconds per iteration are the difference of two runs with few and with more iterations, divided by
the difference of their iterations, so that reading the data does not count. Seconds to convergence
are those of a whole fit, from arrays to a model that answers questions, until an iteration gains
less than 1e-6 in log-likelihood per row; a rival whose own rule differs runs for as many iterations
as that takes. Figures marked ~ are extrapolated from the seconds per iteration. All are medians of
repeats that take turns; a ratio above one says how many times latentia is faster. One start each.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import rivals_exact

import latentia as lt
from latentia import EM, LatentGraph, LatentModel, TabularModel
from latentia.networks.starts import random_tables
from latentia.structure.templates import hidden_markov, latent_class

TOL = 1e-6


@dataclass(frozen=True)
class Case:
    """A table, a start, and a rival that climbs from it for so many iterations."""

    name: str
    rival: str
    graph: LatentGraph
    data: dict[str, Any]
    start: dict[str, Any]
    run: Callable[[int], float]  # iterations -> log-likelihood per row of the last E-step, or NaN
    few: int  # iterations of the short and the long run of the rival
    many: int
    whole: bool = True  # run the rival to convergence, or only extrapolate
    same: bool = True  # the same model, so that convergence can be compared


def model_of(case: Case, iterations: int, tol: float) -> LatentModel:
    learner = EM(init=case.start, max_iter=iterations, tol=tol)
    return LatentModel(case.graph, learner=learner).fit(case.data)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def measure(case: Case, repeats: int) -> list[str]:
    """One row of the table."""
    ours, theirs, whole_ours, whole_theirs = [], [], [], []
    iterations = model_of(case, 10_000, TOL).n_iter_ if case.same else 0
    gap = float("nan")
    for _ in range(repeats):
        short, _ = seconds(lambda: model_of(case, 5, 0.0))
        long, _ = seconds(lambda: model_of(case, 105, 0.0))
        ours.append((long - short) / 100)
        short, _ = seconds(lambda: case.run(case.few))
        long, _ = seconds(lambda: case.run(case.many))
        theirs.append((long - short) / (case.many - case.few))
        total, model = seconds(lambda: model_of(case, 10_000 if case.same else 1, TOL))
        whole_ours.append(total)
        if case.whole:
            # the rival's last E-step looks at the tables of one iteration before
            total, level = seconds(lambda: case.run(iterations + 1))
            whole_theirs.append(total)
            gap = abs(level - model.history_[0][-1])
    a, b, c = (statistics.median(x) for x in (ours, theirs, whole_ours))
    d = statistics.median(whole_theirs) if case.whole else b * iterations
    mark = "" if case.whole else "~"
    row = [case.name, case.rival, f"{1e3 * a:.3f}", f"{1e3 * b:.3f}", f"{b / a:,.1f}"]
    if not case.same:
        return [*row, *["–"] * 4, "another model: it ties the tables of all steps"]
    told = "–" if np.isnan(gap) else f"{gap:.0e}"
    return [*row, str(iterations), f"{c:.3f}", f"{mark}{d:.3f}", f"{mark}{d / c:,.1f}", told]


# --- tables and starts ----------------------------------------------------------------------------


def sampled(model: TabularModel, n: int, seed: int) -> dict[str, Any]:
    codes = model.sample(n, seed).astype(np.int8)
    names = [str(model.names[v]) for v in model.graph.observed]
    return {name: np.ascontiguousarray(codes[:, i]) for i, name in enumerate(names)}


def overlapping(graph: LatentGraph, seed: int) -> TabularModel:
    """Random tables in which states are told apart, but not by one column alone."""
    rng = np.random.default_rng(seed)
    states = [count or 1 for count in graph.states]
    cpts = {}
    for v, above in enumerate(graph.parents()):
        cpts[graph.names[v]] = rng.dirichlet(np.ones(states[v]), size=[states[u] for u in above])
    return TabularModel(graph, cpts)


def random_start(graph: LatentGraph, seed: int) -> dict[str, Any]:
    tables = random_tables(graph, np.random.SeedSequence(seed))
    return {str(graph.names[v]): table for v, table in tables.items()}


# --- rivals ---------------------------------------------------------------------------------------


def stepmix_case(n: int, items: int) -> Case:
    """A latent class model with binary items; StepMix draws its own start, which we take over."""
    from stepmix.stepmix import StepMix

    graph = latent_class(items, 3).with_states({f"X{i}": 2 for i in range(items)})
    data = sampled(overlapping(graph, 1), n, 2)
    X = np.column_stack(list(data.values()))

    def fitted(iterations: int) -> Any:
        quiet = {"verbose": 0, "progress_bar": 0, "random_state": 0}
        model = StepMix(
            3, measurement="binary", max_iter=iterations, abs_tol=0.0, rel_tol=0.0, **quiet
        )
        return model.fit(X)

    # its first iteration is an M-step from random responsibilities: our start is what it found
    first = fitted(1).get_parameters()
    start: dict[str, Any] = {"H": np.asarray(first["weights"]) / np.sum(first["weights"])}
    for i, p in enumerate(np.asarray(first["measurement"]["pis"]).T):
        start[f"X{i}"] = np.column_stack([1 - p, p])
    return Case(
        f"latent class, {n:,} × {items} binary, 3 classes",
        "StepMix",
        graph,
        data,
        start,
        lambda iterations: float(fitted(iterations + 1).lower_bound_),
        few=2,
        many=12,
    )


def pgmpy_case(quick: bool) -> Case:
    import pandas as pd
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteEM

    graph = latent_class(6, 3).with_states({f"X{i}": 2 for i in range(6)})
    data = sampled(overlapping(graph, 3), 1000, 4)
    start = random_start(graph, 5)
    frame = pd.DataFrame(data)
    names = [f"X{i}" for i in range(6)]

    def run(iterations: int) -> float:
        known = {name: [0, 1] for name in names} | {"H": [0, 1, 2]}
        cpds = {"H": TabularCPD("H", 3, start["H"][:, None], state_names={"H": [0, 1, 2]})}
        for name in names:
            both = {name: [0, 1], "H": [0, 1, 2]}
            cpds[name] = TabularCPD(name, 2, start[name].T, ["H"], [3], state_names=both)
        network = DiscreteBayesianNetwork([("H", name) for name in names], latents={"H"})
        DiscreteEM(
            state_names=known,
            latent_card={"H": 3},
            max_iter=iterations,
            atol=0.0,
            init_cpds=cpds,
            show_progress=False,
        ).fit(network, frame)
        return float("nan")

    few, many = (1, 3) if quick else (2, 8)
    return Case(
        "latent class, 1,000 × 6 binary, 3 classes",
        "pgmpy",
        graph,
        data,
        start,
        run,
        few,
        many,
        whole=False,
    )


def pyagrum_case(quick: bool, loop: bool) -> Case:
    """Four latents in a chain, three columns on each; its own EM, or a loop over its inference.

    BNLearner infers once for every row and every table; an EM of our own around one inference per
    row, with the pairs of latents as its targets, is the fastest use of pyAgrum that we know.
    """
    import pandas as pd
    import pyagrum as gum

    edges = [(f"H{t}", f"H{t + 1}") for t in range(3)]
    edges += [(f"H{t}", f"X{t}{i}") for t in range(4) for i in range(3)]
    graph = lt.as_graph(edges, {f"H{t}": 3 for t in range(4)})
    graph = graph.with_states({graph.names[v]: 3 for v in graph.observed})
    data = sampled(overlapping(graph, 6), 2000, 7)
    start = random_start(graph, 8)
    bn = gum.BayesNet()
    for v, name in enumerate(graph.names):
        bn.add(gum.LabelizedVariable(name, "", graph.states[v]))
    for a, b in graph.edges:
        bn.addArc(graph.names[a], graph.names[b])
    fill_pyagrum(bn, graph, start)
    frame = pd.DataFrame({name: codes.astype(str) for name, codes in data.items()})
    for t in range(4):
        frame[f"H{t}"] = "?"

    def learner(iterations: int) -> float:
        learner = gum.BNLearner(frame, bn, ["?"])
        learner.useEM(1e-300, 0.0)
        learner.EMsetMaxIter(iterations)
        learner.learnParameters(bn)
        return float("nan")

    def looped(iterations: int) -> float:
        return pyagrum_loop(gum, bn, graph, start, data, iterations)

    few, many = (1, 2) if quick else (1, 4)
    return Case(
        "chain of 4 latents, 12 columns, 2,000 rows",
        "pyAgrum, inference in a loop" if loop else "pyAgrum, BNLearner",
        graph,
        data,
        start,
        looped if loop else learner,
        few,
        many,
        whole=False,
    )


def fill_pyagrum(bn: Any, graph: LatentGraph, tables: dict[str, Any]) -> None:
    for v, above in enumerate(graph.parents()):
        cpt = bn.cpt(graph.names[v])
        if not above:
            cpt.fillWith(tables[graph.names[v]].tolist())
        for k in range(3 if above else 0):
            cpt[{graph.names[above[0]]: k}] = tables[graph.names[v]][k].tolist()


def pyagrum_loop(
    gum: Any, bn: Any, graph: LatentGraph, start: dict[str, Any], data: Any, iterations: int
) -> float:
    """EM on the chain with one inference per row; the level of the last E-step."""
    tables, n, level = start, len(next(iter(data.values()))), float("nan")
    cells = {name: codes.tolist() for name, codes in data.items()}
    pairs = [(f"H{t}", f"H{t + 1}") for t in range(3)]
    for _ in range(iterations):
        fill_pyagrum(bn, graph, tables)
        engine = gum.ShaferShenoyInference(bn)
        for pair in pairs:
            engine.addJointTarget(set(pair))
        engine.setEvidence({name: codes[0] for name, codes in cells.items()})
        joint, logs = np.empty((3, n, 3, 3)), np.empty(n)
        for i in range(n):
            for name, codes in cells.items():
                engine.chgEvidence(name, codes[i])
            engine.makeInference()
            logs[i] = np.log(engine.evidenceProbability())
            for t, pair in enumerate(pairs):
                found = engine.jointPosterior(set(pair))
                joint[t, i] = found.toarray() if found.names[-1] == pair[0] else found.toarray().T
        # pyAgrum's arrays have their last variable first: axes (H_t, H_t+1)
        level = float(logs.mean())
        counts = {"H0": joint[0].sum(axis=(0, 2))}
        counts |= {f"H{t + 1}": joint[t].sum(axis=0) for t in range(3)}
        for t in range(4):
            own = joint[t].sum(axis=2) if t < 3 else joint[2].sum(axis=1)  # (n, states)
            for i in range(3):
                hot = np.eye(3)[data[f"X{t}{i}"]]
                counts[f"X{t}{i}"] = own.T @ hot
        tables = {name: c / c.sum(axis=-1, keepdims=True) for name, c in counts.items()}
    fill_pyagrum(bn, graph, start)
    return level


def hmmlearn_case(n: int, length: int) -> Case:
    """The same chain, but hmmlearn ties the tables of all steps: seconds per iteration only."""
    from hmmlearn.hmm import CategoricalHMM

    graph = hidden_markov(length, 3).with_states({f"X{t}": 8 for t in range(length)})
    data = sampled(overlapping(graph, 9), n, 10)
    X = np.column_stack(list(data.values())).astype(np.int64).reshape(-1, 1)
    lengths = [length] * n

    def run(iterations: int) -> float:
        model = CategoricalHMM(
            3,
            n_iter=iterations,
            tol=-np.inf,
            random_state=0,
            n_features=8,
            implementation="scaling",
        )
        model.fit(X, lengths)
        return float("nan")

    return Case(
        f"chain of {length}, 3 states, 8 symbols, {n:,} rows",
        "hmmlearn",
        graph,
        data,
        random_start(graph, 11),
        run,
        few=2,
        many=22,
        whole=False,
        same=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes instead of half an hour")
    parser.add_argument("--only", default="", help="name of one rival")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    quick = given.quick
    cases: list[tuple[str, Callable[[], Case]]] = [
        ("stepmix", lambda: stepmix_case(200_000, 10)),
        ("stepmix", lambda: stepmix_case(20_000, 30)),
        ("pgmpy", lambda: pgmpy_case(quick)),
        ("pyagrum", lambda: pyagrum_case(quick, loop=True)),
        ("pyagrum", lambda: pyagrum_case(quick, loop=False)),
        ("hmmlearn", lambda: hmmlearn_case(400, 30)),
        ("hmmlearn", lambda: hmmlearn_case(2_000, 50)),
    ]
    head = [
        *("model", "rival", "latentia ms / iteration", "rival ms / iteration", "ratio"),
        *("iterations", "latentia s to convergence", "rival s", "ratio", "levels differ by"),
    ]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for name, make in cases:
        if given.only in ("", name):
            case = make()
            slow = "BNLearner" in case.rival  # ten seconds an iteration
            row = measure(case, 1 if slow else 3 if quick else 7)
            print("| " + " | ".join(row) + " |", flush=True)
    if given.only in ("", "exact"):
        print("\n| " + " | ".join(rivals_exact.HEAD) + " |\n|" + "---|" * 5, flush=True)
        for row in rivals_exact.measure_all(quick):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()

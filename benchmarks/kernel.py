"""Continuous columns measured: speed of the finite form against the Gram form and EM, accuracy.

Run: python benchmarks/kernel.py [--quick] [--only fit|score|rows|accuracy]
  fit       ten digit models by each learner, settings given; ratios to the finite form
  score     log densities of the test rows under those models
  rows      fit of one chain from 700 to 70,000 rows; slope of log seconds
  accuracy  KL to exact posteriors of testing.mixed_tree at 500, 2,000 and 8,000 rows
Without --only: fit, score and rows, each with its aim and whether it was met; a few minutes.
Seconds are CPU seconds of this process with BLAS on one thread: the machine may be shared.
Digits are read as `latentia.datasets` reads them (LATENTIA_DATA, or the cache), never fetched.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import read_evidence
from latentia.inference.many_rows import block_rows
from latentia.inference.operators import Operators
from latentia.kernels.gram import PublishedKernel
from latentia.linear_algebra import one_thread
from latentia.model.mixed_plans import prepare_mixed
from latentia.structure.reading_graphs import as_graph

POINTS = 8
NAMES = [f"{c}{t}" for t in range(POINTS) for c in "xy"]
CHAIN = "; ".join(
    [f"H{t}->H{t + 1}" for t in range(POINTS - 1)]
    + [f"H{t}->{c}{t}" for t in range(POINTS) for c in "xy"]
)
LATENTS = [f"H{t}" for t in range(POINTS)]
FIXED = lt.KernelSettings(features=100)  # landmarks; the rest as it comes
PUBLISHED = PublishedKernel(sigma=10.0, units="own", ridge=(0.1, 0.1), inside=2, outside=12)


def read_digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Training and test rows, 16 coordinates and the digit; None where the data are not there."""
    if not lt.datasets.available(["pendigits"]):
        return None
    found = lt.datasets.pendigits()
    rows = np.column_stack([found.data, found.target])
    first = found.parts["test"].start
    return rows[:first], rows[first:]


class Digits:
    """Grids of all rows, one plan, a model per digit; as a classifier would do it."""

    def __init__(self, rows: np.ndarray[Any, Any], learner: Any, latents: Any = LATENTS) -> None:
        graph = as_graph(CHAIN, latents)
        names = [str(graph.names[v]) for v in graph.observed]
        columns = [
            discover_from_values(n, Values(rows[:, NAMES.index(n)]), "continuous") for n in names
        ]
        self.plan, self.columns = prepare_mixed(graph, columns, learner)
        self.learner = learner

    def place(self, rows: np.ndarray[Any, Any]) -> Rows:
        """Positions on the grids."""
        return Rows(tuple(c.place(Values(rows[:, NAMES.index(str(c.name))])) for c in self.columns))

    def fit(self, rows: np.ndarray[Any, Any]) -> list[Operators]:
        return [
            self.learner.learn_mixed(
                self.plan, self.columns, LocalRows(self.place(rows[rows[:, 16] == d]), threads=1)
            )
            for d in range(10)
        ]

    def score(self, models: list[Operators], rows: np.ndarray[Any, Any]) -> Any:
        """(10, rows)."""
        placed = self.place(rows)
        out = np.empty((len(models), len(rows)))
        step = block_rows(models[0])
        for s in range(0, len(rows), step):
            seen = read_evidence(self.plan, placed[s : s + step].codes)  # one plan for all
            for model, own in zip(models, out, strict=True):
                own[s : s + step] = log_evidence(model, seen)[0]
        return out


def cpu(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Least CPU seconds of a few calls, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        found = call()
        seconds.append(time.process_time() - start)
    return min(seconds), found


FINITE, GRAM, EM = "finite, settings given", "Gram form", "EM, ten restarts, 6 states"


def speed(quick: bool, fit: bool = True, score: bool = True) -> None:
    both = read_digits()
    if both is None:
        print("fit, score: skipped, pen digits are not in LATENTIA_DATA or the cache")
        return
    train, test = both
    train, held = train[:7000], train[7000:]
    print(f"\nten digit models, {len(train)} rows; {len(test)} rows scored; held out: {len(held)}")
    print("learner                             fit s   ratio   score rows/s   ratio   held out")
    found: dict[str, tuple[float, float]] = {}
    for name, (learner, latents) in digit_learners(quick, fit).items():
        digits = Digits(train, learner, latents)
        repeats = 3 if fit and name in (FINITE, GRAM) else 1
        fitting, models = cpu(lambda d=digits: d.fit(train), repeats)
        scoring = cpu(lambda d=digits, m=models: d.score(m, test), 3)[0] if score else np.nan
        right = float((digits.score(models, held).argmax(axis=0) == held[:, 16]).mean())
        found[name] = fitting, scoring
        own = found[FINITE]
        print(
            f"{name:34} {fitting:6.2f}  {fitting / own[0]:6.2f}   {len(test) / scoring:12,.0f}  "
            f"{scoring / own[1]:6.2f}     {100 * right:.1f} %",
            flush=True,
        )
    if fit:
        judge("fit, Gram form over finite form", found[GRAM][0] / found[FINITE][0], 4.0)
        judge("fit, EM with ten restarts over it", found[EM][0] / found[FINITE][0], 4.0)
    if score:
        judge("scoring, Gram form over finite form", found[GRAM][1] / found[FINITE][1], 10.0)


def digit_learners(quick: bool, fit: bool) -> dict[str, tuple[Any, Any]]:
    """Each with its latents; those of a fit that takes long only where fits are asked for."""
    found: dict[str, tuple[Any, Any]] = {
        FINITE: (lt.PBP(kernel=FIXED, refine=False), LATENTS),
        GRAM: (lt.PBP.paper(kernel=PUBLISHED, form="gram"), LATENTS),
    }
    if fit:
        found[EM] = (lt.EM(restarts=10), dict.fromkeys(LATENTS, 6))
    if fit and not quick:
        limited = replace(PUBLISHED, rank=30, features=100)
        found["finite, as published"] = (lt.PBP.paper(kernel=limited), LATENTS)
        found["finite, settings on held-out rows"] = (lt.PBP(refine=False), LATENTS)
    return found


def judge(what: str, ratio: float, aim: float) -> None:
    verdict = "met" if ratio >= aim else "MISSED"
    print(f"  {what}: {ratio:.1f} x (aim: at least {aim:g} x): {verdict}", flush=True)


def rows_sweep(quick: bool) -> None:
    both = read_digits()
    if both is None:
        print("rows: skipped, pen digits are not in LATENTIA_DATA or the cache")
        return
    train, _ = both
    rng = np.random.default_rng(0)
    sizes = (700, 2200, 7000, 22_000) + (() if quick else (70_000,))
    learner = lt.PBP(kernel=FIXED, refine=False)
    digits = Digits(train, learner)
    print("\nfit of one chain of 16 columns, settings given\n   rows      s   µs/row")
    seconds = []
    for n in sizes:
        rows = train[rng.integers(len(train), size=n)] + rng.uniform(-0.5, 0.5, (n, 17))
        placed = digits.place(rows)

        def fit(placed: Rows = placed) -> Operators:
            source = LocalRows(placed, threads=1)
            return learner.learn_mixed(digits.plan, digits.columns, source)

        took, _ = cpu(fit, 2)
        seconds.append(took)
        print(f"{n:7,} {took:6.2f}   {1e6 * took / n:6.1f}", flush=True)
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    steps = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
    verdict = "met" if steps.max() <= 1.1 else "MISSED"
    print(
        f"  slope of log seconds: {slope:.2f}, steepest step {steps.max():.2f} "
        f"(aim: linear, no step over 1.1): {verdict}"
    )


def accuracy(quick: bool) -> None:
    """Median over trees of the KL of p(x0 | x1, x3, d4, x5) and of P(d4 | x0, x3, x5)."""
    seeds = range(100, 103) if quick else range(100, 110)
    learners: dict[str, Callable[[], Any]] = {
        "PBP(refine=False)": lambda: lt.PBP(refine=False),
        "PBP(refine=True)": lambda: lt.PBP(refine=True),
        "PBP()": lt.PBP,
        "Gaussian EM, ten restarts": lambda: lt.EM(restarts=10),
    }
    print(f"\nmixed tree, median (worst) KL over {len(seeds)} trees, and CPU seconds of the fit")
    print("   rows  learner                      x0 | x1 x3 d4 x5     d4 | x0 x3 x5       fit s")
    for n in (500, 2000) if quick else (500, 2000, 8000):
        found: dict[str, list[tuple[float, float, float]]] = {}
        for seed in seeds:
            tree = lt.testing.mixed_tree(seed)
            rows = tree.sample(n, np.random.default_rng([seed, n]))
            test = tree.sample(1000, np.random.default_rng([seed, 1]))
            for name, make in learners.items():
                model = lt.LatentModel(tree.graph, tree.latents, make())
                fit, _ = cpu(lambda m=model, r=rows: m.fit(r))
                found.setdefault(name, []).append((*divergences(tree, model, test), fit))
            found.setdefault("marginal", []).append((*of_marginals(tree, model, rows, test), 0.0))
        for name, all_of in found.items():
            x, d, fit = np.asarray(all_of).T
            print(
                f"{n:7,}  {name:26} {np.median(x):8.4f} ({x.max():.4f})  "
                f"{np.median(d):8.4f} ({d.max():.4f})  {np.median(fit):8.2f}",
                flush=True,
            )


X0, D4 = ("x1", "x3", "d4", "x5"), ("x0", "x3", "x5")


def divergences(tree: Any, model: lt.LatentModel, test: Mapping[str, Any]) -> tuple[float, float]:
    """Mean KL to the exact posteriors, a density on a grid of its own and a table."""
    column = next(c for c in model.columns_ if c.name == "x0")
    q = _cells(model, {c: test[c] for c in X0}, "x0")
    p = _true_cells(tree, column, {c: test[c] for c in X0})
    r = _cells(model, {c: test[c] for c in D4}, "d4")
    s = tree.posterior("d4", {c: test[c] for c in D4}, range(4))
    return _kl(p, q), _kl(s, r)


def of_marginals(
    tree: Any, model: lt.LatentModel, rows: Mapping[str, Any], test: Mapping[str, Any]
) -> tuple[float, float]:
    """The same for answers that do not look at the evidence."""
    column = next(c for c in model.columns_ if c.name == "x0")
    p = _true_cells(tree, column, {c: test[c] for c in X0})
    q = np.asarray(model.query("x0"))[None]
    share = np.bincount(rows["d4"], minlength=4) / len(rows["d4"])
    return _kl(p, q), _kl(tree.posterior("d4", {c: test[c] for c in D4}, range(4)), share[None])


def _cells(model: lt.LatentModel, evidence: Mapping[str, Any], target: str) -> Any:
    """P(cells of the target | evidence): (n, cells)."""
    from latentia.data.sources.table import read_table
    from latentia.inference.many_rows import one_column

    place = [c.name for c in model.columns_].index(target)
    table = read_table(dict(evidence), [c.name for c in model.columns_])
    return one_column(model.operators_, model.columns_, table, place).T


def _true_cells(tree: Any, column: ContinuousColumn, evidence: Mapping[str, Any]) -> Any:
    """Exact masses of the cells: densities at five points of each, averaged."""
    fine = (np.arange(5) - 2) / 5 * column.step
    x = column.unscaled((column.grid[:, None] + fine).ravel())
    p = tree.posterior("x0", evidence, x) / column.slope(x)
    p = p.reshape(len(p), column.points, 5).mean(axis=2)
    return p / p.sum(axis=1, keepdims=True)


def _kl(p: Any, q: Any) -> float:
    return float((p * (np.log(p + 1e-300) - np.log(q + 1e-9))).sum(axis=1).mean())


PARTS: dict[str, Callable[[bool], None]] = {
    "fit": lambda quick: speed(quick, score=False),
    "score": lambda quick: speed(quick, fit=False),
    "rows": rows_sweep,
    "accuracy": accuracy,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="fewer learners, sizes and trees")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with one_thread():
        for part in (speed, rows_sweep) if given.only is None else (PARTS[given.only],):
            part(given.quick)


if __name__ == "__main__":
    main()

"""How right and how fast each learner is, over structures, kinds of tables and numbers of rows.

Run: python benchmarks/accuracy.py [--quick] [--cells WORD …] [--models K] [--budget MINUTES]
Finished results are kept, one line of JSON each, in --out (benchmarks/results/, which git ignores);
a second run goes on where the first stopped (`--anew`: starts again). The first models of all cells
come first, so that a run that is stopped has something to say of each. In the end the tables are
printed. `--docs docs` also writes docs/accuracy.md and its plot, and the summary that git keeps
(benchmarks/accuracy.csv); `--report` runs nothing, and reads the summary where --out is not there.

A model: random tables on a fixed structure, drawn again until the plain marginal is a bad answer
(its KL is at least .05). *Ordinary* tables have Dirichlet rows; *sharp* ones (near-deterministic)
give .9 to one state and spread .1 as the ordinary ones do. KL is that of P(column | all others)
from the truth's, the mean over all columns and 2,000 rows of evidence: drawn from the model
("weighted", by P(evidence)), or from all cells alike ("uniform"). Answers are floored at 1e-4;
evidence that is impossible for a model (EM without a prior) is answered by its marginals.
Reported seeds are 0, 1, 2, …; constants were chosen on seeds from 10,000 on.
Seconds are those of the processor, all threads added up, so that other work on the machine counts
little. Planning (the junction tree, the network of the refinement) is not part of a fit's seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_report import Summary, read_summary, summarise, tables, write_page, write_summary

from latentia import (
    EM,
    PBP,
    LatentGraph,
    Plan,
    Spectral,
    StepwiseEM,
    TabularModel,
    as_graph,
    make_plan,
)
from latentia.closed_form.state_counts import latent_states
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows, compress
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.inference.operators import Operators
from latentia.networks.accelerate import PSEUDO_COUNTS
from latentia.networks.discrete_network import plan_refinement
from latentia.networks.to_operators import operators_of
from latentia.structure import templates as t

FLOOR = 1e-4
EVIDENCE = 2000
IMPOSSIBLE = 1e-9  # times independence: less than this is impossible evidence
BAD_MARGINAL = 0.05
SHORT = 0.3  # seconds: then the best of three counts
KINDS = ("ordinary", "sharp")
SIZES = (500, 1_000, 10_000, 100_000, 1_000_000)
HERE = Path(__file__).resolve().parent
SUMMARY = HERE / "accuracy.csv"


# --- models ---------------------------------------------------------------------------------------


def _with_columns(graph: LatentGraph, states: int) -> LatentGraph:
    return graph.with_states({graph.names[v]: states for v in graph.observed})


DIAMOND = as_graph("A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H", dict.fromkeys("ABCF", 3))
TREE = t.latent_tree([["a", "b", ["c", "d"]], [["e", "f"], ["g", "h"]], ["i", "j"]], 3)
STRUCTURES: dict[str, tuple[LatentGraph, float]] = {  # and the concentration of ordinary tables
    "diamond": (_with_columns(DIAMOND, 5), 0.3),
    "tree": (_with_columns(TREE, 4), 0.3),
    "chain": (_with_columns(t.hidden_markov(8, 4), 6), 0.2),
    "loops": (_with_columns(t.grid(2, 4, 2), 4), 0.3),
    "factorial": (_with_columns(t.factorial_markov(6, 2, 2), 5), 0.2),
    "class": (_with_columns(t.latent_class(10, 4), 3), 0.5),
}


@dataclass(frozen=True)
class Case:
    """A true model, rows drawn from it, and evidence to be judged on."""

    plan: Plan
    truth: Operators
    source: LocalRows
    evidence: dict[str, list[Any]]  # weighted, uniform: codes of each column
    rows: int


@cache
def plan_of(structure: str) -> Plan:
    return make_plan(STRUCTURES[structure][0])


def draw_case(structure: str, kind: str, rows: int, seed: int) -> Case:
    plan = plan_of(structure)
    rng = np.random.default_rng([seed, *structure.encode(), *kind.encode()])
    while True:
        tables = draw_tables(plan.graph, rng, STRUCTURES[structure][1], kind)
        truth = operators_of(plan, tables, 1.0)
        model = TabularModel(plan.graph, {plan.graph.names[v]: x for v, x in tables.items()})
        seen = list(model.sample(EVIDENCE, rng).astype(np.int8).T)
        if divergence(truth, marginal_of(truth), seen) >= BAD_MARGINAL:
            break
    sizes = [plan.graph.states[v] or 1 for v in plan.graph.observed]
    cells = [rng.integers(m, size=EVIDENCE).astype(np.int8) for m in sizes]
    codes = model.sample(rows, np.random.default_rng([rows, seed])).astype(np.int8)
    data = Rows(tuple(np.ascontiguousarray(c) for c in codes.T))
    source = LocalRows(compress(data, sizes))
    return Case(plan, truth, source, {"weighted": seen, "uniform": cells}, rows)


def draw_tables(
    graph: LatentGraph, rng: np.random.Generator, concentration: float, kind: str
) -> dict[int, Any]:
    states, tables = [count or 1 for count in graph.states], {}
    for v, above in enumerate(graph.parents()):
        table = rng.dirichlet(np.full(states[v], concentration), size=[states[u] for u in above])
        table = 0.999 * table + 0.001 / states[v]
        if kind == "sharp":
            best = rng.integers(states[v], size=table.shape[:-1])
            table = 0.9 * np.eye(states[v])[best] + 0.1 * table
        tables[v] = table
    return tables


def marginal_of(truth: Operators) -> Callable[[list[Any]], dict[int, Any]]:
    shares = answer(truth, read_evidence(truth.plan, [None] * len(truth.plan.graph.observed)))
    return lambda seen: {v: np.tile(p, len(seen[0])) for v, p in shares.probabilities.items()}


def divergence(truth: Operators, model: Any, seen: list[Any]) -> float:
    """Mean over rows and columns of KL(P(column | others) ‖ the model's), floored."""
    found = posterior(truth, seen)
    other = model(seen) if callable(model) else posterior(possible(model), seen)
    total = []
    for v, w in zip(truth.plan.graph.observed, other, strict=True):
        p, q = found[v], np.maximum(other[w], FLOOR)
        q = q / q.sum(axis=0)
        total.append(float((p * np.log(np.maximum(p, 1e-300) / q)).sum(axis=0).mean()))
    return float(np.mean(total))


def possible(model: Operators) -> Operators:
    """Evidence that is impossible for the model is answered by its marginals, not by an error."""
    return replace(model, mix=max(model.mix, IMPOSSIBLE))


def posterior(operators: Operators, seen: list[Any]) -> dict[int, Any]:
    return answer(operators, read_evidence(operators.plan, seen)).probabilities


# --- learners -------------------------------------------------------------------------------------


def long_em(case: Case, seed: int) -> Operators:
    """The best of EM10, carried on to 2,000 iterations."""
    best = EM(random_state=seed).learn(case.plan, case.source)
    names = case.plan.graph.names
    start = {names[v]: table for v, table in best.tables.items()}
    return EM(init=start, max_iter=2000, tol=1e-8).learn(case.plan, case.source)


def unknown_states(case: Case) -> Operators:
    """The default, with the numbers of states of all latents found from the data."""
    graph = case.plan.graph
    states = [None if v in graph.latent else count for v, count in enumerate(graph.states)]
    known = latent_states(replace(graph, states=tuple(states)), case.source)
    return PBP().learn(make_plan(known), case.source)


Learn = Callable[[Case, int], Any]
LEARNERS: dict[str, Learn] = {
    "marginal": lambda case, seed: _empirical(case),
    "closed": lambda case, seed: PBP(refine=False).learn(case.plan, case.source),
    "default": lambda case, seed: PBP().learn(case.plan, case.source),
    "unknown": lambda case, seed: unknown_states(case),
    "refined": lambda case, seed: PBP(refine=True).learn(case.plan, case.source),
    "EM10": lambda case, seed: EM(random_state=seed).learn(case.plan, case.source),
    "EM10 prior": lambda case, seed: EM(random_state=seed, smoothing=PSEUDO_COUNTS).learn(
        case.plan, case.source
    ),
    "long EM": long_em,
    "spectral": lambda case, seed: Spectral().learn(case.plan, case.source),
    "stepwise": lambda case, seed: StepwiseEM(random_state=seed).learn(case.plan, case.source),
}
ONLY_AT = {"long EM": (10_000,), "unknown": (10_000, 100_000, 1_000_000)}
EVERY = {"stepwise": 4}  # on every fourth model only, up to 10,000 rows: 13 s a fit there
SLOW = {  # not at so many rows: hours
    "EM10 prior": 100_000,
    "stepwise": 100_000,
    "refined": 1_000_000,
}


def _empirical(case: Case) -> Callable[[list[Any]], dict[int, Any]]:
    graph, shares = case.plan.graph, {}
    for v, codes in zip(graph.observed, case.source.rows.codes, strict=True):
        count = np.bincount(codes, case.source.rows.weight, graph.states[v] or 1) + 0.5
        shares[v] = (count / count.sum())[:, None]
    return lambda seen: {v: np.tile(p, len(seen[0])) for v, p in shares.items()}


class Passes:
    """Counts the rows that are folded over, in units of all rows."""

    def __init__(self, weight: float) -> None:
        self.weight, self.count, self.plain = weight, 0.0, LocalRows.fold

    def __enter__(self) -> Passes:
        plain = self.plain

        def counted(source: LocalRows, summary: Any) -> Any:
            self.count += source.rows.total / self.weight
            return plain(source, summary)

        LocalRows.fold = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        LocalRows.fold = self.plain  # type: ignore[method-assign]


def measure(case: Case, name: str, seed: int) -> dict[str, Any]:
    """One learner on one case: KL, seconds, passes."""
    plan_refinement(case.plan)  # kept: planning is apart
    with Passes(case.source.rows.total) as passes, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = LEARNERS[name](case, seed)
        seconds = time.process_time() - start
        if seconds < SHORT:  # the best of three
            for _ in range(2):
                start = time.process_time()
                LEARNERS[name](case, seed)
                seconds = min(seconds, time.process_time() - start)
            passes.count /= 3
    found = {f"kl_{how}": divergence(case.truth, model, s) for how, s in case.evidence.items()}
    choice = model.provenance.choice if isinstance(model, Operators) else None
    return {
        **found,
        "seconds": seconds,
        "passes": passes.count,
        "chosen": choice.chosen if choice is not None else None,
    }


# --- running --------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Cell:
    structure: str
    kind: str
    rows: int

    def __str__(self) -> str:
        return f"{self.structure} {self.kind} {self.rows}"


def all_cells(words: list[str], sizes: tuple[int, ...]) -> list[Cell]:
    cells = [Cell(s, k, n) for n in sizes for s in STRUCTURES for k in KINDS]
    return [c for c in cells if all(w in str(c).split() for w in words)] if words else cells


def tasks(cells: list[Cell], models: int, beyond: int) -> list[tuple[Cell, int, str]]:
    """What to run, in this order: the first models of all cells before the second ones.

    What takes longest comes late: stepwise EM at 10,000 rows, and all that is above 100,000.
    """
    found = []
    for cell in cells:
        most = models if cell.rows <= 10_000 else min(models, beyond)
        most = min(most, 1) if cell.rows > 100_000 else most
        for seed in range(most):
            for place, name in enumerate(LEARNERS):
                every = EVERY.get(name, 1) if cell.rows <= 10_000 else 1
                if (
                    cell.rows not in ONLY_AT.get(name, (cell.rows,))
                    or cell.rows >= SLOW.get(name, 10**9)
                    or seed % every
                ):
                    continue
                late = 0.5 if name == "stepwise" and cell.rows == 10_000 else 0.0
                late = 0.75 if cell.rows > 100_000 else late
                found.append((seed / most + late, cells.index(cell), seed, place, name))
    return [(cells[c], seed, name) for _, c, seed, _, name in sorted(found)]


def estimate(todo: list[tuple[Cell, int, str]], known: Summary) -> float:
    """Minutes that tasks should take, from the seconds of earlier runs; others as they grow."""
    total = 0.0
    for cell, _, name in todo:
        sizes = [cell.rows, *sorted((n for n in SIZES if n < cell.rows), reverse=True)]
        seen = [(n, known.get(str(replace(cell, rows=n)), {}).get(name)) for n in sizes]
        guess = next((x.seconds * cell.rows / n for n, x in seen if x and x.models), 1.0)
        again = 3 if guess < SHORT else 1
        total += again * guess + 0.05 + cell.rows * 2e-6
    return total / 60


def run(options: argparse.Namespace) -> None:
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    before = read(out)
    if options.anew and out.exists():
        out.unlink()
    known = {(r["cell"], r["seed"], r["learner"]) for r in ([] if options.anew else before)}
    sizes = tuple(options.sizes or ((500, 1_000) if options.quick else SIZES))
    models = options.models or (2 if options.quick else 20)
    cells = all_cells(options.cells, sizes)
    todo = [
        (cell, options.seeds + number, name)
        for cell, number, name in tasks(cells, models, options.beyond)
        if not options.learners or name in options.learners
    ]
    todo = [t for t in todo if (str(t[0]), t[1], t[2]) not in known]
    print(f"{len(cells)} cells, seeds {options.seeds}…, {models} models, floor {FLOOR}")
    print(f"{len(todo)} fits, about {estimate(todo, summary_of(before)):.0f} minutes", flush=True)
    stop = time.monotonic() + 60 * options.minutes
    made: tuple[Any, Case | None] = (None, None)
    for done, (cell, seed, name) in enumerate(todo):
        if time.monotonic() > stop:
            print(f"time is up with {len(todo) - done} fits to go; run again to go on")
            break
        if made[0] != (cell, seed):
            made = ((cell, seed), draw_case(cell.structure, cell.kind, cell.rows, seed))
        assert made[1] is not None
        try:
            found = measure(made[1], name, seed)
        except Exception as error:  # a learner that fails is a result as well
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        line = {"cell": str(cell), "seed": seed, "learner": name, **found}
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def summary_of(lines: list[dict[str, Any]]) -> Summary:
    """Of these results; without any, the one that is kept."""
    if lines or not SUMMARY.exists():
        return summarise(lines)
    return read_summary(SUMMARY)


def publish(found: Summary, lines: list[dict[str, Any]], docs: Path) -> None:
    """The page, its plot and the summary; never with fewer cells than there were."""
    gone = sorted(read_summary(SUMMARY).keys() - found.keys()) if SUMMARY.exists() else []
    if gone:
        raise SystemExit(
            f"{len(gone)} cells of {SUMMARY.name} have no new result ({gone[0]}, …). Run them, or "
            "delete the summary to publish without them."
        )
    if lines:
        write_summary(found, SUMMARY)
    write_page(found, docs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="500 and 1,000 rows, two models")
    parser.add_argument("--cells", nargs="*", default=[], help="words: chain, sharp, 10000, …")
    parser.add_argument("--sizes", nargs="*", type=int, help="numbers of rows")
    parser.add_argument("--learners", nargs="*", default=[], help="only these")
    parser.add_argument("--models", type=int, help="models per cell (20; quick: 2)")
    parser.add_argument("--beyond", type=int, default=5, help="models per cell above 10,000 rows")
    parser.add_argument("--seeds", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--budget",
        "--minutes",
        dest="minutes",
        type=float,
        default=600.0,
        help="stop after so many minutes",
    )
    parser.add_argument("--anew", action="store_true", help="forget what --out holds")
    parser.add_argument("--out", default=str(HERE / "results" / "accuracy.jsonl"))
    parser.add_argument("--docs", default="none", help="folder of the page to write")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        run(options)
    lines = read(Path(options.out))
    found = summary_of(lines)
    sys.stdout.write(tables(found))
    if options.docs != "none":
        publish(found, lines, Path(options.docs))


if __name__ == "__main__":
    main()

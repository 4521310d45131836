"""Do 90 % intervals hold the truth nine times in ten? How wide are they?

Run: python benchmarks/coverage.py [--models 10] [--queries 10] [--sizes 1000 10000 100000]
Writes its tables into docs/error-bars.md, between the marks.

Models are those of benchmarks/accuracy.py: six structures, two kinds of tables, drawn again until
the plain marginal is a bad answer (its KL is at least .05). A query asks for a column drawn at
random, given the values of some others, as many as come, in a row drawn from the model; every state
of the column has an interval. Seeds are 0, 1, 2, …; constants were chosen on seeds from 10,000 on.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import EVIDENCE, KINDS, STRUCTURES, Case, draw_case

from latentia import PBP
from latentia.assess.intervals import intervals
from latentia.assess.without_groups import replicate
from latentia.inference.joint import one_answer
from latentia.inference.operators import Operators

CONFIDENCE = 0.9
MAIN = 10_000  # rows
LEARNERS = {"closed form": PBP(refine=False), "default": PBP()}
DOCS = Path(__file__).resolve().parent.parent / "docs" / "error-bars.md"
MARKS = ("<!-- coverage: written by benchmarks/coverage.py -->", "<!-- end of coverage -->")

Query = tuple[int, list[Any]]


def draw_queries(case: Case, rng: np.random.Generator, count: int) -> list[Query]:
    columns, found = len(case.plan.graph.observed), []
    for _ in range(count):
        row, target = rng.integers(EVIDENCE), int(rng.integers(columns))
        others = rng.permutation([i for i in range(columns) if i != target])
        known = {*others[: rng.integers(1, columns)].tolist()}
        cells = case.evidence["weighted"]
        codes = [cells[i][row : row + 1] if i in known else None for i in range(columns)]
        found.append((target, codes))
    return found


def ask(operators: Operators, queries: list[Query]) -> Any:
    """All states of all queries, one after the other."""
    return np.concatenate([one_answer(operators, codes, {}, [x]) for x, codes in queries])


def measure(case: Case, queries: list[Query], learner: Any) -> dict[str, Any]:
    truth = ask(case.truth, queries)
    start = time.process_time()
    operators = learner.learn(case.plan, case.source)
    middle = time.process_time()
    replicates = replicate(learner, operators, case.source)
    end = time.process_time()
    p, whole = ask(operators, queries), ask(replicates.whole, queries)
    others = [ask(each, queries) for each in replicates.without]
    lower, upper = intervals(p, whole, others, CONFIDENCE)
    return {
        "held": (lower <= truth) & (truth <= upper),
        "width": upper - lower,
        "fit": middle - start,
        "bars": end - middle,
    }


def run(options: argparse.Namespace) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for seed in range(options.seeds, options.seeds + options.models):
        for structure in options.structures or STRUCTURES:
            for kind in KINDS:
                for rows in options.sizes:
                    if rows != MAIN and seed >= options.seeds + options.others:
                        continue
                    case = draw_case(structure, kind, rows, seed)
                    rng = np.random.default_rng([seed, *structure.encode(), *kind.encode()])
                    queries = draw_queries(case, rng, options.queries)
                    for name in LEARNERS:
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            one = measure(case, queries, LEARNERS[name])
                        found.setdefault((name, rows, structure, kind), []).append(one)
        print(f"seed {seed}", {k: _held(found, *k) for k in _totals(found)}, flush=True)
    return found


def _totals(found: Any) -> list[tuple[str, int]]:
    return sorted({key[:2] for key in found}, key=lambda k: (k[1], k[0]))


def _some(found: Any, name: str, rows: int, *cell: str) -> list[dict[str, Any]]:
    keys = [k for k in found if k[:2] == (name, rows) and (not cell or k[2:] == cell)]
    return [one for k in keys for one in found[k]]


def _held(found: Any, name: str, rows: int, *cell: str) -> float:
    held = np.concatenate([one["held"] for one in _some(found, name, rows, *cell)])
    return round(float(held.mean()), 3)


def report(found: Any, options: argparse.Namespace) -> str:
    cells = sorted({k[2:] for k in found})
    main = MAIN if MAIN in options.sizes else options.sizes[0]
    lines = [
        f"{options.queries} queries for each model, six structures and two kinds of tables, seeds "
        f"from {options.seeds} on; 90 % intervals of all states; medians of processor seconds.",
        "",
        "| learner | rows | models × queries | covered | median width | fit | error bars |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rows in _totals(found):
        some = _some(found, name, rows)
        width = float(np.median(np.concatenate([one["width"] for one in some])))
        fit, bars = (float(np.median([one[k] for one in some])) for k in ("fit", "bars"))
        lines.append(
            f"| {name} | {rows:,} | {len(some)} × {options.queries} "
            f"| {_held(found, name, rows):.1%} | {width:.4f} "
            f"| {fit:.2f} s | {bars:.2f} s |"
        )
    lines += ["", f"By structure, {main:,} rows:", ""]
    lines += ["| learner | " + " | ".join(f"{s}, {k}" for s, k in cells) + " |"]
    lines += ["|---" * (len(cells) + 1) + "|"]
    for name in LEARNERS:
        shares = [f"{_held(found, name, main, *cell):.0%}" for cell in cells]
        lines.append(f"| {name} | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=10, help="per structure and kind")
    parser.add_argument("--others", type=int, default=3, help="models beside 10,000 rows")
    parser.add_argument("--queries", type=int, default=10, help="per model")
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--structures", nargs="*", default=[], help="only these")
    parser.add_argument("--seeds", type=int, default=0, help="the first seed")
    parser.add_argument("--docs", default=str(DOCS), help="where to write; 'none' only prints")
    options = parser.parse_args()
    text = report(run(options), options)
    print(text)
    if options.docs != "none":
        page = Path(options.docs)
        before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        page.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

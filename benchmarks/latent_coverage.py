"""How often 90 % intervals of latents hold the truth: sizes, tables and memberships.

Run: python benchmarks/latent_coverage.py [--rows 1000 10000] [--draws 10] [--models 12]
[--first 0] [--learner tables] [--stepmix]. Models are drawn: latent classes, chains and trees of
latents, four of each. Rows come with the states that made them, by which the learned states are
matched. --stepmix compares standard errors with those of StepMix's bootstrap on one set instead.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

import latentia as lt
from latentia.structure.reading_graphs import as_graph

MOST_ROWS_ASKED = 20


def chain_graph(length: int, below: int) -> str:
    seen = [f"h{t}->{','.join(f'x{t}_{j}' for j in range(below))}" for t in range(length)]
    return "; ".join([*seen, *(f"h{t}->h{t + 1}" for t in range(length - 1))])


def tree_graph(arms: int, below: int) -> str:
    seen = [f"u{a}->{','.join(f'x{a}_{j}' for j in range(below))}" for a in range(arms)]
    return "; ".join(["r->" + ",".join(f"u{a}" for a in range(arms)), *seen])


def models() -> list[tuple[str, str, dict[str, int], int]]:
    """Name, graph, latents, and states of a column."""
    found = []
    for k, items, states in [(2, 6, 2), (2, 5, 4), (3, 8, 3), (4, 12, 3)]:
        columns = ",".join(f"x{i}" for i in range(items))
        found.append((f"class of {k}, {items} columns", f"h0->{columns}", {"h0": k}, states))
    for k, length, below, states in [(2, 3, 3, 2), (2, 4, 2, 3), (3, 3, 3, 3), (2, 5, 3, 2)]:
        latents = {f"h{t}": k for t in range(length)}
        found.append((f"chain of {length} × {k}", chain_graph(length, below), latents, states))
    for k, arms, below, states in [(2, 3, 3, 2), (2, 3, 3, 3), (3, 3, 4, 3), (2, 4, 3, 2)]:
        latents = {"r": k, **{f"u{a}": k for a in range(arms)}}
        found.append((f"tree of {arms} arms × {k}", tree_graph(arms, below), latents, states))
    return found


def draw_tables(graph: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Tables whose rows differ: each leans to a state of its own."""
    tables = {}
    for v, above in enumerate(graph.parents()):
        k = graph.states[v]
        if not above:
            tables[graph.names[v]] = rng.dirichlet(np.full(k, 15.0))
            continue
        rows = graph.states[above[0]]
        lean = np.eye(k)[(np.arange(rows) + rng.integers(k)) % k]
        tables[graph.names[v]] = 0.55 * lean + 0.45 * rng.dirichlet(np.ones(k), size=rows)
    return tables


def matched(model: Any, frame: pd.DataFrame, name: str, codes: Any) -> Any:
    """The learned state of every true one."""
    found = np.asarray(model.predict(frame, name))
    k = model.states_[name]
    table = np.zeros((k, k))
    np.add.at(table, (codes, found), 1.0)
    return linear_sum_assignment(table, maximize=True)[1]


def held(answer: Any, order: Any, truth: Any, counts: Any) -> None:
    """Count cells of an answer whose interval holds the truth."""
    lower, upper = (np.asarray(x)[order] for x in (answer.lower, answer.upper))
    counts[0] += int(((lower <= truth) & (truth <= upper)).sum())
    counts[1] += len(truth)


def measure(
    text: str, latents: dict[str, int], states: int, rows: int, learner: Any, seed: int
) -> dict[str, list[int]]:
    """Held and asked, of sizes, tables and memberships, for one draw of tables and rows."""
    return count(*fitted(text, latents, states, rows, learner, seed))


def fitted(
    text: str, latents: dict[str, int], states: int, rows: int, learner: Any, seed: int
) -> tuple[Any, Any, dict[str, Any], pd.DataFrame]:
    """The truth, a model of rows drawn from it, tables, and rows with the states behind them."""
    rng = np.random.default_rng(seed)
    columns = [x for x in as_graph(text, list(latents)).names if x not in latents]
    graph = as_graph(text, latents).with_states(dict.fromkeys(columns, states))
    tables = draw_tables(graph, rng)
    truth = lt.TabularModel(graph, tables)
    drawn = pd.DataFrame(truth.sample(rows, seed, latents=True), columns=list(graph.names))
    stated = dict.fromkeys(columns, range(states))  # rare ones may not be drawn
    model = lt.LatentModel(text, latents, state_names=stated, **learner)
    model.fit(drawn[columns], error_bars=True)
    return truth, model, tables, drawn


def count(
    truth: Any, model: Any, tables: dict[str, Any], drawn: pd.DataFrame
) -> dict[str, list[int]]:
    """Held and asked."""
    graph = truth.graph
    latents = [graph.names[v] for v in sorted(graph.latent)]
    frame = drawn[[graph.names[v] for v in graph.observed]]
    orders = {h: matched(model, frame, h, drawn[h].to_numpy()) for h in latents}
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for h, order in orders.items():
        own = np.asarray(truth.query(h).table)
        held(model.query(h, confidence=0.9), order, own, counts["sizes"])
        _, low, high = model.predict_latent(frame.head(MOST_ROWS_ASKED), h, confidence=0.9)
        some = truth.evidence(frame.head(MOST_ROWS_ASKED).to_numpy())
        exact = truth.posteriors(some, [h])[h]
        lower, upper = (np.asarray(x)[:, order] for x in (low, high))
        counts["memberships"][0] += int(((lower <= exact) & (exact <= upper)).sum())
        counts["memberships"][1] += exact.size
    for v, above in enumerate(graph.parents()):
        name = graph.names[v]
        if not above:
            continue
        parent = graph.names[above[0]]
        own = orders.get(name, np.arange(graph.states[v]))
        for s, row in enumerate(tables[name]):
            answer = model.query(name, {parent: int(orders[parent][s])}, confidence=0.9)
            held(answer, own, row, counts["tables"])
    return counts


def run(options: argparse.Namespace) -> None:
    learner = {} if options.learner == "pbp" else {"learner": options.learner}
    for rows in options.rows:
        every: list[dict[str, list[int]]] = []
        started = time.process_time()
        for k, (name, text, latents, states) in enumerate(models()[: options.models]):
            seeds = [1000 * k + options.first + draw for draw in range(options.draws)]
            own = [measure(text, latents, states, rows, learner, seed) for seed in seeds]
            print(f"{rows}, {name}: " + shares(own), flush=True)
            every += own
        seconds = time.process_time() - started
        print(f"{rows} rows, all: {shares(every)} ({seconds:.0f} s)", flush=True)


def shares(draws: list[dict[str, list[int]]]) -> str:
    """Shares held ± the standard error: intervals of one fit are right or wrong together."""
    told = []
    for what in sorted(draws[0]):
        held, asked = np.array([found[what] for found in draws], dtype=float).T
        share = held.sum() / asked.sum()
        error = np.sqrt(((held - share * asked) ** 2).sum()) / asked.sum()
        told.append(f"{what} {share:.1%} ± {error:.1%} of {asked.sum():.0f}")
    return ", ".join(told)


def against_stepmix() -> None:
    """Standard errors of one set: ours, and those of a hundred bootstrapped fits of StepMix."""
    from stepmix.stepmix import StepMix

    name, text, latents, states = models()[0]
    columns = [x for x in as_graph(text, list(latents)).names if x not in latents]
    graph = as_graph(text, latents).with_states(dict.fromkeys(columns, states))
    truth = lt.TabularModel(graph, draw_tables(graph, np.random.default_rng(3)))
    frame = pd.DataFrame(truth.sample(2000, 3, latents=True), columns=list(graph.names))[columns]
    model = lt.LatentModel(text, latents, learner=lt.Tables(smoothing=0)).fit(
        frame, error_bars=True
    )
    profile = model.profile("h0")
    rival = StepMix(2, measurement="binary", n_init=5, random_state=0, progress_bar=0).fit(frame)
    theirs = rival.bootstrap_stats(frame, n_repetitions=100, progress_bar=False)["mm_std"]
    print(f"{name}, 2,000 rows: standard errors of P(1 | class), ours and StepMix's")
    weights = rival.get_parameters()["weights"]
    order = np.argsort(-weights)  # ours go by size
    for column in sorted(profile.columns, key=lambda c: str(c.name)):
        own = column.errors[:, 1]
        other = [float(theirs.xs(column.name, level="variable").iloc[0][k]) for k in order]
        print(column.name, own.round(4), np.round(other, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--learner", default="tables")
    parser.add_argument("--stepmix", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.stepmix:
        against_stepmix()
    else:
        run(options)


if __name__ == "__main__":
    main()

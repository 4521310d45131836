"""Real Bayesian networks with some nodes hidden: the graph's own tables against EM and no latents.

    python benchmarks/networks.py sachs child alarm --rows 10000 --sets 3
    python benchmarks/networks.py --quick
    python benchmarks/networks.py --all --answers

For every network and hidden set (seeded, 2-5 latents that have a child) rows are drawn, tables are
learned with the true graph, and the mean KL of P(column | all other columns) to the truth is taken
over columns and fresh rows. EM10 is plain EM on the same pieces with ten restarts, the same
pseudo-count, and lt.EM's stopping rule. Times are of the processor, on one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
import zlib
from dataclasses import dataclass, replace

import numpy as np
from network_files import SIXTEEN, TUNED, read_network

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import PlanError
from latentia.exact.pieces import cut_graph, with_ancestors
from latentia.exact.table_answers import TableAnswers
from latentia.networks.accelerate import normalised
from latentia.networks.counting import count_families, tables_of_counts
from latentia.networks.em_problem import count_columns, prior_of_tables
from latentia.networks.knowledge import Knowledge
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_problem import TableProblem, pose_piece

SMOOTHING = 1.0
TEST_ROWS = 400
TEST_COLUMNS = 25
TINY = 1e-12


@dataclass(frozen=True)
class Task:
    """A network with hidden nodes, rows to learn from, and rows to be tested on."""

    network: str
    number: int
    truth: TableAnswers
    train: np.ndarray  # (rows, observables)
    test: np.ndarray
    columns: tuple[int, ...]  # that are asked for

    @property
    def graph(self):
        return self.truth.graph

    @property
    def source(self) -> LocalRows:
        codes = tuple(np.ascontiguousarray(c.astype(np.int16)) for c in self.train.T)
        return LocalRows(Rows(codes), threads=1)


def hidden_set(network: TableAnswers, rng: np.random.Generator) -> frozenset[int]:
    """Two to five nodes that have a child and more than one state."""
    parents = {a for a, _ in network.graph.edges}
    fit = [v for v in sorted(parents) if network.states[v] > 1]
    count = min(int(rng.integers(2, 6)), len(fit), len(network.names) // 3)
    return frozenset(rng.choice(fit, count, replace=False).tolist())


def make_task(name: str, number: int, rows: int, holes: float = 0.0) -> Task:
    whole = read_network(name)
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    latent = hidden_set(whole, rng)
    truth = TableAnswers(replace(whole.graph, latent=latent), whole.cpts)
    observed = truth.graph.observed
    columns = rng.permutation(observed)[:TEST_COLUMNS]
    train, test = truth.sample(rows, rng), truth.sample(TEST_ROWS, rng)
    return Task(
        name,
        number,
        truth,
        np.where(rng.random(train.shape) < holes, -1, train),
        test,
        tuple(sorted(int(v) for v in columns)),
    )


# --- learners -------------------------------------------------------------------------------------


def em_of_pieces(
    task: Task, restarts: int = 10, most: int = 200, tol: float = 1e-6
) -> tuple[dict, float]:
    """Plain EM with random restarts, all pieces of a restart together; the highest is kept."""
    graph, source, nothing = task.graph, task.source, Knowledge()
    seen = source.fold(lambda rows: count_columns(graph, rows))
    marginals = {v: seen.sums[f"column/{v}"] for v in graph.observed}
    prior = prior_of_tables(
        graph, marginals, dict.fromkeys(range(len(graph.names)), SMOOTHING), nothing
    )
    telling = with_ancestors(graph.parents(), graph.observed)
    gaps = tuple(v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0)
    inner = {a for a, _ in graph.edges}
    cut = cut_graph(graph, (graph.latent & telling) | inner.intersection(gaps), telling)
    tables = tables_of_counts(count_families(graph, cut.closed, source), prior, nothing)
    problem = TableProblem(graph, source, seen.weight, gaps, prior, nothing)
    pieces = [pose_piece(problem, piece) for piece in cut.pieces]
    best, found = -np.inf, {}
    for k in range(restarts):
        rng = np.random.default_rng([99, task.number, k])
        climbs = [_climb(p, _random(p, rng), most, tol * seen.weight / len(pieces)) for p in pieces]
        if sum(level for level, _ in climbs) > best:
            best = sum(level for level, _ in climbs)
            found = {
                v: t
                for p, (_, own) in zip(pieces, climbs, strict=True)
                for v, t in p.piece.outside(own).items()
            }
    barren = {
        v: np.full([graph.states[u] for u in (*graph.parents()[v], v)], 1 / graph.states[v])
        for v in graph.latent - telling
    }
    return tables | found | barren, best


def _random(problem, rng) -> dict:
    graph = problem.piece.graph
    parents = graph.parents()
    return {
        k: rng.dirichlet(np.ones(graph.states[k]), size=[graph.states[u] for u in parents[k]])
        for k in problem.piece.inside(dict.fromkeys(problem.piece.families))
    }


def _climb(problem, tables: dict, most: int, small: float) -> tuple[float, dict]:
    before = -np.inf
    for _ in range(most):
        counts, fit = problem.estep(tables)
        level = fit + problem.prior.log_density(tables)
        if level - before < small:
            break
        before = level
        tables = normalised(counts, problem.prior)
    return level, tables


# --- measures -------------------------------------------------------------------------------------


def divergence(task: Task, tables: dict) -> float:
    """Mean KL of P(column | others) to the truth."""
    truth = task.truth
    learned = TableAnswers(truth.graph, {truth.names[v]: t for v, t in tables.items()})
    codes = truth.evidence(task.test)
    total = 0.0
    for v in task.columns:
        asked = codes.copy()
        asked[:, v] = -1
        p = truth.posteriors(asked, truth.names[v])[truth.names[v]]
        q = learned.posteriors(asked, truth.names[v])[truth.names[v]]
        total += float((p * np.log(np.maximum(p, TINY) / np.maximum(q, TINY))).sum(axis=1).mean())
    return total / len(task.columns)


def timed(work):
    before = time.process_time()
    found = work()
    return found, time.process_time() - before


def one(name: str, number: int, rows: int, em: bool, holes: float = 0.0, seed: int = 0) -> dict:
    """Figures of one hidden set."""
    task = make_task(name, number, rows, holes)
    settings = TableSettings(smoothing=SMOOTHING)
    learned, seconds = timed(lambda: learn_tables(task.graph, task.source, settings, seed))
    line = {
        "network": name,
        "set": number,
        "rows": rows,
        "hidden": [str(task.graph.names[v]) for v in sorted(task.graph.latent)],
        "seconds": round(seconds, 3),
        "kl": divergence(task, dict(learned.tables)),
        "pieces": [summary(p) for p in learned.pieces],
    }
    if em:
        (tables, level), line["em_seconds"] = timed(lambda: em_of_pieces(task))
        line["above"] = sum(p.level for p in learned.pieces) - level
        line["em_kl"] = divergence(task, tables)
        line["ratio"] = line["kl"] / line["em_kl"]
        line["faster"] = line["em_seconds"] / seconds
    return line


def summary(piece) -> str:
    return (
        f"{','.join(map(str, piece.latents))}: {piece.winner}, {piece.rounds} rounds, agreed "
        f"{piece.agreed}, E-steps {piece.race_steps}+{piece.climb_steps}, rows {piece.rows}/"
        f"{piece.raced_rows}, parameters {piece.effective}/{piece.parameters}, width {piece.width}"
    )


def answers(name: str, rows: int = 100, oracle_rows: int = 5) -> dict:
    """Half of the columns as evidence: seconds for all rows, and pyAgrum's for one of them."""
    task = make_task(name, 0, 10)
    truth = task.truth
    rng = np.random.default_rng(5)
    codes = truth.evidence(truth.sample(rows, rng))
    observed = np.array(truth.graph.observed)
    codes[:, rng.permutation(observed)[: len(observed) // 2]] = -1
    try:
        _, complete = timed(lambda: truth.log_evidence(truth.evidence(task.test)))
        found, seconds = timed(lambda: truth.posteriors(codes))
    except PlanError as error:
        return {"network": name, "answers": str(error)}
    line = {"network": name, "complete": round(complete, 3), "half": round(seconds, 3)}
    oracle = as_pyagrum(truth)
    if oracle is not None:
        some = codes[:oracle_rows]
        others, slow = timed(lambda: [_ask_pyagrum(oracle, truth, row) for row in some])
        asked = [(i, x, p) for i, row in enumerate(others) for x, p in row.items()]
        apart = max(float(np.abs(found[x][i] - p).max()) for i, x, p in asked)
        line |= {"pyagrum": round(slow / oracle_rows, 4), "apart": apart}
        line["faster"] = round(slow / oracle_rows / (seconds / rows), 1)
    return line


def as_pyagrum(model: TableAnswers):
    """The same network for pyAgrum; None where it is not installed."""
    try:
        import pyagrum
    except ImportError:
        return None
    bn = pyagrum.BayesNet()
    parents = model.graph.parents()
    for name, states in zip(model.names, model.states, strict=True):
        bn.add(pyagrum.LabelizedVariable(name, "", states))
    for v, above in enumerate(parents):
        for u in above:
            bn.addArc(model.names[u], model.names[v])
    for v, table in model.tables.items():
        family = [model.names[u] for u in (*parents[v], v)]
        axes = [family.index(x) for x in reversed(bn.cpt(model.names[v]).names)]
        bn.cpt(model.names[v])[:] = np.ascontiguousarray(table.transpose(axes))
    return bn


def _ask_pyagrum(bn, model: TableAnswers, row) -> dict:
    import pyagrum

    engine = pyagrum.LazyPropagation(bn)
    engine.setEvidence({x: int(c) for x, c in zip(model.names, row, strict=True) if c >= 0})
    engine.makeInference()
    return {x: engine.posterior(x).toarray() for x in model.names}


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    reader.add_argument("networks", nargs="*", default=[])
    reader.add_argument("--all", action="store_true", help="all sixteen networks")
    reader.add_argument("--quick", action="store_true", help="sachs and child, 2,000 rows, one set")
    reader.add_argument("--rows", type=int, default=10_000)
    reader.add_argument("--sets", type=int, default=3)
    reader.add_argument("--first", type=int, default=0, help="number of the first hidden set")
    reader.add_argument("--holes", type=float, default=0.0, help="share of cells that are missing")
    reader.add_argument("--no-em", action="store_true")
    reader.add_argument("--answers", action="store_true", help="time answers instead")
    reader.add_argument("--pieces", action="store_true", help="show every piece")
    reader.add_argument("--out", help="append every line to this JSON file")
    chosen = reader.parse_args()
    names = SIXTEEN if chosen.all else chosen.networks or list(TUNED)
    if chosen.quick:
        names, chosen.rows, chosen.sets = ["sachs", "child"], 2000, 1
    lines = []
    for name in names:
        if chosen.answers:
            print(answers(name), flush=True)
            continue
        for number in range(chosen.first, chosen.first + chosen.sets):
            line = one(name, number, chosen.rows, not chosen.no_em, chosen.holes)
            lines.append(line)
            show(line, chosen.pieces)
            if chosen.out:
                with open(chosen.out, "a") as file:
                    file.write(json.dumps(line) + "\n")
    if lines and not chosen.no_em:
        ratios = np.array([line["ratio"] for line in lines])
        faster = np.array([line["faster"] for line in lines])
        print(f"KL / EM10: median {np.median(ratios):.3f}, worst {ratios.max():.3f}")
        print(f"faster than EM10: median {np.median(faster):.1f}, worst {faster.min():.1f}")


def show(line: dict, pieces: bool) -> None:
    text = f"{line['network']:>10} {line['set']} {line['seconds']:7.2f} s  KL {line['kl']:.5f}"
    if "em_kl" in line:
        text += f"  EM10 {line['em_seconds']:7.2f} s {line['em_kl']:.5f}"
        text += (
            f"  ratio {line['ratio']:.3f}  faster {line['faster']:.1f}  above {line['above']:.1f}"
        )
    print(f"{text}  {','.join(line['hidden'])}", flush=True)
    if pieces:
        for piece in line["pieces"]:
            print("            ", piece)


if __name__ == "__main__":
    main()

"""Real Bayesian networks with some nodes hidden: the graph's own tables against EM and no latents.

    python benchmarks/networks.py sachs child alarm --rows 10000 --sets 3
    python benchmarks/networks.py --quick
    python benchmarks/networks.py --full            # every row of docs/benchmarks.md, resumable
    python benchmarks/networks.py --report          # … from benchmarks/networks.csv

For every network and hidden set (seeded, 2-5 latents that have a child) rows are drawn, tables are
learned, and the mean KL of P(column | all other columns) to the truth is taken over columns and
fresh rows. EM10 is plain EM on the same pieces with ten restarts, the same pseudo-count (one), and
the stopping rule of lt.EM; both count what no latent touches in one pass. The default chooses
pseudo-counts by itself ("auto"): it is compared with EM10 at one, and with EM10's best climbed on
with the same prior as it has. Times are of the
processor, on one thread. Tuned on sachs, child, alarm, insurance, water; all others are only
reported.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import signal
import time
from pathlib import Path

import numpy as np
from network_files import SIXTEEN, TUNED
from network_rivals import SMOOTHING, as_pyagrum, ask_pyagrum, em_of_pieces, hill_climbing
from network_tasks import KINDS, SHAPES, Task, make_task

from latentia.errors import PlanError
from latentia.exact.table_answers import TableAnswers
from latentia.networks.own_tables import climb_tables, learn_tables
from latentia.networks.piece_learning import TableSettings

TINY = 1e-12
AUTO = TableSettings()  # what users have
RESULTS = Path(__file__).with_suffix(".csv")
FIELDS = (
    *("network", "set", "kind", "rows", "seconds", "kl", "auto_seconds", "auto_kl"),
    *("em_seconds", "em_kl", "above", "em_auto_kl", "hill_kl", "hill_auto_kl", "note"),
)
SMALL = ("sachs", "child")  # with holes EM10 takes many minutes elsewhere
MOST_EM = 180  # seconds
MOST_HILL = 120  # columns: hill climbing takes minutes beyond


class TooLongError(Exception):
    """Work that took longer than it may."""


def within(seconds: int, work):
    """What work gives, or None where it takes too long."""

    def stop(*_) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        return work()
    except TooLongError:
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def timed(work):
    before = time.process_time()
    found = work()
    return found, time.process_time() - before


# --- measures -------------------------------------------------------------------------------------


def divergence(task: Task, learned: TableAnswers) -> float:
    """Mean KL of P(column | others) to the truth."""
    truth = task.truth
    codes, own = truth.evidence(task.test), learned.evidence(task.test)
    total = 0.0
    for v in task.columns:
        name = truth.names[v]
        asked, other = codes.copy(), own.copy()
        asked[:, v] = -1
        other[:, learned.names.index(name)] = -1
        p = truth.posteriors(asked, name)[name]
        q = learned.posteriors(other, name)[name]
        total += float((p * np.log(np.maximum(p, TINY) / np.maximum(q, TINY))).sum(axis=1).mean())
    return total / len(task.columns)


def one(
    name: str,
    number: int,
    rows: int,
    kind: str = "complete",
    em: bool = True,
    hill: bool = False,
    seed: int = 0,
) -> dict:
    """Figures of one hidden set."""
    task = make_task(name, number, rows, kind)
    _ = task.source  # opened before anybody's time is taken
    settings = TableSettings(smoothing=SMOOTHING)
    learned, seconds = timed(lambda: learn_tables(task.graph, task.source, settings, seed))
    auto, auto_seconds = timed(lambda: learn_tables(task.graph, task.source, AUTO, seed))
    line = {
        "network": name,
        "set": number,
        "kind": kind,
        "rows": rows,
        "seconds": round(seconds, 3),
        "kl": divergence(task, TableAnswers(task.graph, learned.cpts)),
        "auto_seconds": round(auto_seconds, 3),
        "auto_kl": divergence(task, TableAnswers(task.graph, auto.cpts)),
        "hidden": [str(task.graph.names[v]) for v in sorted(task.graph.latent)],
        "pieces": [summary(p) for p in learned.pieces],
        "note": "",
    }
    if em:
        found = within(MOST_EM, lambda: timed(lambda: em_of_pieces(task)))
        if found is None:
            line["note"] = f"EM10 stopped after {MOST_EM} s"
        else:
            (tables, level), line["em_seconds"] = found
            cpts = {task.graph.names[v]: t for v, t in tables.items()}
            line["above"] = sum(p.level for p in learned.pieces) - level
            line["em_kl"] = divergence(task, TableAnswers(task.graph, cpts))
            leant = climb_tables(task.graph, task.source, tables, AUTO)
            line["em_auto_kl"] = divergence(task, TableAnswers(task.graph, leant.cpts))
    if hill and len(task.graph.observed) <= MOST_HILL:
        line["hill_kl"] = divergence(task, hill_climbing(task, settings))
        line["hill_auto_kl"] = divergence(task, hill_climbing(task, AUTO))
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
        others, slow = timed(lambda: [ask_pyagrum(oracle, truth, row) for row in some])
        asked = [(i, x, p) for i, row in enumerate(others) for x, p in row.items()]
        apart = max(float(np.abs(found[x][i] - p).max()) for i, x, p in asked)
        line |= {"pyagrum": round(slow / oracle_rows, 4), "apart": apart}
        line["faster"] = round(slow / oracle_rows / (seconds / rows), 1)
    return line


# --- all of it ------------------------------------------------------------------------------------


def full_plan():
    """(network, set, rows, kind, hill climbing), the most telling first."""
    for number in range(3):
        yield from ((name, number, 10_000, "complete", number == 0) for name in SIXTEEN)
    yield from ((name, k, 10_000, "complete", True) for name in SHAPES for k in range(3))
    for kind in ("edge", "state"):
        yield from ((name, 0, 10_000, kind, False) for name in SIXTEEN)
    yield from ((name, 0, 1_000, "complete", False) for name in SIXTEEN)
    for number in range(3):
        yield from ((x, number, 2_000, k, False) for x in SMALL for k in ("mcar", "mar"))
    yield from ((name, 0, 100_000, "complete", False) for name in SIXTEEN)
    for number in (1, 2):
        yield from ((name, number, 1_000, "complete", False) for name in SIXTEEN)


def run_full() -> None:
    """Every line that the file has not got yet."""
    done = {(x["network"], x["set"], x["rows"], x["kind"]) for x in read_results()}
    for name, number, rows, kind, hill in full_plan():
        if (name, str(number), str(rows), kind) in done:
            continue
        line = one(name, number, rows, kind, hill=hill)
        show(line, False)
        fresh = not RESULTS.exists()
        with RESULTS.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, extrasaction="ignore", lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow({k: f"{x:.6g}" if type(x) is float else x for k, x in line.items()})


def read_results() -> list[dict]:
    if not RESULTS.exists():
        return []
    with RESULTS.open() as file:
        return list(csv.DictReader(file))


def report() -> None:
    """Medians and worst cases by kind and number of rows, and a line a network."""
    lines = read_results()
    head = "| kind | rows | lines | one pseudo-count: KL / EM10 | worst | auto: KL / EM10 auto "
    head += "| worst | KL / EM10 | worst | times faster | worst | KL / hill climbing |"
    print(f"{head}\n|{'---|' * 12}")
    groups = dict.fromkeys((x["kind"], int(x["rows"]), x["network"] in SHAPES) for x in lines)
    for kind, rows, shapes in groups:
        own = [
            x
            for x in lines
            if (x["kind"], int(x["rows"]), x["network"] in SHAPES) == (kind, rows, shapes)
        ]
        print(f"| {kind}{', other shapes' if shapes else ''} | {rows:,} {table_row(own)}")
    print("\n| network | KL / EM10 at 10⁴ rows | times faster | s | KL / hill climbing |")
    print(f"|{'---|' * 5}")
    for name in (*SIXTEEN, *SHAPES):
        own = [x for x in lines if (x["network"], x["kind"], x["rows"]) == (name, *TEN_THOUSAND)]
        if own:
            ratios, speeds = ratio(own, "em_kl", "auto_kl"), faster(own)
            seconds = ", ".join(f"{float(x['auto_seconds']):.2f}" for x in own)
            told = [", ".join(f"{y:.2f}" for y in ratios), ", ".join(f"{y:.1f}" for y in speeds)]
            hill = ", ".join(f"{y:.2f}" for y in ratio(own, "hill_auto_kl", "auto_kl"))
            print(f"| {name} | {told[0]} | {told[1]} | {seconds} | {hill} |")


TEN_THOUSAND = ("complete", "10000")


def table_row(own: list[dict]) -> str:
    speeds, hill = faster(own), ratio(own, "hill_auto_kl", "auto_kl")
    cells = [f"{len(own)}"]
    for other, ours in (("em_kl", "kl"), ("em_auto_kl", "auto_kl"), ("em_kl", "auto_kl")):
        ratios = ratio(own, other, ours)
        cells += [f"{np.median(ratios):.3f}", f"{max(ratios):.3f}"] if ratios else ["–", "–"]
    cells += [f"{np.median(speeds):.1f}", f"{min(speeds):.1f}"] if speeds else ["–", "–"]
    cells.append(f"{np.median(hill):.2f} (worst {max(hill):.2f})" if hill else "–")
    return "| " + " | ".join(cells) + " |"


def ratio(own: list[dict], other: str, ours: str = "kl") -> list[float]:
    return [float(x[ours]) / float(x[other]) for x in own if x[other]]


def faster(own: list[dict]) -> list[float]:
    return [float(x["em_seconds"]) / float(x["auto_seconds"]) for x in own if x["em_seconds"]]


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    reader.add_argument("networks", nargs="*", default=[])
    reader.add_argument("--all", action="store_true", help="all sixteen networks")
    reader.add_argument("--full", action="store_true", help="every line that is still to be done")
    reader.add_argument("--report", action="store_true", help="tables of what is done")
    reader.add_argument("--quick", action="store_true", help="sachs and child, 2,000 rows, one set")
    reader.add_argument("--rows", type=int, default=10_000)
    reader.add_argument("--sets", type=int, default=3)
    reader.add_argument("--first", type=int, default=0, help="number of the first hidden set")
    reader.add_argument("--kind", choices=KINDS, default="complete")
    reader.add_argument("--no-em", action="store_true")
    reader.add_argument("--answers", action="store_true", help="time answers instead")
    reader.add_argument("--pieces", action="store_true", help="show every piece")
    chosen = reader.parse_args()
    if chosen.full or chosen.report:
        (run_full if chosen.full else report)()
        return
    names = SIXTEEN if chosen.all else chosen.networks or list(TUNED)
    if chosen.quick:
        names, chosen.rows, chosen.sets = ["sachs", "child"], 2000, 1
    for name in names:
        if chosen.answers:
            print(answers(name), flush=True)
            continue
        for number in range(chosen.first, chosen.first + chosen.sets):
            line = one(name, number, chosen.rows, chosen.kind, not chosen.no_em)
            show(line, chosen.pieces)


def show(line: dict, pieces: bool) -> None:
    text = f"{line['network']:>10} {line['set']} {line['kind']} {line['rows']:,}"
    text += f" {line['seconds']:7.2f} s  KL {line['kl']:.5f}"
    if "em_kl" in line:
        times = line["em_seconds"] / line["seconds"]
        text += f"  EM10 {line['em_seconds']:7.2f} s {line['em_kl']:.5f}"
        text += f"  ratio {line['kl'] / line['em_kl']:.3f}  faster {times:.1f}"
        text += f"  above {line['above']:.1f}  auto {line['auto_kl'] / line['em_kl']:.3f}"
        text += (
            f" (EM10 auto {line['auto_kl'] / line['em_auto_kl']:.3f}) {line['auto_seconds']:.2f} s"
        )
    if "hill_kl" in line:
        text += f"  hill climbing {line['hill_kl']:.5f}, {line['hill_auto_kl']:.5f}"
    print(f"{text}  {','.join(line['hidden'])} {line['note']}", flush=True)
    if pieces:
        for piece in line["pieces"]:
            print("            ", piece)


if __name__ == "__main__":
    main()

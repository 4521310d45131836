"""SequenceModel against hmmlearn: every bar of the issue in one run.

    python benchmarks/sequences.py            # quick: 10⁴ symbols, one model a cell
    python benchmarks/sequences.py --full     # 10⁴, 10⁵ and (two models) 10⁶ symbols: 20 minutes

hmmlearn is run ten times from random starts with the same pseudo-counts (1 a row of every table),
the best by training likelihood is kept; at 10⁶ symbols once, and its time counts ten times. Excess
is nats per symbol over the truth on 50,000 new symbols. Times are processor time of one core (set
OMP_NUM_THREADS=1). Vowels and splice junctions lie in LATENTIA_DATA; the text is any file of a
Debian package (--text).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import latentia as lt
from latentia.data.columns.discrete import DiscreteColumn
from latentia.sequences.chain_questions import Chain, decode_states, filter_states, smooth_states
from latentia.sequences.chain_wiring import wire_groups
from latentia.sequences.expectation import chain_estep
from latentia.sequences.hidden_states import make_layout
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences

CELLS = (("random", 4, 8), ("random", 8, 16), ("near", 8, 16), ("random", 16, 32), ("near", 16, 32))
LENGTH = 100


def truth(kind: str, states: int, symbols: int, seed: int) -> list[np.ndarray]:
    """Start, moves and emissions: at random, or near-deterministic."""
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(states))
    if kind == "random":
        return [
            start,
            rng.dirichlet(np.full(states, 0.3), states),
            rng.dirichlet(np.full(symbols, 0.3), states),
        ]
    move = np.full((states, states), 0.05 / states)
    move[np.arange(states), rng.permutation(states)] += 0.75
    move[np.arange(states), rng.permutation(states)] += 0.2
    emission = np.full((states, symbols), 0.05 / symbols)
    emission[np.arange(states), rng.permutation(max(symbols, states))[:states] % symbols] += 0.85
    emission[np.arange(states), rng.integers(symbols, size=states)] += 0.1
    return [start, move, emission]


def draw(tables: list[np.ndarray], count: int, seed: int) -> np.ndarray:
    """So many symbols, in sequences of LENGTH: (sequences, LENGTH)."""
    rng = np.random.default_rng(seed)
    n, (start, move, emission) = count // LENGTH, [t.cumsum(axis=-1) for t in tables]
    found = np.empty((n, LENGTH), dtype=int)
    for t in range(LENGTH):
        rows = np.broadcast_to(start, (n, len(start))) if t == 0 else move[z]  # noqa: F821
        z = np.minimum((rng.random((n, 1)) > rows).sum(axis=1), len(start) - 1)
        drawn = (rng.random((n, 1)) > emission[z]).sum(axis=1)
        found[:, t] = np.minimum(drawn, emission.shape[1] - 1)
    return found


def loss(tables: list[np.ndarray], x: np.ndarray, lengths: list[int] | None = None) -> float:
    """Nats per symbol."""
    states, symbols = tables[2].shape
    chain = Chain(
        read_slice("z -> z', z -> a", {"z": states}),
        {1: DiscreteColumn("a", tuple(range(symbols)))},
        dict(enumerate(tables)),
    )
    lengths = [x.shape[1]] * len(x) if lengths is None else lengths
    sequences = Sequences({1: x.ravel()}, np.concatenate([[0], np.cumsum(lengths)]))
    return float(-filter_states(chain, sequences).log_scale.mean())


def ours(
    x: np.ndarray, states: int, symbols: int, lengths: list[int] | None = None
) -> list[np.ndarray]:
    names = {"a": list(range(symbols))}
    model = lt.SequenceModel("z -> z', z -> a", {"z": states}, state_names=names)
    lengths = [x.shape[1]] * len(x) if lengths is None else lengths
    tables = model.fit({"a": x.ravel()}, lengths=lengths).cpts_
    return [tables["z"], tables["z'"], tables["a"]]


def theirs(
    x: np.ndarray, states: int, symbols: int, restarts: int, lengths: list[int] | None = None
) -> list[np.ndarray]:
    from hmmlearn.hmm import CategoricalHMM

    best, level = [], -np.inf
    marginal = np.bincount(x.ravel(), minlength=symbols) / x.size
    lengths = [x.shape[1]] * len(x) if lengths is None else lengths
    for seed in range(restarts):
        model = CategoricalHMM(
            states,
            n_features=symbols,
            n_iter=100,
            tol=1e-2,
            implementation="scaling",
            random_state=seed,
            startprob_prior=1.0 + 1.0 / states,
            transmat_prior=1.0 + 1.0 / states,
            emissionprob_prior=1.0 + marginal,
        ).fit(x.reshape(-1, 1), lengths)
        if model.monitor_.history[-1] > level:
            level = model.monitor_.history[-1]
            best = [model.startprob_, model.transmat_, model.emissionprob_]
    return best


def timed(work: Callable[[], object], repeats: int = 1) -> float:
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def compare_learning(count: int, models: int, restarts: int, cells: tuple) -> None:
    """One row for every kind of model: excess loss and time, medians over models."""
    for kind, states, symbols in cells:
        mine, other, speed = [], [], []
        for seed in range(models):
            tables = truth(kind, states, symbols, 100 + seed)
            x, new = draw(tables, count, seed), draw(tables, 50_000, 1000 + seed)
            least = loss(tables, new)
            begun = time.process_time()
            found = ours(x, states, symbols)
            middle = time.process_time()
            rival = theirs(x, states, symbols, restarts)
            ended = time.process_time()
            mine.append(loss(found, new) - least)
            other.append(loss(rival, new) - least)
            speed.append(10 / restarts * (ended - middle) / (middle - begun))
        ratio = [a / b for a, b in zip(mine, other, strict=True)]
        middles = [statistics.median(v) for v in (mine, other, ratio, speed)]
        print(
            f"| {kind} | {states} | {symbols} | {count:,} | {middles[0]:.5f} | "
            f"{middles[1]:.5f} | {middles[2]:.2f} (worst {max(ratio):.2f}) | {middles[3]:.0f} |",
            flush=True,
        )


def compare_passes() -> None:
    print("| states | sequences | E-step, ns a symbol | E-step | filter | smooth | decode |")
    print("|---|---|---|---|---|---|---|")
    for states in (4, 16, 64):
        for n, length in ((1000, 20), (200, 100), (2, 10_000), (20, 10_000)):
            print(one_pass(states, n, length), flush=True)


def one_pass(states: int, n: int, length: int) -> str:
    """Times as fast as hmmlearn with its faster implementation, on the same tables and symbols."""
    from hmmlearn.hmm import CategoricalHMM

    symbols = 32
    tables = truth("random", states, symbols, 0)
    slice_ = read_slice("z -> z', z -> a", {"z": states})
    layout = make_layout(slice_, (states, symbols), frozenset())
    own = dict(enumerate(tables))
    chain = Chain(slice_, {1: DiscreteColumn("a", tuple(range(symbols)))}, own)
    x = np.random.default_rng(0).integers(symbols, size=n * length)
    sequences = Sequences({1: x}, np.arange(n + 1) * length)
    groups = wire_groups(layout, sequences)
    model = CategoricalHMM(
        states, n_features=symbols, implementation="scaling", init_params="", n_iter=1
    )

    def reset() -> None:
        model.startprob_, model.transmat_, model.emissionprob_ = tables

    reset()
    rows, lengths = x[:, None], [length] * n
    pairs = (
        (lambda: model.score(rows, lengths), lambda: filter_states(chain, sequences, False)),
        (lambda: model.score_samples(rows, lengths), lambda: smooth_states(chain, sequences)),
        (lambda: model.decode(rows, lengths), lambda: decode_states(chain, sequences)),
    )
    faster = [timed(a, 3) / timed(b, 7) for a, b in pairs]
    step = timed(lambda: chain_estep(groups, own), 7)
    fit = timed(lambda: (reset(), model.fit(rows, lengths)), 3)
    told = " | ".join(f"{f:.1f}" for f in faster)
    return f"| {states} | {n} x {length} | {1e9 * step / len(x):.0f} | {fit / step:.1f} | {told} |"


def long_sequences() -> None:
    """Twenty sequences of 10,000 steps, and one of 10⁶: seconds of a whole fit."""
    tables = truth("near", 8, 16, 3)
    for n, length in ((20, 10_000), (1, 1_000_000)):
        x = draw(tables, n * length, 0).ravel()
        begun = time.process_time()
        ours(x, 8, 16, [length] * n)
        print(f"{n} x {length:,}, 8 states: {time.process_time() - begun:.1f} s", flush=True)


def online() -> None:
    """One row after the other: µs for observe and forecast."""
    tables = truth("near", 8, 16, 3)
    x = draw(tables, 20_000, 0)
    names = {"a": list(range(16))}
    model = lt.SequenceModel("z -> z', z -> a", {"z": 8}, state_names=names)
    state = model.fit({"a": x.ravel()}, lengths=[LENGTH] * len(x)).start()
    symbols = x.ravel()[:5000].tolist()
    begun = time.process_time()
    for symbol in symbols:
        state.observe({"a": symbol})
        state.forecast("a")
    spent = time.process_time() - begun
    print(f"online, 8 states: {1e6 * spent / len(symbols):.0f} µs a step", flush=True)


def read_rows(name: str) -> list[dict[str, str]] | None:
    """Rows of a file of LATENTIA_DATA."""
    path = Path(os.environ.get("LATENTIA_DATA", "")) / name
    if not path.exists():
        print(f"no {name}: set LATENTIA_DATA to a folder that holds it")
        return None
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return list(csv.DictReader(file))


def vowels(states: int, restarts: int) -> None:
    """Which speaker? One model each, the likeliest wins."""
    from hmmlearn.hmm import GaussianHMM

    parts = [read_rows(f"vowels/vowels.{part}.csv.gz") for part in ("train", "test")]
    if parts[0] is None or parts[1] is None:
        return
    channels = [c for c in parts[0][0] if c not in ("sequence", "time", "speaker")]
    slice_ = "z -> z', z -> " + ", ".join(channels)
    train, test = (
        {
            "x": np.array([[float(row[c]) for c in channels] for row in rows]),
            "id": np.array([int(row["sequence"]) for row in rows]),
            "who": np.array([row["speaker"] for row in rows]),
        }
        for rows in parts
    )
    speakers = sorted(set(train["who"]))
    ids = np.unique(test["id"])
    told = np.array([test["who"][test["id"] == i][0] for i in ids])
    lengths = [int((test["id"] == i).sum()) for i in ids]
    scores = {"ours": [], "hmmlearn": []}
    spent = dict.fromkeys(scores, 0.0)
    for who in speakers:
        own = train["who"] == who
        x, id_ = train["x"][own], train["id"][own]
        begun = time.process_time()
        frame = {**dict(zip(channels, x.T, strict=True)), "id": id_}
        model = lt.SequenceModel(slice_, {"z": states}).fit(frame, sequence="id")
        new = dict(zip(channels, test["x"].T, strict=True))
        found = model.score_samples(new, lengths=lengths)
        scores["ours"].append(np.add.reduceat(found, np.cumsum([0, *lengths[:-1]])))
        middle = time.process_time()
        counts = np.unique(id_, return_counts=True)[1]
        rivals = [
            GaussianHMM(states, "diag", n_iter=100, random_state=seed).fit(x, counts)
            for seed in range(restarts)
        ]
        best = max(rivals, key=lambda m: m.monitor_.history[-1])
        cut = np.split(test["x"], np.cumsum(lengths)[:-1])
        scores["hmmlearn"].append(np.array([best.score(part) for part in cut]))
        spent["ours"] += middle - begun
        spent["hmmlearn"] += time.process_time() - middle
    for name, levels in scores.items():
        right = float((np.array(speakers)[np.argmax(levels, axis=0)] == told).mean())
        print(f"vowels, {states} states, {name}: {right:.3f}, {spent[name]:.1f} s", flush=True)


def held_out(name: str, x: list[np.ndarray], states: int, symbols: int, restarts: int) -> None:
    """Nats per symbol on every fourth sequence, learned from the others."""
    parts = [[s for k, s in enumerate(x) if (k % 4 == 0) == new] for new in (False, True)]
    (train, fit), (test, new) = ((np.concatenate(part), [len(s) for s in part]) for part in parts)
    begun = time.process_time()
    mine = ours(train, states, symbols, fit)
    middle = time.process_time()
    other = theirs(train, states, symbols, restarts, fit)
    ended = time.process_time()
    losses = [loss(tables, test, new) for tables in (mine, other)]
    print(
        f"{name}, {states} states: {losses[0]:.4f} (hmmlearn x{restarts} {losses[1]:.4f}), "
        f"{(ended - middle) / (middle - begun):.0f} times as fast",
        flush=True,
    )


def splice_junctions(restarts: int) -> None:
    rows = read_rows("splice/splice.csv")
    if rows is None:
        return
    letters = [[v for k, v in row.items() if k.upper().startswith("POS")] for row in rows]
    code = {letter: k for k, letter in enumerate("ACGT")}
    whole = [row for row in letters if set(row) <= set(code)]  # a few have letters for any letter
    held_out("splice", [np.array([code[c] for c in row]) for row in whole], 8, 4, restarts)


def text(path: str, restarts: int) -> None:
    """Letters and blanks of paragraphs."""
    if not Path(path).exists():
        print(f"no text {path}: pass --text FILE")
        return
    paragraphs = Path(path).read_text(encoding="utf-8", errors="ignore").lower().split("\n\n")
    alphabet = " abcdefghijklmnopqrstuvwxyz"
    codes = [
        np.array([max(0, alphabet.find(c)) for c in " ".join(p.split())]) for p in paragraphs if p
    ]
    held_out("text", [c for c in codes if len(c) > 1], 8, len(alphabet), restarts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--models", type=int, default=None)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # hmmlearn warns when it does not converge
    warnings.simplefilter("ignore")
    ours(draw(truth("random", 4, 8, 0), 1000, 0), 4, 8)  # imports are not timed
    compare_passes()
    long_sequences()
    online()
    vowels(5, options.restarts)
    splice_junctions(options.restarts)
    text(options.text, options.restarts)
    print("| kind | states | symbols | N | ours | hmmlearn x10 | ratio | times faster |")
    print("|---|---|---|---|---|---|---|---|")
    few = options.models or 1
    compare_learning(10_000, options.models or (3 if options.full else 1), options.restarts, CELLS)
    if options.full:
        compare_learning(100_000, few, options.restarts, CELLS)
        compare_learning(1_000_000, 1, 1, (CELLS[0], CELLS[2]))


if __name__ == "__main__":
    main()

"""SequenceModel against hmmlearn: excess loss, time, speed of the E-step, speakers of vowels.

    python benchmarks/sequences.py            # quick: 10⁴ symbols, one E-step table, the vowels
    python benchmarks/sequences.py --symbols 10000 100000 --models 5

hmmlearn is run ten times from random starts with the same pseudo-counts (1 a row of every table),
the best by training likelihood is kept. Excess is nats per symbol over the truth on 50,000 new
symbols. The vowels lie in LATENTIA_DATA (vowels/vowels.train.csv.gz).
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import latentia as lt
from latentia.data.columns.discrete import DiscreteColumn
from latentia.sequences.chain_questions import Chain, decode_states, filter_states, smooth_states
from latentia.sequences.expectation import chain_estep
from latentia.sequences.hidden_states import make_layout
from latentia.sequences.potentials import wire_groups
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


def loss(tables: list[np.ndarray], x: np.ndarray) -> float:
    """Nats per symbol."""
    states, symbols = tables[2].shape
    chain = Chain(
        read_slice("z -> z', z -> a", {"z": states}),
        {1: DiscreteColumn("a", tuple(range(symbols)))},
        dict(enumerate(tables)),
    )
    sequences = Sequences({1: x.ravel()}, np.arange(len(x) + 1) * x.shape[1])
    return float(-filter_states(chain, sequences).log_scale.mean())


def ours(x: np.ndarray, states: int, symbols: int) -> list[np.ndarray]:
    rows = {"a": x.ravel()}
    names = {"a": list(range(symbols))}
    model = lt.SequenceModel("z -> z', z -> a", {"z": states}, state_names=names)
    tables = model.fit(rows, lengths=[x.shape[1]] * len(x)).cpts_
    return [tables["z"], tables["z'"], tables["a"]]


def theirs(x: np.ndarray, states: int, symbols: int, restarts: int) -> list[np.ndarray]:
    from hmmlearn.hmm import CategoricalHMM

    best, level = [], -np.inf
    marginal = np.bincount(x.ravel(), minlength=symbols) / x.size
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
        ).fit(x.reshape(-1, 1), [x.shape[1]] * len(x))
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


def compare_learning(counts: list[int], models: int, restarts: int) -> None:
    print("| kind | states | symbols | N | ours | hmmlearn x10 | ratio | times faster |")
    print("|---|---|---|---|---|---|---|---|")
    for count in counts:
        for kind, states, symbols in CELLS:
            mine, other, speed = [], [], []
            for seed in range(models):
                tables = truth(kind, states, symbols, 100 + seed)
                x, new = draw(tables, count, seed), draw(tables, 50_000, 1000 + seed)
                least = loss(tables, new)
                begun = time.process_time()
                mine.append(loss(ours(x, states, symbols), new) - least)
                middle = time.process_time()
                other.append(loss(theirs(x, states, symbols, restarts), new) - least)
                speed.append((time.process_time() - middle) / (middle - begun))
            ratio = [a / b for a, b in zip(mine, other, strict=True)]
            middles = [statistics.median(v) for v in (mine, other, ratio, speed)]
            print(
                f"| {kind} | {states} | {symbols} | {count} | {middles[0]:.5f} | "
                f"{middles[1]:.5f} | {middles[2]:.2f} (worst {max(ratio):.2f}) | "
                f"{middles[3]:.1f} |",
                flush=True,
            )


def compare_passes() -> None:
    print("| states | sequences | E-step, ns a symbol | times faster | smooth | decode |")
    print("|---|---|---|---|---|---|")
    for states in (4, 16, 64):
        for n, length in ((1000, 20), (200, 100), (2, 10_000)):
            print(one_pass(states, n, length), flush=True)


def one_pass(states: int, n: int, length: int) -> str:
    """One row: the same tables and symbols, hmmlearn with its faster implementation."""
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
    model.startprob_, model.transmat_, model.emissionprob_ = tables
    rows, lengths = x[:, None], [length] * n
    smooth = timed(lambda: model.score_samples(rows, lengths)) / timed(
        lambda: smooth_states(chain, sequences), 3
    )
    path = timed(lambda: model.decode(rows, lengths)) / timed(
        lambda: decode_states(chain, sequences), 3
    )
    step = timed(lambda: chain_estep(groups, own), 3)
    faster = timed(lambda: model.fit(rows, lengths)) / step
    return (
        f"| {states} | {n} x {length} | {1e9 * step / len(x):.0f} | {faster:.1f} | "
        f"{smooth:.1f} | {path:.1f} |"
    )


def vowels(states: int) -> None:
    import pandas as pd

    home = Path(os.environ.get("LATENTIA_DATA", "")) / "vowels"
    if not (home / "vowels.train.csv.gz").exists():
        print("no vowels: set LATENTIA_DATA to a folder that holds vowels/vowels.train.csv.gz")
        return
    train, test = (pd.read_csv(home / f"vowels.{part}.csv.gz") for part in ("train", "test"))
    channels = [c for c in train.columns if c not in ("sequence", "time", "speaker")]
    slice_ = "z -> z', z -> " + ", ".join(channels)
    rows = ["sequence", "time", *channels]
    begun, scores = time.process_time(), {}
    for speaker, own in train.groupby("speaker"):
        model = lt.SequenceModel(slice_, {"z": states}).fit(
            own[rows], sequence="sequence", time="time"
        )
        found = pd.Series(model.score_samples(test[rows]))
        scores[speaker] = found.groupby(test.sequence.to_numpy()).sum()
    told = pd.DataFrame(scores).idxmax(axis=1)
    right = (told == test.groupby("sequence").speaker.first()).mean()
    print(f"vowels, {states} states: accuracy {right:.3f}, {time.process_time() - begun:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--symbols", type=int, nargs="*", default=[10_000])
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--restarts", type=int, default=10)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # hmmlearn warns when it does not converge
    compare_passes()
    vowels(5)
    compare_learning(options.symbols, options.models, options.restarts)


if __name__ == "__main__":
    main()

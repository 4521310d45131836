"""Hidden Markov chains drawn at random: excess loss and time against restarts of hmmlearn.

Nats per symbol over the truth, on new sequences; all learners have the same pseudo-counts.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Sequence

import numpy as np

from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import MissingLibraryError
from latentia.reproduce.cells import Cell, Experiment, Figure, Settings
from latentia.reproduce.rivals import make_learner
from latentia.sequences.chain_questions import Chain, filter_states
from latentia.sequences.sequence_model import SequenceModel
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, Codes

SLICE = "z -> z', z -> a"
QUICK = ("random 4 × 8", "near 4 × 8")
EVERY = (
    "random 4 × 8",
    "near 4 × 8",
    "random 8 × 16",
    "near 8 × 16",
    "random 8 × 64",
    "random 16 × 32",
    "near 16 × 64",
)


def settings(quick: bool, seed: int) -> Settings:
    return {
        "seed": seed,
        "quick": quick,
        "graphs": list(QUICK if quick else EVERY),  # kind, states × symbols
        "length": 100,  # of a sequence
        "models": {"2000": 1} if quick else {"10000": 2, "100000": 1, "1000000": 1},
        "of many symbols": {  # ten restarts at 10⁵ take minutes: not of all
            "100000": ["random 4 × 8", "near 16 × 64"],
            "1000000": ["random 4 × 8"],
        },
        "new symbols": 5_000 if quick else 50_000,
        "restarts": 2 if quick else 10,
        "restarts of 10⁶": 2,  # their time counts five times
        "max_iter": 100,
        "tol": 1e-2,  # of hmmlearn: of the whole log-likelihood
        "smoothing": 1.0,  # a pseudo-count a row of every table
    }


def cells(settings: Settings, learners: Sequence[str]) -> list[Cell]:
    """All kinds of chains at the first size, some of them at larger ones."""
    return [
        Cell(repetition, int(size), kind, learner)
        for kind in settings["graphs"]
        for learner in learners
        for size, models in settings["models"].items()
        if kind in settings["of many symbols"].get(size, settings["graphs"])
        for repetition in range(models)
    ]


def draw_chain(kind: str, seed: Sequence[int]) -> list[Array]:
    """Start, moves and emissions: rows from a Dirichlet of .3, or near-deterministic ones."""
    rng = np.random.default_rng(seed)
    name, states, symbols = kind.split()[0], int(kind.split()[1]), int(kind.split()[3])
    start = rng.dirichlet(np.ones(states))
    if name == "random":
        move = rng.dirichlet(np.full(states, 0.3), states)
        return [start, move, rng.dirichlet(np.full(symbols, 0.3), states)]
    move = np.full((states, states), 0.05 / states)
    move[np.arange(states), rng.permutation(states)] += 0.75
    move[np.arange(states), rng.permutation(states)] += 0.2
    emission = np.full((states, symbols), 0.05 / symbols)
    emission[np.arange(states), rng.permutation(symbols)[:states]] += 0.85
    emission[np.arange(states), rng.integers(symbols, size=states)] += 0.1
    return [start, move, emission]


def draw_symbols(tables: Sequence[Array], count: int, length: int, seed: Sequence[int]) -> Codes:
    """So many symbols in sequences of one length, one behind the other."""
    rng = np.random.default_rng(seed)
    start, move, emission = (t.cumsum(axis=-1) for t in tables)
    n = count // length
    found = np.empty((n, length), dtype=np.int64)
    rows = np.broadcast_to(start, (n, len(start)))
    for t in range(length):
        z = np.minimum((rng.random((n, 1)) > rows).sum(axis=1), len(start) - 1)
        drawn = (rng.random((n, 1)) > emission[z]).sum(axis=1)
        found[:, t] = np.minimum(drawn, emission.shape[1] - 1)
        rows = move[z]
    return found.ravel()


def chain_loss(tables: Sequence[Array], x: Codes, length: int) -> float:
    """Nats per symbol."""
    states, symbols = tables[2].shape
    columns = {1: DiscreteColumn("a", tuple(range(symbols)))}
    chain = Chain(read_slice(SLICE, {"z": states}), columns, dict(enumerate(tables)))
    sequences = Sequences({1: x}, np.arange(0, len(x) + 1, length))
    return float(-filter_states(chain, sequences).log_scale.mean())


def best_of_hmmlearn(
    x: Codes, shape: tuple[int, int], settings: Settings, restarts: int
) -> list[Array]:
    """The likeliest of some random starts, as many E-steps as it may take."""
    try:
        CategoricalHMM = importlib.import_module("hmmlearn.hmm").CategoricalHMM
    except ModuleNotFoundError:
        raise MissingLibraryError.of("this rival", "hmmlearn", "dev") from None
    (states, symbols), length = shape, settings["length"]
    marginal = np.bincount(x, minlength=symbols) / len(x)
    pseudo = settings["smoothing"]
    best: list[Array] = []
    level = -np.inf
    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)  # it says when it has not come to rest
    for seed in range(restarts):
        model = CategoricalHMM(
            states,
            n_features=symbols,
            n_iter=settings["max_iter"],
            tol=settings["tol"],
            implementation="scaling",
            random_state=seed,
            startprob_prior=1.0 + pseudo / states,
            transmat_prior=1.0 + pseudo / states,
            emissionprob_prior=1.0 + pseudo * marginal,
        ).fit(x[:, None], [length] * (len(x) // length))
        if model.monitor_.history[-1] > level:
            level = model.monitor_.history[-1]
            best = [model.startprob_, model.transmat_, model.emissionprob_]
    return best


def measure(cell: Cell, settings: Settings) -> dict[str, float]:
    """Excess loss on new symbols, and processor time (of ten restarts)."""
    seed, length = [settings["seed"], cell.repetition], settings["length"]
    tables = draw_chain(cell.variant, seed)
    states, symbols = tables[2].shape
    x = draw_symbols(tables, cell.size, length, [*seed, cell.size])
    new = draw_symbols(tables, settings["new symbols"], length, [*seed, cell.size, 1])
    begun = time.process_time()
    if cell.learner == "hmmlearn":
        restarts = settings["restarts of 10⁶" if cell.size >= 10**6 else "restarts"]
        found = best_of_hmmlearn(x, (states, symbols), settings, restarts)
        seconds = (time.process_time() - begun) * settings["restarts"] / restarts
        loss = chain_loss(found, new, length)
    else:
        learner = None if cell.learner == "pbp" else make_learner(cell.learner, settings, 0)
        names = {"a": list(range(symbols))}
        model = SequenceModel(SLICE, {"z": states}, state_names=names, learner=learner)
        model.fit({"a": x}, lengths=[length] * (cell.size // length))
        seconds = time.process_time() - begun
        loss = -model.score({"a": new}, lengths=[length] * (len(new) // length))
    return {"excess": loss - chain_loss(tables, new, length), "seconds": seconds}


EXPERIMENT = Experiment(
    name="sequences",
    title="Sequences: hidden Markov chains of 4 to 16 states",
    text=(
        "Chains are drawn at random: rows from a Dirichlet of .3, or near-deterministic ones. "
        "Learned from N symbols in sequences of 100; the loss is in nats per symbol over that of "
        "the truth, on new symbols. hmmlearn keeps the likeliest of ten random starts, 100 E-steps "
        "each, with the same pseudo-counts; at 10⁶ symbols of two, whose time counts five times. "
        "Seconds are processor time."
    ),
    settings=settings,
    cells=cells,
    measure=measure,
    figures=(
        Figure("excess", "excess loss [nats per symbol]", "Loss over the truth, new symbols"),
        Figure("seconds", "seconds to train (one core)", "Training time"),
    ),
    learners=("pbp", "closed", "hmmlearn"),
)

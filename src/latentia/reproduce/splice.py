"""Splice junctions (the paper's first version; design 12): argmax_c P̂_c(sequence) P(c).

One model for each of three classes over 60 positions, cross-validated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from latentia.model.classifier import LatentClassifier
from latentia.reproduce.cells import Cell, Experiment, Figure, Settings, every_cell
from latentia.reproduce.datasets import splice
from latentia.reproduce.rivals import make_learner
from latentia.structure.graph import LatentGraph
from latentia.structure.templates import hidden_markov, latent_class
from latentia.typing import Array, CellArray, Codes

LETTERS = tuple("ACGT")


def settings(quick: bool, seed: int) -> Settings:
    return {
        "seed": seed,
        "quick": quick,
        "graphs": ["chain", "latent class"],
        "states": 4,  # of every latent: as many as letters; not chosen by results
        "positions": [24, 37] if quick else [1, 60],
        "rows": [100, 1_000] if quick else [100, 300, 1_000, 2_552],
        "folds": 5,
        "repetitions": 1 if quick else 5,  # folds that are run
        "unclear letters": "missing cells",
        "restarts": 2 if quick else 10,
        "max_iter": 20 if quick else 200,
        "tol": 1e-5,
        "smoothing": 1.0,  # as in naive Bayes: without it EM finds new rows impossible
    }


def _graph(name: str, columns: Sequence[str], states: int) -> LatentGraph:
    if name == "chain":
        return hidden_markov(len(columns), states, columns)
    return latent_class(columns, states)


def _split(target: CellArray, settings: Settings, cell: Cell) -> tuple[Codes, Codes]:
    """Rows to learn from, a stratified part of four folds, and to be judged by, the fifth."""
    rng = np.random.default_rng([settings["seed"], 1])
    folds = np.empty(len(target), dtype=np.int64)
    for label in np.unique(target):
        own = rng.permutation(np.flatnonzero(target == label))
        folds[own] = np.arange(len(own)) % settings["folds"]
    test = np.flatnonzero(folds == cell.repetition)
    rest = np.flatnonzero(folds != cell.repetition)
    rng = np.random.default_rng([settings["seed"], 2, cell.repetition])
    if cell.size >= len(rest):
        return rest, test
    order = rng.permutation(rest)
    taken: list[Codes] = []
    for label in np.unique(target):
        own = order[target[order] == label]
        taken.append(own[: round(cell.size * len(own) / len(rest))])
    return np.concatenate(taken), test


def naive_bayes_scores(
    train: Mapping[str, CellArray], target: CellArray, test: Mapping[str, CellArray]
) -> tuple[Array, float]:
    """log P(c) + Σ log P(x_i | c), a pseudo-count for each letter; unclear letters say nothing."""
    start = time.perf_counter()
    scores = []
    for label in np.unique(target):
        total = np.full(len(next(iter(test.values()))), np.log(np.mean(target == label)))
        for name, column in train.items():
            own = column[target == label]
            counts = np.array([np.sum(own == letter) for letter in LETTERS]) + 1.0
            for letter, share in zip(LETTERS, counts / counts.sum(), strict=True):
                total = total + np.where(test[name] == letter, np.log(share), 0.0)
        scores.append(total)
    return np.column_stack(scores), time.perf_counter() - start


def measure(cell: Cell, settings: Settings) -> dict[str, float]:
    genes = splice()
    assert genes.target is not None
    first, last = settings["positions"]
    clear: dict[str, CellArray] = {
        name: np.where(np.isin(column, LETTERS), column.astype(object), np.array(None))
        for name, column in list(genes.columns.items())[first - 1 : last]
    }
    rows, held_out = _split(genes.target, settings, cell)
    train, test = ({n: c[part] for n, c in clear.items()} for part in (rows, held_out))
    if cell.learner == "bayes":
        scores, seconds = naive_bayes_scores(train, genes.target[rows], test)
        guess = np.unique(genes.target)[scores.argmax(axis=1)]
    else:
        graph = _graph(cell.variant, list(clear), settings["states"])
        learner = make_learner(cell.learner, settings, settings["seed"] + cell.repetition)
        states = dict.fromkeys(clear, LETTERS)
        model = LatentClassifier(graph, learner=learner, state_names=states)
        start = time.perf_counter()
        model.fit(train, genes.target[rows])
        seconds = time.perf_counter() - start
        guess = model.predict(test)
    return {"accuracy": 100 * float(np.mean(guess == genes.target[held_out])), "seconds": seconds}


EXPERIMENT = Experiment(
    name="splice",
    title="Splice junctions: classifying sequences of 60 letters",
    text=(
        "Is the middle of the sequence a border from exon to intron, from intron to exon, or "
        "neither? One model for each class, a hidden Markov chain or a latent class model with 4 "
        "states, the same for all learners; a row goes to the class with the largest evidence "
        "probability times prior. Five folds, each judged on rows that were not learned from; "
        "letters that the biologists left unclear are missing cells."
    ),
    settings=settings,
    cells=every_cell,
    measure=measure,
    figures=(
        Figure("accuracy", "accuracy [%]", "Accuracy on held-out rows", False, False, ".1f"),
        Figure("seconds", "seconds to train", "Training time, three classes together"),
    ),
    learners=("paper", "closed", "pbp", "refined", "em", "stepwise", "spectral", "bayes"),
    datasets=("splice",),
)

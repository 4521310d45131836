"""NLTCS: log P̂(row) and −log P̂(cell | rest of the row) on held-out rows of a survey."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from latentia.model.latent_model import LatentModel
from latentia.reproduce.cells import Cell, Experiment, Figure, Settings, every_cell
from latentia.reproduce.datasets import nltcs
from latentia.reproduce.rivals import make_learner
from latentia.structure.graph import LatentGraph
from latentia.structure.templates import latent_class, latent_tree
from latentia.typing import Array, ByName, CellArray

VALID = ("refined", "em", "stepwise", "independent")  # their scores are likelihoods


def settings(quick: bool, seed: int) -> Settings:
    return {
        "seed": seed,
        "quick": quick,
        "graphs": ["latent tree", "latent class"],
        "tree": "Q1 to Q6 (daily living) and Q7 to Q16 (instrumental), one latent each, and a root",
        "states": 4,  # of every latent; not chosen by results
        "rows": [300, 1_000] if quick else [300, 1_000, 4_000, 16_181],
        "repetitions": 1 if quick else 5,  # parts of the training rows, or seeds where all are used
        "floor": 1e-9,
        "restarts": 2 if quick else 10,
        "max_iter": 50 if quick else 500,
        "tol": 1e-6,
        "smoothing": 1.0,  # pseudo-count of each row of each table, for both kinds of EM
    }


def _graph(name: str, columns: Sequence[str], states: int) -> LatentGraph:
    if name == "latent class":
        return latent_class(columns, states)
    return latent_tree([list(columns[:6]), list(columns[6:])], states)


def measure(cell: Cell, settings: Settings) -> dict[str, float]:
    survey = nltcs()
    train, _ = survey.part("train")
    test, _ = survey.part("test")
    rng = np.random.default_rng([settings["seed"], cell.repetition])
    rows = rng.permutation(len(train["Q1"]))[: cell.size]
    part = {name: column[rows] for name, column in train.items()}
    if cell.learner == "independent":
        return _independent(part, test)
    graph = _graph(cell.variant, survey.names, settings["states"])
    learner = make_learner(cell.learner, settings, settings["seed"] + cell.repetition)
    model = LatentModel(graph, learner=learner, state_names=dict.fromkeys(part, (0, 1)))
    start = time.perf_counter()
    model.fit(part)
    seconds = time.perf_counter() - start
    told = model.marginals(test)
    loss = _log_loss({name: p[1] for name, p in told.items()}, test, settings["floor"])
    valid = cell.learner in VALID or bool(model.operators_.tables)
    likelihood = model.score(test) if valid else math.nan
    return {"log_loss": loss, "log_likelihood": likelihood, "seconds": seconds}


def _log_loss(yes: ByName[Array], test: Mapping[str, CellArray], floor: float) -> float:
    """Mean over columns and rows of −log P̂(cell | all other cells)."""
    losses = []
    for name, p in yes.items():
        p = np.clip(p, floor, 1 - floor)
        losses.append(-np.log(np.where(test[name] == 1, p, 1 - p)).mean())
    return float(np.mean(losses))


def _independent(train: dict[str, CellArray], test: dict[str, CellArray]) -> dict[str, float]:
    shares = {name: (column.sum() + 0.5) / (len(column) + 1) for name, column in train.items()}
    yes = {name: np.full(len(test[name]), share) for name, share in shares.items()}
    loss = _log_loss(yes, test, 0.0)
    return {"log_loss": loss, "log_likelihood": -loss * len(yes), "seconds": math.nan}


EXPERIMENT = Experiment(
    name="nltcs",
    title="NLTCS: how well are held-out answers told?",
    text=(
        "A survey of 16 yes-or-no questions. A latent tree and a latent class model, learned from "
        "N rows and judged on the 3,236 rows of the standard test part: by the log loss of each "
        "answer given the other fifteen, and, for learners whose model is a distribution, by the "
        "log-likelihood of whole rows (the closed forms are signed: they have none)."
    ),
    settings=settings,
    cells=every_cell,
    measure=measure,
    figures=(
        Figure(
            "log_loss",
            "log loss per answer [nats]",
            "One answer from the rest",
            False,
            digits=".4f",
        ),
        Figure(
            "log_likelihood", "log-likelihood per row [nats]", "Whole rows", False, False, ".3f"
        ),
        Figure("seconds", "seconds to train", "Training time"),
    ),
    learners=("paper", "closed", "pbp", "refined", "em", "stepwise", "spectral", "independent"),
    datasets=("nltcs",),
)

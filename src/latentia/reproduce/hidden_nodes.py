"""Networks: a directed graph with some nodes hidden, learned with its true graph (design 13).

Where columns are parents, most of a network is counted, and what is left are small pieces; where
only latents are parents, messages of PBP carry most of the work. The same measures on both.
"""

from __future__ import annotations

import math
import time

import numpy as np

from latentia.exact.table_answers import TableAnswers
from latentia.model.latent_model import LatentModel
from latentia.reproduce.cells import Cell, Experiment, Figure, Settings, every_cell
from latentia.reproduce.drawn_networks import draw_network
from latentia.reproduce.rivals import make_learner
from latentia.typing import Array, Codes

TINY = 1e-12


def settings(quick: bool, seed: int) -> Settings:
    return {
        "seed": seed,
        "quick": quick,
        "graphs": ["causes", "latent tree"]
        if quick
        else ["polytree", "causes", "grid", "latent tree"],
        "rows": [500, 2_000] if quick else [1_000, 10_000, 100_000],
        "models": 1 if quick else 5,
        "asked columns": 6 if quick else 12,
        "test rows": 100 if quick else 400,
        "restarts": 2 if quick else 10,
        "max_iter": 50 if quick else 200,
        "tol": 1e-6,
        "smoothing": 1.0,  # pseudo-count of each row of each table, for all learners of tables
    }


def measure(cell: Cell, settings: Settings) -> dict[str, float]:
    kind = list(settings["graphs"]).index(cell.variant)
    truth = draw_network(
        cell.variant, np.random.default_rng([settings["seed"], kind, cell.repetition])
    )
    rng = np.random.default_rng([settings["seed"], kind, cell.repetition, cell.size])
    train, test = truth.sample(cell.size, rng), truth.sample(settings["test rows"], rng)
    asked = truth.graph.observed[:: max(1, len(truth.graph.observed) // settings["asked columns"])]
    columns = [truth.names[v] for v in truth.graph.observed]
    if cell.learner == "marginal":
        shares = {
            v: np.bincount(own, minlength=truth.states[v]) / cell.size
            for v, own in zip(truth.graph.observed, train.T, strict=True)
        }
        found = {v: np.broadcast_to(shares[v], (len(test), truth.states[v])) for v in asked}
        return {"kl": divergence(truth, test, found), "seconds": math.nan}
    learner = make_learner(cell.learner, settings, settings["seed"] + cell.repetition)
    states = {truth.names[v]: range(truth.states[v]) for v in truth.graph.observed}
    model = LatentModel(truth.graph, learner=learner, state_names=states)
    start = time.perf_counter()
    model.fit(dict(zip(columns, train.T, strict=True)))
    seconds = time.perf_counter() - start
    rows = dict(zip(columns, test.T, strict=True))
    found = {
        v: np.column_stack(list(model.predict_proba(rows, truth.names[v]).values())) for v in asked
    }
    return {"kl": divergence(truth, test, found), "seconds": seconds}


def divergence(truth: TableAnswers, test: Codes, found: dict[int, Array]) -> float:
    """Mean KL of P(column | all others), over columns and rows; (rows, states) each."""
    codes, total = truth.evidence(test), 0.0
    for v, q in found.items():
        others = codes.copy()
        others[:, v] = -1
        p = truth.posteriors(others, truth.names[v])[truth.names[v]]
        ratio = np.log(np.maximum(p, TINY)) - np.log(np.maximum(q, TINY))
        total += float((p * ratio).sum(axis=1).mean())
    return total / len(found)


EXPERIMENT = Experiment(
    name="networks",
    title="Networks with hidden nodes",
    text=(
        "Networks are drawn at random: polytrees, causes of symptoms, a grid of hidden nodes among "
        "columns, and a row of latents with columns below. Learned with the true graph from N "
        "rows; asked for a column given all others of fresh rows; compared with exact inference "
        "on the true tables. The default of PBP takes the graph's own tables where columns are "
        "parents, and chooses between closed form and refined network where they are not. "
        "Networks of practice, with ten restarts of EM beside them, are in docs/benchmarks.md."
    ),
    settings=settings,
    cells=every_cell,
    measure=measure,
    figures=(
        Figure("kl", "mean KL of P(column | others) [nats]", "Error"),
        Figure("seconds", "seconds to train", "Training time"),
    ),
    learners=("closed", "pbp", "tables", "em", "stepwise", "marginal"),
)

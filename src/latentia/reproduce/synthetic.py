"""Synthetic (paper, figures 4 and 5; design 12): P(D | E, G, H) of a random diamond.

KL(P(D | e, g, h) ‖ P̂(D | e, g, h)) against exact inference, averaged over all (e, g, h).
"""

from __future__ import annotations

import math
import time

import numpy as np

from latentia.errors import EvidenceError
from latentia.exact.tabular_model import TabularModel
from latentia.model.latent_model import LatentModel
from latentia.reproduce.cells import Cell, Experiment, Figure, Settings, every_cell
from latentia.reproduce.rivals import make_learner
from latentia.structure.reading_graphs import as_graph
from latentia.testing.random_models import brute_force, random_model
from latentia.typing import Array, Codes

GRAPH = "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H"
LATENTS = dict.fromkeys("ABCF", 3)
COLUMNS = dict.fromkeys("DEGH", 5)


def settings(quick: bool, seed: int) -> Settings:
    return {
        "seed": seed,
        "quick": quick,
        "graph": GRAPH,
        "states of latents": 3,
        "states of columns": 5,
        "rows": [100, 1_000, 10_000] if quick else [10**k for k in range(2, 7)],
        "models": 3 if quick else 10,
        "concentration": 0.5,  # Dirichlet, of every row of every table
        "least": 0.05,  # KL of the marginal: models where the evidence matters
        "floor": 1e-4,  # of posteriors, before they are compared
        "restarts": 2 if quick else 10,
        "max_iter": 100 if quick else 200,
        "tol": 1e-6,
        "smoothing": 0.0,  # EM as in the paper: maximum likelihood
    }


def draw_truth(settings: Settings, repetition: int) -> tuple[TabularModel, Array]:
    """Random tables and P(D, E, G, H), redrawn until the marginal of D is a bad answer."""
    rng = np.random.default_rng([settings["seed"], repetition])
    graph = as_graph(GRAPH, LATENTS, COLUMNS)
    while True:
        model = random_model(graph, rng, settings["concentration"])
        joint = brute_force(model)
        alone = np.broadcast_to(joint.sum(axis=(1, 2, 3))[:, None, None, None], joint.shape)
        if divergences(joint, alone, settings["floor"])[1] >= settings["least"]:
            return model, joint


def divergences(joint: Array, found: Array, floor: float) -> tuple[float, float]:
    """Mean of KL(P(D | ·) ‖ found) over all evidence: uniform, and weighted by P(evidence).

    Both arrays have the axes (D, E, G, H); `found` is floored and sums to one over D.
    """
    weight = joint.sum(axis=0)
    truth = joint / np.maximum(weight, 1e-300)
    found = np.maximum(found, floor)
    found = found / found.sum(axis=0)
    ratio = np.log(np.maximum(truth, 1e-300)) - np.log(found)
    each = np.where(truth > 0, truth * ratio, 0.0).sum(axis=0)
    return float(each.mean()), float((each * weight).sum() / weight.sum())


def measure(cell: Cell, settings: Settings) -> dict[str, float]:
    truth, joint = draw_truth(settings, cell.repetition)
    rng = np.random.default_rng([settings["seed"], cell.repetition, cell.size])
    rows = truth.sample(cell.size, rng).astype(np.int8)
    names = [str(truth.names[v]) for v in truth.graph.observed]
    evidence = np.indices((5, 5, 5)).reshape(3, -1)  # E, G, H
    if cell.learner == "marginal":
        share = np.bincount(rows[:, names.index("D")], minlength=5) / cell.size
        seconds = math.nan  # a landmark, not a learner
        found = np.broadcast_to(share[:, None], (5, 125))
    else:
        learner = make_learner(cell.learner, settings, settings["seed"] + cell.repetition)
        states = {name: list(range(5)) for name in names}
        model = LatentModel(GRAPH, LATENTS, learner=learner, state_names=states)
        table = {name: np.ascontiguousarray(rows[:, i]) for i, name in enumerate(names)}
        start = time.perf_counter()
        model.fit(table)
        seconds = time.perf_counter() - start
        found = _answers(model, evidence)
    uniform, weighted = divergences(joint, found.reshape(5, 5, 5, 5), settings["floor"])
    return {"kl": uniform, "kl_weighted": weighted, "seconds": seconds}


def _answers(model: LatentModel, evidence: Codes) -> Array:
    """P̂(D | every E, G, H): (5, 125); the marginal where EM finds the evidence impossible."""
    asked = dict(zip("EGH", evidence, strict=True))
    try:
        return np.column_stack(list(model.predict_proba(asked, target="D").values())).T
    except EvidenceError:
        alone = np.asarray(model.query("D"))
    answers = []
    for e, g, h in evidence.T.tolist():
        try:
            answers.append(np.asarray(model.query("D", {"E": e, "G": g, "H": h})))
        except EvidenceError:
            answers.append(alone)
    return np.array(answers).T


EXPERIMENT = Experiment(
    name="synthetic",
    title="Synthetic: posteriors of a random loopy model",
    text=(
        "The graph of the paper's figure 4 as we read it: A, B, C, F are latent with 3 states, D, "
        "E, G, H are columns with 5. All tables are drawn at random (and drawn again where the "
        "marginal of D is already a good answer). Learned from N rows; asked for D given all 125 "
        "combinations of E, G, H; compared with exact inference on the true tables. EM and "
        "stepwise EM keep the best of their random starts by training likelihood."
    ),
    settings=settings,
    cells=every_cell,
    measure=measure,
    figures=(
        Figure("kl", "mean KL over all evidence [nats]", "Error, all evidence alike (paper)"),
        Figure("kl_weighted", "mean KL, by P(evidence) [nats]", "Error, evidence by probability"),
        Figure("seconds", "seconds to train", "Training time"),
    ),
    learners=("paper", "closed", "pbp", "refined", "em", "stepwise", "spectral", "marginal"),
)

"""How often a random start of EM ends below the best of ten, on the models of the synthetic run."""

from __future__ import annotations

import warnings

import numpy as np

import latentia as lt
from latentia.reproduce.synthetic import COLUMNS, EXPERIMENT, GRAPH, LATENTS, draw_truth

LOWER = 1e-3  # nats per row


def main() -> None:
    warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
    settings = EXPERIMENT.settings(False, 0)
    shares = []
    for repetition in range(settings["models"]):
        truth, _ = draw_truth(settings, repetition)
        rows = truth.sample(10_000, np.random.default_rng([0, repetition, 10_000]))
        states = {name: list(range(5)) for name in COLUMNS}
        learner = lt.EM(restarts=10, random_state=repetition)
        model = lt.LatentModel(GRAPH, LATENTS, learner=learner, state_names=states).fit(rows)
        ends = np.array([path[-1] for path in model.history_])
        shares.append(float(np.mean(ends < ends.max() - LOWER)))
    print(f"EM, 10 models, 10,000 rows: {np.mean(shares):.0%} of the starts end more than {LOWER}")
    print(f"nats per row below the best of ten; by model {[round(s, 1) for s in shares]}")


if __name__ == "__main__":
    main()

"""Makes the pictures of docs/how-it-works.md: python docs/pictures.py [folder]."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import latentia as lt


def main(folder: Path) -> None:
    graph = lt.as_graph(
        "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H",
        latents=dict.fromkeys("ABCF", 3),
        states=dict.fromkeys("DEGH", 5),
    )
    truth = lt.testing.random_model(graph, np.random.default_rng(4), 0.4)
    model = lt.LatentModel(graph).fit(truth.sample(100_000, 1))
    evidence = {"G": 2, "H": 0}
    folder.mkdir(parents=True, exist_ok=True)
    graph.draw().save(folder / "graph.svg")
    lt.make_plan(graph).draw().save(folder / "plan.svg")
    model.draw(evidence, target="D").save(folder / "messages.svg")
    model.query("D", evidence).plot().save(folder / "posterior.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")

"""Makes the pictures of how-it-works.md, sequences.md and gallery.md: docs/pictures.py [folder]."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

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
    sequences(folder)
    gallery(folder)


def gallery(folder: Path) -> None:
    """Whatever docs/gallery.md draws, by its own code."""
    text = (Path(__file__).parent / "gallery.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(text):
        exec(example.source, names)
        if example.source.startswith("folder ="):
            names["folder"] = folder


def sequences(folder: Path) -> None:
    """The machines of docs/sequences.md."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(50, 150, size=40)
    worn = (rng.random(lengths.sum()) < 0.04).cumsum() % 2
    log = {
        "machine": np.repeat(np.arange(40), lengths),
        "hour": np.concatenate([np.arange(n) for n in lengths]),
        "sound": np.where(rng.random(len(worn)) < np.where(worn, 0.7, 0.1), "rattle", "hum"),
        "heat": 60 + 8 * worn + rng.normal(size=len(worn)) * 3,
    }
    model = lt.SequenceModel("z -> z', z -> sound, heat", latents={"z": 2})
    model.draw().save(folder / "sequence-slice.svg")
    model.fit(log, sequence="machine", time="hour")
    model.plot_moves().save(folder / "sequence-moves.svg")
    model.plot_decoded(log, 3).save(folder / "sequence-decoded.svg")
    model.plot_forecast(log, 12, 3).save(folder / "sequence-forecast.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")

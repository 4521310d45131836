"""What latentia does, in a minute: the paper's synthetic experiment, small, and one answer."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

import latentia as lt
from latentia.cli import reproducing  # noqa: F401 (its command joins the app)
from latentia.cli.options import app

GRAPH = "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H"
LATENTS = dict.fromkeys("ABCF", 3)
COLUMNS = dict.fromkeys("DEGH", 5)
PICTURE = r"""
                 (A)              (A) (B) (C) (F)   latent, 3 states: nobody sees them
                 / \              [D] [E] [G] [H]   columns, 5 states
               (B) (C)
               / \ / \            Asked for: P(D | E, G, H), learned from N rows,
            [D]  (F)  [E]         against exact inference on the true tables.
                 / \              KL is 0 where the answer is right.
               [G] [H]
"""
OUT = Path("latentia-reports") / "demo"


def main() -> None:
    print("latentia: a loopy graph with four latents, learned from its columns alone")
    print(PICTURE, flush=True)
    given = sys.argv[1:]
    asked = ["reproduce", "synthetic", "--quick", "--out", str(OUT), *given]
    app(asked, standalone_mode=False)
    show_one_answer()


def show_one_answer() -> None:
    """One question to a model learned from 100,000 rows, as bars, beside the truth."""
    warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
    rng = np.random.default_rng(11)
    truth = lt.testing.random_model(lt.as_graph(GRAPH, LATENTS, COLUMNS), rng, 0.3)
    model = lt.LatentModel(GRAPH, LATENTS, state_names=dict.fromkeys(COLUMNS, range(5)))
    model.fit(truth.sample(100_000, rng).astype(np.int8))
    row = dict(zip("DEGH", truth.sample(1, rng)[0].tolist(), strict=True))
    evidence = {name: row[name] for name in "EGH"}
    print("\nOne answer, learned from 100,000 rows:\n")
    print(model.query("D", evidence))
    print("\nThe same from the true tables, by exact inference:\n")
    print(truth.query("D", evidence))
    picture = model.draw(evidence, target="D").save(OUT / "messages.svg")
    print(f"\nReport with figures: {OUT / 'report.html'}")
    print(f"How the messages passed: {picture}")


if __name__ == "__main__":
    main()

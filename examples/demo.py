"""What latentia does, in a minute: real data with a hidden cause, then the paper's experiment."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tumours import KINDS, MEASURES, tumour_model, tumours

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
    OUT.mkdir(parents=True, exist_ok=True)
    show_hidden_kinds()
    print("\n" + "=" * 78)
    print("The paper's experiment: a loopy graph with four latents, learned from its columns alone")
    print(PICTURE, flush=True)
    given = sys.argv[1:]
    asked = ["reproduce", "synthetic", "--quick", "--out", str(OUT), *given]
    app(asked, standalone_mode=False)
    show_one_answer()


# --- a table with a hidden cause ------------------------------------------------------------------


def show_hidden_kinds() -> None:
    """Kinds of tumours that nobody told the model of, one answer, and a page to look at."""
    columns, diagnosis = tumours()
    rows = len(diagnosis)
    print(
        f"{rows} breast tumours, six measures each, in three sizes. A hidden kind is behind them:"
    )
    print("the model finds it from the measures alone. The diagnosis is kept aside.\n", flush=True)
    model = tumour_model(columns)
    print(model.profile("kind"))
    show_truth(model, columns, diagnosis)
    show_hole(model, columns)
    page = model.explore(to=OUT / "tumours.html", title="Breast tumours")
    print(f"\nLook at it: open {page} in a browser, click a state, and see what follows.")


def show_truth(
    model: lt.LatentModel, columns: dict[str, Any], diagnosis: np.ndarray[Any, Any]
) -> None:
    """How many tumours of each kind are malignant in truth."""
    shares = np.column_stack(list(model.predict_latent(columns, "kind").values()))
    malignant = diagnosis == "malignant"
    told = ", ".join(
        f"{shares[malignant, k].sum() / shares[:, k].sum():.0%} of the {kind} ones"
        for k, kind in enumerate(KINDS)
    )
    print(f"\nThe diagnosis, which the model never saw: malignant are {told}.")


def show_hole(model: lt.LatentModel, columns: dict[str, Any], row: int = 100) -> None:
    """A measure that is missing, with its uncertainty, beside what was measured in truth."""
    given = {m: str(columns[m][row]) for m in MEASURES if m != "concavity"}
    truth = columns["concavity"][row]
    print(f"\nTumour {row}, had its concavity not been measured (in truth: {truth}):\n")
    print(model.query("concavity", given, confidence=0.9))
    print()
    print(model.query("kind", given))


# --- the paper's experiment -----------------------------------------------------------------------


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

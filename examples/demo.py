"""What latentia does, in under a minute: learn a loopy latent graph, ask it, check it."""

from __future__ import annotations

import time
import warnings

import numpy as np

import latentia as lt

GRAPH = "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H"
LATENTS = {"A": 3, "B": 3, "C": 3, "F": 3}
COLUMNS = dict.fromkeys("DEGH", 5)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
MODELS = 5


def kl_rows(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """KL(truth ‖ found) of every row, answers floored at 1e-4."""
    found = np.maximum(found, 1e-4)
    found = found / found.sum(axis=1, keepdims=True)
    safe = np.maximum(truth, 1e-300)
    return np.asarray((truth * np.log(safe / found)).sum(axis=1))


def draw_model(seed: int) -> lt.TabularModel:
    """Random tables, redrawn until the evidence matters: the marginal must be a bad answer."""
    rng = np.random.default_rng(seed)
    while True:
        model = lt.testing.random_model(lt.as_graph(GRAPH, LATENTS, COLUMNS), rng, 0.4)
        table = lt.testing.brute_force(model)
        p = table / table.sum(axis=0, keepdims=True)
        marginal = table.sum(axis=(1, 2, 3))[:, None, None, None]
        if (table * np.log(np.maximum(p, 1e-300) / marginal)).sum() > 0.05:
            return model


def main() -> None:
    warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
    print(f"The graph   {GRAPH}")
    print("Latent: A, B, C, F (3 states each). Columns: D, E, G, H (5 states each).\n")
    print("The plan, made before any data are seen:\n")
    print(lt.make_plan(GRAPH, LATENTS, COLUMNS))

    print(f"\nPosterior of D given E, G, H against exact inference, {MODELS} random models:\n")
    print("     rows    KL (median)    worst    the marginal's    seconds to learn")
    models = [draw_model(seed) for seed in range(MODELS)]
    for n in SIZES:
        kls, marginals, seconds = [], [], []
        for seed, truth in enumerate(models):
            rows = truth.sample(n, np.random.default_rng([seed, n])).astype(np.int8)
            start = time.perf_counter()
            model = lt.LatentModel(GRAPH, LATENTS, state_names={c: range(5) for c in COLUMNS})
            model.fit(rows)
            seconds.append(time.perf_counter() - start)
            test = truth.sample(2000, np.random.default_rng([seed, 1]))
            asked = test.copy()
            asked[:, 0] = -1
            exact = truth.posteriors(truth.evidence(asked), ["D"])["D"]
            kls.append(kl_rows(exact, model.predict_proba(test, target="D")).mean())
            alone = np.repeat(np.asarray(model.query("D"))[None], len(test), axis=0)
            marginals.append(kl_rows(exact, alone).mean())
        print(
            f"{n:>9,}    {np.median(kls):11.5f}  {max(kls):7.5f}    {np.median(marginals):14.5f}"
            f"    {np.median(seconds):16.3f}",
            flush=True,
        )

    print("\nOne answer of the last model, learned from a million rows:\n")
    print(model.query("D", {"G": 2, "H": 0}))
    exact = truth.query("D", {"G": 2, "H": 0})
    print("exact: " + "  ".join(f"{p:.4f}" for p in exact))


if __name__ == "__main__":
    main()

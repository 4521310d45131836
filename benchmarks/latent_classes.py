"""Latent classes of maximum likelihood against StepMix: levels and CPU time, set by set.

Run: python benchmarks/latent_classes.py [--sets 12] [--inits 10]. Needs stepmix. Every set is a
survey drawn from random classes, every third with holes, every second learned with a class more
than there are: there optima lie close together. `higher` is ours minus theirs, in nats of all rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from stepmix.stepmix import StepMix

import latentia as lt


def survey(rng: np.random.Generator, turn: int) -> tuple[pd.DataFrame, int]:
    """Answers of some classes, and the number of classes to be learned."""
    classes, n = int(rng.integers(2, 6)), int(rng.choice([300, 1000, 3000]))
    items, states = int(rng.integers(5, 14)), int(rng.integers(2, 5))
    member = rng.choice(classes, size=n, p=rng.dirichlet(3 * np.ones(classes)))
    tables = rng.dirichlet(np.ones(states), size=(items, classes)).cumsum(axis=-1)
    codes = [(rng.random(n)[:, None] > t[member]).sum(axis=1).clip(0, states - 1) for t in tables]
    frame = pd.DataFrame({f"x{i}": c.astype(float) for i, c in enumerate(codes)})
    if turn % 3 == 2:
        frame = frame.mask(rng.random(frame.shape) < 0.1)
    return frame, classes + turn % 2


def ours(frame: pd.DataFrame, classes: int) -> float:
    graph = [("class", name) for name in frame]
    learner = lt.Tables(smoothing=0, random_state=0)
    model = lt.LatentModel(graph, {"class": classes}, learner=learner).fit(frame)
    return model.score(frame) * len(frame)


def theirs(frame: pd.DataFrame, classes: int, inits: int) -> float:
    kind = "categorical_nan" if frame.isna().any().any() else "categorical"
    rival = StepMix(
        classes, measurement=kind, n_init=inits, max_iter=1000, abs_tol=1e-7, rel_tol=0,
        random_state=0, progress_bar=0,
    ).fit(frame)  # fmt: skip
    return float(rival.score(frame)) * len(frame)


def timed(work: Any, *given: Any) -> tuple[float, float]:
    started = time.process_time()
    level = work(*given)
    return level, time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--inits", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(5)
    ours(*survey(np.random.default_rng(0), 0))  # imports are not counted
    print("rows × items, classes, level, higher, seconds, StepMix's, times faster")
    for turn in range(options.sets):
        frame, classes = survey(rng, turn)
        level, seconds = timed(ours, frame, classes)
        other, slow = timed(theirs, frame, classes, options.inits)
        print(
            f"{len(frame)} × {frame.shape[1]}, {classes}, {level:.4f}, {level - other:+.4f}, "
            f"{seconds:.3f}, {slow:.2f}, {slow / seconds:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

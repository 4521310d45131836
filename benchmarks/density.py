"""Density of binary tables: one structure, and a mixture of structures, on the standard suite.

    LATENTIA_DATA=… python benchmarks/density.py [nltcs plants …] [--budget 18] [--members 12]

Learned from the training rows, chosen by the validation rows, judged once on the test rows: mean
log-likelihood in nats. Beside it the figures of published hidden Chow-Liu trees, and how many test
rows are copies of training rows. Seconds are of the processor, on one core.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from pathlib import Path

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.discovery.island_network import maximise_islands
from latentia.discovery.island_steps import likelihoods_of
from latentia.discovery.members import mixed_rows
from latentia.discovery.structure_search import (
    LearnedIslands,
    StructureSettings,
    search_structure,
)

PUBLISHED = {"nltcs": -6.00, "plants": -14.26, "jester": -52.46, "dna": -79.06}


def load(name: str, part: str) -> np.ndarray:
    """Rows of a set: 0 and 1, (n, columns)."""
    if "LATENTIA_DATA" not in os.environ:
        raise SystemExit("the sets lie in a folder that LATENTIA_DATA names; it is not set")
    folder = Path(os.environ["LATENTIA_DATA"]) / name
    plain = folder / f"{name}.{part}.data"
    if plain.exists():
        return np.loadtxt(plain, delimiter=",", dtype=np.int16)
    with gzip.open(f"{plain}.gz") as file:
        return np.loadtxt(file, delimiter=",", dtype=np.int16)


def log_rows(member: LearnedIslands, rows: np.ndarray) -> np.ndarray:
    """log P(row), (n,)."""
    tables = maximise_islands(member.layout, member.counts, member.candidate.pseudo_count)
    return likelihoods_of(member.layout, tables, member.layout.of_rows(rows))


def measure(name: str, members: int, budget: float) -> str:
    """One line: test log-likelihood, seconds, what was found."""
    train, valid, test = (load(name, part) for part in ("train", "valid", "test"))
    began = time.process_time()
    found = search_structure(
        [2] * train.shape[1],
        LocalRows(Rows(tuple(np.ascontiguousarray(c) for c in train.T)), threads=1),
        StructureSettings("islands", members=members, effort=budget),
        Rows(tuple(np.ascontiguousarray(c) for c in valid.T)),
    )
    spent = time.process_time() - began
    logs = np.array([log_rows(each, test) for each in found.members])
    level = float(mixed_rows(logs, found.weights).mean())
    seen = {row.tobytes() for row in train}
    copies = sum(row.tobytes() in seen for row in test)
    return (
        f"{name},{len(found.members)},{level:.3f},{PUBLISHED.get(name, float('nan')):.2f},"
        f"{spent:.0f},{copies},{found.members[0].candidate}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(PUBLISHED))
    parser.add_argument("--budget", type=float, default=18.0, help="seconds to search, about")
    parser.add_argument("--members", type=int, nargs="*", default=[1, 12])
    asked = parser.parse_args()
    print("set,members,test log-likelihood,published,seconds,copies in test,first member")
    for name in asked.sets:
        for members in asked.members:
            print(measure(name, members, asked.budget * (1 if members == 1 else 1.6)), flush=True)


if __name__ == "__main__":
    main()

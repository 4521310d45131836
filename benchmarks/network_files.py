"""Bayesian networks from BIF files in pgmpy's wheel (pgmpy itself is not imported)."""

from __future__ import annotations

import gzip
import importlib.util
import re
from functools import cache
from pathlib import Path

import numpy as np

from latentia.exact.table_answers import TableAnswers
from latentia.structure.graph import LatentGraph

SIXTEEN = (
    *("sachs", "child", "alarm", "insurance", "water", "hailfinder", "mildew", "barley"),
    *("win95pts", "andes", "pigs", "diabetes", "pathfinder", "munin1", "link", "hepar2"),
)
TUNED = ("sachs", "child", "alarm", "insurance", "water")  # all others are only reported


@cache
def read_network(name: str) -> TableAnswers:
    """The network with its tables; no variable is latent."""
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("needs the networks' files, which come with pgmpy: pip install pgmpy")
    folder = Path(spec.submodule_search_locations[0]) / "utils" / "example_models"
    return parse_bif(gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode())


def parse_bif(text: str) -> TableAnswers:
    """Variables in the order of the file; tables with axes (parents ascending, variable)."""
    labels = {
        name: [s.strip() for s in states.split(",")]
        for name, states in re.findall(
            r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*\d+\s*\]\s*\{([^}]*)\}", text
        )
    }
    place = {name: k for k, name in enumerate(labels)}
    edges, tables = [], {}
    for head, body in re.findall(r"probability\s*\(([^)]*)\)\s*\{([^}]*)\}", text):
        child, *parents = (name.strip() for name in re.split(r"[|,]", head))
        table = _read_table(labels, child, parents, body)
        order = np.argsort([place[p] for p in parents]).astype(int)
        table = table.transpose([*order, len(parents)])
        tables[child] = table / table.sum(axis=-1, keepdims=True)
        edges += [(place[p], place[child]) for p in parents]
    graph = LatentGraph(
        tuple(labels), tuple(sorted(edges)), frozenset(), tuple(map(len, labels.values()))
    )
    return TableAnswers(graph, tables)


def _read_table(labels: dict, child: str, parents: list[str], body: str) -> np.ndarray:
    number = {name: {s: i for i, s in enumerate(labels[name])} for name in parents}
    table = np.full([len(labels[name]) for name in (*parents, child)], np.nan)
    for given, numbers in re.findall(r"(?:table|\(([^)]*)\))([^;]*);", body):
        states = [s.strip() for s in given.split(",")] if given else []
        index = tuple(number[p][s] for p, s in zip(parents, states, strict=True))
        table[index] = [float(x) for x in numbers.split(",")]
    if np.isnan(table).any():
        raise ValueError(f"the table of {child} has gaps")
    return table

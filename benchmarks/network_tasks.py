"""Tasks: a network with hidden nodes, rows to learn from and to be tested on; all of it seeded.

    complete   the true graph, no cell missing
    mcar, mar  a fifth of the cells missing: at random, or at random given other columns
    edge       the graph lacks an edge next to a latent
    state      a latent has a state too few

`polytree`, `causes` (and symptoms) and `grid` (among columns) are drawn, a new one for every set.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from network_files import read_network

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.table_answers import TableAnswers
from latentia.reproduce.drawn_networks import draw_network
from latentia.structure.graph import LatentGraph

KINDS = ("complete", "mcar", "mar", "edge", "state")
SHAPES = ("polytree", "causes", "grid")
TEST_ROWS = 400
TEST_COLUMNS = 25


@dataclass(frozen=True)
class Task:
    """What is known to the learner is `graph` and `train`; the rest is for the measures."""

    network: str
    number: int
    kind: str
    truth: TableAnswers
    graph: LatentGraph  # as the learner has it
    train: np.ndarray  # (rows, observables)
    test: np.ndarray
    columns: tuple[int, ...]  # that are asked for

    @cached_property
    def source(self) -> LocalRows:
        """Made once: nobody's seconds of learning."""
        codes = tuple(np.ascontiguousarray(c.astype(np.int16)) for c in self.train.T)
        return LocalRows(Rows(codes), threads=1)


def make_task(name: str, number: int, rows: int, kind: str = "complete") -> Task:
    """The same rows for every kind, before holes."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    if name in SHAPES:
        truth = draw_network(name, rng)
    else:
        whole = read_network(name)
        truth = TableAnswers(replace(whole.graph, latent=hidden_set(whole, rng)), whole.cpts)
    columns = rng.permutation(truth.graph.observed)[:TEST_COLUMNS]
    train, test = truth.sample(rows, rng), truth.sample(TEST_ROWS, rng)
    graph = truth.graph
    if kind in ("mcar", "mar"):
        train = with_holes(train, kind, rng)
    elif kind == "edge":
        graph = without_an_edge(graph, rng)
    elif kind == "state":
        graph = with_a_state_less(graph, rng)
    asked = tuple(sorted(int(v) for v in columns))
    return Task(name, number, kind, truth, graph, train, test, asked)


def hidden_set(network: TableAnswers, rng: np.random.Generator) -> frozenset[int]:
    """Two to five nodes that have a child and more than one state."""
    parents = {a for a, _ in network.graph.edges}
    fit = [v for v in sorted(parents) if network.states[v] > 1]
    count = min(int(rng.integers(2, 6)), len(fit), len(network.names) // 3)
    return frozenset(rng.choice(fit, count, replace=False).tolist())


def with_holes(codes: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """A fifth of the cells. At random given others: half of the columns tell on the other half."""
    if kind == "mcar":
        return np.where(rng.random(codes.shape) < 0.2, -1, codes)
    order = rng.permutation(codes.shape[1])
    half = len(order) // 2
    found = codes.copy()
    for j in order[half:]:
        teller = codes[:, rng.choice(order[:half])]
        often = teller >= np.median(teller)  # about half of the rows, or more
        chance = np.where(often, 0.6, 0.2) * (0.4 / np.where(often, 0.6, 0.2).mean())
        found[rng.random(len(codes)) < chance, j] = -1
    return found


def without_an_edge(graph: LatentGraph, rng: np.random.Generator) -> LatentGraph:
    """One that a latent has to do with; every latent keeps a child."""
    children = [a for a, _ in graph.edges]
    near = [
        (a, b)
        for a, b in graph.edges
        if (a in graph.latent and children.count(a) > 1)
        or (b in graph.latent and a not in graph.latent)
    ]
    if not near:
        return graph
    gone = near[int(rng.integers(len(near)))]
    return replace(graph, edges=tuple(e for e in graph.edges if e != gone))


def with_a_state_less(graph: LatentGraph, rng: np.random.Generator) -> LatentGraph:
    """The latent with most states has one fewer; where all have two, it is an edge that lacks."""
    most = max(sorted(graph.latent), key=lambda v: graph.states[v])
    if graph.states[most] < 3:
        return without_an_edge(graph, rng)
    return graph.with_states({graph.names[most]: graph.states[most] - 1})

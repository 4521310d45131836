"""Where EM starts: tables at random, Gaussians around rows that lie far from each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from latentia.data.rows import Source
from latentia.errors import DataError, UnknownNameError
from latentia.exact.gaussian_leaves import MOST_SEEDED, draw_leaves
from latentia.exact.reading_tables import read_tables
from latentia.networks.em_problem import Problem, at_least, standardised
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Given, Seed


@final
@dataclass(frozen=True, slots=True)
class Seeding:
    """Rows among which starts of continuous columns are drawn, by columns with the same parents."""

    groups: tuple[tuple[tuple[int, ...], Array], ...]  # columns, and (columns, rows)
    mixture: int


def seeding_of(problem: Problem, source: Source, mixture: int) -> Seeding | None:
    """Some of the rows of a source, standardised; None without continuous columns.

    The rows as they were before they were packed: so every kind of source gives the same starts.
    """
    at_least("mixture", mixture, 1, whole=True)
    if not problem.estep.dense:
        return None
    rng = np.random.default_rng(0)  # the same sample for all starts, which draw from it
    graph = problem.estep.graph
    some = problem.wide.rows(source.sample(MOST_SEEDED, rng))
    sample = standardised(graph, some, problem.scales)
    columns = dict(zip(graph.observed, sample.codes, strict=True))
    found = [
        (g.variables, np.array([columns[v] for v in g.variables], dtype=float))
        for g in problem.estep.dense
    ]
    return Seeding(tuple(found), mixture)


def make_starts(
    graph: LatentGraph,
    init: object,
    restarts: int,
    random_state: Seed,
    seeding: Seeding | None = None,
) -> list[Callable[[], dict[int, Array]]]:
    """One maker of tables per start; each has a seed of its own, whatever thread it runs on."""
    if isinstance(init, Mapping) and seeding is not None:
        raise DataError(
            "init takes tables of discrete columns only, and some of these are continuous. "
            "Use init='random', with random_state to repeat it."
        )
    if isinstance(init, Mapping):
        _, tables = read_tables(graph, init)
        given = {scope[-1]: table for scope, table in tables.items()}
        return [partial(dict, given)]
    if init != "random":
        known = ["random", "pbp"]
        raise UnknownNameError("init", init, known, "Or pass a dict of variable -> table.")
    at_least("restarts", restarts, 1, whole=True)
    seeds = spawn_seeds(random_state, restarts)
    return [partial(random_tables, graph, seed, seeding) for seed in seeds]


def spawn_seeds(random_state: Given, count: int) -> list[np.random.SeedSequence]:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    try:
        return np.random.SeedSequence(random_state).spawn(count)
    except (TypeError, ValueError):
        raise DataError(
            "expected random_state to be a whole number from 0 on, a numpy Generator or None, "
            f"got {random_state!r}."
        ) from None


def random_tables(
    graph: LatentGraph, seed: np.random.SeedSequence, seeding: Seeding | None = None
) -> dict[int, Array]:
    """Every row of every table from a flat Dirichlet; Gaussians around rows far apart."""
    rng = np.random.default_rng(seed)
    states, parents = [count or 1 for count in graph.states], graph.parents()
    leaves: dict[int, Array] = {}
    if seeding is not None:
        for columns, X in seeding.groups:
            shape = [states[u] for u in parents[columns[0]]]
            leaves |= zip(columns, draw_leaves(X, shape, seeding.mixture, rng), strict=True)
    return {
        v: leaves[v]
        if v in leaves
        else rng.dirichlet(np.ones(states[v]), size=[states[u] for u in above])
        for v, above in enumerate(parents)
    }

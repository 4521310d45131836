"""The junction tree of the variables that may be unknown in a row, and how wide it may be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from latentia.errors import PlanError
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import clique_tree
from latentia.structure.triangulate import Adjacency, eliminate, log_states

LARGEST_CLIQUE = 2**24  # joint states
MOST_AXES = 30
SMALL_TREE = 2**12  # joint states of all cliques that need no second look
RULES = ("min_fill", "min_weight", "min_neighbours")  # tried in turn, where they need it


class TooWideError(PlanError):
    """A clique with too many joint states; `width` tells how many, and of which variables."""

    def __init__(self, message: str, width: str) -> None:
        super().__init__(message)
        self.width = width

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.width)


@dataclass
class ActiveTree:
    """Cliques while they are put in place."""

    graph: LatentGraph
    cliques: list[frozenset[int]]
    up: list[int]
    homes: dict[int, list[int]]

    def top(self, scope: Sequence[int]) -> int:
        """The clique nearest to the root that holds all of `scope`; -1 if it is empty."""
        if not scope:
            return -1
        rarest = min(scope, key=lambda v: len(self.homes[v]))
        i = next(i for i in self.homes[rarest] if self.cliques[i].issuperset(scope))
        while self.up[i] != i and self.cliques[self.up[i]].issuperset(scope):
            i = self.up[i]
        return i

    def separator(self, i: int) -> frozenset[int]:
        return self.cliques[i] & self.cliques[self.up[i]] if self.up[i] != i else frozenset()

    def size(self, scope: Iterable[int]) -> int:
        return math.prod(self.graph.states[v] or 1 for v in scope)


def active_tree(
    graph: LatentGraph, active: list[int], scopes: Sequence[Sequence[int]]
) -> ActiveTree:
    """Cliques over the active variables; each hangs as high as it can."""
    number = {v: k for k, v in enumerate(active)}
    near: list[set[int]] = [set() for _ in active]
    for scope in scopes:
        for a, b in itertools.permutations(scope, 2):
            near[number[a]].add(number[b])
    weight = log_states(graph)

    def check(clique: frozenset[int]) -> None:
        _check_size(graph, frozenset(active[k] for k in clique))

    found = clique_tree(_eliminated(near, [weight[v] for v in active], check))
    cliques = [frozenset(active[k] for k in clique) for clique in found.cliques]
    homes: dict[int, list[int]] = {}
    for i, clique in enumerate(cliques):
        for v in clique:
            homes.setdefault(v, []).append(i)
    tree = ActiveTree(graph, cliques, list(found.parent), homes)
    for i in found.order():  # parents first
        while tree.separator(i) and tree.separator(i) <= tree.separator(tree.up[i]):
            tree.up[i] = tree.up[tree.up[i]]
    return tree


def _eliminated(
    near: Adjacency, weight: Sequence[float], check: Callable[[frozenset[int]], None]
) -> list[tuple[int, frozenset[int]]]:
    """Cliques by fewest fill-ins; where these are large, by whichever order keeps them smallest."""
    found: dict[str, list[tuple[int, frozenset[int]]]] = {}
    cells: dict[str, float] = {}
    refused: TooWideError | None = None
    for rule in RULES:
        try:
            found[rule] = eliminate(near, weight, rule, check)
        except TooWideError as error:
            refused = refused or error
            continue
        cells[rule] = sum(math.exp(sum(weight[v] for v in c)) for _, c in found[rule])
        if cells[rule] <= SMALL_TREE:
            break
    if not found:
        assert refused is not None
        raise refused
    return found[min(cells, key=cells.__getitem__)]


def _check_size(graph: LatentGraph, clique: frozenset[int]) -> None:
    cells = math.prod(graph.states[v] or 1 for v in clique)
    if cells > LARGEST_CLIQUE or len(clique) > MOST_AXES:
        names = ", ".join(str(graph.names[v]) for v in sorted(clique)[:8])
        size = f"{cells:.1e}" if cells < 10**300 else "countless"
        width = (
            f"a table over {len(clique)} variables with {size} joint states (at most {MOST_AXES} "
            f"and {LARGEST_CLIQUE:.1e}): {names}"
        )
        raise TooWideError(
            f"exact expectation maximisation needs {width}. "
            "Give them fewer states or drop edges, or use learner='pbp'.",
            width,
        )

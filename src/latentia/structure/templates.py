"""Ready graphs: latent class, hidden Markov chain, factorial chain, latent tree, grid.

Each returns a LatentGraph with latents H… and columns X… (or the names given).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

from latentia.errors import GraphError
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.typing import Label

__all__ = [
    "factorial_markov",
    "grid",
    "hidden_markov",
    "homogeneous",
    "latent_class",
    "latent_tree",
]


def latent_class(columns: Sequence[Label] | int, states: int | None = None) -> LatentGraph:
    """One latent class tells every column.

    >>> str(latent_class(["a", "b", "c"], 2))
    '(H[2])->a; (H[2])->b; (H[2])->c'
    """
    names = _names(columns)
    latent = _fresh("H", names)
    return as_graph([(latent, name) for name in names], latents={latent: states})


def hidden_markov(
    length: int, states: int | None = None, columns: Sequence[Label] | None = None
) -> LatentGraph:
    """H0 → H1 → …, each H_t telling its column X_t (or `columns[t]`).

    >>> str(hidden_markov(2, 3))
    '(H0[3])->(H1[3]); (H0[3])->X0; (H1[3])->X1'
    """
    if not _positive(length):
        raise GraphError(f"a chain needs at least one step, got {length!r}.")
    names = list(columns) if columns is not None else [f"X{t}" for t in range(length)]
    if len(names) != length:
        raise GraphError(f"a chain of {length} steps needs {length} columns, got {len(names)}.")
    edges: list[tuple[Label, Label]] = [(f"H{t}", f"H{t + 1}") for t in range(length - 1)]
    edges += [(f"H{t}", names[t]) for t in range(length)]
    return as_graph(edges, latents={f"H{t}": states for t in range(length)})


def factorial_markov(length: int, chains: int, states: int | None = None) -> LatentGraph:
    """Several latent chains side by side; X_t is told by all of them at step t.

    >>> str(factorial_markov(1, 2, 2))
    '(H0_0[2])->X0; (H1_0[2])->X0'
    """
    if not _positive(length) or not _positive(chains):
        raise GraphError(f"need at least one step and one chain, got {length!r} and {chains!r}.")
    edges = [(f"H{c}_{t}", f"H{c}_{t + 1}") for c in range(chains) for t in range(length - 1)] + [
        (f"H{c}_{t}", f"X{t}") for t in range(length) for c in range(chains)
    ]
    latents = {f"H{c}_{t}": states for c in range(chains) for t in range(length)}
    return as_graph(edges, latents=latents)


def latent_tree(nested: Sequence[object], states: int | None = None) -> LatentGraph:
    """A latent for every list, telling what is in it: columns and further lists.

    >>> str(latent_tree([["a", "b"], ["c", "d"]], 2))
    '(H0[2])->(H1[2]); (H0[2])->(H2[2]); (H1[2])->a; (H1[2])->b; (H2[2])->c; (H2[2])->d'
    """
    edges: list[tuple[Label, Label]] = []
    latents: dict[Label, int | None] = {}

    def grow(items: Sequence[object]) -> str:
        if not items:
            raise GraphError("a list in the tree is empty; every latent needs something below it.")
        own = f"H{len(latents)}"
        latents[own] = states
        for item in items:
            if isinstance(item, list):
                place = len(edges)
                child = grow(item)
                edges.insert(place, (own, child))
            else:
                edges.append((own, item))
        return own

    grow(list(nested))
    return as_graph(edges, latents=latents)


def grid(rows: int, columns: int, states: int | None = None) -> LatentGraph:
    """A grid of latents H_i_j told by their upper and left neighbours, each telling X_i_j.

    >>> str(grid(1, 2, 2))
    '(H0_0[2])->(H0_1[2]); (H0_0[2])->X0_0; (H0_1[2])->X0_1'
    """
    if not _positive(rows) or not _positive(columns):
        raise GraphError(f"a grid needs rows and columns, got {rows!r} × {columns!r}.")
    cells = [(i, j) for i in range(rows) for j in range(columns)]
    edges = [(f"H{i}_{j}", f"H{i + 1}_{j}") for i, j in cells if i + 1 < rows]
    edges += [(f"H{i}_{j}", f"H{i}_{j + 1}") for i, j in cells if j + 1 < columns]
    edges += [(f"H{i}_{j}", f"X{i}_{j}") for i, j in cells]
    return as_graph(edges, latents={f"H{i}_{j}": states for i, j in cells})


def _positive(count: object) -> bool:
    """A whole number of 1 or more; True is none."""
    return isinstance(count, Integral) and not isinstance(count, bool) and int(count) >= 1


def _names(columns: Sequence[Label] | int) -> list[Label]:
    if not _positive(columns) and not isinstance(columns, Iterable):
        raise GraphError(f"expected columns as a list of names, or how many, got {columns!r}.")
    names: list[Label] = (
        list(columns) if isinstance(columns, Iterable) else [f"X{i}" for i in range(columns)]
    )
    if not names:
        raise GraphError("name at least one column.")
    return names


def _fresh(name: str, taken: Sequence[Label]) -> str:
    while name in taken:
        name += "_"
    return name


def homogeneous(graph: LatentGraph) -> list[list[Label]]:
    """Tables that steps of a chain have in common, as `tied` of a learner takes them.

    Latents that follow a latent share a table with those before and after them, and so do the
    columns that hang on them, the first of each step, the second, …

    >>> homogeneous(hidden_markov(3, 2))
    [['H1', 'H2'], ['X0', 'X1', 'X2']]
    """
    parents = graph.parents()
    ahead: dict[int, int] = {}  # latent -> the one at the head of its chain
    for v in sorted(graph.latent):
        u = v
        while higher := [a for a in parents[u] if a in graph.latent]:
            u = higher[0]
        ahead[v] = u
    groups: dict[object, list[Label]] = {}
    place: dict[object, int] = {}  # how many columns have these parents already
    for v, above in enumerate(parents):
        role = tuple(ahead.get(u, -1) for u in above)
        if v in graph.latent:
            key: object = ("latent", role, ahead[v])
        else:
            place[above] = place.get(above, -1) + 1
            key = ("column", role, place[above])
        if above and set(above) <= graph.latent:
            groups.setdefault(key, []).append(graph.names[v])
    return [group for group in groups.values() if len(group) > 1]

"""Random models, and the slow, obvious oracles that everything else is measured against.

>>> rng = np.random.default_rng(0)
>>> model = random_model(random_graph(rng, "diamond"), rng)
>>> table = brute_force(model)  # P of the observables, by summing the whole joint
>>> bool(np.allclose(table, model.joint_table(["D", "E", "G", "H"])))
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from latentia.errors import DataError, EvidenceError, PlanError, UnknownNameError
from latentia.exact.tabular_model import TabularModel
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.structure.triangulate import maximal_cliques, moralise
from latentia.testing.mixed_truth import MixedTree, mixed_tree
from latentia.typing import Array, CellArray, Codes, Foreign, Label

__all__ = [
    "KINDS",
    "MixedTree",
    "all_rows",
    "brute_force",
    "brute_force_full",
    "expected_counts",
    "mixed_tree",
    "posterior_from_joint",
    "random_graph",
    "random_model",
]

Edges: TypeAlias = list[tuple[str, str]]
Generator: TypeAlias = np.random.Generator

CELLS_LIMIT = 2 * 10**7  # of a table that is enumerated
POTENTIAL_FLOOR = 1e-6  # so that random potentials are positive


# --- random graphs --------------------------------------------------------------------------------


def random_graph(
    rng: Generator, kind: str, observed_limit: int = 20_000, joint_limit: int = 10**6
) -> LatentGraph:
    """A small graph of one of the KINDS with state counts, drawn until it can be enumerated.

    Latents are H0, H1, …, observables X0, X1, …; only the diamond has letters of its own.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of graph", kind, KINDS)
    for _ in range(1000):
        graph = KINDS[kind](rng)
        states = _known_states(graph)
        seen = math.prod(states[v] for v in graph.observed)
        if seen <= observed_limit and math.prod(states) <= joint_limit:
            return graph
    raise PlanError(
        f"1000 random graphs of kind {kind!r} all had more than {observed_limit:,} joint states of "
        f"the observables or {joint_limit:,} of all variables. Raise the limits."
    )


def _latent_tree(rng: Generator) -> LatentGraph:
    """Each latent hangs on an earlier one and has one column, or two where nothing else hangs."""
    above = [int(rng.integers(k)) for k in range(1, int(rng.integers(2, 6)))]
    edges = [(f"H{up}", f"H{k}") for k, up in enumerate(above, start=1)]
    columns = [1 if k in above else 2 for k in range(len(above) + 1)]
    return _counted(rng, edges + _hang(columns))


def _chain(rng: Generator) -> LatentGraph:
    """Hidden Markov chain."""
    length = int(rng.integers(3, 7))
    return _counted(rng, _path("H", length) + _hang([1] * length))


def _latent_class(rng: Generator) -> LatentGraph:
    return _counted(rng, _hang([int(rng.integers(3, 7))]))


def _diamond(rng: Generator) -> LatentGraph:
    """A tells B and C, both tell F: the graph of the experiments, always the same (design 12)."""
    latents, states = dict.fromkeys("ABCF", 3), dict.fromkeys("DEGH", 5)
    return as_graph("A->B,C; B,C->F; B->D; C->E; F->G,H", latents, states)


def _loop(rng: Generator) -> LatentGraph:
    """Latents with one to three latent parents, the last one with at least two."""
    size, edges = int(rng.integers(3, 6)), []
    for k in range(1, size):
        fewest = 2 if k == size - 1 else 1
        count = min(int(rng.integers(fewest, 4)), k)
        edges += [(f"H{p}", f"H{k}") for p in sorted(rng.choice(k, count, replace=False))]
    return _counted(rng, edges + _hang(rng.integers(1, 3, size).tolist()))


def _ladder(rng: Generator) -> LatentGraph:
    """Three coupled binary chains of two steps: a separator of three latents."""
    ties = [("H0", "H1"), ("H1", "H2"), ("H3", "H4"), ("H4", "H5"), ("H0", "H5")]
    ties += [("H0", "H3"), ("H1", "H4"), ("H2", "H5")]
    graph = as_graph(ties + _hang([1] * 6), {f"H{k}": 2 for k in range(6)})
    return graph.with_states({f"X{k}": int(rng.integers(2, 5)) for k in range(6)})


def _clique4(rng: Generator) -> LatentGraph:
    """Four latents all tied to each other, one column each; directed or not."""
    edges = [(f"H{a}", f"H{b}") for b in range(4) for a in range(b)]
    return _counted(rng, edges + _hang([1] * 4), directed=bool(rng.integers(2)))


def _inside(rng: Generator) -> LatentGraph:
    """Columns that are parents: among columns only, in a random graph, or next to a chain."""
    flavour = int(rng.integers(3))
    if flavour == 2:
        length = int(rng.integers(2, 5))
        return _counted(rng, _path("H", length) + _path("X", length) + _hang([1] * length))
    size = int(rng.integers(4, 7))
    hidden = set(rng.choice(size - 2, flavour * int(rng.integers(1, 3)), replace=False).tolist())
    name = [f"H{k}" if k in hidden else f"X{k}" for k in range(size)]
    edges = [(name[a], name[b]) for b in range(size) for a in range(b) if rng.random() < 0.5]
    edges += [(name[a], name[a + 1]) for a in range(size - 1) if rng.random() < 0.5]
    edges += [(name[a], name[-1]) for a in sorted(hidden)]  # every latent is seen somewhere
    return _counted(rng, list(dict.fromkeys(edges)), alone=name)


def _forest(rng: Generator) -> LatentGraph:
    """Two or three parts with nothing between them: latent classes, pairs, lone columns."""
    parts: list[tuple[Edges, list[str]]] = [
        (_hang([3]), []),
        (_path("H", 2) + _hang([1, 1]), []),
        ([("X0", "X1")], []),
        ([], ["X0"]),
    ]
    edges: Edges = []
    alone: list[str] = []
    for part in rng.integers(len(parts), size=int(rng.integers(2, 4))).tolist():
        start = 10 * (1 + len(edges) + len(alone))  # new numbers for every part
        more, lone = parts[part]
        edges += [(_moved(a, start), _moved(b, start)) for a, b in more]
        alone += [_moved(name, start) for name in lone]
    return _counted(rng, edges, alone=alone)


def _undirected(rng: Generator) -> LatentGraph:
    """A ring of latents with some chords, a column on each, and now and then two columns tied."""
    size = int(rng.integers(3, 6))
    edges = [*_path("H", size), ("H0", f"H{size - 1}")]
    for b in range(2, size):
        edges += [(f"H{a}", f"H{b}") for a in range(b - 1) if rng.random() < 0.25]
    edges += _hang([1] * size)
    if rng.random() < 0.3:
        edges.append(("X0", "X1"))
    return _counted(rng, list(dict.fromkeys(edges)), directed=False)


KINDS: dict[str, Callable[[Generator], LatentGraph]] = {
    "tree": _latent_tree,
    "chain": _chain,
    "latent_class": _latent_class,
    "diamond": _diamond,
    "loop": _loop,
    "ladder": _ladder,
    "clique4": _clique4,
    "inside": _inside,
    "forest": _forest,
    "undirected": _undirected,
}


def _path(letter: str, length: int) -> Edges:
    return [(f"{letter}{k}", f"{letter}{k + 1}") for k in range(length - 1)]


def _hang(columns: Sequence[int]) -> Edges:
    """Latent k gets columns[k] columns of its own."""
    owners = [k for k, count in enumerate(columns) for _ in range(count)]
    return [(f"H{k}", f"X{i}") for i, k in enumerate(owners)]


def _moved(name: str, start: int) -> str:
    return f"{name[0]}{start + int(name[1:])}"


def _counted(
    rng: Generator, edges: Edges, alone: Sequence[str] = (), directed: bool = True
) -> LatentGraph:
    """The graph with two or three states for latents and two to five for columns."""
    names = dict.fromkeys([name for edge in edges for name in edge] + list(alone))
    hidden = [name for name in names if name[0] == "H"]
    states = {name: int(rng.integers(2, 4 if name in hidden else 6)) for name in names}
    items: list[object] = list(edges) if directed else [f"{a}--{b}" for a, b in edges]
    return as_graph([*items, *((name,) for name in alone)], latents=hidden, states=states)


# --- random models --------------------------------------------------------------------------------


def random_model(graph: LatentGraph, rng: Generator, concentration: float = 0.5) -> TabularModel:
    """CPTs with Dirichlet rows; undirected: gamma potentials on the graph's maximal cliques."""
    states = _known_states(graph)
    if graph.directed:
        cpts: dict[Label, Array] = {}
        for v, above in enumerate(graph.parents()):
            rows = [states[p] for p in above]
            cpts[graph.names[v]] = rng.dirichlet(np.full(states[v], concentration), size=rows)
        return TabularModel(graph, cpts)
    potentials: dict[Label, Array] = {}
    found = maximal_cliques(range(len(states)), moralise(graph))
    for clique in sorted(tuple(sorted(c)) for c in found):
        cells = rng.gamma(concentration, size=[states[v] for v in clique])
        potentials[tuple(graph.names[v] for v in clique)] = cells + POTENTIAL_FLOOR
    return TabularModel(graph, potentials)


def _known_states(graph: LatentGraph) -> list[int]:
    unknown = [graph.names[v] for v, count in enumerate(graph.states) if count is None]
    if unknown:
        raise DataError(
            f"expected a number of states for every variable, got none for {unknown[:20]}. "
            "Add them with graph.with_states({name: states})."
        )
    return [count or 1 for count in graph.states]


# --- oracles --------------------------------------------------------------------------------------


def brute_force(model: TabularModel) -> Array:
    """P(observables), an axis for each in the graph's order: the product of all tables, summed."""
    return _summed(model, model.graph.observed)


def brute_force_full(model: TabularModel) -> Array:
    """P(all variables), latents too, an axis for each in the graph's order."""
    return _summed(model, range(len(model.names)))


def expected_counts(
    graph: LatentGraph, model: TabularModel, codes: Sequence[Codes]
) -> tuple[dict[int, Array], float]:
    """The E-step of EM by enumeration: expected counts (parents …, itself), and log P(rows).

    `codes` has an array for each column, -1 where a cell is missing. A column that nothing depends
    on teaches its table only where it is present.
    """
    axes, inner = list(range(len(graph.names))), {above for above, _ in graph.edges}
    full, parents, level = brute_force_full(model), graph.parents(), 0.0
    shapes = [[model.states[u] for u in (*above, v)] for v, above in enumerate(parents)]
    counts = {v: np.zeros(shape) for v, shape in enumerate(shapes)}
    for i in range(len(codes[0])):
        joint = full
        seen = {v: c[i] for v, c in zip(graph.observed, codes, strict=True) if c[i] >= 0}
        for v, code in seen.items():
            mask = np.arange(model.states[v]) == code
            joint = joint * mask.reshape([-1 if k == v else 1 for k in axes])
        level += float(np.log(joint.sum()))
        joint = joint / joint.sum()
        for v, above in enumerate(parents):
            if v in seen or v in graph.latent or v in inner:
                counts[v] += np.einsum(joint, axes, [*above, v])
    return counts, level


def _summed(model: TabularModel, kept: Sequence[int]) -> Array:
    cells = math.prod(model.states[v] for v in kept)
    if cells > CELLS_LIMIT or len(model.names) > 50:
        raise PlanError(
            f"enumeration needs a table of {cells:,} cells over {len(model.names)} variables; "
            f"expected at most {CELLS_LIMIT:,} and 50. Use TabularModel itself for larger models."
        )
    operands: list[Foreign] = []
    for scope, table in model.tables.items():
        operands += [table / table.max(), list(scope)]
    for v, count in enumerate(model.states):
        operands += [np.ones(count), [v]]  # a variable may be in no potential
    table = np.einsum(*operands, list(kept), optimize="greedy")
    return np.asarray(table / table.sum())


def all_rows(model: TabularModel | Array) -> tuple[NDArray[np.int64], Array]:
    """Every joint state of the observables, codes (rows, observables), and its probability (rows,).

    >>> all_rows(np.array([[0.1, 0.2], [0.3, 0.4]]))[0].tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    table = brute_force(model) if isinstance(model, TabularModel) else np.asarray(model)
    codes = np.indices(table.shape).reshape(table.ndim, -1).T  # (rows, axes)
    return np.ascontiguousarray(codes, dtype=np.int64), table.ravel().astype(np.float64)


def posterior_from_joint(
    table: Array, query_axis: int | Sequence[int], evidence: Mapping[int, CellArray]
) -> Array:
    """P(query axes | evidence) from a joint table; evidence {axis: state, or likelihoods}.

    >>> posterior_from_joint(np.array([[0.1, 0.2], [0.3, 0.4]]), 0, {1: 0})
    array([0.25, 0.75])
    """
    table = np.asarray(table, dtype=np.float64)
    asked = [query_axis] if isinstance(query_axis, int) else list(query_axis)
    for axis, given in evidence.items():
        likelihood = np.asarray(given, dtype=np.float64)
        if likelihood.ndim == 0:
            likelihood = (np.arange(table.shape[axis]) == given).astype(np.float64)
        shape = [-1 if k == axis else 1 for k in range(table.ndim)]
        table = table * likelihood.reshape(shape)
    total = table.sum()
    if not total > 0:
        raise EvidenceError(f"the evidence {dict(evidence)} has probability 0 in this table.")
    summed = table.sum(axis=tuple(k for k in range(table.ndim) if k not in asked))
    return np.asarray(summed.transpose(np.argsort(np.argsort(asked))) / total)

"""Graphs: text, edges, parents and networkx; cyclic, torn apart, dense, badly named."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import networkx as nx

import latentia as lt
from latentia.structure.reading_graphs import as_graph

from .trial import Finding

WORDS = [
    "a",
    "b",
    "H",
    "x y",
    "é",
    "",
    "-",
    "->",
    "<-",
    "--",
    "[",
    "]",
    "[2]",
    "[0]",
    "[-1]",
    ";",
    ",",
    "\n",
    " ",
    "a[3]",
    "b[2",
    "#",
    "=",
    "->-",
    "\x00",
    "H[99999999999999999999]",
    "0",
    "🙂",
]
LABELS = [
    "a",
    "b",
    "c",
    "H",
    0,
    1,
    -1,
    2.5,
    True,
    None,
    float("nan"),
    ("t", 1),
    ("t", float("nan")),
    frozenset({1, 2}),
    b"x",
    "",
    " ",
    "a->b",
    "é",
    ["list"],
    {"d": 1},
    object,
    "a" * 300,
    "[2]",
]
COUNTS = [1, 2, 2, 2, 3, 3, 4, 0, -1, 10**6, 10**30, 2.0, 2.5, True, None, "2", float("nan"), [2]]
HANDY = ["a", "b", "c", "d", "e", "f", "g", "h"]


def as_text(r: Random) -> Any:
    return "".join(r.choice(WORDS) for _ in range(r.randint(0, 12)))


def as_statements(r: Random) -> Any:
    arrow = r.choice(["->", "->", "->", "--", "<-"])
    edges = [f"{r.choice(HANDY)}{arrow}{r.choice(HANDY)}" for _ in range(r.randint(1, 8))]
    return r.choice(["; ", "\n", ";;"]).join(edges)


def as_edges(r: Random) -> Any:
    names = LABELS if r.random() < 0.4 else HANDY
    edges: list[Any] = [(r.choice(names), r.choice(names)) for _ in range(r.randint(0, 9))]
    if r.random() < 0.2:
        edges.insert(
            r.randint(0, len(edges)), r.choice([(), ("a",), ("a", "b", "c"), 7, None, "a->b"])
        )
    return r.choice([list, tuple, iter])(edges)


def as_ordered(r: Random) -> Any:
    """Edges that run forward: no cycle."""
    n = r.randint(1, 8)
    pairs = list(itertools.combinations(HANDY[:n], 2))
    edges: list[Any] = [p for p in pairs if r.random() < r.choice([0.2, 0.4, 0.9])]
    return [*edges, *((v,) for v in HANDY[:n])]


def as_parents(r: Random) -> Any:
    names = LABELS[:12] if r.random() < 0.3 else HANDY
    keys = [k for k in names if not isinstance(k, list | dict)]

    def above() -> Any:
        found = [r.choice(names) for _ in range(r.randint(0, 3))]
        return (
            r.choice([found, tuple(found), None, r.choice(HANDY), 5]) if r.random() < 0.3 else found
        )

    return {r.choice(keys): above() for _ in range(r.randint(0, 6))}


def as_networkx(r: Random) -> Any:
    kind = r.choice([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
    graph = kind()
    graph.add_nodes_from(HANDY[: r.randint(0, 6)])
    graph.add_edges_from((r.choice(HANDY), r.choice(HANDY)) for _ in range(r.randint(0, 8)))
    return graph


def as_nonsense(r: Random) -> Any:
    return r.choice(
        [
            None,
            5,
            2.5,
            b"a->b",
            [],
            {},
            "",
            set(),
            {"a"},
            object(),
            [[]],
            [["a"]],
            "a",
            {"a": {"b": "c"}},
            {1: 2},
            [("a", ("b", "c"))],
            range(3),
            {("a", "b")},
        ]
    )


def dense(r: Random) -> Any:
    """Too many ties for any table; a refusal must come at once."""
    n = r.choice([12, 24, 40, 60])
    names = [f"v{k}" for k in range(n)]
    pairs = list(itertools.combinations(names, 2))
    if r.random() < 0.5:
        pairs = [p for p in pairs if r.random() < 0.5]
    return [f"{a}--{b}" for a, b in pairs] if r.random() < 0.5 else pairs


def as_template(r: Random) -> Any:
    count = r.choice([1, 2, 3, 0, -1, 5, 2.5, "3", None, True])
    states = r.choice([2, 2, 3, None, 0, -2, 10**9, "2"])
    t = lt.templates
    return r.choice(
        [
            lambda: t.latent_class(count, states),
            lambda: t.hidden_markov(count, states),
            lambda: t.factorial_markov(count, r.choice([1, 2, 0]), states),
            lambda: t.grid(count, r.choice([1, 2, 3, 0]), states),
            lambda: t.latent_tree(
                r.choice([["a", "b"], [["a"], ["b", "c"]], [], [[]], "ab", ["a", "a"]]), states
            ),
            lambda: t.latent_class(
                r.choice([["a", "a"], [], ["H", "b"], [1, None], "abc"]), states
            ),
        ]
    )()


MAKERS = [
    as_text,
    as_statements,
    as_edges,
    as_ordered,
    as_ordered,
    as_ordered,
    as_parents,
    as_networkx,
    as_nonsense,
    as_template,
]


def some_latents(r: Random, names: list[Any]) -> Any:
    hidden = [v for v in names if r.random() < 0.4]
    if r.random() < 0.8:
        return {v: r.choice([2, 2, 3]) for v in hidden}
    if r.random() < 0.3:
        hidden.append(r.choice(LABELS[:12]))
    safe = [v for v in hidden if not isinstance(v, list | dict)]
    return r.choice(
        [None, safe, {v: r.choice(COUNTS) for v in safe}, "H", 5, set(map(str, safe)), [["H"]]]
    )


def case(r: Random) -> str:
    """Read a graph, plan it, print it; now and then draw it."""
    made = dense(r) if r.random() < 0.02 else r.choice(MAKERS)(r)
    read = as_graph(made)
    again = as_graph(read)
    if again != read:
        raise Finding("a graph that is read again differs")
    given = some_latents(r, list(read.names))
    graph = as_graph(read, given)
    if str(graph) == "":
        raise Finding("a graph that prints nothing")
    odd = r.random() < 0.15
    counts = {
        graph.names[v]: r.choice(COUNTS if odd else [2, 2, 3])
        for v in graph.observed
        if graph.states[v] is None
    }
    settings: dict[str, Any] = {}
    if r.random() < 0.1:
        settings = r.choice(
            [
                {"order": "min_weight"},
                {"order": "odd"},
                {"root": r.choice([0, 1, 99, -1, "a"])},
                {"width": r.choice([1, 0, -3, 2.5])},
                {"groups": [list(graph.names[:2])]},
                {"groups": r.choice([5, [5], ["ab"], [[None]], [[]]])},
            ]
        )
    plan = lt.make_plan(graph, states=counts, **settings)
    if sorted(plan.columns, key=str) != sorted(
        (plan.graph.names[v] for v in plan.graph.observed), key=str
    ):
        raise Finding("the plan has lost a column")
    if len(str(plan)) < 10 or len(plan.fingerprint) != 16 or plan.cost < 0:
        raise Finding("a plan that cannot be shown")
    if r.random() < 0.1:
        if "<svg" not in plan.draw().svg or "<svg" not in graph.draw().svg:
            raise Finding("a plan that cannot be drawn")
        return "drawn"
    return "planned"

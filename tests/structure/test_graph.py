"""Graphs come in many shapes and leave as one value; whatever is wrong is called by its name."""

import enum
import math
import re
from typing import Any

import networkx as nx
import numpy as np
import pytest

from latentia.errors import GraphError, LatentiaError, UnknownNameError
from latentia.structure.graph import LatentGraph, find_cycle, relevant, spell
from latentia.structure.reading_graphs import as_graph

Colour = enum.Enum("Colour", ["RED", "GREEN", "BLUE"])

DIAMOND = LatentGraph(
    names=("A", "B", "C", "D"),
    edges=((0, 1), (0, 2), (1, 3), (2, 3)),
    latent=frozenset({0}),
    states=(3, None, None, 2),
)
RING = LatentGraph(
    names=("A", "B", "C"),
    edges=((0, 1), (0, 2), (1, 2)),
    latent=frozenset({0}),
    states=(2, None, None),
    directed=False,
)


def short(value: Any) -> str:
    """For the ids of tests: sets and graphs print differently in every process."""
    return value if isinstance(value, str) else type(value).__name__


def parents_of_diamond(box: Any) -> dict[str, Any]:
    return {"A": box([]), "B": "A", "C": box(["A"]), "D": box(["B", "C"])}


@pytest.mark.parametrize(
    "graph",
    [
        "A->B; A->C; B->D; C->D",
        "A->B;C<-A;\n\nB->D\n C->D;",
        "A -> B, C -> D",
        "A->B,C; D<-B,C",
        "A[3]->B,C; B,C->D[2]",
        [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")],
        [["A", "B"], ["A", "C"], ("B", "D"), ("C", "D"), ("A", "B")],
        (edge for edge in [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")]),
        {("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")},
        ["A->B,C", ("B", "D"), "C->D"],
        ["A->B,C; B->D\nC->D"],
        parents_of_diamond(list),
        parents_of_diamond(set),
        parents_of_diamond(iter),
        nx.DiGraph([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")]),
        nx.MultiDiGraph([("A", "B"), ("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")]),
        DIAMOND,
    ],
    ids=short,
)
def test_equivalent_inputs_give_the_same_graph(graph: Any) -> None:
    assert as_graph(graph, latents={"A": 3}, states={"D": 2}) == DIAMOND


@pytest.mark.parametrize(
    "graph",
    [
        "A--B; A--C; B--C",
        "A--B--C--A",
        "A--B,C; C--B; B--A",
        ["A--B", "A--C", "C--B"],
        nx.Graph([("A", "B"), ("A", "C"), ("B", "C")]),
        nx.MultiGraph([("A", "B"), ("A", "C"), ("C", "B"), ("B", "A")]),
        RING,
    ],
    ids=short,
)
def test_equivalent_undirected_inputs_give_the_same_graph(graph: Any) -> None:
    assert as_graph(graph, latents={"A": 2}) == RING


@pytest.mark.parametrize(
    "graph",
    [
        "A; B[3]; C",
        "A, B[3], C",
        [("A",), ("B",), ("C",)],
        ["A", "B", "C"],
        {"A": [], "B": (), "C": None},
        nx.empty_graph(["A", "B", "C"], create_using=nx.DiGraph),
    ],
    ids=short,
)
def test_variables_may_stand_alone(graph: Any) -> None:
    read = as_graph(graph, states={"B": 3})
    assert (read.names, read.edges, read.states) == (("A", "B", "C"), (), (None, 3, None))


@pytest.mark.parametrize(
    ("hub", "one", "two"),
    [
        (0, 1, 2),
        (1.5, "1.5", (1, 5)),
        (("H", 1), ("X", 1), ("X", 2)),
        (frozenset("ab"), frozenset("cd"), frozenset()),
        (Colour.RED, Colour.GREEN, Colour.BLUE),
        ("a b", "a-b", "ä→b"),
    ],
    ids=short,
)
@pytest.mark.parametrize("shape", ["edges", "parents", "networkx"])
def test_labels_are_anything_hashable(hub: Any, one: Any, two: Any, shape: str) -> None:
    edges = [(hub, one), (hub, two)]
    parents = {hub: [], one: [hub], two: {hub}}
    graph = {"edges": edges, "parents": parents, "networkx": nx.DiGraph(edges)}[shape]
    read = as_graph(graph, latents={hub: 2}, states={two: 3})
    assert read == LatentGraph(
        (hub, one, two), ((0, 1), (0, 2)), frozenset({0}), (2, None, 3), directed=True
    )


def test_names_in_text_may_hold_spaces_and_hyphens() -> None:
    assert as_graph("blood pressure [3] -> beta-blocker").names == (
        "blood pressure",
        "beta-blocker",
    )


@pytest.mark.parametrize("latents", ["A", ["A"], {"A"}, {"A": 3}, {"A": None}, iter(["A"])])
def test_latents_come_as_names_or_with_counts(latents: Any) -> None:
    assert as_graph("A[3]->B,C; B,C->D[2]", latents) == DIAMOND


def test_latents_and_counts_are_added_to_a_ready_graph() -> None:
    more = as_graph(DIAMOND, latents=["B"], states={"C": 4})
    assert more.latent == {0, 1}
    assert more.states == (3, None, 4, 2)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16])
def test_numpy_integers_count_states(kind: Any) -> None:
    read = as_graph("A->B,C; B,C->D", latents={"A": kind(3)}, states={"D": kind(2)})
    assert read == DIAMOND
    assert [type(count) for count in read.with_states({"B": kind(5)}).states[:2]] == [int, int]


def test_with_states_fills_counts_in() -> None:
    assert DIAMOND.with_states({"B": 4, "C": 5}).states == (3, 4, 5, 2)


def test_parents_come_in_input_order() -> None:
    assert DIAMOND.parents() == ((), (0,), (0,), (1, 2))
    assert RING.parents() == ((), (), ())


@pytest.mark.parametrize("graph", [DIAMOND, RING])
def test_a_graph_prints_what_it_holds(graph: LatentGraph) -> None:
    assert as_graph(re.sub(r"[()]", "", str(graph)), latents=["A"]) == graph


def test_spelling_does_not_depend_on_the_order_of_sets() -> None:
    assert spell(frozenset({8, 0})) == spell(frozenset({0, 8})) == "{0, 8}"
    assert spell("{0, 8}") != spell(frozenset({0, 8}))


# --- what is wrong, and what to do about it -------------------------------------------------------

TIE = "expected names joined by ->, <- or --"
WHOLE = "must be a whole number"


@pytest.mark.parametrize(
    ("graph", "named", "cure"),
    [
        ("A->B->C->A; A->X", "A -> B -> C -> A", "Reverse or drop an edge"),
        ("X->A; A->B->C->D->B", "B -> C -> D -> B", "Reverse or drop an edge"),
        ("A->A", "'A' is tied to itself", "Remove the self-loop"),
        ("A--A", "'A' is tied to itself", "Remove the self-loop"),
        (nx.Graph([(7, 7)]), "7 is tied to itself", "Remove the self-loop"),
        ("A->B; B->A", "'A' -> 'B' and 'B' -> 'A'", "Keep one direction"),
        (nx.DiGraph([("A", "B"), ("B", "A")]), "'A' -> 'B' and 'B' -> 'A'", "Keep one direction"),
        ("A->B; B--C", "'B', 'C' mixes", "Use one kind"),
        ([("A", "B"), "B--C"], "'B', 'C' mixes", "Use one kind"),
        ("A[2]->B; A[3]->C", "'A' was given 2 states and 3 states", "Keep one"),
        ("A->", "'A->'", TIE),
        ("A->,B", "'A->,B'", TIE),
        ("A=>B", "'A=>B'", TIE),
        ("A-->B", "'>B'", TIE),
        ("A<--B", "'-B'", TIE),
        ("A<->B", "'>B'", TIE),
        ("A--->B", "'A--->B'", TIE),
        ("A[x]->B", "'A[x]'", TIE),
        ("A[-1]->B", "'A[-1]'", TIE),
        ("A[2][3]->B", "'A[2][3]'", TIE),
        ("", "no variables", "Name at least one column"),
        (" ;\n", "no variables", "Name at least one column"),
        ([], "no variables", "Name at least one column"),
        ({}, "no variables", "Name at least one column"),
        (nx.DiGraph(), "no variables", "Name at least one column"),
        ([("A", ["B"])], "['B']", "must be hashable"),
        ({"A": [{"B"}]}, "{'B'}", "must be hashable"),
        ([("A", None)], "None cannot name a variable", "Use a string"),
        ({None: []}, "None cannot name a variable", "Use a string"),
        ({"A": [math.nan]}, "nan cannot name a variable", "Use a string"),
        (nx.DiGraph([("A", np.nan)]), "nan cannot name a variable", "Use a string"),
        ([("A", "B", "C")], "('A', 'B', 'C')", "expected an edge (parent, child)"),
        ([{"A", "B"}], "{", "expected an edge (parent, child)"),
        ([3], "3", "expected an edge (parent, child)"),
        ({"A": 3}, "3", "expected a list of names"),
        (3, "int", "expected a graph as text, edges, dict of parents, networkx graph"),
        (None, "NoneType", "expected a graph as text, edges, dict of parents, networkx graph"),
    ],
    ids=short,
)
def test_a_graph_that_cannot_be_read_is_explained(graph: Any, named: str, cure: str) -> None:
    with pytest.raises(GraphError) as caught:
        as_graph(graph)
    assert named in str(caught.value)
    assert cure in str(caught.value)


@pytest.mark.parametrize(
    ("latents", "states", "named", "cure"),
    [
        ({"H": 0}, None, "'H' needs at least one state", "got 0"),
        ({"H": -1}, None, "'H' needs at least one state", "got -1"),
        (None, {"X": 0}, "'X' needs at least one state", "got 0"),
        ({"H": 2.5}, None, "'H'", f"{WHOLE}, got 2.5"),
        ({"H": True}, None, "'H'", f"{WHOLE}, got True"),
        ({"H": np.True_}, None, "'H'", WHOLE),
        (None, {"X": "3"}, "'X'", f"{WHOLE}, got '3'"),
        ({"H": 2}, {"H": 3}, "'H' was given 2 states and 3 states", "Keep one"),
        (None, {"Z": 3}, "'Z' was given 4 states and 3 states", "Keep one"),
        (["H", "X", "Y", "Z"], None, "H, X, Y, Z", "at least one must be a column"),
        ([["H"]], None, "['H']", "must be hashable"),
        (3, None, "3", "expected a list of names"),
        (None, 3, "3", "expected states as {name: how many}"),
        (None, ["X"], "['X']", "expected states as {name: how many}"),
    ],
    ids=short,
)
def test_wrong_latents_and_states_are_explained(
    latents: Any, states: Any, named: str, cure: str
) -> None:
    with pytest.raises(GraphError) as caught:
        as_graph("H->X,Y,Z[4]", latents, states)
    assert named in str(caught.value)
    assert cure in str(caught.value)


@pytest.mark.parametrize(
    ("latents", "states", "what"),
    [(["G"], None, "latent 'G'"), ({"G": 2}, None, "latent 'G'"), (None, {"G": 2}, "variable 'G'")],
)
def test_unknown_names_list_the_known_ones(latents: Any, states: Any, what: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        as_graph("H->X", latents, states)
    assert str(caught.value).startswith(f"{what} is unknown; expected one of: 'H', 'X'.")
    assert "Is it spelt as in the graph?" in str(caught.value)


def test_a_long_list_of_known_names_is_cut_short() -> None:
    with pytest.raises(UnknownNameError, match=r"'x19', … \(30 in all\)"):
        as_graph([f"x{k}" for k in range(30)]).index("y")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ("A", "A")}, "names must differ"),
        ({"states": (2,)}, "must match the variables"),
        ({"latent": frozenset({5})}, "must match the variables"),
        ({"edges": ((0, 5),)}, "edges must differ and join variables"),
        ({"edges": ((0, 1), (0, 1))}, "edges must differ and join variables"),
        ({"edges": ((1, 0),), "directed": False}, "from smaller to larger"),
    ],
)
def test_the_value_checks_itself(changes: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {
        "names": ("A", "B"),
        "edges": ((0, 1),),
        "latent": frozenset(),
        "states": (2, 2),
    }
    with pytest.raises(GraphError, match=message):
        LatentGraph(**{**whole, **changes})


@pytest.mark.parametrize("kind", [LatentiaError, ValueError])
def test_graph_errors_are_value_errors(kind: type[Exception]) -> None:
    with pytest.raises(kind):
        as_graph("A->A")


def test_unknown_names_are_key_errors() -> None:
    with pytest.raises(KeyError):
        as_graph("A->B").index("C")


@pytest.mark.parametrize("seed", range(20))
def test_find_cycle_walks_along_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b and rng.random() < 1.2 / n]
    cycle = find_cycle(n, pairs)
    assert bool(cycle) != nx.is_directed_acyclic_graph(nx.DiGraph(pairs))
    assert set(zip(cycle, cycle[1:] + cycle[:1], strict=True)) <= set(pairs)


# --- what says nothing about any column -----------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "latents", "left"),
    [
        ("H->X; H->L", "HL", "HX"),
        ("H->X; H->L->M->N", "HLMN", "HX"),  # a chain of barren latents
        ("H->X; X->L", "HL", "HX"),
        ("H,G->L; H->X", "GHL", "HX"),  # a barren collider takes its other parent along
        ("G->H->X", "GH", "GHX"),  # ancestors of columns stay
        ("L->M; X", "LM", "X"),
        ("X->Y; Z", "", "XYZ"),  # columns never go
        ("H--X; H--L--M", "HLM", "HLMX"),  # undirected: tied to a column
        ("H--X; L--M", "HLM", "HX"),  # undirected: cut off from every column
    ],
)
def test_only_relevant_latents_stay(graph: str, latents: str, left: str) -> None:
    assert set(relevant(as_graph(graph, latents=list(latents))).names) == set(left)


def test_dropping_latents_keeps_order_counts_and_edges() -> None:
    graph = as_graph("L[5]<-H[2]->X[3]; X->Y[4]", latents=["L", "H"])
    assert relevant(graph) == as_graph("H[2]->X[3]->Y[4]", latents=["H"])

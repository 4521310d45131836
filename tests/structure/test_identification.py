"""Which effects the columns tell: against networkx, pyAgrum, every subset, and the formulas."""

from itertools import chain, combinations

import numpy as np
import pytest

import latentia as lt
from latentia.exact.surgery import cut_tables
from latentia.structure.identification import (
    back_door_set,
    front_door_set,
    identify,
    project,
)
from latentia.structure.separation import descendants, separated, without_outgoing

COLUMNS = ("x", "y", "a", "b", "c")


def random_confounded(seed, columns=COLUMNS, arrows=0.35, pairs=0.25):
    """Arrows along a random order of the columns, and latents above random pairs."""
    rng = np.random.default_rng(seed)
    order = list(rng.permutation(columns))
    edges = [
        (str(order[i]), str(order[j]))
        for i in range(len(order))
        for j in range(i + 1, len(order))
        if rng.random() < arrows
    ]
    hidden = [pair for pair in combinations(columns, 2) if rng.random() < pairs]
    names = [(name,) for name in columns]
    above = [(f"u{k}", each) for k, pair in enumerate(hidden) for each in pair]
    latents = [f"u{k}" for k in range(len(hidden))]
    return lt.as_graph([*names, *edges, *above], latents=latents), edges, hidden


def subsets(items):
    items = list(items)
    return chain.from_iterable(combinations(items, k) for k in range(len(items) + 1))


@pytest.mark.parametrize("seed", range(30))
def test_separation_is_that_of_networkx(seed):
    nx = pytest.importorskip("networkx")
    graph, *_ = random_confounded(seed)
    other = nx.DiGraph(graph.edges)
    other.add_nodes_from(range(len(graph.names)))
    parents = graph.parents()
    for given in subsets(range(2, 5)):
        expected = nx.is_d_separator(other, {0}, {1}, set(given))
        assert separated(parents, [0], [1], given) == expected


@pytest.mark.parametrize("seed", range(40))
def test_a_back_door_set_is_found_where_any_subset_is_one(seed):
    graph, *_ = random_confounded(seed)
    parents, x, y = graph.parents(), graph.index("x"), graph.index("y")
    paths, below = without_outgoing(parents, [x]), descendants(parents, [x])
    valid = [
        set(some)
        for some in subsets(v for v in graph.observed if v not in (x, y))
        if not below & set(some) and separated(paths, [x], [y], some)
    ]
    found = back_door_set(graph, x, y)
    if y in below:  # else y itself may stand in the way
        assert (found is not None) == bool(valid)
    if found is not None:
        assert set(found) in valid
        assert not any(some < set(found) for some in valid if len(some) == len(found) - 1)


def is_front_door(graph, x, y, some):
    """The three conditions, as they are written."""
    parents = graph.parents()
    children = {
        v: [c for c, above in enumerate(parents) if v in above] for v in range(len(parents))
    }

    def reaches(v):
        return v == y or any(reaches(c) for c in children[v] if c not in some)

    through = not any(reaches(c) for c in children[x] if c not in some)
    clean = all(separated(without_outgoing(parents, [x]), [x], [v], ()) for v in some)
    return through and clean and separated(without_outgoing(parents, some), some, [y], [x])


@pytest.mark.parametrize("seed", range(60))
def test_a_front_door_set_is_found_where_any_subset_is_one(seed):
    graph, *_ = random_confounded(seed, arrows=0.4, pairs=0.15)
    x, y = graph.index("x"), graph.index("y")
    others = [v for v in graph.observed if v not in (x, y)]
    valid = [some for some in subsets(others) if some and is_front_door(graph, x, y, some)]
    found = front_door_set(graph, x, y)
    assert (found is not None) == bool(valid)
    if found:
        assert is_front_door(graph, x, y, found)


@pytest.mark.parametrize("seed", range(80))
def test_what_is_identified_agrees_with_pyagrum(seed):
    gum = pytest.importorskip("pyagrum")
    graph, edges, hidden = random_confounded(seed)
    network = gum.BayesNet()
    for name in COLUMNS:
        network.add(name, 2)
    for edge in edges:
        network.addArc(*edge)
    network.generateCPTs()
    latents = [(f"u{k}", list(pair)) for k, pair in enumerate(hidden)]
    causal = gum.CausalModel(network, latents, True)
    for given in ((), ("a",)):
        told = gum.causalImpact(causal, on="y", doing="x", knowing=set(given))
        found = identify(graph, *([graph.index(n) for n in s] for s in (["x"], ["y"], given)))
        assert found.identified == (told[1] is not None), told[2]


@pytest.mark.parametrize(
    ("text", "latents", "identified"),
    [
        ("x->y; u->x; u->y", ["u"], False),  # the bow
        ("x->m->y; u->x; u->y", ["u"], True),  # the front door
        ("i->x->y; u->x; u->y", ["u"], False),  # an instrument alone
        ("w->r->x->y; u->w; u->x; v->w; v->y", ["u", "v"], True),  # the napkin
        ("x->y; z->y; u->x; u->z; v->z; v->y", ["u", "v"], False),  # an M with z above y
        ("x->y; u->x; u->z; v->z; v->y", ["u", "v"], True),  # an M: leave z alone
        ("u->x; u->y", ["u"], True),  # nothing acts
        ("z->x; z->y; x->y", [], True),
        ("x->m->y; u->x; u->m", ["u"], False),
        ("u->v; v->x; v->y; x->y", ["u", "v"], False),  # latents in a chain
        ("x->u->y; c->x; c->y", ["u"], True),  # a latent between them
    ],
)
def test_graphs_whose_answer_is_known(text, latents, identified):
    graph = lt.as_graph(text, latents=latents)
    found = identify(graph, [graph.index("x")], [graph.index("y")])
    assert found.identified == identified
    if not identified:
        assert set(found.latents) <= set(latents)
        assert found.latents
        assert "not told by the columns alone" in found.words


def test_the_projection_of_latents_in_a_chain():
    graph = lt.as_graph("u->v; u->a; v->b; a->w; w->c", latents=["u", "v", "w"])
    parents, groups = project(graph)
    a, b, c = (graph.index(name) for name in "abc")
    assert set(groups) == {frozenset((a, b))}
    assert parents[c] == {a}
    assert parents[b] == frozenset()


def of_columns(graph):
    return identify(graph, [graph.index("x")], [graph.index("y")])


def by_formula(found):
    return bool(found.back_door or found.front_door)


@pytest.mark.parametrize("seed", range(25))
def test_the_formulas_give_what_surgery_gives(seed):
    """Σ_z P(y | x, z) P(z) and the front door's, from the joint of the columns alone."""
    drawn = (random_confounded([seed, k], arrows=0.45, pairs=0.2)[0] for k in range(1000))
    graph, found = next((g, told) for g in drawn if by_formula(told := of_columns(g)))
    rng = np.random.default_rng([seed, 1])
    parents = graph.parents()
    graph = graph.with_states(dict.fromkeys(graph.names, 2))
    tables = {v: rng.dirichlet([1, 1], size=(2,) * len(p)) for v, p in enumerate(parents)}
    model = lt.TabularModel(graph, {graph.names[v]: table for v, table in tables.items()})
    x = graph.index("x")
    joint = model.joint_table(list(COLUMNS))
    for state in range(2):
        cut = lt.TabularModel(*cut_tables(graph, tables, {x: state}))
        expected = cut.joint_table("y")
        if found.back_door is not None:
            z = [COLUMNS.index(name) for name in found.back_door]
            got = back_door_formula(joint, z, state)
        else:
            z = [COLUMNS.index(name) for name in found.front_door]
            got = front_door_formula(joint, z, state)
        np.testing.assert_allclose(got, expected, atol=1e-10)  # sums of some dozens of products


def margin(joint, *axes):
    """P over these axes, in their order."""
    rest = tuple(k for k in range(joint.ndim) if k not in axes)
    left = [k for k in range(joint.ndim) if k in axes]
    return joint.sum(axis=rest).transpose([left.index(k) for k in axes])


def back_door_formula(joint, z, state):
    both = margin(joint, *z, 0, 1).reshape(-1, 2, 2)
    weight = both.sum(axis=(1, 2))
    return (weight[:, None] * both[:, state] / both[:, state].sum(axis=1, keepdims=True)).sum(0)


def front_door_formula(joint, z, state):
    both = margin(joint, *z, 0, 1).reshape(-1, 2, 2)
    of_z = both[:, state].sum(axis=1) / both[:, state].sum()
    of_x = both.sum(axis=(0, 2))
    inner = (both / both.sum(axis=2, keepdims=True) * of_x[:, None]).sum(axis=1)
    return of_z @ inner

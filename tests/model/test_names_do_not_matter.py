"""The default's answers stay where they are when states, columns and rows get other names."""

import numpy as np
import pytest

import latentia as lt
from latentia.testing.random_models import random_model

DIAMOND = lt.as_graph("A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H", dict.fromkeys("ABCF", 2))
GRAPHS = {
    "class": lt.templates.latent_class(6, 3),
    "chain": lt.templates.hidden_markov(6, 2),
    "diamond": DIAMOND,
}
STATES = 3
ROUNDING = 1e-9  # sums over states in another order, carried through a climb; seen: 4e-13


def drawn(graph, n, rng, dense=()):
    """A table; columns of `dense` are decimals."""
    columns = [graph.names[v] for v in graph.observed]
    known = graph.with_states(dict.fromkeys(columns, STATES))
    codes = random_model(known, rng, 0.4).sample(n, rng)
    table = dict(zip(columns, codes.T, strict=True))
    return table | {x: table[x] + 0.4 * rng.normal(size=n) for x in dense}


class Renaming:
    """Other states, other names of columns, rows in another order."""

    def __init__(self, graph, table, rng):
        self.rng, self.graph = rng, graph
        self.states = {
            x: dict(zip(range(STATES), rng.permutation(list("abc")).tolist(), strict=True))
            for x, cells in table.items()
            if cells.dtype.kind != "f"
        }
        numbers = rng.permutation(len(table)).tolist()
        self.columns = {x: f"column {k}" for x, k in zip(table, numbers, strict=True)}
        self.order = rng.permutation(len(next(iter(table.values()))))

    def cell(self, x, value):
        return self.states[x][int(value)] if x in self.states else value

    def table(self, table):
        return {
            self.columns[x]: np.array([self.cell(x, v) for v in cells[self.order]])
            for x, cells in table.items()
        }

    def edges(self):
        name = [self.columns.get(x, x) for x in self.graph.names]
        return [(name[a], name[b]) for a, b in self.graph.edges]


def compare(graph, n, seed, dense=(), rounding=ROUNDING):
    """Fit a table and the same one renamed: one choice, one set of losses, one set of answers."""
    rng = np.random.default_rng([seed, n])
    table = drawn(graph, n, rng, dense)
    named = Renaming(graph, table, rng)
    latents = {graph.names[v]: graph.states[v] for v in graph.latent}
    edges = [(graph.names[a], graph.names[b]) for a, b in graph.edges]
    one = lt.LatentModel(edges, latents).fit(table)
    two = lt.LatentModel(named.edges(), latents).fit(named.table(table))
    choices = [m.diagnostics_.choice for m in (one, two)]
    assert choices[0].chosen == choices[1].chosen
    for name, loss in choices[0].losses.items():
        assert choices[1].losses[name] == pytest.approx(loss, abs=rounding)
    for _ in range(8):
        target = str(rng.choice(sorted(named.states)))
        there = [x for x in table if x != target and rng.random() < 0.6]
        evidence = {x: table[x][rng.integers(n)] for x in there}
        a = one.query(target, evidence).probabilities
        b = two.query(
            named.columns[target], {named.columns[x]: named.cell(x, v) for x, v in evidence.items()}
        ).probabilities
        for state, p in a.items():
            assert b[named.cell(target, state)] == pytest.approx(p, abs=rounding)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("n", [30, 200, 2000])
@pytest.mark.parametrize("kind", GRAPHS)
def test_discrete_columns(kind, n):
    for seed in range(2):
        compare(GRAPHS[kind], n, seed)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize(
    ("kind", "n"), [*((kind, n) for kind in GRAPHS for n in (60, 200)), ("class", 600)]
)
def test_mixed_columns(kind, n):
    graph = GRAPHS[kind]
    columns = [graph.names[v] for v in graph.observed]
    # networks of 48 rows climb along nearly flat ways, and sums in another order end 1e-8 apart
    compare(graph, n, 0, dense=columns[::2], rounding=1e-6 if n < 100 else ROUNDING)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_more_rows_than_a_start_looks_at():
    """Nearly all of 3,000 rows differ: samples are drawn, and are the same ones."""
    compare(lt.templates.latent_class(12, 3), 3000, 0)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_holes_and_weights():
    rng = np.random.default_rng(0)
    table = {x: c.astype(float) for x, c in drawn(GRAPHS["class"], 150, rng).items()}
    for cells in table.values():
        cells[rng.random(150) < 0.2] = np.nan
    weight = rng.integers(1, 4, 150).astype(float)
    order = rng.permutation(150)
    model = lt.LatentModel(GRAPHS["class"])
    one = model.fit(table, sample_weight=weight)
    flipped = {x: (2 - cells)[order] for x, cells in table.items()}
    two = lt.LatentModel(GRAPHS["class"]).fit(flipped, sample_weight=weight[order])
    assert one.diagnostics_.choice.chosen == two.diagnostics_.choice.chosen
    a = np.asarray(one.query("X0", {"X1": 0, "X3": 2}))
    b = np.asarray(two.query("X0", {"X1": 2, "X3": 0}))
    np.testing.assert_allclose(a, b[::-1], atol=ROUNDING)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("n", [60, 200, 400])
@pytest.mark.parametrize("dense", [False, True])
def test_without_a_graph(n, dense):
    """Random tables of islands were drawn in the order of names: answers moved by up to .12."""
    rng = np.random.default_rng(n)
    graph = GRAPHS["class"]
    columns = [graph.names[v] for v in graph.observed]
    table = drawn(graph, n, rng, [columns[k] for k in (1, 3)] if dense else ())
    named = Renaming(graph, table, rng)
    other = named.table(table)
    turned = {x: other[x] for x in rng.permutation([*other]).tolist()}
    one, two = lt.LatentModel().fit(table), lt.LatentModel().fit(turned)
    there = sorted(named.states)
    for target in there:
        evidence = {x: table[x][0] for x in there if x != target}
        told = {named.columns[x]: named.cell(x, v) for x, v in evidence.items()}
        a = one.query(target, evidence).probabilities
        b = two.query(named.columns[target], told).probabilities
        for state, p in a.items():
            assert b[named.cell(target, state)] == pytest.approx(p, abs=1e-5)  # single precision

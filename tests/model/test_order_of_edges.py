"""Models of a stated graph do not depend on how table and graph are written: few rows.

Ties of plans, random tables and cuts went by the order of edges, columns and states: answers of
thirty rows moved by up to .65.
"""

import numpy as np
import pytest
from sklearn.base import clone

import latentia as lt

COUNTS = {"a": 2, "b": 3, "c": 4, "d": 3, "e": 2, "f": 3}
GRAPHS = {
    "class": ([f"H->{x}" for x in COUNTS], {"H": 3}),
    "tree": (
        ["A->B", "A->C", "A->a", "A->b", "B->c", "B->d", "C->e", "C->f"],
        dict.fromkeys("ABC", 2),
    ),
    "chain": (
        [*(f"{g}->{h}" for g, h in zip("ABCDE", "BCDEF", strict=True))]
        + [f"{h}->{x}" for h, x in zip("ABCDEF", COUNTS, strict=True)],
        dict.fromkeys("ABCDEF", 2),
    ),
    "loop": (
        ["A->B", "A->C", "B->D", "C->D", "A->a", "B->b", "C->c", "D->d", "B->e", "C->f"],
        dict.fromkeys("ABCD", 2),
    ),
    "two classes": ([f"{h}->{x}" for h in "AB" for x in COUNTS], {"A": 2, "B": 2}),
    "counts": (["a->H", "b->H", "H->c", "H->d", "H->e", "d->f"], {"H": 2}),
    "undirected": (["A--B", "A--a", "A--b", "A--c", "B--d", "B--e", "B--f"], {"A": 2, "B": 2}),
    "free": (["H->a", "H->b", "H->c", "H->d", "H->e", "H->f"], {"H": None}),
}
KINDS = ("discrete", "mixed", "holes", "mixed with holes", "weights")
EQUAL = 1e-6  # seen: 2e-16, and 1e-12 in the Gaussian leaves of arrows


def drawn(kind, n, rng):
    """Six columns of one class; two are numbers, cells are missing, as the kind says."""
    told = rng.integers(3, size=n)
    table = {}
    for x, count in COUNTS.items():
        shares = rng.dirichlet(np.full(count, 0.6), size=3)
        table[x] = np.array([str(rng.choice(count, p=shares[h])) for h in told], dtype=object)
    if "mixed" in kind:
        table["b"] = told + rng.normal(size=n)
        table["e"] = np.exp(told * rng.normal() + rng.normal(size=n))
    if "holes" in kind:
        for x, cells in table.items():
            missing = np.nan if cells.dtype.kind == "f" else None
            table[x] = np.where(rng.random(n) < 0.15, missing, cells)
    return table


def is_there(cell):
    return cell is not None and cell == cell


class Rewritten:
    """The same rows and the same graph: other names, everything in another order."""

    def __init__(self, table, weight, edges, rng):
        rows = rng.permutation(len(weight))
        self.name = dict(zip(table, rng.permutation(list("uvwxyz")).tolist(), strict=True))
        self.states = {}
        found = {}
        for x in rng.permutation(list(table)).tolist():
            cells = table[x][rows]
            if cells.dtype.kind != "f":
                there = sorted({c for c in cells if c is not None})
                to = rng.permutation(list("pqrstu"))[: len(there)].tolist()
                self.states[x] = dict(zip(there, to, strict=True))
                cells = np.array([self.states[x].get(c) for c in cells], dtype=object)
            found[self.name[x]] = cells
        self.table, self.weight = found, weight[rows]
        self.edges = [self._edge(edges[i], rng) for i in rng.permutation(len(edges))]

    def _edge(self, edge, rng):
        arrow = "--" if "--" in edge else "->"
        ends = [self.name.get(end, end) for end in edge.split(arrow)]
        return arrow.join(ends[::-1] if arrow == "--" and rng.random() < 0.5 else ends)

    def cell(self, x, value):
        return self.states[x][value] if x in self.states else value


def equal_answers(one, two, table, other, rows):
    """Every discrete column of some rows, given the rest of the row."""
    for row, target in zip(rows, sorted(other.states) * len(rows), strict=False):
        evidence = {x: c[row] for x, c in table.items() if x != target and is_there(c[row])}
        told = {other.name[x]: other.cell(x, value) for x, value in evidence.items()}
        a = one.query(target, evidence).probabilities
        b = two.query(other.name[target], told).probabilities
        for state, p in a.items():
            assert b[other.cell(target, state)] == pytest.approx(p, abs=EQUAL)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", GRAPHS)
def test_graphs_written_otherwise(which, kind):
    edges, latents = GRAPHS[which]
    for n in (12, 33, 60):
        rng = np.random.default_rng([n, KINDS.index(kind)])
        table = drawn(kind, n, rng)
        weight = rng.integers(1, 3, n).astype(float) if kind == "weights" else np.ones(n)
        other = Rewritten(table, weight, edges, rng)
        one = lt.LatentModel("; ".join(edges), latents).fit(table, sample_weight=weight)
        two = lt.LatentModel("; ".join(other.edges), latents)
        two.fit(other.table, sample_weight=other.weight)
        assert [two.states_[name] for name in latents] == [one.states_[name] for name in latents]
        equal_answers(one, two, table, other, range(0, n, max(1, n // 5)))


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize(
    "learner",
    [
        lt.EM(random_state=0),
        "tables",
        lt.StepwiseEM(random_state=0),
        lt.PBP(refine=False),
        lt.PBP(refine=True),
    ],
    ids=str,
)
def test_learners(learner):
    edges, latents = GRAPHS["tree"]
    for n in (21, 150):
        rng = np.random.default_rng(n)
        table = drawn("discrete", n, rng)
        other = Rewritten(table, np.ones(n), edges, rng)
        one = lt.LatentModel("; ".join(edges), latents, clone(learner, safe=False)).fit(table)
        two = lt.LatentModel("; ".join(other.edges), latents, clone(learner, safe=False))
        equal_answers(one, two.fit(other.table), table, other, range(0, n, 5))


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("kind", ["discrete", "mixed", "holes"])
@pytest.mark.parametrize("which", ["class", "free", "tree"])
def test_classifiers(which, kind):
    edges, latents = GRAPHS[which]
    for n in (24, 60):
        rng = np.random.default_rng([n, KINDS.index(kind)])
        table = drawn(kind, n, rng)
        y = np.arange(n) % 2
        other = Rewritten({**table}, np.arange(n), edges, rng)
        one = lt.LatentClassifier("; ".join(edges), latents).fit(table, y)
        two = lt.LatentClassifier("; ".join(other.edges), latents)
        two.fit(other.table, y[other.weight])
        there = one.predict_proba(table)[other.weight]
        np.testing.assert_allclose(two.predict_proba(other.table), there, atol=EQUAL)
        for a, b in zip(one.models_, two.models_, strict=True):
            equal_answers(a, b, table, other, range(0, n, 12))


def test_what_comes_back_is_as_it_was_given():
    """Graph, columns, states, tables with their axes, known cells, and rows to ask about."""
    rng = np.random.default_rng(3)
    table = drawn("discrete", 50, rng)
    edges = "c->H; a->H; H->d; H->b; b->f; d->f; H->e"
    known = {"H": np.full((4, 2, 2), np.nan)}
    known["H"][1, 0] = [0.25, 0.75]
    for learner in ("tables", lt.EM(known=known), lt.EM(tied=[["d", "b"]])):
        model = lt.LatentModel(edges, {"H": 2}, learner, order_by={"H": "d"}).fit(table)
        graph = lt.as_graph(edges, {"H": 2})
        assert model.plan_.graph.names in (graph.names, tuple("cadbfe"))
        assert [c.name for c in model.columns_] == [*"cadbfe"]
        assert all(c.labels == tuple(sorted(set(table[c.name]))) for c in model.columns_)
        shapes = {x: t.shape for x, t in model.cpts_.items()}
        assert shapes["H"] == (4, 2, 2)
        assert shapes["f"] == (3, 3, 3)
        told = model.cpts_["H"][1, 0]
        if isinstance(learner, lt.EM) and learner.known:
            np.testing.assert_allclose(told, [0.25, 0.75])
        if isinstance(learner, lt.EM) and learner.tied:
            np.testing.assert_allclose(model.cpts_["d"], model.cpts_["b"])
        means = model.cpts_["d"] @ np.arange(3)
        assert (np.diff(means) >= 0).all() or (isinstance(learner, lt.EM) and learner.known)
        shares = np.array([np.mean(table["c"] == s) for s in model.columns_[0].labels])
        np.testing.assert_allclose(model.cpts_["c"], shares, atol=0.05)

"""Rank and flatness of the likelihood around a latent, against what is known of latent classes."""

import itertools

import numpy as np
import pytest

import latentia as lt
from latentia.assess import identifying
from latentia.assess.identifying import latent_doubts, told_of
from latentia.exact.table_answers import TableAnswers


def classes(states, columns, cells=2, seed=0, spread=1.0):
    """A latent class model with random tables."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(columns)]
    tables = {"H": rng.dirichlet(np.full(states, 5.0))}
    tables |= {name: rng.dirichlet(np.full(cells, spread), states) for name in names}
    return TableAnswers("H->" + ",".join(names), tables, latents=["H"])


# Goodman (1974): three classes of four binary columns have 14 numbers and rank 13 of 15 cells
@pytest.mark.parametrize(
    ("states", "columns", "cells", "free", "rank"),
    [(2, 2, 2, 5, 3), (2, 3, 2, 7, 7), (2, 4, 2, 9, 9), (3, 4, 2, 14, 13), (3, 5, 2, 17, 17),
     (2, 2, 4, 13, 11), (3, 3, 3, 20, 20)],
)  # fmt: skip
def test_rank_of_latent_classes(states, columns, cells, free, rank):
    for seed in range(3):
        told = told_of(classes(states, columns, cells, seed), 0)
        assert (told.free, told.rank) == (free, rank)


def jacobian_rank(answers):
    """Rank of d P(row) / d free numbers, by central differences over all rows."""
    names, graph = answers.names, answers.graph
    logits = {n: np.log(t) for n, t in answers.cpts.items()}
    cells = [(n, i) for n, t in logits.items() for i in np.ndindex(t.shape)]
    rows = np.array(list(itertools.product(*(range(answers.states[v]) for v in graph.observed))))

    def shares(moved):
        tables = {n: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True) for n, x in moved.items()}
        own = TableAnswers(graph, {n: tables[n] for n in names})
        return np.exp(own.log_evidence(own.evidence(rows)))

    columns = []
    for name, at in cells:
        ends = []
        for step in (1e-5, -1e-5):
            moved = {n: x.copy() for n, x in logits.items()}
            moved[name][at] += step
            ends.append(shares(moved))
        columns.append((ends[0] - ends[1]) / 2e-5)
    return int(np.linalg.matrix_rank(np.array(columns), tol=1e-8))


@pytest.mark.parametrize(
    ("graph", "latents"),
    [
        ("H->G; H->a,b; G->c,d", {"H": 2, "G": 2}),
        ("H->G; G->c,d", {"H": 2, "G": 2}),
        ("a->H; H->b,c; a->c", {"H": 2}),
        ("H->a,b,c; K->a,b,c", {"H": 2, "K": 2}),
    ],
)
def test_rank_is_that_of_the_derivative(graph, latents):
    from latentia.structure.reading_graphs import as_graph
    from latentia.testing.random_models import random_model

    read = as_graph(graph, latents)
    read = read.with_states({read.names[v]: 2 for v in read.observed})
    model = random_model(read, np.random.default_rng(1))
    answers = TableAnswers(model.graph, model.cpts)
    for h in sorted(answers.graph.latent):
        told = told_of(answers, h)
        whole = sum(t.size - t.size // t.shape[-1] for t in answers.tables.values())
        lost = whole - jacobian_rank(answers)
        assert (told.rank < told.free) == (lost > 0)


def test_drawn_rows_tell_the_same_as_all(monkeypatch):
    answers = classes(3, 6, 2, spread=2.0)
    exact = told_of(answers, 0)
    monkeypatch.setattr(identifying, "MOST_CELLS", 0)
    drawn = told_of(answers, 0)
    assert (drawn.free, drawn.rank) == (exact.free, exact.rank)
    np.testing.assert_allclose(drawn.errors, exact.errors, rtol=0.3)  # of 6,000 rows
    np.testing.assert_allclose(drawn.known, exact.known, rtol=0.1)


def test_columns_that_copy_the_latent_tell_all_of_it():
    copy = np.array([[1.0 - 1e-6, 1e-6], [1e-6, 1.0 - 1e-6]])
    tables = {"H": [0.4, 0.6], "a": copy, "b": copy, "c": [[0.3, 0.7], [0.8, 0.2]], "d": copy}
    told = told_of(TableAnswers("H->a,b,c,d", tables, latents=["H"]), 0)
    np.testing.assert_allclose(told.errors, told.known, rtol=1e-3, atol=1e-4)
    share, given = np.array([0.4, 0.6]), np.array([[0.3, 0.7], [0.8, 0.2]])
    np.testing.assert_allclose(told.known[:2], np.sqrt(share * (1 - share)))
    c = np.sqrt(given * (1 - given) / share[:, None])  # of the rows in that state alone
    np.testing.assert_allclose(told.known[10:14], c.ravel(), rtol=1e-6)


def test_errors_are_those_of_many_samples():
    """Standard errors of maximum likelihood, against fits to fresh rows."""
    tables = {"H": [0.35, 0.65]}
    tables |= {
        f"x{i}": [[0.85 - p, 0.15 + p], [0.2, 0.8]] for i, p in enumerate((0, 0.1, 0.2, 0.3))
    }
    answers = TableAnswers("H->x0,x1,x2,x3", tables, latents=["H"])
    told = told_of(answers, 0)
    found = []
    for seed in range(120):
        data = dict(zip(answers.names[1:], answers.sample(3000, seed).T, strict=True))
        learner = lt.EM(init=answers.cpts, max_iter=1000, tol=1e-7)
        model = lt.LatentModel(answers.graph, learner=learner, order_by="x0").fit(data)
        found.append(np.concatenate([model.cpts_[n].ravel() for n in answers.names]))
    expected = told.errors / np.sqrt(3000)
    # of 120 fits a standard error is known to 6.5 %: four of these
    np.testing.assert_allclose(np.std(found, axis=0), expected, rtol=0.27)
    assert (expected > 1.5 * told.known / np.sqrt(3000)).any()  # much of it is what is hidden


def test_doubts_have_reasons():
    assert latent_doubts(classes(2, 8, 3, spread=0.5), "H", 10_000) == ()
    (few,) = latent_doubts(classes(2, 2), "H", 10_000)
    assert "cannot be identified: its columns tell 3 of the 5" in few
    same = classes(2, 5)
    tables = dict(same.cpts)
    tables = {n: np.repeat(t[:1], 2, axis=0) if t.ndim == 2 else t for n, t in tables.items()}
    told = latent_doubts(TableAnswers(same.graph, tables), "H", 10_000, ["low", "high"])
    assert "states low and high of H say the same of every column" in told[0]
    assert any("cannot be identified" in reason for reason in told)
    flat = {n: 0.5 + 0.3 * (t - 0.5) if t.ndim == 2 else t for n, t in same.cpts.items()}
    told = latent_doubts(TableAnswers(same.graph, flat), "H", 1000)
    assert any("nearly flat" in reason for reason in told)
    empty = {**same.cpts, "H": np.array([1.0 - 1e-6, 1e-6])}
    assert "is empty" in latent_doubts(TableAnswers(same.graph, empty), "H", 500)[0]


def test_latents_that_can_change_places():
    rng = np.random.default_rng(0)
    tables = {"H": [0.3, 0.7], "K": [0.6, 0.4]}
    tables |= {f"x{i}": rng.dirichlet(np.ones(2), (2, 2)) for i in range(6)}
    graph = (
        "H->" + ",".join(f"x{i}" for i in range(6)) + "; K->" + ",".join(f"x{i}" for i in range(6))
    )
    answers = TableAnswers(graph, tables, latents=["H", "K"])
    assert any("can change places" in reason for reason in latent_doubts(answers, "H", 10_000))

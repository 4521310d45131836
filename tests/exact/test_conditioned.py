"""Many rows of evidence at once: the same answers as in logs, row by row."""

import math

import numpy as np
import pytest

from latentia.errors import EvidenceError, PlanError
from latentia.exact import conditioned
from latentia.exact import tabular_model as exact
from latentia.exact.conditioned import infer_rows
from latentia.exact.tabular_model import TabularModel
from latentia.testing.random_models import KINDS, random_graph, random_model


def in_logs(monkeypatch, call):
    monkeypatch.setattr(exact, "MANY", 10**9)
    found = call()
    monkeypatch.setattr(exact, "MANY", 1)
    return found


def evidence_of(model, rng, rows, pattern):
    codes = model.sample(rows, rng, latents=True)
    if pattern == "columns":
        seen = np.broadcast_to(rng.random(codes.shape[1]) < 0.5, codes.shape)
    else:
        seen = rng.random(codes.shape) < 0.5
    return np.where(seen, codes, -1)


@pytest.mark.parametrize("pattern", ["columns", "cells"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_equals_logs(monkeypatch, kind, seed, pattern):
    rng = np.random.default_rng(seed)
    model = random_model(random_graph(rng, kind), rng)
    codes = evidence_of(model, rng, 70, pattern)
    asked = list(rng.permutation(model.names)[:3])
    for variables in (None, asked, asked[:1]):
        expected = in_logs(monkeypatch, lambda v=variables: model.posteriors(codes, v))
        found = model.posteriors(codes, variables)
        assert list(found) == list(expected)
        for name, table in expected.items():
            np.testing.assert_allclose(found[name], table, rtol=0, atol=1e-12)
    expected = in_logs(monkeypatch, lambda: model.log_evidence(codes))
    np.testing.assert_allclose(model.log_evidence(codes), expected, atol=1e-12)
    both = in_logs(monkeypatch, lambda: model.joint(asked[:2], codes))
    np.testing.assert_allclose(model.joint(asked[:2], codes), both, atol=1e-12)


def test_soft_evidence_goes_with_its_row(monkeypatch):
    rng = np.random.default_rng(5)
    model = random_model(random_graph(rng, "loop"), rng)
    codes = evidence_of(model, rng, 70, "columns")
    name, states = model.names[0], model.states[0]
    for likelihood in (rng.random(states), rng.random((70, states))):
        soft = {name: likelihood}
        expected = in_logs(monkeypatch, lambda s=soft: model.posteriors(codes, soft=s))
        for key, table in model.posteriors(codes, soft=soft).items():
            np.testing.assert_allclose(table, expected[key], atol=1e-12)


def test_impossible_rows_are_named_as_ever():
    cpts = {"h": [0.5, 0.5], "x": np.eye(2), "y": np.eye(2)}
    model = TabularModel("h->x; h->y", cpts, latents=["h"])
    codes = np.zeros((200, 3), dtype=np.int64)
    codes[:, 0] = -1
    codes[:, 1:] = np.random.default_rng(0).integers(2, size=(200, 1))
    codes[150] = [-1, 0, 1]
    with pytest.raises(EvidenceError, match="row 150 of the evidence has probability 0"):
        model.posteriors(codes, "h")
    log = model.log_evidence(codes)
    assert log[150] == -math.inf
    np.testing.assert_allclose(np.delete(log, 150), math.log(0.5))


def test_rows_beyond_the_smallest_numbers_are_done_in_logs(monkeypatch):
    # 600 columns say 0 and 600 say 1, each 1000 times likelier: plain products are 0 both ways
    rng, columns = np.random.default_rng(1), 1200
    prior, emit = np.array([0.3, 0.7]), np.array([[0.999, 0.001], [0.001, 0.999]])
    cpts = {"h": prior} | {f"x{k}": emit for k in range(columns)}
    model = TabularModel([("h", f"x{k}") for k in range(columns)], cpts, latents=["h"])
    monkeypatch.setattr(exact, "MANY", 1)
    codes = np.stack([rng.permutation(np.arange(columns) % 2) for _ in range(3)])
    found = model.posteriors(model.evidence(codes), "h")["h"]
    np.testing.assert_allclose(found, [prior] * 3, atol=1e-9)
    expected = columns / 2 * (math.log(0.999) + math.log(0.001))
    np.testing.assert_allclose(model.log_evidence(model.evidence(codes)), expected, rtol=1e-12)


def test_wiring_that_would_be_too_large_is_left_to_logs(monkeypatch):
    rng = np.random.default_rng(6)
    model = random_model(random_graph(rng, "loop"), rng)
    codes = evidence_of(model, rng, 70, "cells")
    expected = in_logs(monkeypatch, lambda: model.log_evidence(codes))

    def refuse(*_):
        raise PlanError("too large")

    monkeypatch.setattr(conditioned, "infer_rows", refuse)
    np.testing.assert_allclose(model.log_evidence(codes), expected, atol=1e-12)


def test_barren_variables_do_not_count():
    """What lies below neither evidence nor question sums to one: its table is not even read."""
    rng = np.random.default_rng(7)
    model = TabularModel("a->b; b->c; a->d", {
        "a": [0.4, 0.6], "b": rng.dirichlet([1, 1], 2), "c": rng.dirichlet([1, 1], 2),
        "d": rng.dirichlet([1, 1], 2),
    })  # fmt: skip
    tables = {scope[-1]: table for scope, table in model.tables.items()}
    del tables[3]
    codes = np.array([[-1, -1, 1, -1], [-1, 0, -1, -1]])
    log, (found,) = infer_rows(model.graph, tables, codes, [0])
    np.testing.assert_allclose(log, model.log_evidence(codes), atol=1e-14)
    np.testing.assert_allclose(found.T, model.posteriors(codes, "a")["a"], atol=1e-14)

"""A latent class after which there is nothing to compare; and when there is."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import IndependenceWarning, StatesWarning
from latentia.model.choice import choose_best
from latentia.model.settled_class import race_to_settle
from latentia.networks.knowledge import AUTO
from latentia.structure.plan import make_plan

COLUMNS = [f"X{i}" for i in range(8)]
GRAPH = lt.templates.latent_class(8, 3).with_states(dict.fromkeys(COLUMNS, 3))


def drawn(n, seed=0, shown=0.7):
    rng = np.random.default_rng(seed)
    cls = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    codes = {}
    for i, x in enumerate(COLUMNS):
        told = rng.random(n) < shown
        codes[x] = np.where(told, (cls + i) % 3, rng.integers(3, size=n))
    return pd.DataFrame(codes)


def rows_of(frame):
    return Rows(tuple(frame[x].to_numpy(np.int8) for x in COLUMNS))


def test_a_class_that_fits_is_settled_and_says_why():
    model = lt.LatentModel(GRAPH).fit(drawn(2000))
    choice = model.diagnostics_.choice
    assert (choice.chosen, dict(choice.losses)) == ("refined", {})
    assert "pairs of columns are as it says" in str(choice)
    assert set(choice.left_out) == {"closed", "marginal"}


def test_it_is_what_the_comparison_would_have_chosen(monkeypatch):
    frame = drawn(2000)
    settled = lt.LatentModel(GRAPH).fit(frame)
    monkeypatch.setattr("latentia.model.choice.race_to_settle", lambda *given: None)
    compared = lt.LatentModel(GRAPH).fit(frame)
    assert compared.diagnostics_.choice.losses
    # both climb the same likelihood, and rest where little is left to gain
    assert settled.score(frame) == pytest.approx(compared.score(frame), abs=1e-4)
    np.testing.assert_allclose(
        settled.predict_proba(frame[:50]).to_numpy(float),
        compared.predict_proba(frame[:50]).to_numpy(float),
        atol=5e-3,
    )


def test_many_different_rows_settle_too():
    """More than are kept in memory for a comparison: the race is on a sample, the climb on all."""
    frame = drawn(60_000, shown=0.5)
    assert len(frame.drop_duplicates()) < 25_000  # and so all are kept; not here:
    plan, rows = make_plan(GRAPH), rows_of(frame)
    pool = LocalRows(rows).sample(3000, np.random.default_rng(1))
    found = race_to_settle(plan, LocalRows(rows), pool, False, AUTO)
    assert found.settled is not None
    whole = choose_best(plan, LocalRows(rows), np.random.default_rng(0), AUTO).operators
    np.testing.assert_allclose(found.settled.weight, 60_000)
    (h,) = GRAPH.latent
    sizes = [np.sort(x.tables[h]) for x in (found.settled, whole)]
    np.testing.assert_allclose(*sizes, atol=2e-3)


def test_columns_that_depend_given_the_class_are_compared():
    frame = drawn(2000)
    rng = np.random.default_rng(5)
    frame["X5"] = np.where(rng.random(2000) < 0.6, frame["X2"], frame["X5"])
    with pytest.warns(StatesWarning, match="is left over"):
        choice = lt.LatentModel(GRAPH).fit(frame).diagnostics_.choice
    assert set(choice.losses) == {"marginal", "closed", "refined"}


def test_columns_that_tell_nothing_are_compared():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({x: rng.integers(3, size=2000) for x in COLUMNS})
    with pytest.warns(IndependenceWarning):
        choice = lt.LatentModel(GRAPH).fit(frame).diagnostics_.choice
    assert choice.chosen == "marginal"


def test_few_rows_are_compared_fold_by_fold():
    choice = lt.LatentModel(GRAPH).fit(drawn(200)).diagnostics_.choice
    assert choice.held_out == 200


@pytest.mark.parametrize("smoothing", [0.5, 1.0])
def test_pseudo_counts_that_are_stated_are_compared(smoothing):
    learner = lt.PBP(smoothing=smoothing)
    choice = lt.LatentModel(GRAPH, learner=learner).fit(drawn(1000)).diagnostics_.choice
    assert choice.losses


def test_another_graph_is_not_raced():
    plan = make_plan(lt.templates.hidden_markov(4, 2).with_states({f"X{i}": 3 for i in range(4)}))
    rows = Rows(tuple(np.zeros(300, np.int8) for _ in range(4)))
    assert race_to_settle(plan, LocalRows(rows), rows, True, AUTO) is None


def test_seeds_and_labels_do_not_matter():
    frame = drawn(800, shown=0.5)
    one = lt.LatentModel(GRAPH, learner=lt.PBP(random_state=0)).fit(frame)
    assert one.diagnostics_.choice.losses == {}
    turned = frame.apply(lambda c: (c + 1) % 3)
    other = lt.LatentModel(GRAPH, learner=lt.PBP(random_state=7)).fit(
        turned.sample(frac=1.0, random_state=1)
    )
    a = one.predict_proba(frame[:20]).to_numpy(float).reshape(20, -1, 3)
    b = other.predict_proba(turned[:20]).to_numpy(float).reshape(20, -1, 3)
    np.testing.assert_allclose(a, np.roll(b, -1, axis=2), atol=1e-5)

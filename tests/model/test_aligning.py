"""Two models' states are matched as an oracle that tries every permutation matches them."""

import itertools
import warnings

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError, IdentifiabilityWarning

GRAPH = "class->a,b,c,d,e"


def rows(n=3000, seed=0, states=4):
    rng = np.random.default_rng(seed)
    h = rng.choice(states, p=np.arange(1, states + 1) / np.arange(1, states + 1).sum(), size=n)
    return {c: np.where(rng.random(n) < 0.8, h, rng.integers(states, size=n)) for c in "abcde"}


def fitted(data, states=4, graph=GRAPH, **more):
    latents = {graph.split("->")[0]: states}
    return lt.LatentModel(graph, latents, learner="tables", **more).fit(data)


def best_permutation(table):
    tried = itertools.permutations(range(len(table)))
    return max(tried, key=lambda order: sum(table[k, j] for k, j in enumerate(order)))


def test_a_renumbered_model_is_found_out():
    data = rows()
    one = fitted(data, name_states={"class": ["w", "x", "y", "z"]})
    two = fitted(rows(seed=1), order_by="a")
    found = one.align(two, data)
    left = np.stack(list(one.predict_proba(data, "class").values()))
    right = np.stack(list(two.predict_proba(data, "class").values()))
    order = best_permutation(left @ right.T)
    assert list(found.mapping["class"].values()) == list(order)
    assert list(found.mapping["class"]) == ["w", "x", "y", "z"]
    assert sorted(order) != list(order)  # both have an order of their own
    agree = np.mean(np.array(order)[left.argmax(axis=0)] == right.argmax(axis=0))
    assert found.agreement["class"] == pytest.approx(agree)
    again = found.model
    np.testing.assert_allclose(again.score_samples(data), two.score_samples(data), atol=1e-9)
    np.testing.assert_allclose(again.cpts_["a"], two.cpts_["a"][list(order)])
    assert again.query("class").states == (("w", "x", "y", "z"),)
    assert one.align(again).mapping["class"] == {s: s for s in "wxyz"}
    assert two.name_states is None  # as it was
    assert "agree on" in repr(found)


def test_models_of_different_kinds_and_numbers_of_states():
    data = rows()
    one = fitted(data)
    em = lt.LatentModel(GRAPH, {"class": 4}, learner=lt.EM(3, random_state=1), order_by="a").fit(
        data
    )
    assert one.align(em).agreement["class"] > 0.97
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        more = one.align(fitted(data, 5))
        assert len(set(more.mapping["class"].values())) == 4
        fewer = one.align(fitted(data, 2))
    assert list(fewer.mapping["class"].values()).count(None) == 2
    named = fitted(data, graph="group->a,b,c,d,e")
    assert one.align(named).agreement["class"] > 0.99


def test_what_cannot_be_matched_is_said():
    data = rows()
    one = fitted(data)
    chain = lt.LatentModel("G->H; G->a,b; H->c,d,e", {"G": 2, "H": 2}, learner="tables").fit(data)
    with pytest.raises(DataError, match="latents of the same name"):
        one.align(chain)
    with pytest.raises(EvidenceError, match="no latents"):
        one.align(lt.LatentModel("a->b->c->d->e", learner="tables").fit(data))
    rng = np.random.default_rng(0)
    noise = {c: rng.integers(2, size=300) for c in "ab"}
    weak = lt.LatentModel("H->a,b", {"H": 2}, learner=lt.EM(2, random_state=0)).fit(noise)
    with pytest.warns(IdentifiabilityWarning, match="cannot be identified"):
        weak.align(weak)
    with pytest.warns(IdentifiabilityWarning, match="cannot be identified"):
        notes = weak.profile("H").notes
    assert any("tell 3 of the 5" in note for note in notes)

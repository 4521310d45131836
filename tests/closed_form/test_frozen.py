"""Sums in a frozen basis: exact where moments are exact, near the two-pass answer otherwise."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.closed_form.frozen import freeze_basis
from latentia.closed_form.solving import learn_closed_form
from latentia.data.rows import Rows
from latentia.data.sources import opening
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import read_evidence
from latentia.structure.plan import make_plan
from latentia.testing.random_models import all_rows, brute_force, random_model

HIDDEN = {"H1": 2, "H2": 3, "H3": 2}
GRAPHS = {
    "class": ("H->a; H->b; H->c; H->d", {"H": 3}),
    "chain": ("H1->H2; H2->H3; H1->a; H1->b; H2->c; H2->d; H3->e; H3->f", HIDDEN),
    "tree": ("R->S; R->T; S->a; S->b; S->c; T->d; T->e; R->f", {"R": 2, "S": 3, "T": 2}),
    "loop": ("a->c; b->c; a,b->d; a->x; b->y; c->z; d->u", dict.fromkeys("abcd", 2)),
    "diamond": ("A->B,C; B,C->F; B->D; C->E; F->G,H", dict.fromkeys("ABCF", 2)),
}


def draw(name, seed, states=3):
    """A random model with all its rows: plan, codes of every joint state, their probabilities."""
    graph, latents = GRAPHS[name]
    bare = lt.as_graph(graph, latents)
    columns = {bare.names[v]: 4 if name == "diamond" else states for v in bare.observed}
    rng = np.random.default_rng(seed)
    model = random_model(bare.with_states(columns), rng)
    codes, p = all_rows(brute_force(model))
    return make_plan(model.graph), model, tuple(c.astype(np.int8) for c in codes.T), p.ravel()


def joint(operators, codes):
    return np.exp(log_evidence(operators, read_evidence(operators.plan, codes))[0])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", range(3))
def test_exact_moments_give_the_exact_joint(name, seed):
    """In a basis frozen from other rows, of another distribution even; redrawn if ill-posed."""
    for again in range(50):
        plan, _, codes, p = draw(name, 100 * seed + again)
        noise = np.random.default_rng(seed).uniform(0.5, 1.5, size=len(p))
        frozen = freeze_basis(plan, LocalRows(Rows(codes, p * noise * 1e12)), regularize=False)
        operators = frozen.solve(LocalRows(Rows(codes, p * 1e12)).fold(frozen.summary))
        if max(report.condition for report in operators.provenance.reports.values()) < 1e3:
            break
    assert np.abs(joint(operators, codes) - p).sum() < 1e-9


@pytest.mark.parametrize("name", ["class", "chain", "tree"])
def test_a_pilot_of_all_rows_gives_the_two_pass_answer(name):
    plan, _, codes, p = draw(name, 5)
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(p), 3000, p=p)
    rows = Rows(tuple(c[chosen] for c in codes))
    frozen = freeze_basis(plan, LocalRows(rows), regularize=False)
    one = frozen.solve(LocalRows(rows).fold(frozen.summary))
    two = learn_closed_form(plan, LocalRows(rows), regularize=False)
    np.testing.assert_allclose(joint(one, codes), joint(two, codes), atol=1e-8)


def sample(model, n, seed, holes=0.0):
    rng = np.random.default_rng(seed)
    names = [model.graph.names[v] for v in model.graph.observed]
    frame = pd.DataFrame(model.sample(n, seed), columns=names).astype(float)
    return frame.mask(rng.random(frame.shape) < holes)


def mean_gap(one, two, probe, names):
    """Mean distance of posteriors."""
    gaps = [
        np.abs(one.predict_proba(probe, c).to_numpy() - two.predict_proba(probe, c).to_numpy())
        for c in names
    ]
    return float(np.mean([g.sum(axis=1).mean() for g in gaps]))


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("name", ["class", "chain", "diamond"])
def test_nearer_to_two_passes_with_more_rows(name, holes, monkeypatch):
    monkeypatch.setattr(opening, "PILOT_ROWS", 1000)
    graph, latents = GRAPHS[name]
    _, model, _, _ = draw(name, 11)
    names = [model.graph.names[v] for v in model.graph.observed]
    states = {v: list(range(4 if name == "diamond" else 3)) for v in names}
    probe = sample(model, 300, 1)
    gaps = []
    for n in (4_000, 200_000):
        frame = sample(model, n, 2, holes)
        blocks = (frame[i : i + 500] for i in range(0, n, 500))
        one = lt.LatentModel(graph, latents, state_names=states).fit(blocks)
        two = lt.LatentModel(graph, latents, state_names=states).fit(frame)
        assert one.moments_.weight == n
        gaps.append(mean_gap(one, two, probe, names))
    assert gaps[1] < max(0.5 * gaps[0], 2e-3), gaps
    assert gaps[1] < 0.03


class TestOneShot:
    """Rows that can be read once: nothing is lost, and what cannot be is said."""

    FRAME = sample(draw("chain", 3)[1], 5000, 0)  # fewer are put in order, if all are there

    def blocks(self, size=500):
        return (self.FRAME[i : i + size] for i in range(0, len(self.FRAME), size))

    @pytest.mark.parametrize("learner", ["paper", "spectral"])
    def test_counts_need_no_pilot(self, learner, monkeypatch):
        monkeypatch.setattr(opening, "PILOT_ROWS", 1000)
        graph, latents = GRAPHS["chain"]
        one = lt.LatentModel(graph, latents, learner=learner).fit(self.blocks())
        two = lt.LatentModel(graph, latents, learner=learner).fit(self.FRAME)
        for k, tensor in two.operators_.tensors.items():
            np.testing.assert_allclose(one.operators_.tensors[k], tensor, atol=1e-10)

    @pytest.mark.parametrize("learner", [lt.EM(), lt.PBP(refine=True)], ids=["em", "pbp"])
    def test_learners_that_read_again(self, learner, monkeypatch):
        graph, latents = GRAPHS["chain"]
        model = lt.LatentModel(graph, latents, learner=learner)
        monkeypatch.setattr(opening, "PILOT_ROWS", 1000)
        with pytest.raises(lt.errors.DataError, match="read again"):
            model.fit(self.blocks())

    def test_a_state_that_the_pilot_lacks(self, monkeypatch):
        monkeypatch.setattr(opening, "PILOT_ROWS", 1000)
        graph, latents = GRAPHS["chain"]
        late = self.FRAME[:500].assign(a=7.0)
        with pytest.raises(lt.errors.UnknownNameError, match=r"state of 'a' .*7"):
            lt.LatentModel(graph, latents).fit(iter([self.FRAME[:1000], late]))


class TestPartialFit:
    GRAPH, LATENTS = GRAPHS["chain"]
    FRAME = sample(draw("chain", 3)[1], 6000, 0, holes=0.1)
    PARTS = (FRAME[:3000], FRAME[3000:4000], FRAME[4000:])

    def model(self, **more):
        return lt.LatentModel(self.GRAPH, self.LATENTS, **more)

    @pytest.mark.parametrize("learner", ["pbp", "paper", "spectral"])
    def test_parts_add_up(self, learner):
        found = self.model(learner=learner)
        for part in self.PARTS:
            assert found.partial_fit(part) is found
        assert found.moments_.rows == 6000
        first = self.model(learner=learner).freeze(self.PARTS[0])
        expected = first.solve(first.gather(self.FRAME))
        for k, tensor in expected.operators_.tensors.items():
            np.testing.assert_allclose(found.operators_.tensors[k], tensor, atol=1e-9)
        assert found.diagnostics_.missing["a"] == pytest.approx(self.FRAME["a"].isna().mean())

    def test_near_to_fit(self):
        found = self.model()
        for part in self.PARTS:
            found.partial_fit(part)
        probe = self.FRAME[:300]
        assert mean_gap(found, self.model().fit(self.FRAME), probe, "abcdef") < 0.03

    def test_weights_are_repeated_rows(self):
        weight = np.random.default_rng(0).integers(0, 3, size=len(self.FRAME))
        one = self.model().partial_fit(self.FRAME, sample_weight=weight)
        again = self.FRAME.loc[self.FRAME.index.repeat(weight)]
        two = self.model().partial_fit(again)
        for k, tensor in two.operators_.tensors.items():
            np.testing.assert_allclose(one.operators_.tensors[k], tensor, atol=1e-8)

    def test_unseen_states(self):
        found = self.model().partial_fit(self.FRAME)
        with pytest.raises(lt.errors.UnknownNameError, match="state of 'b'"):
            found.partial_fit(self.FRAME.assign(b=9.0))
        assert found.moments_.rows == 6000  # nothing was added

    def test_states_named_before(self):
        few = self.FRAME[self.FRAME["a"] != 2]
        found = self.model(state_names={"a": [0, 1, 2]}).partial_fit(few).partial_fit(self.FRAME)
        assert found.query("a")[2] > 0.01

    def test_fit_starts_anew(self):
        found = self.model().partial_fit(self.FRAME).fit(self.PARTS[0])
        assert found.diagnostics_.weight == 3000
        with pytest.warns(lt.errors.LatentiaWarning, match="starts anew"):
            found.partial_fit(self.PARTS[1])
        assert found.moments_.weight == 1000

    def test_learners_without_sums(self):
        assert not hasattr(self.model(learner="em"), "partial_fit")
        with pytest.raises(lt.errors.DataError, match="again and again"):
            self.model(learner="em").freeze(self.FRAME)

    def test_engines(self, tmp_path):
        self.FRAME.to_parquet(tmp_path / "rows.parquet")
        one = self.model().partial_fit(self.FRAME).partial_fit(tmp_path / "rows.parquet")
        two = self.model().partial_fit(self.FRAME).partial_fit(self.FRAME)
        for k, tensor in two.operators_.tensors.items():
            np.testing.assert_allclose(one.operators_.tensors[k], tensor, atol=1e-10)

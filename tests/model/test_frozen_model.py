"""Learning across sites: a frozen model and sums as files; what does not belong is refused."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import MomentsError, StoreError

GRAPH, LATENTS = "H1->H2; H1->a; H1->b; H2->c; H2->d", {"H1": 2, "H2": 2}
LOOP = "a->c; b->c; a,b->d; a->x; b->y; c->z; d->u"


def rows(n, seed, names="abcd"):
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    noise = {c: np.where(rng.random(n) < 0.75, h, rng.integers(3, size=n)) for c in names}
    return pd.DataFrame(noise).astype("Int64").mask(rng.random((n, len(names))) < 0.1)


SITES = [rows(1500, 1), rows(700, 2), rows(400, 3)]


@pytest.mark.parametrize("learner", ["pbp", lt.PBP(regularize=False), "paper", "spectral"], ids=str)
def test_sites(tmp_path, learner):
    """Site A freezes, all gather, one adds and solves: as if all rows had been at one place."""
    lt.LatentModel(GRAPH, LATENTS, learner=learner).freeze(SITES[0]).save(tmp_path / "frozen")
    for i, site in enumerate(SITES):
        lt.load(tmp_path / "frozen").gather(site).save(tmp_path / f"sums{i}")
    frozen = lt.load(tmp_path / "frozen")
    a, b, c = (lt.load(tmp_path / f"sums{i}") for i in range(3))
    found = frozen.solve(a + b + c)
    assert found.moments_.rows == 2600
    expected = frozen.solve(frozen.gather(pd.concat(SITES)))
    for k, tensor in expected.operators_.tensors.items():
        np.testing.assert_allclose(found.operators_.tensors[k], tensor, atol=1e-9)
    found.save(tmp_path / "model")
    again = lt.load(tmp_path / "model")
    assert again.query("a", {"c": 1}).probabilities == found.query("a", {"c": 1}).probabilities


def test_loops(tmp_path):
    frame = rows(2000, 4, "xyzu")
    frozen = lt.LatentModel(LOOP, dict.fromkeys("abcd", 2)).freeze(frame)
    assert frozen.frozen.basis.rounds
    frozen.save(tmp_path / "frozen")
    one, two = lt.load(tmp_path / "frozen").gather(frame), frozen.gather(frame)
    for name, total in two.sums.items():
        np.testing.assert_array_equal(one.sums[name], total)
    assert one.kind == two.kind


def test_moments_come_back_bit_for_bit(tmp_path):
    found = lt.LatentModel(GRAPH, LATENTS).freeze(SITES[0]).gather(SITES[1])
    lt.save(found, tmp_path / "sums")
    again = lt.load(tmp_path / "sums")
    assert (again.kind, again.weight, again.rows) == (found.kind, found.weight, found.rows)
    for name, total in found.sums.items():
        np.testing.assert_array_equal(again.sums[name], total)


class TestRefused:
    """Sums are added and solved only with what they belong to."""

    FROZEN = lt.LatentModel(GRAPH, LATENTS).freeze(SITES[0])
    SUMS = FROZEN.gather(SITES[0])

    @pytest.mark.parametrize(
        "other",
        [
            lt.LatentModel(GRAPH, LATENTS).freeze(SITES[1]),
            lt.LatentModel(GRAPH, {"H1": 2, "H2": 3}).freeze(SITES[0]),
            lt.LatentModel(GRAPH, LATENTS, learner="paper").freeze(SITES[0]),
            lt.LatentModel(GRAPH, LATENTS, state_names={"a": [2, 1, 0]}).freeze(SITES[0]),
        ],
        ids=["another basis", "another rank", "another learner", "another order of states"],
    )
    def test_others(self, other):
        sums = other.gather(SITES[0])
        with pytest.raises(MomentsError, match="do not belong together"):
            self.SUMS + sums
        with pytest.raises(MomentsError, match="can be solved only by"):
            self.FROZEN.solve(sums)

    def test_counts_of_the_same_plan_but_other_states(self):
        paper = lt.LatentModel(GRAPH, LATENTS, learner="paper")
        other = lt.LatentModel(GRAPH, LATENTS, learner="paper", state_names={"a": [2, 1, 0]})
        one, two = (m.freeze(SITES[0]).gather(SITES[0]) for m in (paper, other))
        with pytest.raises(MomentsError, match="do not belong together"):
            one + two

    @pytest.mark.parametrize("what", ["frozen", "sums"])
    def test_damaged_files(self, what, tmp_path):
        (self.FROZEN if what == "frozen" else self.SUMS).save(tmp_path / what)
        data = bytearray((tmp_path / what).read_bytes())
        for place in range(60, len(data), len(data) // 40):
            damaged = bytearray(data)
            damaged[place] ^= 0x41
            (tmp_path / "damaged").write_bytes(damaged)
            with pytest.raises(StoreError, match="checksum"):
                lt.load(tmp_path / "damaged")
        (tmp_path / "short").write_bytes(data[:-8])
        with pytest.raises(StoreError, match="truncated"):
            lt.load(tmp_path / "short")

    def test_unseen_states(self):
        with pytest.raises(lt.errors.UnknownNameError, match="state of 'a'"):
            self.FROZEN.gather(SITES[0].assign(a=5))

    def test_other_things(self, tmp_path):
        with pytest.raises(StoreError, match="Only these, frozen models and"):
            lt.save({"a": 1}, tmp_path / "thing")

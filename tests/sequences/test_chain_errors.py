"""Error bars of chains: against the spread over samples, and what groups are."""

from __future__ import annotations

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError
from latentia.sequences.chain_errors import groups_asked, left_over
from latentia.sequences.step_data import Sequences

MOVE = np.array([[0.9, 0.1], [0.2, 0.8]])
SHARE = np.array([[0.8, 0.15, 0.05], [0.1, 0.2, 0.7]])


def draw(count: int, length: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.zeros((count, length), dtype=int)
    for t in range(1, length):
        z[:, t] = rng.random(count) > MOVE[z[:, t - 1], 0]
    a = (rng.random(z.shape)[..., None] > SHARE[z].cumsum(axis=-1)).sum(axis=-1)
    x = 2.0 * z + rng.normal(size=z.shape)
    return {"id": np.repeat(np.arange(count), length), "a": a.ravel(), "x": x.ravel()}


def fitted(
    rows: dict[str, np.ndarray], slice_: str = "z -> z', z -> a", **more
) -> lt.SequenceModel:
    model = lt.SequenceModel(slice_, {"z": 2}, order_by="a", state_names={"a": [0, 1, 2]})
    own = {name: x for name, x in rows.items() if name == "id" or name in slice_}
    return model.fit(own, sequence="id", **more)


@pytest.mark.parametrize(("count", "length"), [(40, 30), (1, 1200)])
def test_errors_are_the_spread_over_samples(count: int, length: int) -> None:
    """The spread of 8 samples is known to a quarter: medians of cells agree within half."""
    profiles = [fitted(draw(count, length, s), error_bars=8).profile() for s in range(8)]
    for of, errors in (
        (lambda p: p["a"].table, lambda p: p["a"].errors),
        (lambda p: p.moves, lambda p: p.move_errors),
        (lambda p: p.shares, lambda p: p.share_errors),
    ):
        spread = np.std([of(p) for p in profiles], axis=0, ddof=1)
        told = np.mean([errors(p) for p in profiles], axis=0)
        assert 0.5 < np.median(told / spread) < 2.0
    plain = fitted(draw(count, length, 0)).profile()
    assert plain.share_errors is None
    assert "±" in repr(profiles[0]).splitlines()[1]


def test_intervals_of_tables_and_answers(tmp_path) -> None:
    rows = draw(40, 30, 0)
    model = fitted(rows, "z -> z', z -> a, x", error_bars=10)
    model.save(tmp_path / "m.latentia")
    for own in (model, lt.load(tmp_path / "m.latentia")):
        ends = own.table_intervals(0.95)
        for name, truth in (("z'", MOVE), ("a", SHARE)):
            lower, upper = ends[name]
            assert (lower <= own.cpts_[name]).all()
            assert (own.cpts_[name] <= upper).all()
            assert ((lower <= truth) & (truth <= upper)).mean() > 0.8
        lower, upper = ends["x"]  # (states, mean and deviation)
        truth = np.array([[0.0, 1.0], [2.0, 1.0]])
        assert ((lower <= truth) & (truth <= upper)).all()
        assert (upper - lower < 0.6).all()  # 1,200 rows: four times 1/√400
        wide = own.table_intervals(0.99)["a"]
        assert (wide[1] - wide[0] >= ends["a"][1] - ends["a"][0] - 1e-12).all()
        given = {"a": [0, 0, 2], "x": [0.1, -0.3, 1.0]}
        one = own.query("z", at=2, given=given, confidence=0.9)
        assert (one.lower <= np.asarray(one)).all()
        assert (np.asarray(one) <= one.upper).all()
        assert (one.upper - one.lower > 1e-3).all()
        with pytest.raises(EvidenceError, match="is continuous"):
            own.query("x", at=5, given=given, confidence=0.9)


def test_one_sequence_tells_nothing_of_first_steps() -> None:
    model = fitted(draw(1, 600, 0), error_bars=5)
    assert set(model.table_intervals()) == {"z'", "a"}


def test_groups_hold_every_step_once() -> None:
    rng = np.random.default_rng(0)
    for offsets in (np.array([0, 3, 10]), np.concatenate([[0], np.cumsum(rng.integers(1, 9, 30))])):
        sequences = Sequences({0: np.arange(offsets[-1])}, offsets)
        parts, stretches = left_over(sequences, 4, rng)
        assert stretches == (len(sequences) < 10)
        gone = [set(range(offsets[-1])) - set(p.cells[0].tolist()) for p in parts]
        assert sorted(step for g in gone for step in g) == list(range(offsets[-1]))
        assert len(parts) == 4


def test_what_cannot_be_asked() -> None:
    rows = draw(20, 10, 0)
    model = fitted(rows)
    for ask in (
        model.table_intervals,
        lambda: model.query("z", at=1, given={"a": [0]}, confidence=0.9),
    ):
        with pytest.raises(EvidenceError, match="error_bars=True"):
            ask()
    with pytest.raises(DataError, match="from 2 on"):
        groups_asked(1)
    with pytest.raises(DataError, match="at least 40 steps"):
        lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit({"a": [0, 1] * 9}, error_bars=True)

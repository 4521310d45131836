"""A saved model answers as before."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sequences.test_long_rows import frame_of

import latentia as lt
from latentia.errors import StoreError


def test_saved_models_answer_alike(tmp_path) -> None:
    frame = frame_of()
    model = lt.SequenceModel("z -> z', z -> word, pitch, word -> z'", {"z": 2})
    model.fit(frame, sequence="id", time="t")
    model.save(tmp_path / "m.latentia")
    other = lt.load(tmp_path / "m.latentia")
    np.testing.assert_array_equal(other.smooth(frame), model.smooth(frame))
    np.testing.assert_array_equal(other.score_samples(frame), model.score_samples(frame))
    assert other.history_ == model.history_
    assert str(other.slice_) == str(model.slice_)
    other.fit(frame, sequence="id", time="t")
    np.testing.assert_array_equal(other.smooth(frame), model.smooth(frame))
    with pytest.raises(StoreError, match="SequenceModel"):
        lt.save("no model", tmp_path / "n.latentia")

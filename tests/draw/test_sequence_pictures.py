"""Pictures of sequences show what the model holds: nodes, arrows, shares, paths, quantiles."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.sequences.test_forecasts import doses

import latentia as lt
from latentia.draw.svg import Drawing
from latentia.errors import DataError, EvidenceError, GraphError, UnknownNameError


def texts(drawing: Drawing) -> list[str]:
    root = ET.fromstring(drawing.svg)
    return ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("text")]


def count(drawing: Drawing, tag: str) -> int:
    return sum(e.tag.endswith(tag) for e in ET.fromstring(drawing.svg).iter())


@pytest.fixture(scope="module")
def model() -> lt.SequenceModel:
    slice_ = "z -> z', dose -> z, z -> cough, heat"
    return lt.SequenceModel(slice_, {"z": 2}, given=["dose"]).fit(
        doses(), sequence="who", time="day"
    )


def test_slices_and_unrolled_graphs() -> None:
    model = lt.SequenceModel("y -> y'; z -> z'; y, z -> a; a -> a'", {"y": 2, "z": 3})
    for steps, within, across in ((2, 2, 3), (5, 2, 3)):
        found = model.draw(steps)
        shown = texts(found)
        for name in ("y₂", "z₃", "a"):
            assert shown.count(name) == steps
        heads = count(found, "polygon") - 1  # one in the legend
        assert heads == steps * within + (steps - 1) * across
    with pytest.raises(GraphError, match="at least 2 steps"):
        model.draw(1)


def test_moves_show_all_shares(model: lt.SequenceModel) -> None:
    table = model.cpts_["z'"]  # (z, dose, next z)
    shown = texts(model.plot_moves())
    for k in range(2):
        assert f"dose = {k}" in shown
        for p in table[:, k].ravel():
            assert f"{p:.3f}" in shown
    with pytest.raises(UnknownNameError, match="latent"):
        model.plot_moves("y")
    plain = lt.SequenceModel("z -> a, b", {"z": 2}).fit({"a": [0, 1] * 9, "b": [0, 1] * 9})
    with pytest.raises(EvidenceError, match="no moves"):
        plain.plot_moves()


def test_bands_are_the_decoded_path(model: lt.SequenceModel) -> None:
    frame = doses()
    found = model.plot_decoded(frame, "y")
    path = model.decode(frame)[frame["who"] == "y"]
    root = ET.fromstring(found.svg)
    bands = [e for e in root.iter() if e.tag.endswith("rect") and e.get("height") == "26.0"]
    assert len(bands) == 1 + int((np.diff(path) != 0).sum())
    assert {"cough", "heat", "dose", "z = 0", "z = 1"} <= set(texts(found))
    assert "The most probable path of x" in texts(model.plot_decoded(frame))
    with pytest.raises(UnknownNameError, match="sequence"):
        model.plot_decoded(frame, "nobody")
    long = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit({"a": [0, 1] * 20})
    with pytest.raises(DataError, match="cannot be read"):
        long.plot_decoded({"a": [0, 1] * 2000})


def test_fans_end_where_the_forecast_ends(model: lt.SequenceModel) -> None:
    frame = doses()
    given = {"who": np.repeat(["x", "y", "z"], 3), "dose": [0, 1, 0] * 3}
    found = model.plot_forecast(frame, 3, "y", given=given)
    shown = texts(found)
    assert {"cough", "heat", "now", "+3", "The next 3 steps of y"} <= set(shown)
    assert count(found, "polygon") == 1  # the fan of heat
    only = model.plot_forecast(frame, 3, "y", columns="cough", given=given)
    assert "heat" not in texts(only)
    with pytest.raises(UnknownNameError, match="column"):
        model.plot_forecast(frame, 3, columns=["cold", "heat"], given=given)

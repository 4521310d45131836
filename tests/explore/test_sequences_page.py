"""Timelines of sequences in a real browser, against what the model answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import latentia as lt
from latentia.explore import timelines as facts_of
from latentia.explore.timelines import timelines

ODD = "<script>alert(1)</script>"


def machines(odd: str = "sound") -> tuple[lt.SequenceModel, dict[str, Any]]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(30, 60, size=8)
    worn = (rng.random(lengths.sum()) < 0.05).cumsum() % 2
    log: dict[str, Any] = {
        "machine": np.repeat([f"{k}{odd}" for k in range(8)], lengths),
        "hour": np.concatenate([np.arange(n) for n in lengths]),
        odd: np.where(rng.random(len(worn)) < np.where(worn, 0.8, 0.1), odd, "hum"),
        "heat": 60 + 8 * worn + rng.normal(size=len(worn)) * 3,
    }
    log["heat"][3:6] = np.nan
    model = lt.SequenceModel([("z", "z'"), ("z", odd), ("z", "heat")], latents={"z": 2})
    return model.fit(log, sequence="machine", time="hour"), log


@pytest.fixture(scope="module")
def fitted() -> tuple[lt.SequenceModel, dict[str, Any]]:
    return machines()


def test_numbers_are_those_of_the_model(fitted: tuple[lt.SequenceModel, dict[str, Any]]) -> None:
    model, log = fitted
    told = timelines(model, log, steps=4)
    smooth, path = model.smooth(log), model.decode(log)
    scores, ahead = model.score_samples(log), model.forecast(log, 4)
    assert [column["name"] for column in told["columns"]] == ["sound", "heat"]
    for k, one in enumerate(told["sequences"]):
        own = log["machine"] == f"{k}sound"
        heat = [x if x is not None else np.nan for x in one["cells"][1]]
        # five digits are kept, four of probabilities
        assert heat == pytest.approx(log["heat"][own].tolist(), rel=1e-4, nan_ok=True)
        labels = told["columns"][0]["states"]
        assert [labels[int(x)] for x in one["cells"][0]] == log["sound"][own].tolist()
        assert one["paths"][0] == path[own].tolist()
        for state in (0, 1):
            assert one["beliefs"][0][state] == pytest.approx(smooth[f"z={state}"][own], abs=1e-4)
        assert one["surprise"] == pytest.approx((-scores[own]).tolist(), abs=1e-3)
        for row, level in zip(one["ahead"]["columns"][1], ("0.05", "0.5", "0.95"), strict=True):
            assert row == pytest.approx(ahead[f"heat={level}"][4 * k : 4 * k + 4], rel=1e-4)
        for row, state in zip(one["ahead"]["columns"][0], labels, strict=True):
            assert row == pytest.approx(ahead[f"sound={state}"][4 * k : 4 * k + 4], rel=1e-4)


def test_what_does_not_fit_is_left_out_and_told(
    fitted: tuple[lt.SequenceModel, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, log = fitted
    whole = timelines(model, log)
    monkeypatch.setattr(facts_of, "MOST_NUMBERS", 120)  # 6 numbers a step: 20 steps
    told = timelines(model, log)
    assert len(told["sequences"]) == 1
    assert told["total"] == 8
    one, first = told["sequences"][0], whole["sequences"][0]
    assert one["start"] == len(first["surprise"]) - 20
    assert one["surprise"] == first["surprise"][-20:]


def test_inputs_that_are_not_told_leave_no_forecast() -> None:
    rng = np.random.default_rng(0)
    rows = {"dose": rng.integers(2, size=200), "cough": rng.integers(2, size=200)}
    model = lt.SequenceModel("z -> z', dose -> z, z -> cough", {"z": 2}, given=["dose"]).fit(rows)
    assert timelines(model, rows)["sequences"][0]["ahead"] is None
    given = {"dose": [1] * 3}
    told = timelines(model, rows, steps=3, given=given)["sequences"][0]["ahead"]
    assert len(told["latents"][0][0]) == 3


def test_clear_errors(fitted: tuple[lt.SequenceModel, dict[str, Any]], tmp_path: Path) -> None:
    model, log = fitted
    with pytest.raises(lt.errors.LatentiaError, match="rows="):
        model.explore(to=tmp_path / "page.html")
    with pytest.raises(TypeError, match="other"):
        model.explore(log, to=tmp_path / "page.html", other=model)
    with pytest.raises(lt.errors.LatentiaError, match="served"):
        model.explore(log, to=tmp_path / "page.html", port=3)
    with pytest.raises(NotFittedError):
        lt.SequenceModel("z -> z', z -> a", {"z": 2}).explore(log)


def test_a_timeline_is_looked_through(
    browser: Any, fitted: tuple[lt.SequenceModel, dict[str, Any]], tmp_path: Path
) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    model, log = fitted
    path = model.explore(log, to=tmp_path / "page.html", title="Machines")
    assert path.stat().st_size < 3_000_000
    browser.get(path.resolve().as_uri())
    assert len(browser.find_elements(By.CSS_SELECTOR, ".along-line")) == 6
    browser.find_element(By.CSS_SELECTOR, ".tools button:last-of-type").click()  # the next one
    strips = browser.find_element(By.CSS_SELECTOR, ".strips")
    strips.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    panel = browser.find_element(By.CSS_SELECTOR, ".panel").text
    own = log["machine"] == "1sound"
    assert "Step 1" in panel
    assert f"{log['heat'][own][1]:.1f}" in panel
    browser.execute_script("latentia.page.look(1e6)")
    panel = browser.find_element(By.CSS_SELECTOR, ".panel").text
    assert "12 ahead" in panel
    ahead = model.forecast({name: x[own] for name, x in log.items()}, 12)
    assert f"{100 * max(ahead['z=0'][-1], ahead['z=1'][-1]):.1f} %" in panel


def test_names_of_sequences_are_text(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    model, log = machines(ODD)
    browser.get(model.explore(log, to=tmp_path / "page.html").resolve().as_uri())
    assert ODD in browser.find_element(By.CSS_SELECTOR, ".strips").text
    assert browser.execute_script("return document.querySelectorAll('#app script').length") == 0


def test_timelines_are_served(fitted: tuple[lt.SequenceModel, dict[str, Any]]) -> None:
    pytest.importorskip("uvicorn")
    import urllib.error
    import urllib.request

    model, log = fitted
    with model.explore(log, browser=False) as server:
        with urllib.request.urlopen(server.url) as answer:
            assert b"beliefs" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(server.url.partition("?")[0])

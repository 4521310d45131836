"""The check report as a page, alone and beside a model, in a real browser."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.explore.check_figures import check_figures

pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tests.explore.looking import open_page, press

ODD = "<b>e</b>"


def tied(seed: int = 0, count: int = 3000) -> dict[str, Any]:
    """Columns of a latent, two of which have more to do with each other."""
    rng = np.random.default_rng(seed)
    h = rng.integers(3, size=count)
    found = {c: np.where(rng.random(count) < 0.7, h, rng.integers(3, size=count)) for c in "abcd"}
    found[ODD] = np.where(rng.random(count) < 0.5, found["a"], rng.integers(3, size=count))
    return found


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    graph = [("H", name) for name in tied()]
    return lt.LatentModel(graph, {"H": 3}, learner="tables").fit(tied(), error_bars=True)


@pytest.fixture(scope="module")
def report(model: lt.LatentModel) -> Any:
    return model.check(tied(1))


def test_the_page_of_a_report(browser: Any, report: Any, tmp_path: Path) -> None:
    report.save(tmp_path / "check.html")
    browser.get((tmp_path / "check.html").resolve().as_uri())
    text = browser.find_element(By.TAG_NAME, "body").text
    assert report.verdict in text
    assert all(finding.fact in text for finding in report.findings)
    lines = browser.find_elements(By.CSS_SELECTOR, ".gains .line")
    told = [line.text.split("\n") for line in lines]
    assert [[name, float(gain)] for name, gain in told] == [
        [c.name, pytest.approx(c.gain, abs=6e-4)] for c in report.columns
    ]
    beyond = browser.find_elements(By.CSS_SELECTOR, ".pairing.beyond")
    worst = report.pairs[0]
    assert any(f"{100 * worst.gap:.0f}" == cell.text for cell in beyond)
    assert set(worst.names) == {"a", ODD}
    lines[0].click()  # the pairs of one column
    rows = browser.find_elements(By.CSS_SELECTOR, ".pairs.one tr")
    assert len(rows) == len(report.columns) - 1
    assert ODD in rows[0].text
    dots = browser.find_elements(By.CSS_SELECTOR, ".calibration .dot")
    assert len(dots) == len([level for level in report.fit.levels if level.rows > 0])


def test_columns_are_sorted(browser: Any, report: Any, tmp_path: Path) -> None:
    report.save(tmp_path / "check.html")
    browser.get((tmp_path / "check.html").resolve().as_uri())
    choose = browser.find_element(By.CSS_SELECTOR, ".block select")
    choose.find_elements(By.TAG_NAME, "option")[1].click()
    shown = [x.text for x in browser.find_elements(By.CSS_SELECTOR, ".gains .label")]
    assert shown == [c.name for c in sorted(report.columns, key=lambda c: c.gain)]


def test_a_check_beside_a_model(
    browser: Any, model: lt.LatentModel, report: Any, tmp_path: Path
) -> None:
    open_page(browser, model.explore(to=tmp_path / "page.html", check=report))
    press(browser, "Check")
    browser.find_elements(By.CSS_SELECTOR, ".findings .chip")[0].click()
    for button in browser.find_elements(By.CSS_SELECTOR, ".check button"):
        if button.text == "Show in the graph":
            button.click()
            break
    assert browser.find_element(By.CSS_SELECTOR, ".panel h2").text in ("a", ODD)


def test_a_served_table_is_checked_once_it_is_looked_at(
    browser: Any, model: lt.LatentModel, report: Any
) -> None:
    pytest.importorskip("uvicorn")
    with model.explore(rows=tied(1), browser=False) as server:
        open_page(browser, server.url)
        press(browser, "Check")
        WebDriverWait(browser, 20).until(
            lambda b: report.verdict in b.find_element(By.CSS_SELECTOR, ".stage").text
        )


def test_something_else_is_no_report(model: lt.LatentModel, tmp_path: Path) -> None:
    with pytest.raises(lt.errors.LatentiaError, match=r"model\.check\(rows\)"):
        model.explore(to=tmp_path / "page.html", check={"a": 1})


def test_figures_that_are_no_numbers_are_none(report: Any) -> None:
    told = check_figures(report)
    assert {len(pair["names"]) for pair in told["pairs"]} == {2}
    assert all(0 <= pair["nearness"] <= 1 for pair in told["pairs"])


def test_tables_have_their_errors(browser: Any, model: lt.LatentModel, tmp_path: Path) -> None:
    open_page(browser, model.explore(to=tmp_path / "page.html"))
    browser.find_element(By.CSS_SELECTOR, '.card[aria-label="a, column"] .head').click()
    WebDriverWait(browser, 10).until(
        lambda b: b.find_elements(By.CSS_SELECTOR, ".panel td small") or None
    )
    told = browser.execute_script(
        "return [...document.querySelectorAll('.panel td small')].map((x) => x.textContent)"
    )
    # P(a | H) by state, against the errors of the profile of H, which are of the same tables
    errors = model.profile("H")["a"].errors
    assert [float(x.removeprefix("± ")) for x in told] == pytest.approx(
        (100 * errors).ravel().tolist(), abs=0.051
    )

"""Views beside the graph, in a real browser: profiles, junction tree, rows, two models, charts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.explore.networks import random_tables, shipped

import latentia as lt

pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tests.explore.looking import click, log_evidence, open_page, press, shown


def wait(browser: Any, selector: str) -> Any:
    return WebDriverWait(browser, 10).until(
        lambda b: b.find_elements(By.CSS_SELECTOR, selector) or None
    )


def columns(seed: int, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=count)
    return {c: np.where(rng.random(count) < 0.8, h, 1 - h) for c in "abcd"}


def test_a_profile_is_that_of_the_tables(browser: Any, tmp_path: Path) -> None:
    model = lt.LatentModel("H->a,b,c,d", {"H": 2}, learner="tables").fit(columns(0, 2000))
    open_page(browser, model.explore(to=tmp_path / "page.html"))
    browser.find_element(By.CSS_SELECTOR, '.card[aria-label="H, latent"] .head').click()
    wait(browser, ".panel .heat")
    lines = browser.execute_script(
        'return [...document.querySelectorAll(".panel tbody:has(.group)")].map((body) => ['
        'body.querySelector(".group").textContent, [...body.querySelectorAll("td")]'
        ".map((cell) => Number(cell.textContent))])"
    )
    assert len(lines) == 4
    for name, cells in lines:
        table = 100 * model.cpts_[name].T  # (states of the column, of the latent)
        # one decimal is shown below ten per cent, none above
        assert cells == pytest.approx(table.ravel().tolist(), abs=0.51)


def test_information_is_that_of_the_joint(browser: Any, tmp_path: Path) -> None:
    model = random_tables("H->a,b,c; G->c,d; H->G", {"H": 2, "G": 2})
    open_page(browser, model.explore(to=tmp_path / "page.html"))
    told = browser.execute_async_script(
        "const done = arguments[0], app = latentia.app;"
        "latentia.conditioned(app.engine, app.nodes, 0, new latentia.Known())"
        ".then((found) => done(latentia.information(found, app.nodes, 0)));"
    )
    for v, bits in told:
        joint = model.joint_table([model.names[0], model.names[v]])
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        seen = joint > 0
        truth = float((joint[seen] * np.log2(joint[seen] / apart[seen])).sum())
        assert bits == pytest.approx(truth, abs=1e-9)


def test_messages_multiply_to_the_answer(browser: Any, tmp_path: Path) -> None:
    model = random_tables("H->a,b,c; H->G; G->d,e,f", {"H": 2, "G": 2})
    open_page(browser, model.explore(to=tmp_path / "page.html"))
    click(browser, "a", "1")
    press(browser, "Junction tree")
    buttons = wait(browser, ".separator")
    assert any("rank 2" in button.text for button in buttons)
    chosen = next(b for b in buttons if b.text.startswith("G\n"))
    chosen.click()
    panel = browser.find_element(By.CSS_SELECTOR, ".panel").text
    assert "α(S)" in panel
    assert "β(S)" in panel
    cells = browser.execute_script(
        'return [...document.querySelectorAll(".panel .heat tbody tr")]'
        '.map((line) => [...line.querySelectorAll("td")].map((cell) => Number(cell.textContent)))'
    )
    product = np.array([up * down for up, down, _ in cells])
    truth = model.posteriors({"a": 1}, ["G"])["G"][0]
    shown_shares = [share for _, _, share in cells]
    assert shown_shares == pytest.approx(truth.tolist(), abs=6e-4)  # three decimals are shown
    assert product / product.sum() == pytest.approx(truth, abs=2e-3)


def test_ranges_of_a_density_are_pythons_intervals(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=2000)
    rows = {"x": rng.normal(3.0 * h, 1.0), "y": rng.normal(-h, 1.0)}
    rows |= {"a": np.where(rng.random(2000) < 0.8, h, 1 - h)}
    model = lt.LatentModel("H->x,y,a", {"H": 2}, learner="em").fit(rows)
    open_page(browser, model.explore(to=tmp_path / "page.html"))
    names = [node.key for node in _nodes(model)]
    column = model.columns_[0]
    edges = column.unscaled(np.linspace(column.low, column.high, column.points + 1))
    for first, last in ((30, 60), (0, 20), (100, 127), (64, 64)):
        browser.execute_script(
            "latentia.app.actions.range(arguments[0], arguments[1], arguments[2])",
            *(names.index("x"), first, last),
        )
        interval = {"x": (float(edges[first]), float(edges[last + 1]))}
        answer = model.query("a", interval)
        assert list(shown(browser)["a"].values()) == pytest.approx(
            np.asarray(answer).tolist(), abs=1e-6
        )
        assert log_evidence(browser) == pytest.approx(answer.log_evidence, abs=1e-6)
        hidden = np.asarray(model.query("H", interval)).tolist()
        assert list(shown(browser)["H"].values()) == pytest.approx(hidden, abs=1e-6)


def _nodes(model: Any) -> Any:
    from latentia.explore.explored import as_explored

    return as_explored(model).shown


def test_rows_are_shown_and_taken_as_evidence(browser: Any) -> None:
    pytest.importorskip("uvicorn")
    model = shipped("asia")
    codes = model.sample(60, rng=3)
    rows = {
        n: [model.state_names[n][k] for k in c] for n, c in zip(model.names, codes.T, strict=True)
    }
    rows["smoke"][0] = None
    with model.explore(rows=rows, browser=False) as server:
        open_page(browser, server.url)
        press(browser, "Rows")
        lines = wait(browser, ".rows tbody tr")
        assert len(lines) == 40
        assert lines[0].find_elements(By.CSS_SELECTOR, ".hole")
        lines[0].click()
        wait(browser, ".panel > button")[0].click()
        given = {n: c[0] for n, c in rows.items() if c[0] is not None}
        truth = model.posteriors(given)
        found = shown(browser)
        assert list(found["smoke"].values()) == pytest.approx(truth["smoke"][0].tolist(), abs=1e-6)
        assert log_evidence(browser) == pytest.approx(model.log_evidence(given)[0], abs=1e-9)


def test_two_models_side_by_side(browser: Any, tmp_path: Path) -> None:
    first = lt.LatentModel("H->a,b,c,d", {"H": 2}, learner="tables").fit(columns(0, 2000))
    second = lt.LatentModel("H->a,b,c,d", {"H": 2}, learner="tables").fit(columns(1, 100))
    open_page(browser, first.explore(to=tmp_path / "page.html", other=second))
    click(browser, "a", "1")
    press(browser, "Compare")
    wait(browser, ".compare .pair")
    told = browser.execute_script(
        'return [...document.querySelectorAll(".compare .card")].map((card) => ['
        'card.querySelector(".name").textContent,'
        ' [...card.querySelectorAll(".pair")].map((p) => p.getAttribute("aria-label"))])'
    )
    found = dict(told)
    for state in (0, 1):
        p, q = (m.query("b", {"a": 1})[state] for m in (first, second))
        assert found["b"][state] == f"{state}, {100 * p:.1f} % and {100 * q:.1f} %"


def test_densities_side_by_side_are_under_the_same_evidence(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=600)
    rows = {"x": h + 0.4 * rng.normal(size=600), "y": rng.normal(size=600) - h, "a": h, "b": 1 - h}
    few = {name: values[:599] for name, values in rows.items()}  # a grid of other cells
    graph = "H -> x, y, a, b"
    first, second, third = (
        lt.LatentModel(graph, {"H": states}).fit(table)
        for states, table in ((2, rows), (3, rows), (2, few | {"x": 2 * few["x"]}))
    )
    open_page(browser, first.explore(to=tmp_path / "same.html", other=second), "#x:10-30")
    press(browser, "Compare")
    wait(browser, ".compare .chart")
    told = browser.find_element(By.CSS_SELECTOR, ".compare .hint").text
    assert "not told" not in told
    script = "return latentia.app.facts.nodes.find((n) => n.name === 'x').grid"
    grid = browser.execute_script(script)
    low = grid["values"][10] - grid["widths"][10] / 2
    high = grid["values"][30] + grid["widths"][30] / 2
    for state in (0, 1):
        p, q = (m.query("a", {"x": (low, high)})[state] for m in (first, second))
        line = f'.compare [aria-label="{state}, {100 * p:.1f} % and {100 * q:.1f} %"]'
        assert browser.find_elements(By.CSS_SELECTOR, line)
    open_page(browser, first.explore(to=tmp_path / "other.html", other=third), "#x:10-30")
    press(browser, "Compare")
    wait(browser, ".compare .pair")
    told = browser.find_element(By.CSS_SELECTOR, ".compare .hint").text
    assert "not told to the second: x, which has other cells there" in told


def test_a_model_without_tables_is_answered_by_python(browser: Any) -> None:
    pytest.importorskip("uvicorn")
    model = lt.LatentModel("H->a,b,c,d", {"H": 2}, learner=lt.PBP(refine=False))
    model.fit(columns(0, 4000))
    with model.explore(browser=False) as server:
        open_page(browser, server.url)
        click(browser, "a", "1")
        WebDriverWait(browser, 10).until(lambda b: shown(b)["a"]["1"] == 1)
        truth = np.asarray(model.query("b", {"a": 1}))
        assert list(shown(browser)["b"].values()) == pytest.approx(truth.tolist(), abs=1e-6)
        assert not shown(browser)["H"]


def test_a_page_holds_at_phone_width_and_in_the_dark(browser: Any, tmp_path: Path) -> None:
    path = shipped("asia").explore(to=tmp_path / "page.html")
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        open_page(browser, path)
        found = browser.execute_script(
            "return [document.documentElement.scrollWidth, getComputedStyle(document.body)"
            '.backgroundColor, document.querySelector("[aria-selected=true]").textContent,'
            ' [...document.querySelectorAll(".list .card")].map((c) => c.scrollHeight'
            " - c.clientHeight)]"
        )
        width, background, view, cut = found
        assert width <= 390
        assert max(json.loads(background.replace("rgb(", "[").replace(")", "]"))) < 64
        assert view == "List"
        assert max(cut) <= 0  # no card hides a part of itself
        click(browser, "smoke", "yes")
        assert log_evidence(browser) == pytest.approx(np.log(0.5), abs=1e-9)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

"""The page in a real browser: what is clicked and shown equals what Python answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.explore.networks import HOSTILE, hostile, shipped

import latentia as lt
from latentia.explore.page_file import LARGEST, embedded, make_page
from latentia.spelling import printable

pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from tests.explore.looking import click, log_evidence, open_page, press, shown


def agree(page: dict[str, dict[str, float]], model: lt.TabularModel, given: dict[str, str]) -> None:
    """Every number of the page is Python's to 1e-6: the brief's own bound, 1e-9 would hold too."""
    for name, truth in model.posteriors(given).items():
        states = model.state_names[name]
        assert [page[str(name)][str(s)] for s in states] == pytest.approx(
            truth[0].tolist(), abs=1e-6
        )


@pytest.fixture(scope="module")
def asia(tmp_path_factory: Any) -> Path:
    path: Path = shipped("asia").explore(to=tmp_path_factory.mktemp("page") / "asia.html")
    return path


def test_evidence_set_by_clicks_is_answered_as_by_python(browser: Any, asia: Path) -> None:
    model = shipped("asia")
    open_page(browser, asia)
    agree(shown(browser), model, {})
    click(browser, "smoke", "yes")
    click(browser, "dysp", "yes")
    given = {"smoke": "yes", "dysp": "yes"}
    agree(shown(browser), model, given)
    assert log_evidence(browser) == pytest.approx(model.log_evidence(given)[0], abs=1e-9)
    click(browser, "smoke", "yes")  # again: gone
    agree(shown(browser), model, {"dysp": "yes"})
    press(browser, "Undo")
    agree(shown(browser), model, given)
    press(browser, "Redo")
    press(browser, "Clear")
    agree(shown(browser), model, {})


def test_a_link_holds_the_evidence(browser: Any, asia: Path) -> None:
    open_page(browser, asia)
    click(browser, "xray", "yes")
    click(browser, "asia", "no")
    address = browser.current_url
    open_page(browser, address)
    agree(shown(browser), shipped("asia"), {"xray": "yes", "asia": "no"})
    open_page(browser, asia, "#xray=maybe&nobody=yes&dysp=yes&lung~7,1&bronc:9-3&%E0%A4%A=1")
    assert "maybe" in browser.find_element(By.CSS_SELECTOR, ".message").text
    agree(shown(browser), shipped("asia"), {"dysp": "yes"})


def test_impossible_evidence_is_told(browser: Any, asia: Path) -> None:
    open_page(browser, asia)
    click(browser, "either", "no")
    click(browser, "lung", "yes")
    assert log_evidence(browser) == -np.inf
    assert "cannot happen" in browser.find_element(By.CSS_SELECTOR, ".chips").text


def test_keyboard_alone_sets_evidence(browser: Any, asia: Path) -> None:
    open_page(browser, asia)
    first = browser.find_element(By.CSS_SELECTOR, ".card .state")
    name = first.find_element(By.XPATH, "./ancestor::section").get_attribute("aria-label")
    first.send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    chips = browser.find_element(By.CSS_SELECTOR, ".chips").text
    assert chips.startswith(f"{name.split(',')[0]} = no")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.CONTROL, "z")
    assert log_evidence(browser) == pytest.approx(0.0, abs=1e-12)


def test_soft_evidence_by_sliders(browser: Any, asia: Path) -> None:
    model = shipped("asia")
    open_page(browser, asia)
    browser.find_element(By.CSS_SELECTOR, '.card[aria-label^="smoke"] .head').click()
    slider = browser.find_element(By.CSS_SELECTOR, '.panel input[aria-label="likelihood of no"]')
    move = "arguments[0].value = 0.2; arguments[0].dispatchEvent(new Event('input'));"
    browser.execute_script(move, slider)
    page = shown(browser)
    truth = model.posteriors(None, None, {"smoke": {"yes": 1.0, "no": 0.2}})
    for name, p in truth.items():
        assert list(page[str(name)].values()) == pytest.approx(p[0].tolist(), abs=1e-6)


def test_the_most_probable_explanation_is_starred(browser: Any, asia: Path) -> None:
    model = shipped("asia")
    open_page(browser, asia)
    click(browser, "xray", "yes")
    press(browser, "Most probable")
    starred = browser.execute_script(
        'return [...document.querySelectorAll(".stage .card")].map((c) => ['
        'c.querySelector(".name").textContent, c.querySelector(".best").title])'
    )
    joint = model.joint_table(list(model.names))
    place = model.names.index("xray")
    joint = np.where(
        np.arange(2).reshape([-1 if k == place else 1 for k in range(8)]) == 0, joint, 0
    )
    best = np.unravel_index(joint.argmax(), joint.shape)
    truth = {name: model.state_names[name][k] for name, k in zip(model.names, best, strict=True)}
    assert dict(starred) == truth


def test_what_is_set_by_hand_tells_nothing_about_its_causes(browser: Any, asia: Path) -> None:
    model = shipped("asia")
    open_page(browser, asia)
    click(browser, "dysp", "yes")
    click(browser, "bronc", "yes")
    browser.find_element(By.CSS_SELECTOR, '.card[aria-label^="bronc"] .head').click()
    browser.find_element(By.CSS_SELECTOR, ".panel label.hand input").click()
    assert "do(bronc = yes)" in browser.find_element(By.CSS_SELECTOR, ".chips").text
    for address in (None, browser.current_url):  # as it was clicked, and from its link
        if address is not None:
            open_page(browser, address)
        page = shown(browser)
        for name in ("smoke", "lung", "asia", "xray"):
            truth = model.query(name, {"dysp": "yes"}, do={"bronc": "yes"})
            assert list(page[name].values()) == pytest.approx(np.asarray(truth).tolist(), abs=1e-6)
        assert log_evidence(browser) == pytest.approx(truth.log_evidence, abs=1e-9)
        assert len(browser.find_elements(By.CSS_SELECTOR, ".edge.cut")) == 1  # from smoke
    browser.find_element(By.CSS_SELECTOR, '.card[aria-label^="smoke"] .head').click()
    cells = WebDriverWait(browser, 10).until(
        lambda b: b.find_elements(By.CSS_SELECTOR, ".beside td") or None
    )
    given = {"dysp": "yes"}
    both = (
        model.query("smoke", given, do={"bronc": "yes"}),
        model.query("smoke", given | {"bronc": "yes"}),
    )
    truth = 100 * np.stack([np.asarray(answer) for answer in both], axis=1).ravel()
    assert [float(cell.text) for cell in cells] == pytest.approx(truth.tolist(), abs=0.51)


def test_alarm_is_answered_as_by_python(browser: Any, tmp_path: Path) -> None:
    model = shipped("alarm")
    open_page(browser, model.explore(to=tmp_path / "alarm.html"))
    click(browser, "HRBP", "LOW")
    click(browser, "VENTLUNG", "ZERO")
    agree(shown(browser), model, {"HRBP": "LOW", "VENTLUNG": "ZERO"})


BARS = """
return [...document.querySelectorAll(".stage .state")].map((line) => {
  const bar = line.querySelector(".bar"), style = getComputedStyle(bar);
  return [Number(line.dataset.p), parseFloat(style.backgroundSize), style.transitionDuration];
});
"""
TOUCHED = """
latentia.touched = new Set();
new MutationObserver((all) => all.forEach((m) => m.attributeName === "aria-label"
  && latentia.touched.add(m.target.closest(".card").querySelector(".name").textContent))
).observe(document.querySelector(".stage"), { attributes: true, subtree: true });
"""


def test_only_bars_that_change_are_drawn_and_all_at_once(browser: Any, tmp_path: Path) -> None:
    """A bar that glides becomes a layer of its own: hundreds of them take a second to draw."""
    model = shipped("alarm")
    open_page(browser, model.explore(to=tmp_path / "alarm.html"))
    browser.execute_script(TOUCHED)
    before = model.posteriors({})
    click(browser, "HRBP", "LOW")
    for p, filled, gliding in browser.execute_script(BARS):
        assert filled == pytest.approx(100 * p, abs=0.06)  # of 200 pixels
        assert gliding == "0s"
    after = model.posteriors({"HRBP": "LOW"})
    apart = {str(v): np.abs(after[v] - before[v]).max() for v in after}
    touched = set(browser.execute_script("return [...latentia.touched]"))
    assert {name for name, change in apart.items() if change > 1e-3} <= touched
    still = {name for name, change in apart.items() if change < 1e-12}
    assert len(still & touched) <= 1 < len(still)  # HISTORY lies on the edge of two roundings


def test_names_are_text_and_never_markup(browser: Any, tmp_path: Path) -> None:
    model = hostile()
    open_page(browser, model.explore(to=tmp_path / "hostile.html", title=HOSTILE))
    assert browser.title == HOSTILE
    assert browser.find_element(By.TAG_NAME, "h1").text == HOSTILE
    assert HOSTILE in shown(browser)
    assert browser.execute_script("return document.querySelectorAll('img, b').length") == 0
    click(browser, "</script><img src=x onerror=alert(2)>", "<b>yes</b>")
    page = shown(browser)
    truth = model.posteriors({model.names[1]: "<b>yes</b>"})
    for name, p in truth.items():
        assert list(page[printable(name)].values()) == pytest.approx(p[0].tolist(), abs=1e-6)
    browser.find_element(By.CSS_SELECTOR, ".card .head").click()  # the panel with its tables
    for view in ("List", "Junction tree"):
        press(browser, view)
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0


def test_a_name_of_a_million_characters(browser: Any, tmp_path: Path) -> None:
    long = "x" * 10**6
    model = lt.TabularModel(
        [("a", long)],
        {"a": [0.5, 0.5], long: [[0.9, 0.1], [0.2, 0.8]]},
        state_names={"a": [long, long + "y"]},
    )
    path = model.explore(to=tmp_path / "page.html", title="short")
    assert path.stat().st_size < LARGEST / 2
    hash_ = "#" + "a=" + "y" * 10**6  # and an address as long
    open_page(browser, path, hash_)
    cards = shown(browser)
    assert len(cards) == 2
    assert all(len(name) < 400 for name in cards)
    assert [len(states) for states in cards.values()] == [2, 2]


def test_a_variable_is_found_by_name(browser: Any, tmp_path: Path) -> None:
    open_page(browser, shipped("alarm").explore(to=tmp_path / "alarm.html"))
    browser.find_element(By.CSS_SELECTOR, ".find input").send_keys("ventl" + Keys.ENTER)
    assert browser.find_element(By.CSS_SELECTOR, ".panel h2").text == "VENTLUNG"
    browser.find_element(By.CSS_SELECTOR, ".find input").send_keys("!!" + Keys.ENTER)
    assert "no variable" in browser.find_element(By.CSS_SELECTOR, ".message").text


def test_a_page_has_nothing_from_elsewhere(asia: Path) -> None:
    text = asia.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    assert "default-src 'none'" in text
    own = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    for mark in ("http:", "https:", "src=", "@import", "url(h", "unsafe"):
        assert mark not in own


def test_facts_cannot_leave_their_element() -> None:
    text = embedded({"a": "</script><!--\u2028\u2029&\ud800"})
    assert text.isascii()
    assert not set("<>&") & set(text)
    page = make_page({"title": "{{facts}}", "nodes": ["{{scripts}}"]})
    assert page.count("<title>{{facts}}</title>") == 1  # what is put in is not filled again


@pytest.mark.parametrize("wanted", ["page.txt", "page"])
def test_a_page_is_called_html(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(lt.errors.LatentiaError, match=r"model\.html"):
        shipped("asia").explore(to=tmp_path / wanted)

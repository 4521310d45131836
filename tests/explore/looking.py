"""What tests read off the page and do to it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SHOWN = """
const found = {};
for (const card of document.querySelectorAll(".stage .card")) {
  const states = [...card.querySelectorAll(".state")].map((b) => [b.title, Number(b.dataset.p)]);
  found[card.querySelector(".name").textContent] = states;
}
return found;
"""


def open_page(browser: Any, path: Path | str, hash_: str = "") -> None:
    address = path if isinstance(path, str) else path.resolve().as_uri()
    browser.get("about:blank")
    browser.get(address + hash_)
    WebDriverWait(browser, 10).until(
        lambda b: b.execute_script("return Boolean(window.latentia?.app?.now)")
    )


def shown(browser: Any) -> dict[str, dict[str, float]]:
    """{variable: {state: probability}} as the cards have them."""
    return {name: dict(states) for name, states in browser.execute_script(SHOWN).items()}


def click(browser: Any, name: str, state: str) -> None:
    """Click a state of a card, as a person does."""
    for card in browser.find_elements(By.CSS_SELECTOR, ".stage .card"):
        if card.find_element(By.CSS_SELECTOR, ".name").text == name:
            for line in card.find_elements(By.CSS_SELECTOR, ".state"):
                if line.get_attribute("title") == state:
                    line.click()
                    return
    raise AssertionError(f"no state {state!r} of {name!r} is shown")


def press(browser: Any, text: str) -> None:
    """Press the button that begins with this text."""
    for button in browser.find_elements(By.CSS_SELECTOR, ".top button"):
        if text in button.text:
            button.click()
            return
    raise AssertionError(f"no button {text!r}")


def log_evidence(browser: Any) -> float:
    told = browser.find_element(By.CSS_SELECTOR, ".weight").get_attribute("data-log")
    return -math.inf if told == "-Infinity" else float(told)

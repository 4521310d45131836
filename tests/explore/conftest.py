"""A real browser, where one can be had."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

LACKING = (
    "selenium is not installed: pip install selenium"
    if importlib.util.find_spec("selenium") is None
    else "no chromium with its driver: apt-get install chromium chromium-driver"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None
    else ""
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--disable-dev-shm-usage", "--window-size=1400,900"),
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests; skips with the reason where there is none."""
    if LACKING:
        pytest.skip(LACKING)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """The browser with an empty page; at the end nothing may be in its console."""
    chromium.get("about:blank")
    chromium.get_log("browser")
    yield chromium
    told = [entry["message"] for entry in chromium.get_log("browser")]
    assert not told, told

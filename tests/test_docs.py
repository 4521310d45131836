"""The pages: built strictly where mkdocs is there; pictures made by the script that is named."""

import importlib.util
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md"))


def linked(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [t for t in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in t]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in linked(page):
        assert (page.parent / target).exists(), f"{page.name} points to {target}: not there"


def test_pictures_are_made_by_the_script(tmp_path: Path) -> None:
    run = [sys.executable, str(DOCS / "pictures.py"), str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = {p.name for p in tmp_path.glob("*.svg")}
    assert made == {p.name for p in (DOCS / "pictures").glob("*.svg")}
    for name in made:
        ET.parse(tmp_path / name)
        assert name in (DOCS / "how-it-works.md").read_text(encoding="utf-8")


def test_published_figures_are_sound() -> None:
    figures = sorted((DOCS / "experiments").glob("*.svg"))
    assert any(f.name == "synthetic-kl.svg" for f in figures)
    for figure in figures:
        text = figure.read_text(encoding="utf-8")
        ET.fromstring(text)
        assert "nan" not in re.findall(r"[\s\"](nan)[\s\",]", text)


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="mkdocs is not installed: pip install 'latentia[docs]'",
)
def test_site_builds_strictly(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "s")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    home = (tmp_path / "s" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in home
    assert (tmp_path / "s" / "api" / "index.html").stat().st_size > 50_000

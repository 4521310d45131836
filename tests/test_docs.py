"""The pages: what they name is there, what cites them is right, and they build strictly."""

import ast
import importlib
import importlib.util
import pkgutil
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import latentia as lt
import latentia.cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
PACKAGES = {p.parent.name for p in (ROOT / "src" / "latentia").glob("*/__init__.py")}
MADE = {"benchmarks/results", "latentia-reports"}  # by those who run something; git ignores them


def linked(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [t for t in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in t]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in linked(page):
        assert (page.parent / target).exists(), f"{page.name} points to {target}: not there"


# --- what is cited --------------------------------------------------------------------------------

NUMBER = r"\d+(?:\.\d+)?"
CITED = re.compile(
    rf"\bdesign\s+(?P<numbers>{NUMBER}(?:(?:-|,\s+){NUMBER})*)(?:,\s+(?P<part>[a-zA-Z][\w ]*))?",
    re.IGNORECASE,
)


@cache
def design() -> dict[str, str]:
    """Text of every numbered section of docs/design.md, those of its subsections too."""
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    heads = list(re.finditer(rf"^(##+) ({NUMBER})\.? .*$", text, re.MULTILINE))
    found = {}
    for i, head in enumerate(heads):
        below = (h.start() for h in heads[i + 1 :] if len(h[1]) <= len(head[1]))
        found[head[2]] = text[head.start() : next(below, len(text))]
    return found


def citations() -> list[tuple[str, re.Match[str]]]:
    files = [p for folder in ("src", "tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    return [
        (str(path.relative_to(ROOT)), cited)
        for path in [*files, *TEXTS]
        if path != Path(__file__)
        for cited in CITED.finditer(path.read_text(encoding="utf-8"))
    ]


def test_cited_sections_of_the_design_exist() -> None:
    assert len(citations()) > 40
    for where, cited in citations():
        numbers = re.findall(NUMBER, cited["numbers"])
        missing = [n for n in numbers if n not in design()]
        assert not missing, f"{where} cites {cited[0]!r}: docs/design.md has no section {missing}"
        part = (cited["part"] or "").strip().lower()
        assert part in design()[numbers[-1]].lower(), f"{where} cites {cited[0]!r}: no such part"


def test_sections_of_the_design_are_numbered_without_gaps() -> None:
    wholes = [int(n) for n in design() if "." not in n]
    assert wholes == [*range(1, len(wholes) + 1)]
    for whole in map(str, wholes):
        parts = [int(n.split(".")[1]) for n in design() if n.startswith(f"{whole}.")]
        assert parts == [*range(1, len(parts) + 1)]


# --- what is named --------------------------------------------------------------------------------


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_named_files_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = r"(?<![\w/.*-])((?:src|tests|benchmarks|docs|script|examples|\.ci)/[\w./-]*\w)"
    paths = set(re.findall(named, text)) - MADE
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]
    folders = ("src", "tests", "benchmarks", "docs")
    known = {p.name for folder in folders for p in (ROOT / folder).rglob("*.py")}
    assert not set(re.findall(r"`(\w+\.py)\b", text)) - known
    for module in re.findall(r"python -m (tests[\w.]*)", text):
        assert (ROOT / module.replace(".", "/") / "__main__.py").exists()


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_named_modules_and_attributes_are_there(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name in re.findall(r"`(\w+(?:\.\w+)+)", text):
        head, *rest = name.split(".")
        if head in ("lt", "latentia"):
            assert resolves(lt, rest), f"{page.name} names {name}: not there"
        elif head in PACKAGES or head in lt.__all__:
            asked = head == "model" and (hasattr(lt.LatentModel, rest[0]) or rest[0][-1] == "_")
            assert asked or resolves(lt, [head, *rest]), f"{page.name} names {name}: not there"


def resolves(value: Any, names: list[str]) -> bool:
    """Do the names lead from a module to something, through modules and attributes?"""
    for i, name in enumerate(names):
        if isinstance(value, ModuleType) and hasattr(value, "__path__"):
            where = f"{value.__name__}.{name}"
            if importlib.util.find_spec(where) is not None:
                return resolves(importlib.import_module(where), names[i + 1 :])
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def test_what_is_not_there_is_seen() -> None:
    assert resolves(lt, ["closed_form", "basis", "contrasts"])
    assert resolves(lt, ["Plan", "cost"])
    assert not resolves(lt, ["closed_form", "windows_of"])
    assert not resolves(lt, ["Plan", "costs"])
    assert CITED.search("(paper; design 3, 4.1)")["numbers"] == "3, 4.1"  # type: ignore[index]
    assert CITED.search("(design 4.3, step 2)")["part"] == "step 2"  # type: ignore[index]


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_named_commands_and_options_are_there(page: Path) -> None:
    for module in pkgutil.iter_modules(latentia.cli.__path__):  # commands join the app
        importlib.import_module(f"latentia.cli.{module.name}")
    app = importlib.import_module("latentia.cli.options").app
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    text = page.read_text(encoding="utf-8")
    for name, options in re.findall(r"(?:^|`)latentia ([a-z]+)([^`\n]*)", text, re.MULTILINE):
        assert name in commands, f"{page.name}: there is no command {name}"
        known = {option for param in commands[name].params for option in param.opts}
        assert not set(re.findall(r"--[a-z][a-z-]*", options)) - known
    for script, options in re.findall(r"`(?:python )?(benchmarks/\w+\.py)([^`]*)`", text):
        code = (ROOT / script).read_text(encoding="utf-8")
        assert not [o for o in re.findall(r"--[a-z][a-z-]*", options) if f'"{o}"' not in code], (
            script
        )


SCRIPTS = [p for folder in ("benchmarks", "docs", "examples") for p in (ROOT / folder).glob("*.py")]


@pytest.mark.parametrize("script", sorted(SCRIPTS), ids=lambda p: p.name)
def test_scripts_import_what_is_there(script: Path) -> None:
    """They take long to run, so that no test does; at least they would start."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "latentia":
            for alias in node.names:
                names = [*(node.module or "").split(".")[1:], alias.name]
                assert resolves(lt, names), f"{script.name} imports {'.'.join(names)}: not there"


def test_the_map_has_every_package_in_the_order_of_imports() -> None:
    spec = importlib.util.spec_from_file_location("order", ROOT / "tests" / "test_imports.py")
    assert spec is not None
    assert spec.loader is not None
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(\w+)/ ", text.split("## Where things are")[1], re.MULTILINE)
    assert listed == [p for line in rules.ORDER for p in line.split() if p in PACKAGES]


def test_everything_public_is_in_the_api() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = {name.split(".")[-1] for name in re.findall(r"^::: (latentia\.\S+)", text, re.M)}
    assert documented >= set(lt.__all__), set(lt.__all__) - documented
    answers = {"CheckReport", "Finding"}  # of LatentModel.check
    answers |= {"Profile", "ColumnProfile", "Link", "Alignment", "Match"}  # of profile and align
    answers |= {"Comparison", "Candidate", "Coefficients", "Relation", "Outcome"}  # of latents
    answers |= {"LineCoefficients"}  # of coefficients
    answers |= {"Effect", "Identification", "PageServer"}  # of effect and explore
    answers |= {"Explanation", "Sensitivity", "TableCell"}  # of explain and sensitivity
    assert documented - set(lt.__all__) <= answers


# --- what is made ---------------------------------------------------------------------------------


def test_tables_of_accuracy_are_those_of_the_summary() -> None:
    path = ROOT / "benchmarks" / "accuracy_report.py"
    spec = importlib.util.spec_from_file_location("accuracy_report", path)
    assert spec is not None
    assert spec.loader is not None
    report = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = report  # dataclasses look their module up
    spec.loader.exec_module(report)
    found = report.read_summary(path.with_name("accuracy.csv"))
    page = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    assert page.split(report.MARK)[1] == report.tables(found)


def test_pictures_are_made_by_the_script(tmp_path: Path) -> None:
    run = [sys.executable, str(DOCS / "pictures.py"), str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = {p.name for p in tmp_path.glob("*.svg")}
    assert made == {p.name for p in (DOCS / "pictures").glob("*.svg")}
    pages = [DOCS / page for page in ("how-it-works.md", "sequences.md", "gallery.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name in made:
        ET.parse(tmp_path / name)
        assert name in shown


def test_the_page_of_the_command_line_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line, on the table that it shows."""
    from typer.testing import CliRunner

    from latentia.cli.application import application

    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    table = re.search(r"```csv\n(.*?)```", text, re.DOTALL)
    assert table is not None
    Path("slides.csv").write_text(table[1], encoding="utf-8")
    commands = re.findall(
        r"^latentia .*$", "".join(re.findall(r"```sh\n(.*?)```", text, re.S)), re.M
    )
    assert len(commands) > 12
    for line in commands:
        done = CliRunner().invoke(application, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"
        if "query" in line and "json" not in line:
            assert all(told in done.output for told in ("0.3897", "0.6103", "-0.8043"))
            assert "0.3897" in text
    assert Path("page.html").exists()
    assert len(Path("more.csv").read_text().splitlines()) == 101


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

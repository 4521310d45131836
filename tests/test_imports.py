"""Imports follow the data's way, and what the user did not bring is not imported."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "latentia"

# A module may import modules of earlier lines only; a folder counts as one module.
LAYERS = (
    "errors progress typing",
    "seeds",
    "solve",
    "graph",
    "triangulate",
    "junction",
    "skeleton",
    "rank",
    "core",
    "plan",
    "positive",
    "templates",
    "features",
    "moments",
    "frames",
    "gaussian kernel_settings linear",
    "wiring",
    "passes",
    "estep",
    "basis",
    "sharpen windows",
    "clusters",
    "start",
    "refine",
    "known",
    "matching",
    "regression",
    "operators",
    "learn paper",
    "local",
    "spectral",
    "frozen",
    "jackknife",
    "ranks",
    "messages",
    "joint sampling subtrees",
    "density",
    "posterior posterior_density",
    "embedding",
    "gram kernel_choice mixed",
    "uncentred",
    "diagnostics",
    "shafer_shenoy",
    "tables",
    "conditioned",
    "exact mixed_truth",
    "testing",
    "cpts",
    "problem",
    "influence",
    "refined",
    "informed",
    "em",
    "stepwise",
    "refined_mixed",
    "choice",
    "choice_mixed",
    "learners",
    "questions batch notices",
    "gathering answers",
    "error_bars",
    "residuals telling",
    "fitting",
    "checking",
    "estimating",
    "learned",
    "learning",
    "estimator",
    "classifier",
    "store draw datasets",
    "experiments",
    "__init__",
    "cli",
    "__main__",
)
LEVEL = {module: level for level, line in enumerate(LAYERS) for module in line.split()}

# Imports within a line or against the direction, as (importer, imported); within functions only.
ALLOWED: frozenset[tuple[str, str]] = frozenset(
    {
        ("gathering", "store"),  # so are FrozenModel.save
        ("moments", "store"),  # and Moments.save
        ("estimating", "store"),  # save is a door to store.save
        ("classifier", "store"),  # so is LatentClassifier.save
        ("graph", "draw"),  # .draw() and .plot() are doors to draw
        ("plan", "draw"),
        ("posterior", "draw"),
        ("posterior_density", "draw"),
        ("estimator", "draw"),
        ("checking", "draw"),
        ("experiments", "__version__"),  # and so does a report
        ("store", "__version__"),  # a model file tells which latentia wrote it
    }
)

# Run in a new process: scikit-learn may import pandas if it is there, latentia may not.
WATCHED = """
import builtins

original = builtins.__import__
optional = "pandas polars pyarrow duckdb dask distributed pyspark".split()
optional += "matplotlib networkx pyagrum typer rich".split()

def watched(name, globals=None, *rest, **named):
    importer = (globals or {}).get("__name__") or ""
    if importer.split(".")[0] == "latentia" and name.split(".")[0] in optional:
        raise AssertionError(f"{importer} imports {name}: do so inside the function that needs it")
    return original(name, globals, *rest, **named)

builtins.__import__ = watched
import latentia
import latentia.cli
"""


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import below node, those within functions too, but none that only type checkers see."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from statements(child)


def imported(code: str, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and name of each module of latentia that this code, which lives in package, imports."""
    for node in statements(ast.parse(code)):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            start = ".".join((*above, *filter(None, [node.module])))
            names = [f"{start}.{name}" for name in names]
        for root, *rest in (name.split(".") for name in names):
            if root == "latentia":
                yield node.lineno, rest[0] if rest else "__init__"


def wrong_imports(module: str, code: str, package: tuple[str, ...]) -> list[str]:
    return [
        f"line {line}: {module} imports {other}, which LAYERS does not list earlier"
        for line, other in sorted(set(imported(code, package)))
        if other != module and (module, other) not in ALLOWED
        if other not in LEVEL or LEVEL[other] >= LEVEL[module]
    ]


FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_follow_the_datas_way(path: Path) -> None:
    module = path.with_suffix("").parts[0]
    assert module in LEVEL, f"{module} has no place yet: list it in LAYERS in tests/test_imports.py"
    code = (SOURCE / path).read_text(encoding="utf-8")
    assert not wrong_imports(module, code, ("latentia", *path.parent.parts))


@pytest.mark.parametrize(
    "code",
    [
        "import latentia.closed_form.closed_form",
        "from latentia.closed_form.closed_form import learn",
        "from latentia import learn",
        "from latentia import LatentModel",
        "from . import learn",
        "from .learn import learn",
        "def f():\n    from latentia.closed_form.closed_form import learn",
    ],
)
def test_a_wrong_import_is_seen(code: str) -> None:
    assert wrong_imports("graph", code, ("latentia",))


@pytest.mark.parametrize(
    "code",
    [
        "import numpy.typing",
        "import typing",
        "from latentia.errors import GraphError",
        "from .errors import GraphError",
        "if TYPE_CHECKING:\n    from latentia.closed_form.closed_form import learn",
    ],
)
def test_a_right_import_passes(code: str) -> None:
    assert not wrong_imports("graph", code, ("latentia",))


def test_folders_resolve_relative_imports() -> None:
    assert not wrong_imports("features", "from .discrete import f", ("latentia", "features"))
    assert not wrong_imports("features", "from ..errors import f", ("latentia", "features"))
    assert wrong_imports("features", "from ..learn import f", ("latentia", "features"))


FITTED = """
import sys
import numpy as np
import latentia

rows = {c: np.arange(60) % m for c, m in zip("abc", (2, 3, 4))}
model = latentia.LatentModel("H->a; H->b; H->c", {"H": 2})
model.fit(rows).predict_proba(rows, target="a")
model.fit([rows, rows]).score([rows])
latentia.LatentModel("H->a; H->b; H->c", {"H": 2}).partial_fit(rows).partial_fit(iter([rows]))
engines = {"polars", "pyarrow", "duckdb", "dask", "distributed", "pyspark", "ibis"}
brought = {name.split(".")[0] for name in sys.modules} & engines
assert not brought, brought
"""


def test_no_engine_is_imported_that_was_not_brought() -> None:
    """Without pandas, scikit-learn brings no pyarrow either."""
    hidden = "import sys\nsys.modules['pandas'] = None\n"
    run = subprocess.run([sys.executable, "-c", hidden + FITTED], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_import_brings_no_optional_library() -> None:
    run = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

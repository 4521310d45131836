"""Imports follow the data's way, names have one meaning, and what the user did not bring stays out.

Everything here is computed from the files: a new module needs no entry.
"""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import latentia

SOURCE = Path(__file__).parents[1] / "src" / "latentia"

# A package may import packages of earlier lines. Modules that lie in no package stand in the first.
ORDER = (
    "native",
    "structure",
    "data",
    "inference",
    "exact closed_form kernels",  # which do not import each other
    "networks",
    "assess discovery pooling",
    "model",
    "sequences formats",
    "testing",
    "draw",
    "store",
    "explore reproduce",
    "cli",
)
LEVEL = {package: level for level, line in enumerate(ORDER) for package in line.split()}
DOORS = "doors"  # the one module that may import upwards, inside functions


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import below node, those within functions too, but none that only type checkers see."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from statements(child)


def imported(code: str, modules: Mapping[str, object]) -> set[str]:
    """The modules of latentia that this code imports, by dotted name below `latentia`."""
    found = set()
    for node in statements(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where a thing lives"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names]
        for name in names:
            root, *rest = name.split(".")
            if root != "latentia":
                continue
            while rest and ".".join(rest) not in modules:  # names within a module
                rest.pop()
            found.add(".".join(rest))
    return found


@cache
def sources() -> dict[str, str]:
    """Code of every module, by dotted name below `latentia`; "" is latentia itself."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def package(module: str) -> str:
    head = module.split(".")[0]
    return head if head in LEVEL else ""


def upward(module: str, others: set[str]) -> list[str]:
    """Imports against the direction of the packages."""
    if module in ("", "__main__", "datasets", DOORS):
        return []
    own = package(module)
    level = LEVEL.get(own, -1)
    return sorted(
        other
        for other in others
        if other in ("", "__main__")
        or (package(other) != own and LEVEL.get(package(other), -1) >= level)
    )


def cycle(ties: Mapping[str, set[str]]) -> list[str]:
    """A path of imports that comes back to its start; empty if there is none."""
    state: dict[str, bool] = {}  # True: on the path, False: done
    path: list[str] = []

    def visit(module: str) -> list[str]:
        state[module] = True
        path.append(module)
        for other in sorted(ties.get(module, ())):
            if state.get(other):
                return [*path[path.index(other) :], other]
            if other not in state and (found := visit(other)):
                return found
        state[module] = False
        path.pop()
        return []

    return next((found for m in sorted(ties) if m not in state and (found := visit(m))), [])


@pytest.mark.parametrize("module", sources(), ids=lambda m: m or "latentia")
def test_imports_follow_the_datas_way(module: str) -> None:
    wrong = upward(module, imported(sources()[module], sources()))
    assert not wrong, f"{module} imports {wrong}: only {DOORS}.py may import upwards"


def test_every_folder_has_its_place() -> None:
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= {*LEVEL}, "give a new package its line in ORDER"


def test_no_module_imports_itself_through_others() -> None:
    ties = {
        module: imported(code, sources()) - {module}
        for module, code in sources().items()
        if module != DOORS
    }
    assert not cycle(ties)


def test_packages_hand_nothing_on() -> None:
    """Names come from where they live; `latentia` and `latentia.testing` are for users."""
    for path in SOURCE.rglob("__init__.py"):
        name = path.parent.relative_to(SOURCE).as_posix()
        if name in (".", "testing", "reproduce", "cli"):
            continue
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assert all(isinstance(node, ast.Expr) for node in body), f"{name}/__init__.py: a docstring"


def test_no_public_name_has_two_meanings() -> None:
    homes = defaultdict(set)
    for module, code in sources().items():
        for node in ast.parse(code).body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
            if public and package(module) != "reproduce":  # experiments answer to one contract
                homes[node.name].add(module)  # overloads are one name
    assert not {n: m for n, m in homes.items() if len([x for x in m if x != DOORS]) > 1}


def test_no_two_modules_share_a_name() -> None:
    names = defaultdict(list)
    for module in sources():
        if module != "datasets":  # an old name, kept for one release
            names[module.split(".")[-1]].append(module)
    assert not {name: modules for name, modules in names.items() if len(modules) > 1}


def test_a_wrong_import_is_seen() -> None:
    modules = dict.fromkeys(["structure.graph", "model.pbp", "errors", ""], "")
    for code in (
        "import latentia.model.pbp",
        "from latentia.model.pbp import PBP",
        "from latentia.model import pbp",
        "from latentia import LatentModel",
        "def f():\n    from latentia.model.pbp import PBP",
    ):
        assert upward("structure.graph", imported(code, modules)), code
    for code in (
        "import numpy.typing",
        "from latentia.errors import GraphError",
        "if TYPE_CHECKING:\n    from latentia.model.pbp import PBP",
    ):
        assert not upward("structure.graph", imported(code, modules)), code
    assert upward("kernels.gram", {"exact.estep"})
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert not cycle({"a": {"b", "c"}, "b": {"c"}})


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
for name in latentia.__all__:
    getattr(latentia, name)
"""

QUICK = """
import sys
import latentia
import latentia.cli
loaded = {name for name in sys.modules if name.split(".")[0] in ("numpy", "scipy", "sklearn")}
assert not loaded, loaded
assert {*latentia.__all__} <= {*dir(latentia)}
from latentia import EM, errors
from latentia.networks import em
assert EM is em.EM is latentia.EM
assert latentia.errors is errors is sys.modules["latentia.errors"]
"""

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


def test_import_loads_nothing_that_is_slow() -> None:
    """So that the command can be interrupted from its start, and `import latentia` is free."""
    run = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_public_names_are_where_type_checkers_think() -> None:
    body = ast.parse(sources()[""]).body
    block = next(node for node in body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    told = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            full = f"{node.module}.{alias.name}".removeprefix("latentia.")
            told[alias.name] = full if full in sources() else full.rpartition(".")[0]
    assert told == latentia._HOMES
    assert {*told} == {*latentia.__all__}
    for name in latentia.__all__:
        found = getattr(latentia, name)
        assert getattr(found, "__module__", found.__name__) == f"latentia.{told[name]}"
    with pytest.raises(AttributeError, match="no attribute 'Latentmodel'"):
        latentia.Latentmodel  # noqa: B018

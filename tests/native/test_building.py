"""The kernel is built where it can be, used where it fits its sources, and never missed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import latentia as lt
from latentia.errors import LatentiaError
from latentia.native import building, loading

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, building.COMPILERS)), reason="no C compiler here"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quickly = ("-O0", "-DONE_SIZE")  # the installed one was built as users build it
    return building.build(tmp_path_factory.mktemp("kernel"), quickly)


@needs_compiler
def test_a_built_kernel_is_loaded(made: Path) -> None:
    found = loading.loaded(made)
    assert found.library is not None
    assert found.best in (0, 1)
    assert hasattr(found.library, "chain_forward_base")


@needs_compiler
def test_a_kernel_of_other_sources_is_left_alone(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "fingerprint", lambda: "changed")
    found = loading.loaded.__wrapped__(made)
    assert found.library is None
    assert "other sources" in found.reason


@needs_compiler
def test_a_stale_kernel_is_known_without_loading_it(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not building.is_stale(tmp_path / building.NAME)  # none: there may be no compiler
    assert not building.is_stale(made)
    monkeypatch.setattr(building, "fingerprint", lambda: "changed")
    assert building.is_stale(made)


def test_what_is_not_a_library_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"not a library")
    assert "cannot be loaded" in loading.loaded(tmp_path / "broken.so").reason
    assert "not built" in loading.loaded(tmp_path / "none.so").reason


def test_no_compiler_and_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(building.BuildError, match="no C compiler"):
        building.build(tmp_path)
    monkeypatch.setenv("CC", f"{sys.executable} -c 'raise SystemExit(3)'")
    with pytest.raises(building.BuildError):
        building.build(tmp_path)
    assert list(tmp_path.iterdir()) == []


def hook(monkeypatch: pytest.MonkeyPatch, warned: list[str]) -> Any:
    """The build hook, with stand-ins for what hatchling would bring."""
    name = "hatchling.builders.hooks.plugin.interface"
    interface = ModuleType(name)
    interface.BuildHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.KernelHook()
    found.root, found.app = str(ROOT), SimpleNamespace(display_warning=warned.append)
    return found


@needs_compiler
def test_wheels_get_the_kernel_and_a_tag(monkeypatch: pytest.MonkeyPatch, made: Path) -> None:
    pytest.importorskip("packaging")
    monkeypatch.delenv("LATENTIA_KERNEL", raising=False)
    data: dict[str, Any] = {"force_include": {}}
    own = hook(monkeypatch, [])
    with monkeypatch.context() as patched:
        patched.setattr(own, "building", lambda: SimpleNamespace(build=lambda _: made))
        own.initialize("standard", data)
    assert data["pure_python"] is False
    assert data["tag"].startswith("py3-none-")
    assert list(data["force_include"].values()) == [f"latentia/native/{building.NAME}"]


def test_a_failed_build_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATENTIA_KERNEL", raising=False)
    monkeypatch.setenv("CC", "no-such-compiler")
    warned: list[str] = []
    data: dict[str, Any] = {"force_include": {}}
    hook(monkeypatch, warned).initialize("standard", data)
    assert data == {"force_include": {}}
    assert "without its compiled kernel" in warned[0]


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    assert loading.kernel() is None
    told = lt.show_config("dict")
    assert told is not None
    assert told["kernel"] == "numpy (LATENTIA_KERNEL=off)"
    monkeypatch.setenv("LATENTIA_KERNEL", "fast")
    with pytest.raises(LatentiaError, match="got 'fast'"):
        loading.kernel()


def test_show_config_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert lt.show_config() is None
    told = capsys.readouterr().out
    assert "kernel " in told
    assert "numpy " in told


def test_building_needs_the_standard_library_only() -> None:
    """The hook runs it before anything is installed."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='x'); print(*sys.modules)"
    path = str(building.HERE / "building.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, path], capture_output=True, text=True, check=True
    )
    assert not {"numpy", "latentia"} & set(done.stdout.split())

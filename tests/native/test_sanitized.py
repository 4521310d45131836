"""The kernel under a sanitizer: no access out of bounds, nothing undefined, the right numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from latentia.native import building

ROOT = Path(__file__).parents[2]
CASES = 20


def sanitizer_library() -> str | None:
    """What must be loaded before Python, so that its memory is watched, too."""
    if sys.platform != "linux" or not shutil.which("gcc"):
        return None
    told = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return told if os.path.isabs(told) and Path(told).exists() else None


def test_fuzzed_under_a_sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sanitizer_library()
    if first is None:
        pytest.skip("no gcc with its address sanitizer here")
    monkeypatch.setenv("CC", "gcc")
    made = building.build(tmp_path, building.SANITIZERS)
    told = {
        **os.environ,
        "LD_PRELOAD": first,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, "-m", "tests.native.fuzz_kernel", str(made), str(CASES)]
    done = subprocess.run(command, env=told, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{CASES} cases" in done.stdout

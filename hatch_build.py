"""Build hook: compile the kernel where there is a C compiler; without one, latentia is pure Python.

A failed build is told, and never a failed install. Editable installs have the library beside its
sources; wheels get it put in, and a tag for the platform and any Python 3.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src", "latentia", "native")


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get("LATENTIA_KERNEL") == "off":
            return
        home, building = Path(self.root) / PACKAGE, self.building()
        editable = version == "editable"
        folder = home if editable else Path(tempfile.mkdtemp(prefix="latentia-kernel-"))
        try:
            made = building.build(folder)
        except building.BuildError as error:
            self.app.display_warning(f"latentia is installed without its compiled kernel: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"
        if not editable:
            build_data["force_include"][str(made)] = f"latentia/native/{made.name}"

    def building(self) -> Any:
        """The module that builds: latentia itself cannot be imported yet."""
        return _module(Path(self.root) / PACKAGE / "building.py")


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("latentia_building", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _platform() -> str:
    """This machine's own tag: a library built here may need the C library of here."""
    from packaging.tags import sys_tags

    every = (tag.platform for tag in sys_tags())
    return next(p for p in every if "manylinux" not in p and "musllinux" not in p)

"""What this installation runs on: versions, the compiled kernel, the libraries behind numpy."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from latentia.native.loading import OFF, VARIABLE, kernel, loaded
from latentia.version import LIBRARY

LIBRARIES = ("numpy", "scipy", "scikit-learn", "narwhals", "pandas", "polars", "pyarrow")


def show_config(mode: Literal["print", "dict"] = "print") -> dict[str, str] | None:
    """Print what this installation runs on, or give it as a dict.

    "kernel" says whether the compiled kernel is used, and if not, why; all answers are the same
    without it, many of them later.

    >>> sorted(show_config("dict"))[:4]
    ['BLAS', 'kernel', 'latentia', 'machine']
    """
    found = {
        "latentia": LIBRARY,
        "kernel": describe_kernel(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "BLAS": _blas(),
        **{name: told for name in LIBRARIES if (told := _version(name))},
    }
    if mode == "dict":
        return found
    width = max(map(len, found))
    print("\n".join(f"{name:<{width}}  {told}" for name, told in found.items()))
    return None


def describe_kernel() -> str:
    """One line on the compiled kernel."""
    used = kernel()
    if used is not None:
        return f"compiled ({used.level})"
    if os.environ.get(VARIABLE) == OFF:
        return f"numpy ({VARIABLE}={OFF})"
    return f"numpy (the compiled kernel is {loaded().reason})"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _blas() -> str:
    """Libraries of matrix products that are loaded, with their threads."""
    import numpy  # noqa: F401 - so that its library is there to be asked
    from threadpoolctl import threadpool_info

    told = [
        f"{x['internal_api']} {x.get('version') or ''}, {x['num_threads']} threads"
        for x in threadpool_info()
        if x["user_api"] == "blas"
    ]
    return "; ".join(dict.fromkeys(told)) or "unknown"

"""Find and load the kernel, if one was built: LATENTIA_KERNEL=off does without."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

from latentia.errors import LatentiaError
from latentia.native.building import HERE, NAME, fingerprint
from latentia.typing import Foreign

VARIABLE = "LATENTIA_KERNEL"
ON, OFF = "on", "off"
LEVELS = ("base", "avx2")  # as level.c numbers them


@final
@dataclass(frozen=True, slots=True)
class Kernel:
    """A loaded library, and the level of processor whose functions are called."""

    library: ctypes.CDLL
    level: str

    def function(self, name: str) -> Foreign:
        """A function of this level; what it takes is declared where it is called."""
        return getattr(self.library, f"{name}_{self.level}")


@final
@dataclass(frozen=True, slots=True)
class Loaded:
    """The library and the best level of this processor, or why there is none."""

    library: ctypes.CDLL | None
    best: int
    reason: str


def kernel() -> Kernel | None:
    """The kernel; None where numpy does all. LATENTIA_KERNEL: on, off, or a level (base, avx2)."""
    wish = os.environ.get(VARIABLE) or ON
    if wish == OFF:
        return None
    if wish != ON and wish not in LEVELS:
        raise LatentiaError(
            f"expected {VARIABLE} to be {ON}, {OFF}, {' or '.join(LEVELS)}, got {wish!r}."
        )
    return _chosen(wish)


@cache
def _chosen(wish: str) -> Kernel | None:
    found = loaded()
    if found.library is None:
        return None
    best = found.best if wish == ON else min(found.best, LEVELS.index(wish))
    return Kernel(found.library, LEVELS[best])


@cache
def loaded(path: Path = HERE / NAME) -> Loaded:
    """Load a library; one that was built from other sources than those beside it is left alone."""
    if not path.exists():
        return Loaded(None, 0, "not built (no C compiler when latentia was installed)")
    try:
        library = ctypes.CDLL(str(path))
        library.latentia_sources.restype = ctypes.c_char_p
        built_from = library.latentia_sources().decode()
    except (OSError, AttributeError) as error:
        return Loaded(None, 0, f"built, but it cannot be loaded: {error}")
    if built_from != fingerprint():
        return Loaded(None, 0, "built from other sources: python -m latentia.native.building")
    return Loaded(library, int(library.latentia_level()), "")

"""Build the kernel: plain C99 to one shared library, with whatever compiler there is.

The build hook runs this file before anything is installed, so that it needs the standard library
only. `python -m latentia.native.building` builds the kernel of a checkout again; with `--if-stale`,
where one is there that was built from other sources.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
NAME = "kernel.dll" if sys.platform == "win32" else "kernel.so"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math")
MORE = ("-ffp-contract=fast", "-Wno-psabi")  # a·b + c in one instruction, where there is one
LEVELS = {"base": (), "avx2": ("-mavx2", "-mfma")}  # chosen among at run time (level.c)
UNITS = (
    *("cells.c", "chain.c", "classes.c", "climbs.c", "exponential.c", "families.c", "forest.c"),
    *("islands.c", "messages.c", "nodes.c", "products.c", "rows.c", "sharing.c"),
)
X86 = ("x86_64", "amd64", "i686", "i386")
PATIENCE = 120  # seconds for one file
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-DONE_SIZE")


class BuildError(Exception):
    """No kernel could be built; says why."""


def sources() -> list[Path]:
    """All files of the kernel."""
    return sorted(p for p in HERE.iterdir() if p.suffix in (".c", ".h"))


def fingerprint() -> str:
    """Of the sources: a library tells from which it was built."""
    found = hashlib.sha256()
    for path in sources():
        found.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n"))
    return found.hexdigest()[:16]


def is_stale(library: Path) -> bool:
    """Is there a library, and was it built from other sources than those that are there now?"""
    return library.exists() and fingerprint().encode() not in library.read_bytes()


def compiler() -> list[str]:
    """The command of a C compiler: what CC says, or the first that is there."""
    told = shlex.split(os.environ.get("CC", ""))
    for name in (told[:1] or None) or COMPILERS:
        if shutil.which(name):
            return [name, *told[1:]]
    raise BuildError(f"no C compiler ({', '.join(told[:1] or COMPILERS)}) was found")


def build(folder: Path, extra: Sequence[str] = ()) -> Path:
    """The library, in `folder`; one that was there is replaced once the new one is whole."""
    with tempfile.TemporaryDirectory() as scratch:
        command, objects, steps = compiler(), list[str](), list[list[str]]()
        for unit, flags in _units():
            objects.append(str(Path(scratch, f"{len(objects)}.o")))
            own = [*FLAGS, *MORE, *flags, *extra]
            steps.append([*command, *own, "-c", str(HERE / unit), "-o", objects[-1]])
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a compiler of its own
            list(pool.map(_run, steps))
        made = Path(scratch, NAME)
        _run([*command, *extra, "-shared", *objects, "-o", str(made), "-lm"])
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f".{os.getpid()}.{NAME}"
        shutil.copyfile(made, new)
        os.replace(new, folder / NAME)
    return folder / NAME


def _units() -> Iterator[tuple[str, list[str]]]:
    """Files to compile and their flags: each kernel once for every level of processor."""
    yield "level.c", [f'-DFINGERPRINT="{fingerprint()}"']
    machine = sysconfig.get_platform().replace("-", "_").lower()
    levels = LEVELS if machine.endswith(X86) or "amd64" in machine else {"base": ()}
    for level, flags in levels.items():
        for unit in UNITS:
            yield unit, [f"-DLEVEL={level}", *flags]


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise BuildError(f"{shlex.join(command)}\n{done.stderr.strip()[-2000:]}")


if __name__ == "__main__":
    if "--if-stale" not in sys.argv or is_stale(HERE / NAME):
        print(build(HERE))

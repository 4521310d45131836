"""Files that are written whole or not at all, whatever ends the writing.

The new file has no name until it is whole, where the system knows such files (Linux). Elsewhere,
and for the moment in which it takes its place, it has a hidden name that holds a lock: a name
without a lock was left by a process that was killed, and the next writer takes it away.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

if sys.platform != "win32":
    import fcntl


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file to write to; at the end of the block it takes its place, or else it vanishes.

    A link stays one, and the mode of a file that is replaced stays.
    """
    place = os.path.realpath(path)
    folder, start = os.path.dirname(place), hidden_start(place)
    hidden = os.path.join(folder, f"{start}{secrets.token_hex(8)}.tmp")
    mode = os.stat(place).st_mode if os.path.exists(place) else None
    sweep(folder, start)
    handle, nameless = _create(folder, hidden)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
            if nameless:
                _give_name(handle, hidden)
            if mode is not None:
                os.chmod(hidden, stat.S_IMODE(mode))
            if sys.platform != "win32":  # there a file must be closed before it is moved
                os.replace(hidden, place)
        if sys.platform == "win32":
            os.replace(hidden, place)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            os.unlink(hidden)
        raise


def hidden_start(place: str) -> str:
    """How the hidden names of a place begin: the same for every writer, and never too long."""
    mark = hashlib.sha256(os.fsencode(os.path.basename(place))).hexdigest()[:12]
    return f".latentia-{mark}-"


def sweep(folder: str, start: str) -> None:
    """Take away what killed writers left; files of writers at work are locked."""
    with suppress(OSError), os.scandir(folder) as entries:
        left = [e.path for e in entries if e.name.startswith(start) and e.name.endswith(".tmp")]
        for path in left:
            with suppress(OSError):  # locked, or gone in the meantime
                _remove_unlocked(path)


def _remove_unlocked(path: str) -> None:
    if sys.platform == "win32":
        os.unlink(path)  # fails while someone has it open
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(handle)


def _create(folder: str, hidden: str) -> tuple[int, bool]:
    """A new locked file, and whether it has no name yet."""
    handle = _nameless(folder)
    if handle is not None:
        return handle, True
    while True:
        handle = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _binary(), 0o666)
        _lock(handle)
        if sys.platform == "win32" or os.fstat(handle).st_nlink:
            return handle, False
        os.close(handle)  # swept away between its birth and its lock


def _nameless(folder: str) -> int | None:
    """A file without a name, if this system and this folder can have one and name it later."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None:
        return None
    try:
        handle = os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError:  # not on this kind of file system; a real reason comes back by the other road
        return None
    if not os.path.exists(_road_to(handle)):
        os.close(handle)
        return None
    _lock(handle)
    return handle


def _give_name(handle: int, hidden: str) -> None:
    try:  # os.link follows the road to the file only when it is told of a folder, any folder
        os.link(_road_to(handle), hidden, src_dir_fd=handle, follow_symlinks=True)
    except OSError:  # file systems that let no file be named later
        with open(_road_to(handle), "rb") as whole, open(hidden, "xb") as copy:
            shutil.copyfileobj(whole, copy)
            copy.flush()
            os.fsync(copy.fileno())


def _road_to(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


def _lock(handle: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):  # file systems without locks; nobody can sweep there either
            fcntl.flock(handle, fcntl.LOCK_EX)


def _binary() -> int:
    return int(getattr(os, "O_BINARY", 0))

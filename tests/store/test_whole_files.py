"""A kill in the middle of a save leaves the old file or the new one, and nothing for long."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import latentia as lt
from latentia.errors import StoreError
from latentia.whole_file import hidden_start, sweep, whole_file

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork, and no SIGKILL")

# A new process: forks children that are killed, and looks at what they leave behind.
KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
import latentia as lt

place, nameless, step = Path(sys.argv[1]), sys.argv[2] == "nameless", sys.argv[3]
if not nameless:
    vars(os).pop("O_TMPFILE", None)
sizes = [1000, 300_000]
models = [lt.Moments(f"of {n}", 1.0, n, {"s": np.full(n, float(n))}) for n in sizes]
path = place / "m.latentia"
models[0].save(path)
files = set()
for model in models:
    model.save(path)
    files.add(path.read_bytes())

def dying(call):
    def die(*given, **named):
        if step.endswith("after"):
            call(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    return die

chance = random.Random(0)
left = []
for _ in range(40 if step == "any" else 1):
    child = os.fork()
    if child == 0:
        name = step.split()[0]
        if name != "any":
            setattr(os, name, dying(getattr(os, name)))
        while True:
            for model in models:
                model.save(path)
    if step == "any":
        time.sleep(chance.uniform(0.001, 0.02))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert path.read_bytes() in files, "half a file"
    names = {p.name for p in place.iterdir()} - {path.name}
    assert len(names) <= 1 and all(name.startswith(".") for name in names), names
    left += names
    models[0].save(path)
    assert [p.name for p in place.iterdir()] == [path.name], "left after the next save"
print(len(left))
"""


def killed(place: Path, kind: str, step: str) -> int:
    """How often a killed writer left a hidden file, all of them swept by the next."""
    command = [sys.executable, "-c", KILLED, str(place), kind, step]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


@needs_fork
@pytest.mark.parametrize("step", ["any", "fsync", "link after", "replace", "replace after"])
def test_a_killed_save_leaves_the_old_file_or_the_new(step: str, tmp_path: Path) -> None:
    left = killed(tmp_path, "nameless", step)
    if sys.platform == "linux" and step == "fsync":
        assert left == 0  # the file had no name yet


@needs_fork
@pytest.mark.parametrize("step", ["any", "fsync", "replace"])
def test_the_same_where_every_file_has_a_name(step: str, tmp_path: Path) -> None:
    left = killed(tmp_path, "named", step)
    if step != "any":
        assert left == 1


def test_files_of_writers_at_work_are_not_swept(tmp_path: Path) -> None:
    place = tmp_path / "m"
    start = hidden_start(str(place))
    busy, dead = tmp_path / f"{start}1.tmp", tmp_path / f"{start}2.tmp"
    other = tmp_path / f"{hidden_start('another')}1.tmp"
    for path in (busy, dead, other):
        path.write_bytes(b"half")
    with open(busy, "rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with whole_file(place) as file:
            file.write(b"new")
        assert {p.name for p in tmp_path.iterdir()} == {"m", busy.name, other.name}
    sweep(str(tmp_path), start)
    assert {p.name for p in tmp_path.iterdir()} == {"m", other.name}


@pytest.mark.parametrize("nameless", [True, False])
def test_an_error_leaves_nothing(
    nameless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    (tmp_path / "m").write_bytes(b"old")

    def fail() -> None:
        with whole_file(tmp_path / "m") as file:
            file.write(b"half")
            file.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m").read_bytes() == b"old"


@pytest.mark.parametrize("nameless", [True, False])
def test_modes_are_those_of_any_new_file(
    nameless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    (tmp_path / "plain").write_bytes(b"")
    with whole_file(tmp_path / "whole") as file:
        file.write(b"all of it")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "whole").read_bytes() == b"all of it"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every file has a name")
def test_a_file_that_cannot_be_named_later_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    with whole_file(tmp_path / "m") as file:
        file.write(b"all of it")
    assert (tmp_path / "m").read_bytes() == b"all of it"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_the_longest_name_can_be_saved_to(tmp_path: Path) -> None:
    """Hidden names are not longer than the file's own may be."""
    moments = lt.Moments("of nothing", 1.0, 1, {"s": np.ones(1)})
    moments.save(tmp_path / ("m" * 255))
    assert [len(p.name) for p in tmp_path.iterdir()] == [255]
    with pytest.raises(StoreError, match="cannot be written"):
        moments.save(tmp_path / ("m" * 256))

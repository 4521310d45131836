"""Ctrl-C: the command ends with 130 and without a traceback, from its first moment on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

# A new process forks a child for every moment: that of the n-th search for a module after `main`
# was called. "python -m latentia" and the script `latentia` start by these two ways.
STARTED = """
import os, runpy, signal, sys
from pathlib import Path

way, folder, moments = sys.argv[1], Path(sys.argv[2]), 6
sys.argv = ["latentia", "plan", "--help"]  # whose module is loaded, and all that it needs

class Interrupts:
    def __init__(self, moment):
        self.searches, self.moment = 0, moment
    def find_spec(self, name, path=None, target=None):
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            self.searches += 1
            if self.searches == self.moment:
                signal.raise_signal(signal.SIGINT)

def start(moment):
    sys.meta_path.insert(0, found := Interrupts(moment))
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), stream)
    try:
        if way == "module":
            runpy.run_module("latentia", run_name="__main__")
        else:
            from latentia.cli import main
            sys.exit(main())
    except SystemExit as ended:
        (folder / "searches").write_text(str(found.searches))
        sys.stdout.flush()
        os._exit(ended.code or 0)

def run(moment):
    child = os.fork()
    if child == 0:
        start(moment)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, (folder / "out").read_text(), (folder / "err").read_text()

code, out, err = run(None)
assert (code, err) == (0, "") and out.startswith("Usage: latentia plan"), (code, out, err)
total = int((folder / "searches").read_text())
assert total > 300, total  # all that is heavy is loaded after Ctrl-C was provided for
for k in range(moments):
    moment = 1 + k * (total - 1) // (moments - 1)
    found = run(moment)
    assert found == (130, "", ""), (moment, found)
"""


@needs_fork
@pytest.mark.parametrize("way", ["module", "script"])
def test_a_start_can_be_interrupted(way: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTED, way, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.4])
def test_by_the_clock(delay: float) -> None:
    """The same with a real signal: sent so long after the first heavy library began to load."""
    started = [sys.executable, "-X", "importtime", "-m", "latentia", "--version"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.endswith("latentia.cli.check_command\n") or "numpy" in line:
                break
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        left = [line for line in process.stderr if not line.startswith("import time:")]
    assert process.returncode in (130, 0)  # 0: it was quicker
    assert "".join(left).strip() == ""


def test_a_process_that_ignores_it_goes_on_ignoring_it() -> None:
    code = (
        "import signal\n"
        "from latentia.cli.leaving import interruptible, leave_when_interrupted\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "leave_when_interrupted()\n"
        "with interruptible():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_work_ends_by_an_exception() -> None:
    code = (
        "import signal\n"
        "from latentia.cli.leaving import interruptible, leave_when_interrupted\n"
        "leave_when_interrupted()\n"
        "try:\n"
        "    with interruptible():\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('tidied up', flush=True)\n"
        "signal.raise_signal(signal.SIGINT)\n"
        "print('never')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "tidied up\n", "")


LATE = """
import atexit, os

class Late:
    def __del__(self):
        os.abort()

late = Late()  # which lives until the interpreter takes itself apart
atexit.register(print, "tidied up")
"""


@pytest.mark.parametrize("way", ["module", "script"])
@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["score", "no", "no.csv"], 3)])
def test_nothing_runs_after_the_end(way: str, words: list[str], code: int, tmp_path: Path) -> None:
    """Threads of Arrow that outlived Python aborted a process that had answered."""
    (tmp_path / "sitecustomize.py").write_text(LATE)
    script = Path(sys.executable).with_name("latentia")
    if way == "script" and not script.exists():
        pytest.skip("the script is not installed")
    started = [sys.executable, "-m", "latentia"] if way == "module" else [str(script)]
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*started, *words], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.endswith("tidied up\n")  # what was to be done at the end is done


def test_other_programs_end_as_they_like() -> None:
    code = (
        "import sys\n"
        "from latentia.cli import main\n"
        "sys.argv = ['latentia', '--version']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 7

"""One case, judged: what may come of it, and what is a finding."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning, NotFittedError

from latentia.errors import LatentiaError, LatentiaWarning

Case = Callable[[random.Random], str]

PATIENCE = 20.0  # seconds of one core after which a case hangs
LONGEST_MESSAGE = 3000


class Finding(AssertionError):  # noqa: N818 (a finding of ours, no error of the library)
    """The library gave a wrong kind of number, a foreign error or warning, or no answer in time."""


def judge(case: Case, source: random.Random) -> str:
    """What a case came to: what it says itself, or the class of our error; else a Finding."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with _in_time():
                outcome = case(source)
        except LatentiaError as error:
            if not 10 < len(str(error)) < LONGEST_MESSAGE:
                raise Finding(f"unclear error of {len(str(error))} characters: {error!r}") from None
            outcome = type(error).__name__
        except NotFittedError:
            outcome = "NotFittedError"
        except Finding:
            raise
        except Exception as error:
            raise Finding(_foreign(error)) from error
    for note in told:
        # scikit-learn's own contract asks for the second, of labels in a column
        if not issubclass(note.category, (LatentiaWarning, DataConversionWarning)):
            where = f"{note.filename.rsplit('site-packages/')[-1]}:{note.lineno}"
            raise Finding(f"foreign warning {note.category.__name__} at {where}: {note.message}")
    return outcome


def seeded(kind: str, number: int) -> random.Random:
    """The randomness of case `number` of a kind: the same on every machine."""
    return random.Random(f"{kind}/{number}")


def _foreign(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "latentia" in f.filename.replace("\\", "/").split("/")]
    last = f"{ours[-1].filename.rsplit('/latentia/')[-1]}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {last}: {str(error)[:300]}"


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Seconds of computing, not of the clock: other work on the machine is no hang."""
    if (
        not hasattr(signal, "SIGVTALRM")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def stop(*_: Any) -> None:
        raise Finding(f"no answer after {PATIENCE:g} s of computing")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# --- the right kind of number ---------------------------------------------------------------------


def check_probabilities(p: Any, rows: int | None = None, what: str = "probabilities") -> None:
    """Finite, not negative, summing to one along the last axis; none of the rows lost."""
    p = np.asarray(p, dtype=float)
    if rows is not None and len(p) != rows:
        raise Finding(f"{what}: {rows} rows came, {len(p)} went")
    if not np.isfinite(p).all():
        raise Finding(f"{what} are not finite: {p[~np.isfinite(p)][:3]}")
    if (p < 0).any():
        raise Finding(f"{what} are negative: {p.min()}")
    if p.size and not np.allclose(p.sum(axis=-1), 1.0, atol=1e-6):
        raise Finding(f"{what} sum to {np.ravel(p.sum(axis=-1))[:3]}")


def check_finite(values: Any, rows: int | None = None, what: str = "numbers") -> None:
    values = np.asarray(values, dtype=float)
    if rows is not None and len(values) != rows:
        raise Finding(f"{what}: {rows} rows came, {len(values)} went")
    if not np.isfinite(values).all():
        raise Finding(f"{what} are not finite: {values[~np.isfinite(values)][:3]}")


def check_scores(values: Any, rows: int | None = None) -> None:
    """Logs of probabilities: finite, or -inf for a row that is impossible."""
    values = np.asarray(values, dtype=float)
    check_finite(np.where(np.isneginf(values), 0.0, values), rows, "scores")


def matrix(frame: Any) -> np.ndarray[Any, Any]:
    """An answer of any kind as (rows, numbers)."""
    if isinstance(frame, dict):
        return np.column_stack([np.asarray(v, dtype=float) for v in frame.values()])
    if hasattr(frame, "to_pandas") and not hasattr(frame, "to_numpy"):
        frame = frame.to_pandas()
    return np.asarray(frame.to_numpy() if hasattr(frame, "to_numpy") else frame, dtype=float)


def rows_of(frame: Any) -> int:
    """Rows of an answer."""
    if isinstance(frame, dict):
        return len(next(iter(frame.values())))
    return len(frame)

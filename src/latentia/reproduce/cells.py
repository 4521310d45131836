"""Cells: one learner on one sample, run in any order, kept as they end, never run twice."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias, final

from joblib import Parallel, delayed

from latentia.errors import LatentiaWarning, UnknownNameError
from latentia.typing import Facts, Foreign
from latentia.version import LIBRARY

Settings: TypeAlias = Facts
Metrics: TypeAlias = dict[str, float]


@final
@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One measurement to make."""

    repetition: int
    size: int  # rows to learn from
    variant: str  # a graph, where an experiment has several
    learner: str

    @property
    def key(self) -> str:
        return f"{self.variant}/{self.learner}/{self.size}/{self.repetition}"


@final
@dataclass(frozen=True, slots=True)
class Result:
    """A cell and what was measured; NaN where a metric does not apply to the learner."""

    cell: Cell
    metrics: Mapping[str, float]


@final
@dataclass(frozen=True, slots=True)
class Figure:
    """One metric against the number of rows; one panel for each variant."""

    metric: str
    label: str  # of the vertical axis
    title: str
    log: bool = True
    lower_is_better: bool = True
    digits: str = ".3g"


@final
@dataclass(frozen=True, slots=True)
class Experiment:
    """A question to the learners: what to run, how to measure it, how to show it."""

    name: str
    title: str
    text: str  # what is done, for the report
    settings: Callable[[bool, int], Settings]  # (quick, seed) -> all that the numbers depend on
    cells: Callable[[Settings, Sequence[str]], list[Cell]]
    measure: Callable[[Cell, Settings], Metrics]
    figures: tuple[Figure, ...]
    learners: tuple[str, ...]  # names, in the order of the tables
    datasets: tuple[str, ...] = ()
    # captions, figures
    pictures: Callable[[Settings], dict[str, tuple[str, Foreign]]] | None = None

    def chosen(self, asked: Sequence[str]) -> tuple[str, ...]:
        """The learners asked for, in our order; all where none is named."""
        for name in asked:
            if name not in self.learners:
                raise UnknownNameError(f"learner of {self.name}", name, self.learners)
        return tuple(n for n in self.learners if not asked or n in asked)


@final
@dataclass(frozen=True, slots=True)
class CellProgress:
    """How far a run is: cells and seconds, and a guess of the seconds left."""

    done: int
    total: int
    elapsed: float
    left: float
    last: str


@dataclass
class _Clock:
    """Seconds left: those of the same kind of cell if one has ended, else a like one's."""

    seconds: dict[tuple[str, str, int], list[float]] = field(default_factory=dict)

    def add(self, cell: Cell, spent: float) -> None:
        self.seconds.setdefault((cell.variant, cell.learner, cell.size), []).append(spent)

    def guess(self, cell: Cell) -> float:
        same = self.seconds.get((cell.variant, cell.learner, cell.size))
        if same:
            return sum(same) / len(same)
        like = [
            (abs(size - cell.size), sum(spent) / len(spent))
            for (variant, learner, size), spent in self.seconds.items()
            if learner == cell.learner
        ]
        return min(like)[1] if like else 1.0


def every_cell(settings: Settings, learners: Sequence[str]) -> list[Cell]:
    """Graphs (if there are several), learners, sizes and repetitions (or models), in this order."""
    repetitions = int(settings.get("repetitions") or settings.get("models") or 1)
    return [
        Cell(repetition, size, graph, learner)
        for graph in settings.get("graphs", ("",))
        for learner in learners
        for size in settings["rows"]
        for repetition in range(repetitions)
    ]


def run_cells(
    experiment: Experiment,
    settings: Settings,
    cells: Sequence[Cell],
    folder: Path,
    jobs: int = 1,
    report: Callable[[CellProgress], None] = lambda progress: None,
    only_kept: bool = False,
) -> list[Result]:
    """Measure every cell that the folder does not hold yet; the results of all, in their order.

    With `only_kept` nothing is measured: the results that are there.
    """
    path = folder / f"{experiment.name}-{fingerprint(experiment.name, settings)}.jsonl"
    found = read_results(path)
    waiting = sorted(c for c in cells if c.key not in found)
    if only_kept:
        return [Result(c, found[c.key]) for c in cells if c.key in found]
    total, clock, start = len(cells), _Clock(), time.perf_counter()
    report(CellProgress(total - len(waiting), total, 0.0, float("nan"), ""))
    left = list(waiting)
    with path.open("a", encoding="utf-8") as file:
        if found and not path.read_bytes().endswith(b"\n"):
            file.write("\n")  # the last line was cut off
        for cell, metrics, spent in _measured(experiment, settings, waiting, jobs):
            found[cell.key] = metrics
            line = {"cell": asdict(cell), "metrics": metrics, "seconds": spent}
            file.write(json.dumps(line) + "\n")
            file.flush()
            left.remove(cell)
            clock.add(cell, spent)
            rest = sum(map(clock.guess, left)) / max(jobs, 1)
            elapsed = time.perf_counter() - start
            report(CellProgress(total - len(left), total, elapsed, rest, cell.key))
    return [Result(c, found[c.key]) for c in cells]


def _measured(
    experiment: Experiment, settings: Settings, cells: Sequence[Cell], jobs: int
) -> Iterator[tuple[Cell, Metrics, float]]:
    if jobs == 1:
        for cell in cells:
            yield _measure(experiment.measure, cell, settings)
        return
    work = (delayed(_measure)(experiment.measure, cell, settings) for cell in cells)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(work)


def _measure(
    measure: Callable[[Cell, Settings], Metrics], cell: Cell, settings: Settings
) -> tuple[Cell, Metrics, float]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)  # ranks and repairs are what is measured
        metrics = measure(cell, settings)
    return cell, metrics, time.perf_counter() - start


def fingerprint(name: str, settings: Settings) -> str:
    """Results are used again only under the very settings, and release, that made them."""
    facts = json.dumps([name, LIBRARY, settings], sort_keys=True, default=str)
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def read_results(path: Path) -> dict[str, Metrics]:
    """Metrics by cell; a line that was cut off when a run was stopped is left out."""
    found: dict[str, Metrics] = {}
    if not path.is_file():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            read = json.loads(line)
            found[Cell(**read["cell"]).key] = {k: float(v) for k, v in read["metrics"].items()}
        except (ValueError, KeyError, TypeError):
            continue
    return found

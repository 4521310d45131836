"""Running experiments and writing their report: what `latentia reproduce NAME` does.

>>> sorted(EXPERIMENTS)
['digits', 'networks', 'nltcs', 'sequences', 'splice', 'synthetic']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from latentia.errors import DatasetError, MissingLibraryError, UnknownNameError
from latentia.reproduce import digits, drawn_chains, hidden_nodes, nltcs, splice, synthetic
from latentia.reproduce.cells import CellProgress, Experiment, run_cells
from latentia.reproduce.pages import Outcome, surroundings, write_report

# A new experiment is one file and one entry here.
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (synthetic, digits, splice, nltcs, hidden_nodes, drawn_chains)
}


def reproduce(
    names: Sequence[str],
    folder: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    jobs: int = 1,
    learners: Sequence[str] = (),
    report: Callable[[str, CellProgress], None] = lambda name, progress: None,
    only_kept: bool = False,
) -> tuple[list[Outcome], Path]:
    """Run experiments and write their report; cells that are finished are kept."""
    _check_matplotlib()
    chosen = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        if name not in EXPERIMENTS:
            raise UnknownNameError("experiment", name, [*EXPERIMENTS, "all"])
    folder.mkdir(parents=True, exist_ok=True)
    command = f"latentia reproduce {' '.join(names)} --seed {seed} --jobs {jobs}"
    command += (" --quick" if quick else "") + (
        f" --learners {','.join(learners)}" if learners else ""
    )
    outcomes = []
    for name in chosen:
        experiment = EXPERIMENTS[name]
        wanted = [n for n in learners if n in experiment.learners or len(chosen) == 1]
        who = experiment.chosen(wanted)
        settings = experiment.settings(quick, seed)
        cells = experiment.cells(settings, who)
        results = run_cells(
            experiment, settings, cells, folder, jobs, partial(report, name), only_kept
        )
        if not results:
            raise DatasetError(f"no cell of {name} has been finished in {folder}. Run it first.")
        outcomes.append(Outcome(experiment, settings, who, tuple(results)))
    return outcomes, write_report(outcomes, folder, surroundings(command))


def _check_matplotlib() -> None:
    """Before an hour of work, not after it."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise MissingLibraryError.of("a report", "matplotlib", "experiments") from None

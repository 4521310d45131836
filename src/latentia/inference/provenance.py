"""What a model was learned by: numbers to look at and to warn of, not to compute with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from latentia.data.moments import Moments
from latentia.errors import LatentiaError


@final
@dataclass(frozen=True, slots=True)
class SeparatorReport:
    """How a separator was learned: numbers to look at, not to compute with."""

    rank: int  # directions kept, the constant included
    wanted: int  # r(S) of the plan
    correlations: tuple[float, ...] = ()  # canonical correlations of the kept directions
    condition: float = float("nan")  # of what stage 2 inverted


@final
@dataclass(frozen=True, slots=True)
class Ascent:
    """How a likelihood was climbed, start by start: numbers to look at, not to compute with."""

    paths: tuple[tuple[float, ...], ...]  # log-likelihood per row of each start, step by step
    converged: tuple[bool, ...]  # did the last step gain less than the tolerance?
    best: int  # the start that was kept

    def __post_init__(self) -> None:
        if len(self.paths) != len(self.converged) or not 0 <= self.best < len(self.paths):
            raise LatentiaError("an ascent needs one path and one verdict per start.")
        if not all(self.paths):
            raise LatentiaError("the path of a start has at least its first value.")

    def __str__(self) -> str:
        path, count = self.paths[self.best], len(self.paths)
        end = "converged" if self.converged[self.best] else "stopped before it converged,"
        said = f"{end} after {len(path) - 1} iterations at {path[-1]:.6f} per row"
        others = sum(p[-1] < path[-1] - 1e-3 for p in self.paths)
        return said + (f"; {others} of {count} starts ended lower" if count > 1 else "")


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """Which candidate was kept, and why: log losses of held-out rows, one column left out each."""

    chosen: str
    losses: Mapping[str, float]  # candidate -> mean loss per row; none if too few rows
    errors: Mapping[str, float]  # candidate -> standard error of its distance from the chosen one
    held_out: int  # rows
    learned_from: int  # rows that the candidates saw
    left_out: Mapping[str, str] = field(default_factory=dict)  # candidate not tried -> why

    def __post_init__(self) -> None:
        if {*self.losses} != {*self.errors} or (self.losses and self.chosen not in self.losses):
            raise LatentiaError("a choice needs a loss and an error for every candidate.")

    def __str__(self) -> str:
        if not self.losses:
            why = next(iter(self.left_out.values()), "too few rows to compare")
            return f"chose the {self.chosen} model: {why}"
        best = self.losses[self.chosen]
        others = [
            f"{name} {loss - best:+.4f} ± {self.errors[name]:.4f}"
            for name, loss in self.losses.items()
            if name != self.chosen
        ]
        said = (
            f"chose the {self.chosen} model: log loss {best:.4f} per row, one column left out, on "
            f"{self.held_out:,} held-out rows; {', '.join(others)}"
        )
        return said + "".join(f"; no {name} model: {why}" for name, why in self.left_out.items())


@final
@dataclass(frozen=True, slots=True)
class Provenance:
    """How operators or tables came about; files leave out sums, notes, remarks, doubts."""

    reports: Mapping[int, SeparatorReport] = field(default_factory=dict)  # by node of the plan
    moments: Moments | None = None  # the sums of the first pass
    ascent: Ascent | None = None  # of learners that climb a likelihood
    choice: Choice | None = None  # where the learner chose among several models
    settings: Mapping[str, float] = field(default_factory=dict)  # of a kernel embedding
    notes: tuple[str, ...] = ()  # on stated numbers of states
    remarks: tuple[str, ...] = ()  # on rows that were left out
    doubts: tuple[str, ...] = ()  # where another seed might have found other tables
    nameless: str = ""  # why there are no tables with the names of latents
    pieces: tuple[str, ...] = ()  # how the graph's own tables were found

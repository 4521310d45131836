"""The kinds of cases, and how many of a hundred thousand are of each."""

from __future__ import annotations

from . import commands, evidence, files, frames, graphs, learners
from .trial import Case

KINDS: dict[str, tuple[Case, int]] = {
    "graphs": (graphs.case, 25_000),
    "frames": (frames.case, 20_000),
    "evidence": (evidence.case, 35_000),
    "files": (files.case, 12_000),
    "commands": (commands.case, 5_000),
    "learners": (learners.case, 3_000),
}

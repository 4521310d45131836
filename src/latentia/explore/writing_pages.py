"""Pages in one file each: of a model, of a check report, of sequences."""

from __future__ import annotations

import os

from latentia.assess.report import CheckReport
from latentia.explore.check_figures import check_figures, checked_report
from latentia.explore.explored import as_explored
from latentia.explore.facts import check_inside, page_facts
from latentia.explore.page_file import make_page, put_page
from latentia.explore.timelines import timelines
from latentia.sequences.sequence_model import SequenceModel
from latentia.typing import Facts, Given, TableLike

Path = str | os.PathLike[str]


def write_page(
    model: Given, path: Path, title: str | None = None, other: object = None, check: object = None
) -> None:
    """A page that answers by itself, offline, for whoever opens it; `other` is compared with it."""
    facts = _own_facts(model, title)
    if other is not None:
        facts["other"] = _own_facts(other, None)
    if check is not None:
        facts["check"] = check_figures(checked_report(check))
    put_page(make_page(facts), path)


def _own_facts(model: Given, title: str | None) -> Facts:
    explored = as_explored(model, title)
    facts = page_facts(explored)
    check_inside(explored, facts)
    return facts


def write_check_page(report: CheckReport, path: Path) -> None:
    """The report as a page of its own, to click through."""
    put_page(make_page({"title": "Check", "check": check_figures(report)}, "check"), path)


def write_sequence_page(
    model: SequenceModel, path: Path, rows: TableLike, **options: Given
) -> None:
    """Sequences as timelines: states decoded, what surprises, what may come."""
    put_page(make_page(timelines(model, rows, **options), "sequences"), path)

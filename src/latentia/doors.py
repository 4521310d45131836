"""Doors: the only module that imports upwards, and only inside functions.

`graph.draw()`, `posterior.plot()`, `model.save(path)` are methods of values that stand below the
rooms which draw and store; each goes through a door.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from pathlib import Path

    from latentia.assess.comparison import Comparison
    from latentia.assess.report import CheckReport
    from latentia.exact.sensitivity import Sensitivity
    from latentia.explore.local_server import PageServer
    from latentia.inference.evidence import Evidence
    from latentia.inference.operators import Operators
    from latentia.inference.posterior import Posterior
    from latentia.model.effects import Effect
    from latentia.model.explaining import Explanation
    from latentia.model.profile import Profile
    from latentia.sequences.slices import Slice
    from latentia.structure.graph import LatentGraph
    from latentia.structure.plan import Plan
    from latentia.typing import Array, FilePath, Given, Label

    Fields: TypeAlias = tuple[Given, ...]  # of a Strip or StepFan, in their order
    from latentia.draw.svg import Drawing


def save(model: Given, path: FilePath) -> None:
    """Write to one file, at once or not at all."""
    from latentia.store.file import save

    save(model, path)


def table_plan(graph: LatentGraph) -> str:
    """How the tables of a graph are learned, as text."""
    from latentia.networks.table_plan import plan_tables

    return str(plan_tables(graph))


def draw_graph(graph: LatentGraph) -> Drawing:
    from latentia.draw.graphs import draw_graph

    return draw_graph(graph)


def draw_plan(plan: Plan) -> Drawing:
    from latentia.draw.trees import draw_plan

    return draw_plan(plan)


def draw_messages(
    operators: Operators,
    evidence: Evidence,
    observed: Mapping[int, str],
    targets: Sequence[int],
    states: Mapping[int, Sequence[object]],
    title: str,
) -> Drawing:
    from latentia.draw.passing import draw_messages

    return draw_messages(operators, evidence, observed, targets, states, title)


def plot_posterior(posterior: Posterior) -> Drawing:
    from latentia.draw.answers import plot_posterior

    return plot_posterior(posterior)


def plot_density(
    grid: Array, density: Array, title: str, footnote: str, shown: Callable[[float], str]
) -> Drawing:
    from latentia.draw.answers import plot_density

    return plot_density(grid, density, title, footnote, shown)


def draw_check(report: CheckReport) -> Drawing:
    from latentia.draw.check_pictures import draw_check

    return draw_check(report)


def draw_criteria(comparison: Comparison) -> Drawing:
    from latentia.draw.criteria import draw_criteria

    return draw_criteria(comparison)


def save_check(report: CheckReport, path: FilePath) -> None:
    """The picture of a check, or a page to click through."""
    if os.fspath(path).lower().endswith(".html"):
        from latentia.explore.writing_pages import write_check_page

        write_check_page(report, path)
        return
    from latentia.draw.check_pictures import save_check

    save_check(report, path)


def draw_slice(slice_: Slice, steps: int = 2) -> Drawing:
    from latentia.draw.slice_pictures import draw_slice

    return draw_slice(slice_, steps)


def draw_moves(
    name: Label, tables: Sequence[tuple[str, Array]], states: Sequence[Hashable]
) -> Drawing:
    from latentia.draw.step_pictures import draw_moves

    return draw_moves(name, tables, states)


def draw_decoded(
    title: str, paths: Mapping[Label, tuple[Array, Sequence[Hashable]]], strips: Sequence[Fields]
) -> Drawing:
    from latentia.draw.step_pictures import Strip, draw_decoded

    return draw_decoded(title, paths, [Strip(*strip) for strip in strips])


def draw_forecast(title: str, fans: Sequence[Fields]) -> Drawing:
    from latentia.draw.step_pictures import StepFan, draw_forecast

    return draw_forecast(title, [StepFan(*fan) for fan in fans])


def draw_profile(profile: Profile) -> Drawing:
    from latentia.draw.profiles import draw_profile

    return draw_profile(profile)


def plot_effect(effect: Effect) -> Drawing:
    from latentia.draw.explanations import plot_effect

    return plot_effect(effect)


def effect_of(*asked: Given, **how: Given) -> Effect:
    from latentia.model.effects import effect_of

    return effect_of(*asked, **how)


def plot_explanation(explanation: Explanation) -> Drawing:
    from latentia.draw.explanations import plot_explanation

    return plot_explanation(explanation)


def explain_tables(*asked: Given, **how: Given) -> Explanation:
    from latentia.model.explaining import explain_tables

    return explain_tables(*asked, **how)


def sensitivity_of_tables(*asked: Given, **how: Given) -> Sensitivity:
    from latentia.model.explaining import sensitivity_of_tables

    return sensitivity_of_tables(*asked, **how)


def explore(model: Given, to: FilePath | None, **options: Given) -> PageServer | Path:
    """Show a model in the browser, or write it as a page."""
    from latentia.explore.opening_page import explore

    return explore(model, to, **options)

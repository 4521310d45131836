"""Doors: the only module that imports upwards, and only inside functions.

`graph.draw()`, `posterior.plot()`, `model.save(path)` are methods of values that stand below the
rooms which draw and store; each goes through a door.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write to one file, at once or not at all."""
    from latentia.store.file import save

    save(value, path)


def table_plan(graph: Any) -> str:
    """How the tables of a graph are learned, as text."""
    from latentia.networks.table_plan import plan_tables

    return str(plan_tables(graph))


def draw_graph(*shown: Any) -> Drawing:
    from latentia.draw.graphs import draw_graph

    return draw_graph(*shown)


def draw_plan(*shown: Any) -> Drawing:
    from latentia.draw.trees import draw_plan

    return draw_plan(*shown)


def draw_messages(*shown: Any) -> Drawing:
    from latentia.draw.passing import draw_messages

    return draw_messages(*shown)


def plot_posterior(*shown: Any) -> Drawing:
    from latentia.draw.answers import plot_posterior

    return plot_posterior(*shown)


def plot_density(*shown: Any) -> Drawing:
    from latentia.draw.answers import plot_density

    return plot_density(*shown)


def draw_check(*shown: Any) -> Drawing:
    from latentia.draw.check_pictures import draw_check

    return draw_check(*shown)


def draw_criteria(*shown: Any) -> Drawing:
    from latentia.draw.criteria import draw_criteria

    return draw_criteria(*shown)


def save_check(report: Any, path: str | os.PathLike[str]) -> None:
    """The picture of a check, or a page to click through."""
    if os.fspath(path).lower().endswith(".html"):
        from latentia.explore.writing_pages import write_check_page

        write_check_page(report, path)
        return
    from latentia.draw.check_pictures import save_check

    save_check(report, path)


def draw_slice(*shown: Any) -> Drawing:
    from latentia.draw.slice_pictures import draw_slice

    return draw_slice(*shown)


def draw_moves(*shown: Any) -> Drawing:
    from latentia.draw.step_pictures import draw_moves

    return draw_moves(*shown)


def draw_decoded(title: str, paths: Any, strips: Any) -> Drawing:
    from latentia.draw.step_pictures import Strip, draw_decoded

    return draw_decoded(title, paths, [Strip(*strip) for strip in strips])


def draw_forecast(title: str, fans: Any) -> Drawing:
    from latentia.draw.step_pictures import StepFan, draw_forecast

    return draw_forecast(title, [StepFan(*fan) for fan in fans])


def draw_profile(*shown: Any) -> Drawing:
    from latentia.draw.profiles import draw_profile

    return draw_profile(*shown)


def plot_effect(*shown: Any) -> Drawing:
    from latentia.draw.explanations import plot_effect

    return plot_effect(*shown)


def effect_of(*asked: object, **how: object) -> Any:
    from latentia.model.effects import effect_of

    return effect_of(*asked, **how)


def plot_explanation(*shown: Any) -> Drawing:
    from latentia.draw.explanations import plot_explanation

    return plot_explanation(*shown)


def explain_tables(*asked: object, **how: object) -> Any:
    from latentia.model.explaining import explain_tables

    return explain_tables(*asked, **how)


def sensitivity_of_tables(*asked: object, **how: object) -> Any:
    from latentia.model.explaining import sensitivity_of_tables

    return sensitivity_of_tables(*asked, **how)


def explore(model: object, to: Any, **options: object) -> Any:
    """Show a model in the browser, or write it as a page."""
    from latentia.explore.opening_page import explore

    return explore(model, to, **options)

"""Pictures of graphs, plans, messages, answers and checks: SVG made here, with no other program."""

from latentia.draw.answers import plot_density, plot_posterior
from latentia.draw.checks import draw_check, save_check
from latentia.draw.graphs import draw_graph
from latentia.draw.passing import draw_messages
from latentia.draw.svg import Drawing
from latentia.draw.trees import draw_plan

__all__ = [
    "Drawing",
    "draw_check",
    "draw_graph",
    "draw_messages",
    "draw_plan",
    "plot_density",
    "plot_posterior",
    "save_check",
]

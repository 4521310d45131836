"""What was found without a graph: the graph, its tables, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia import doors
from latentia.discovery.relearning import Relearning
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

SHOWN = 8  # candidates, latents and pairs


@final
@dataclass(frozen=True, slots=True, eq=False)
class FoundStructure:
    """A graph that was found in a table. Pass it, or its `graph`, to `LatentModel`."""

    graph: LatentGraph
    tables: Mapping[int, Array]  # on the cells of continuous columns' grids
    members: tuple[tuple[LatentGraph, Mapping[int, Array]], ...]  # of a mixture, the heaviest first
    weights: Array  # of the members
    chosen: str  # the plainest candidate that rows held out can hardly tell from the best
    losses: Mapping[str, float]  # candidate -> nats a row on rows held out, the best first
    telling: Mapping[Label, Mapping[Label, float]]  # latent -> column -> nats
    columns: tuple[Label, ...]
    information: Array  # of pairs of columns, nats, (columns, columns)
    left_out: Mapping[Label, str]  # column -> why
    rows: float
    held_out: float
    seconds: float
    again: Relearning | None = None  # to be learned from other rows
    hurried: tuple[str, ...] = ()  # what a time budget left no time for

    def draw(self) -> Drawing:
        """A picture of the graph; numbers of states are those of latents and discrete columns."""
        bins = () if self.again is None else self.again.bins
        measured = [c for c, own in zip(self.columns, bins, strict=False) if own is not None]
        return doors.draw_graph(self.graph.without_states(measured))

    @property
    def edges(self) -> list[tuple[Label, Label]]:
        """By name: to be edited, and passed on as a graph with `latents`."""
        names = self.graph.names
        return [(names[a], names[b]) for a, b in self.graph.edges]

    @property
    def latents(self) -> dict[Label, int]:
        """Numbers of states by name."""
        return {self.graph.names[v]: self.graph.states[v] or 1 for v in sorted(self.graph.latent)}

    def pairs(self, count: int = SHOWN) -> list[tuple[Label, Label, float]]:
        """The columns that tell most of each other, in nats."""
        upper = np.triu(self.information, 1)
        order = np.argsort(-upper, axis=None, kind="stable")[:count]
        found = []
        for a, b in zip(*np.unravel_index(order, upper.shape), strict=True):
            if upper[a, b] > 0:
                found.append((self.columns[a], self.columns[b], float(upper[a, b])))
        return found

    def __str__(self) -> str:
        hidden = [self.graph.names[v] for v in sorted(self.graph.latent)]
        others = [(name, loss) for name, loss in self.losses.items() if name != self.chosen]
        sizes = (len(self.graph.observed), len(hidden), len(self.graph.edges))
        counts = map(_counted, sizes, ("column", "latent", "edge"))
        lines = [
            f"{', '.join(counts)}, from {self.rows:,.0f} rows in {self.seconds:.1f} s",
            f"chosen on {self.held_out:,.0f} rows held out: {self.chosen}, "
            f"{self.losses[self.chosen]:.4f} nats a row",
        ]
        lines += [f"  instead of {name}: {loss:.4f}" for name, loss in others[: SHOWN - 1]]
        lines += [self._told(name) for name in hidden[:SHOWN]]
        if len(hidden) > SHOWN:
            more = len(hidden) - SHOWN
            lines.append(f"… and {more} more latent{'s' * (more > 1)}")
        lines += [f"left out: {printable(name)} ({why})" for name, why in self.left_out.items()]
        lines += [f"no time for {what}" for what in self.hurried]
        return "\n".join(lines)

    def _told(self, latent: Label) -> str:
        own = self.telling[latent]
        most = sorted(own, key=lambda c: -own[c])[:SHOWN]
        columns = ", ".join(f"{printable(c)} {own[c]:.2f}" for c in most)
        more = f" and {len(own) - SHOWN} more" if len(own) > SHOWN else ""
        states = self.graph.states[self.graph.index(latent)]
        return f"{printable(latent)}, {states} states, tells {columns}{more} (nats)"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

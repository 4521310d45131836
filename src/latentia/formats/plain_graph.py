"""PlainGraph: what files of graphs hold, gathered line by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

from latentia.errors import GraphError
from latentia.formats.file_text import FileText
from latentia.formats.plain_network import NO, YES
from latentia.structure.graph import LatentGraph

MOST_EDGES = 1_000_000


@final
@dataclass(slots=True)
class PlainGraph:
    """Nodes and edges so far; edges that come twice are one."""

    READ: ClassVar[tuple[str, str]] = ("latent", "states")  # attributes that are read

    source: FileText
    directed: bool
    names: dict[str, int | None] = field(default_factory=dict)  # with their numbers of states
    latents: set[str] = field(default_factory=set)
    edges: dict[tuple[str, str], None] = field(default_factory=dict)

    def add_node(self, name: str, told: Mapping[str, str], line: int) -> None:
        if not name:
            self.source.fail(line, "expected a name of the node, got none.")
        self.names.setdefault(name, None)
        self.tell(name, told, line)

    def tell(self, name: str, told: Mapping[str, str], line: int) -> None:
        """Note what the attributes of a node say."""
        hidden = told.get("latent", "no").strip().lower()
        if "latent" in told and hidden not in YES + NO:
            self.source.fail(line, f"expected latent = true or false of {name!r}, got {hidden!r}.")
        if hidden in YES:
            self.latents.add(name)
        elif "latent" in told:
            self.latents.discard(name)
        if "states" in told:
            count = told["states"].strip()
            if not (count.isascii() and count.isdigit() and len(count) < 10 and int(count) > 0):
                self.source.fail(
                    line, f"expected a number of states of {name!r}, got {count[:40]!r}."
                )
            self.names[name] = int(count)

    def add_edge(self, a: str, b: str, line: int) -> None:
        if a == b:
            self.source.fail(line, f"{a!r} is tied to itself. Remove the loop.")
        if not self.directed and (b, a) in self.edges:
            return
        self.edges[a, b] = None
        if len(self.edges) > MOST_EDGES:
            self.source.fail(line, f"expected at most {MOST_EDGES:,} edges, got more.")

    def finish(self) -> LatentGraph:
        """The graph, if it is one."""
        number = {name: v for v, name in enumerate(self.names)}
        pairs = [(number[a], number[b]) for a, b in self.edges]
        if not self.directed:
            pairs = [(min(pair), max(pair)) for pair in pairs]
        try:
            return LatentGraph(
                names=tuple(self.names),
                edges=tuple(pairs),
                latent=frozenset(number[name] for name in self.latents),
                states=tuple(self.names.values()),
                directed=self.directed,
            )
        except GraphError as error:
            self.source.fail(None, str(error))

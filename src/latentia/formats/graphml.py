"""GraphML: graphs as XML. Of the data of nodes only `latent` and `states` are read."""

from __future__ import annotations

from latentia.formats.file_text import FileText
from latentia.formats.markup import Element, tagged
from latentia.formats.plain_graph import PlainGraph
from latentia.structure.graph import LatentGraph


def read_graphml(source: FileText, root: Element) -> LatentGraph:
    """The graph below an element graphml."""
    graphs = list(root.every("graph"))
    if root.tag != "graphml" or len(graphs) != 1:
        source.fail(
            root.line, f"expected one graph within graphml, got {len(graphs)} within {root.tag!r}."
        )
    graph = PlainGraph(source, directed=_is_directed(source, graphs[0]))
    keys = {
        key.attributes.get("id", ""): key.attributes.get("attr.name", "")
        for key in root.every("key")
        if key.attributes.get("for", "all") in ("node", "all")
    }
    for node in graphs[0].every("node"):
        name = node.attributes.get("id", "")
        if name in graph.names:
            source.fail(node.line, f"node {name!r} is there twice. Rename or remove one.")
        told = {keys.get(d.attributes.get("key", ""), ""): d.text for d in node.every("data")}
        graph.add_node(name, {k: v for k, v in told.items() if k in graph.READ}, node.line)
        if any(node.every("graph")):
            source.fail(
                node.line, f"node {name!r} holds a graph of its own. Only flat ones are read."
            )
    for edge in graphs[0].every("edge", "hyperedge"):
        _read_edge(graph, edge)
    return graph.finish()


def _is_directed(source: FileText, graph: Element) -> bool:
    told = graph.attributes.get("edgedefault", "directed")
    if told not in ("directed", "undirected"):
        source.fail(graph.line, f"expected edgedefault directed or undirected, got {told[:40]!r}.")
    return told == "directed"


def _read_edge(graph: PlainGraph, edge: Element) -> None:
    a, b = edge.attributes.get("source", ""), edge.attributes.get("target", "")
    for name in (a, b):
        if name not in graph.names:
            graph.source.fail(edge.line, f"expected an edge between nodes, got {name[:40]!r}.")
    told = edge.attributes.get("directed", "true" if graph.directed else "false")
    if told != ("true" if graph.directed else "false"):
        graph.source.fail(edge.line, "expected edges of one kind, got directed and undirected.")
    graph.add_edge(a, b, edge.line)


def graphml_text(graph: LatentGraph, names: tuple[str, ...]) -> str:
    """The graph as a text of the format GraphML; `names` as they are written."""
    lines = []
    for v, name in enumerate(names):
        told = [tagged("data", str(graph.states[v]), key="states")] * (graph.states[v] is not None)
        told += [tagged("data", "true", key="latent")] * (v in graph.latent)
        opened = tagged("node", "", id=name).removesuffix("</node>")
        lines.append(f"{opened}{''.join(told)}</node>\n")
    for a, b in graph.edges:
        lines.append(tagged("edge", "", source=names[a], target=names[b]) + "\n")
    kind = "directed" if graph.directed else "undirected"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        '<key id="latent" for="node" attr.name="latent" attr.type="boolean"/>\n'
        '<key id="states" for="node" attr.name="states" attr.type="int"/>\n'
        f'<graph edgedefault="{kind}">\n{"".join(lines)}</graph>\n</graphml>\n'
    )

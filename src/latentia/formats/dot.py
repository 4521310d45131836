"""DOT: graphs as Graphviz draws them. Of attributes only `latent` and `states` are read."""

from __future__ import annotations

from latentia.formats.file_text import FileText, without_comments
from latentia.formats.grammars import check_depth, parse
from latentia.formats.plain_graph import PlainGraph
from latentia.structure.graph import LatentGraph
from latentia.typing import Foreign

_MARKUP = r"<(?:[^<>]++|<(?:[^<>]++|<[^<>]*+>)*+>)*+>"  # of labels
GRAMMAR = r"""
start: STRICT? KIND ID? body
body: "{" (statement ";"?)* "}"
?statement: defaults | assignment | chain
defaults: (GRAPH | NODE | EDGE) attributes
assignment: ID "=" (ID | MARKUP)
chain: end (ARROW end)* attributes?
?end: node | subgraph
node: ID (":" ID (":" ID)?)?
subgraph: (SUBGRAPH ID?)? body
attributes: ("[" (attribute (";" | ",")?)* "]")+
attribute: ID ("=" (ID | MARKUP))?
STRICT.3: /strict\b/i
KIND.3: /(?:di)?graph\b/i
GRAPH.2: /graph\b/i
NODE.2: /node\b/i
EDGE.2: /edge\b/i
SUBGRAPH.2: /subgraph\b/i
ARROW.2: "->" | "--"
ID: /"(?:[^"\\]++|\\.)*+"|-?+(?:\.\d++|\d++(?:\.\d*+)?+)(?!\w)|[^\W\d]\w*+/s
MARKUP: /<(?:[^<>]++|<(?:[^<>]++|<[^<>]*+>)*+>)*+>/
%ignore /\s+/
"""
COMMENTS = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)|(?m:^#[^\n]*+)"


def read_dot(source: FileText) -> LatentGraph:
    """The graph in a text of the format DOT."""
    source = without_comments(source, COMMENTS)
    check_depth(source)
    tree = parse(source, GRAMMAR)
    kind = next(t for t in tree.children if getattr(t, "type", None) == "KIND")
    graph = PlainGraph(source, directed=kind.lower() == "digraph")
    _read_body(graph, tree.children[-1], {})
    return graph.finish()


def _read_body(graph: PlainGraph, body: Foreign, defaults: dict[str, str]) -> list[str]:
    """Read the statements of a block; the names of its nodes, each once."""
    found: dict[str, None] = {}
    defaults = dict(defaults)
    for statement in body.children:
        if statement.data == "defaults" and statement.children[0].type == "NODE":
            defaults |= _pairs(graph, statement.children[1])
        elif statement.data == "chain":
            found |= dict.fromkeys(_read_chain(graph, statement, defaults))
    return list(found)


def _read_chain(graph: PlainGraph, chain: Foreign, defaults: dict[str, str]) -> list[str]:
    ends, arrows, told, line = [], [], {}, 1
    for part in chain.children:
        if getattr(part, "type", None) == "ARROW":
            arrows.append(part)
            line = part.line
        elif part.data == "attributes":
            told = _pairs(graph, part)
        elif part.data == "node":
            line = part.children[0].line
            name = _text(part.children[0])
            if name not in graph.names:
                graph.add_node(name, defaults, line)
            ends.append([name])
        else:
            ends.append(_read_body(graph, part.children[-1], defaults))
    for arrow, before, after in zip(arrows, ends, ends[1:], strict=False):
        if (arrow == "->") != graph.directed:
            graph.source.fail(arrow.line, f"a graph of this kind has no edges {arrow}.")
        for a in before:
            for b in after:
                graph.add_edge(a, b, arrow.line)
    if not arrows and len(ends[0]) == 1:
        graph.tell(ends[0][0], told, line)
    return [name for end in ends for name in end]


def _pairs(graph: PlainGraph, attributes: Foreign) -> dict[str, str]:
    """[a=b c] -> {a: b, c: true}; only of what is read here."""
    told = [[_text(token) for token in pair.children] for pair in attributes.children]
    return {key: (*value, "true")[0] for key, *value in told if key in graph.READ}


def _text(token: Foreign) -> str:
    if token.startswith('"'):
        return str(token[1:-1]).replace('\\"', '"').replace("\\\\", "\\")
    return str(token)


def dot_text(graph: LatentGraph, names: tuple[str, ...]) -> str:
    """The graph as a text of the format DOT; `names` as they are written."""
    quoted = ['"' + n.replace("\\", "\\\\").replace('"', '\\"') + '"' for n in names]
    arrow = "->" if graph.directed else "--"
    lines = []
    for v, name in enumerate(quoted):
        told = [f"states={graph.states[v]}"] * (graph.states[v] is not None)
        told += ["latent=true", "style=dashed"] * (v in graph.latent)
        shown = f" [{', '.join(told)}]" if told else ""
        lines.append(f"  {name}{shown};\n")
    lines += [f"  {quoted[a]} {arrow} {quoted[b]};\n" for a, b in graph.edges]
    return f"{'digraph' if graph.directed else 'graph'} {{\n{''.join(lines)}}}\n"

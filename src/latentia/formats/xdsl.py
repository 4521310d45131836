"""XDSL: the files of GeNIe and SMILE. The variable changes fastest, the first parent slowest.

Names there are identifiers: other names are kept in the properties `full_name` and `full_states`,
and a latent has the property `latent`. pyAgrum 3 writes the parents of a table in the reverse
order: files that name it as their author are read so.
"""

from __future__ import annotations

import json

import numpy as np

from latentia.formats.file_text import FileText, read_numbers
from latentia.formats.identifiers import identifiers
from latentia.formats.markup import Element, tagged
from latentia.formats.noisy_max import noisy_max
from latentia.formats.plain_network import Draft, Fill, PlainNetwork, filled
from latentia.typing import Array

CELLS = {  # where the numbers of a node stand
    "cpt": "probabilities",
    "deterministic": "resultingstates",
    "noisymax": "parameters",
}


def read_xdsl(source: FileText, root: Element, normalize: bool = False) -> PlainNetwork:
    """The network below an element smile."""
    if root.tag != "smile":
        source.fail(root.line, f"expected a file of GeNIe, <smile>, got <{root.tag[:40]}>.")
    draft = Draft(source, normalize=normalize)
    nodes = [node for group in root.every("nodes") for node in group.children]
    full = {_identifier(source, node): _property(node, "full_name") for node in nodes}
    reverse = _genie(root, "aGrUM") is not None
    for node in nodes:
        _read_node(draft, node, full, reverse)
    ours = _genie(root, "latentia")  # lists variables in their order; nodes follow their parents
    listed = [] if ours is None else [node.attributes.get("id", "") for node in ours.every("node")]
    names = [full.get(own) or own for own in listed]
    if set(names) == set(draft.states):
        draft.states = {name: draft.states[name] for name in names}
    return draft.finish()


def _genie(root: Element, author: str) -> Element | None:
    """What a tool of this name added for itself, if it wrote the file."""
    added = (g for extensions in root.every("extensions") for g in extensions.every("genie"))
    return next((g for g in added if g.attributes.get("app", "").startswith(author)), None)


def _identifier(source: FileText, node: Element) -> str:
    name = node.attributes.get("id")
    if not name:
        source.fail(node.line, f"expected an id of <{node.tag[:40]}>, got none.")
    return name


def _property(node: Element, name: str) -> str | None:
    found = (p for p in node.every("property") if p.attributes.get("id") == name)
    return next((p.text for p in found), None)


def _read_node(draft: Draft, node: Element, full: dict[str, str | None], reverse: bool) -> None:
    source, own = draft.source, _identifier(draft.source, node)
    if node.tag not in CELLS:
        source.fail(
            node.line,
            f"expected <cpt>, <deterministic> or <noisymax>, got <{node.tag[:40]}> for {own!r}. In "
            "GeNIe, change its type to General; decisions and utilities are not read.",
        )
    name = full[own] or own
    states = _states(source, node, name)
    draft.add_variable(name, states, node.line)
    told = _property(node, "latent")
    if told is not None:
        draft.mark_latent(name, told, node.line)
    given = [p for element in node.every("parents") for p in element.text.split()]
    if len(set(given)) < len(given):
        source.fail(node.line, f"expected different parents of {name!r}, got one twice.")
    above = [full.get(p) or p for p in (given[::-1] if reverse else given)]
    draft.add_table([*above, name], _table(source, node, name), node.line)


def _states(source: FileText, node: Element, name: str) -> list[str]:
    states = [_identifier(source, state) for state in node.every("state")]
    told = _property(node, "full_states")
    if told is None:
        return states
    try:
        full = json.loads(told)
    except (ValueError, RecursionError):
        full = None
    if not (
        isinstance(full, list)
        and len(full) == len(states)
        and all(isinstance(state, str) for state in full)
    ):
        source.fail(
            node.line, f"expected full_states of {name!r} as a list of {len(states)} strings."
        )
    return full


def _table(source: FileText, node: Element, name: str) -> Fill:
    tag = CELLS[node.tag]
    found = list(node.every(tag))
    if len(found) != 1:
        source.fail(node.line, f"expected one <{tag}> of {name!r}, got {len(found)}.")
    line = found[0].line
    if node.tag == "cpt":
        return filled(source, read_numbers(source, found[0].text, line), line)
    if node.tag == "noisymax":
        orders = " ".join(order.text for order in node.every("strengths"))
        strengths, numbers = (read_numbers(source, x, line) for x in (orders, found[0].text))
        return noisy_max(source, strengths, numbers, line)
    own = [state.attributes.get("id") for state in node.every("state")]
    codes = {state: k for k, state in enumerate(own)}
    words = found[0].text.split()
    if not all(word in codes for word in words):
        source.fail(line, f"expected states of {name!r} in <{tag}>, got others.")
    certain: Array = np.eye(len(own))[[codes[word] for word in words]]
    return filled(source, certain.ravel(), line)


def xdsl_text(network: PlainNetwork) -> str:
    """The network as a text of the format XDSL."""
    ids = identifiers(network.states, "v_")
    # a node must come after its parents
    parts = [_node_text(network, ids, scope) for scope in _parents_first(network)]
    shown = "".join(f'<node id="{ids[n]}">{tagged("name", n)}</node>\n' for n in network.states)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<smile version="1.0" id="network">\n<nodes>\n'
        f"{''.join(parts)}</nodes>\n<extensions>\n"
        f'<genie version="1.0" app="latentia" name="network">\n{shown}</genie>\n</extensions>\n'
        "</smile>\n"
    )


def _node_text(network: PlainNetwork, ids: dict[str, str], scope: tuple[str, ...]) -> str:
    name, states = scope[-1], network.states[scope[-1]]
    short = identifiers(states, "s_")
    inner = [f'<state id="{short[state]}" />' for state in states]
    if len(scope) > 1:
        inner.append(tagged("parents", " ".join(ids[p] for p in scope[:-1])))
    numbers = map(repr, network.tables[scope].ravel().tolist())
    inner.append(tagged("probabilities", " ".join(numbers)))
    inner += [tagged("property", "yes", id="latent")] * (name in network.latents)
    if ids[name] != name:
        inner.append(tagged("property", name, id="full_name"))
    if any(short[state] != state for state in states):
        told = json.dumps(states, ensure_ascii=False)
        inner.append(tagged("property", told, id="full_states"))
    return f'<cpt id="{ids[name]}">\n{"".join(f"  {line}{chr(10)}" for line in inner)}</cpt>\n'


def _parents_first(network: PlainNetwork) -> list[tuple[str, ...]]:
    waiting = {scope: len(scope) - 1 for scope in network.tables}
    below: dict[str, list[tuple[str, ...]]] = {name: [] for name in network.states}
    for scope in network.tables:
        for parent in scope[:-1]:
            below[parent].append(scope)
    ready = [scope for scope, count in waiting.items() if count == 0]
    for scope in ready:  # grows
        for other in below[scope[-1]]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    return ready

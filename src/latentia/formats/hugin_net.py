"""NET: the files of Hugin. The variable changes fastest, the first parent slowest.

Nodes have identifiers: other names are kept as the attribute `full_name`; a latent has
`latent = "yes"`.
"""

from __future__ import annotations

import re
from typing import Any

from latentia.errors import FormatError
from latentia.formats.file_text import FileText, read_numbers, without_comments
from latentia.formats.grammars import children, parse, split_words, tokens
from latentia.formats.identifiers import identifiers
from latentia.formats.plain_network import Draft, Fill, PlainNetwork, filled
from latentia.typing import Array

GRAMMAR = r"""
start: (net | node | potential)*
net: "net" "{" attribute* "}"
node: KIND? "node" NAME "{" attribute* "}"
potential: "potential" PARENTHESISED "{" attribute* "}"
attribute: NAME "=" VALUE ";"
KIND: "discrete" | "continuous" | "decision" | "utility" | "function" | "interval" | "boolean"
PARENTHESISED: /\([^(){}";]*+\)/
VALUE.2: /(?:[^";{}=\s]|"[^"]*+")(?:[^";{}=]++|"[^"]*+")*+|\{[^{}";]*+\}/
NAME: /[^\s"(){}|=;,]++/
%ignore /\s+/
"""
COMMENTS = r"%[^\n]*+"
_STRING = re.compile(r'"([^"]*+)"|[^\s"()]++')


def read_net(source: FileText, normalize: bool = False) -> PlainNetwork:
    """The network in a text of the format NET."""
    source = without_comments(source, COMMENTS)
    draft = Draft(source, normalize=normalize)
    tree = parse(source, GRAMMAR)
    full: dict[str, str] = {}
    for block in children(tree, "node"):
        _read_node(draft, block, full)
    for block in children(tree, "potential"):
        _read_potential(draft, block, full)
    return draft.finish()


def _attributes(source: FileText, block: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute in children(block, "attribute"):
        name, value = attribute.children
        if str(name) in found:
            source.fail(name.line, f"expected {name} once, got it twice. Remove one.")
        found[str(name)] = value
    return found


def _read_node(draft: Draft, block: Any, full: dict[str, str]) -> None:
    source, (own,) = draft.source, tokens(block, "NAME")
    kind = next(tokens(block, "KIND"), "discrete")
    if kind != "discrete":
        source.fail(
            own.line,
            f"expected discrete nodes, got a {kind} node, {str(own)!r}. Remove it, or make it "
            "discrete in Hugin.",
        )
    told = _attributes(source, block)
    name = _unquoted(told["full_name"]) if "full_name" in told else str(own)
    listed = told.get("states", told.get("state_values"))
    if listed is None:
        source.fail(own.line, f"expected states of {name!r}, got none.")
    if str(own) in full:
        source.fail(own.line, f"node {str(own)!r} is there twice. Rename or remove one.")
    full[str(own)] = name
    draft.add_variable(name, _strings(source, listed), own.line)
    if "latent" in told:
        draft.mark_latent(name, _unquoted(told["latent"]), told["latent"].line)
    elif "'latents'" in told.get("roles", ""):  # so pgmpy's writer has it
        draft.latents.add(name)


def _strings(source: FileText, value: Any) -> list[str]:
    """`("a" "b")` -> a, b."""
    inner = str(value).strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        source.fail(value.line, f"expected a list in ( ), got {inner[:40]!r}.")
    inner = inner[1:-1]
    if _STRING.sub("", inner).strip():
        source.fail(value.line, f"expected a list of names, got ({inner[:40]}).")
    return [found[1] if found[1] is not None else found[0] for found in _STRING.finditer(inner)]


def _unquoted(value: Any) -> str:
    return str(value).strip().strip('"')


def _read_potential(draft: Draft, block: Any, full: dict[str, str]) -> None:
    source, head = draft.source, block.children[0]
    child, _, above = head[1:-1].partition("|")
    names, given = (split_words(source, part, head.line) for part in (child, above))
    if len(names) != 1:
        source.fail(
            head.line,
            f"expected (variable) or (variable | parents), got {str(head)[:60]!r}. Joint tables "
            "are not read.",
        )
    told = _attributes(source, block)
    if "data" not in told:
        cure = "Let Hugin write the table out." if "model_data" in told else "Add it."
        source.fail(head.line, f"expected data of {names[0]!r}, got none. {cure}")
    scope = [full.get(name, name) for name in (*given, names[0])]
    draft.add_table(scope, _fill(source, told["data"]), head.line)


def _fill(source: FileText, data: Any) -> Fill:
    """Numbers in parentheses: one pair around all of them, or one for every row of every axis."""
    text = str(data)
    flat = filled(
        source, read_numbers(source, text.replace("(", " ").replace(")", " "), data.line), data.line
    )
    marks = "".join(re.findall(r"[()]", text))

    def fill(axes: list[tuple[str, ...]]) -> Array:
        table = flat(axes)
        expected = "()"
        for states in axes[-2::-1]:
            expected = f"({expected * len(states)})"
        if marks not in ("()", expected):
            source.fail(
                data.line,
                f"expected parentheses around every row of each of {len(axes)} axes, or one pair "
                "around all numbers, got others. The last axis is the variable itself.",
            )
        return table

    return fill


# --- writing --------------------------------------------------------------------------------------


def net_text(network: PlainNetwork) -> str:
    """The network as a text of the format NET."""
    ids = identifiers(network.states, "v_")
    parts = ["net\n{\n}\n"]
    for name, states in network.states.items():
        lines = [f"states = ({' '.join(map(_string, states))});"]
        lines += [f"full_name = {_string(name)};"] * (ids[name] != name)
        lines += ['latent = "yes";'] * (name in network.latents)
        parts.append(f"node {ids[name]}\n{{\n{''.join(f'  {x}{chr(10)}' for x in lines)}}}\n")
    for scope, table in network.tables.items():
        *above, child = (ids[name] for name in scope)
        given = f" | {' '.join(above)}" if above else ""
        parts.append(f"potential ({child}{given})\n{{\n  data = {_nested(table)};\n}}\n")
    return "".join(parts)


def _string(text: str) -> str:
    if '"' in text:
        raise FormatError(
            f"names in NET cannot hold quotes, got {text!r}. Rename it, or write .xmlbif."
        )
    return f'"{text}"'


def _nested(table: Array) -> str:
    rows = table.reshape(-1, table.shape[-1]).tolist()
    parts = [f"({' '.join(map(repr, row))})" for row in rows]
    for size in table.shape[-2::-1]:
        groups = (parts[k : k + size] for k in range(0, len(parts), size))
        parts = ["(" + "\n".join(group) + ")" for group in groups]
    return parts[0]

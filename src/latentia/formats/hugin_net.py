"""NET: the files of Hugin. The variable changes fastest, the first parent slowest.

Nodes have identifiers: other names are kept as the attribute `full_name`; a latent has
`latent = "yes"`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

from latentia.errors import FormatError
from latentia.formats.file_text import FileText, read_numbers, without_comments
from latentia.formats.grammars import children, parse, split_words, tokens
from latentia.formats.identifiers import identifiers
from latentia.formats.plain_network import Draft, Fill, PlainNetwork, filled
from latentia.typing import Array, Foreign

_NAME = r'[^\s"(){}|=;,]++'
_VALUE = r'(?:[^";{}=\s]|"[^"]*+")(?:[^";{}=]++|"[^"]*+")*+|\{[^{}";]*+\}'
# Tokens are long, and swallow the blanks behind them: there are six for each variable.
GRAMMAR = rf"""
start: (net | node | potential)*
net: NET ATTRIBUTE* CLOSE
node: BLOCK ATTRIBUTE* CLOSE
potential: POTENTIAL ATTRIBUTE* CLOSE
NET: /net\b\s*+\{{\s*+/
BLOCK: /(?:(?!node\b)[a-z]++\s++)?+node\b\s*+{_NAME}\s*+\{{\s*+/
POTENTIAL: /potential\s*+\([^(){{}}";]*+\)\s*+\{{\s*+/
ATTRIBUTE: /{_NAME}\s*+=\s*+(?:{_VALUE})\s*+;\s*+/
CLOSE: /\}}\s*+/
%ignore /\s+/
"""
COMMENTS = r"%[^\n]*+"
_ATTRIBUTE = re.compile(rf"({_NAME})\s*+=\s*+({_VALUE})")
_NODE = re.compile(rf"(?:(?!node\b)([a-z]++)\s++)?+node\s*+({_NAME})")
_STRING = re.compile(r'"([^"]*+)"|[^\s"()]++')


@final
@dataclass(frozen=True, slots=True)
class _Value:
    """What stands behind = and the line where it begins."""

    text: str
    line: int

    @property
    def unquoted(self) -> str:
        return self.text.strip().strip('"')


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


def _attributes(source: FileText, block: Foreign) -> dict[str, _Value]:
    found: dict[str, _Value] = {}
    for token in tokens(block, "ATTRIBUTE"):
        told = _ATTRIBUTE.match(token)
        assert told is not None  # the token was made of these
        if told[1] in found:
            source.fail(token.line, f"expected {told[1]} once, got it twice. Remove one.")
        found[told[1]] = _Value(told[2], source.line_at(told.start(2), token, token.line))
    return found


def _read_node(draft: Draft, block: Foreign, full: dict[str, str]) -> None:
    source, head = draft.source, block.children[0]
    kind, own = _NODE.findall(head)[0]
    if kind not in ("", "discrete"):
        source.fail(
            head.line,
            f"expected discrete nodes, got a {kind} node, {own!r}. Remove it, or make it discrete "
            "in Hugin.",
        )
    told = _attributes(source, block)
    name = told["full_name"].unquoted if "full_name" in told else own
    listed = told.get("states", told.get("state_values"))
    if listed is None:
        source.fail(head.line, f"expected states of {name!r}, got none.")
    if own in full:
        source.fail(head.line, f"node {own!r} is there twice. Rename or remove one.")
    full[own] = name
    draft.add_variable(name, _strings(source, listed), head.line)
    if "latent" in told:
        draft.mark_latent(name, told["latent"].unquoted, told["latent"].line)
    elif "roles" in told and "'latents'" in told["roles"].text:  # so pgmpy's writer has it
        draft.latents.add(name)


def _strings(source: FileText, value: _Value) -> list[str]:
    """`("a" "b")` -> a, b."""
    inner = value.text.strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        source.fail(value.line, f"expected a list in ( ), got {inner[:40]!r}.")
    inner = inner[1:-1]
    if _STRING.sub("", inner).strip():
        source.fail(value.line, f"expected a list of names, got ({inner[:40]}).")
    return [found[1] if found[1] is not None else found[0] for found in _STRING.finditer(inner)]


def _read_potential(draft: Draft, block: Foreign, full: dict[str, str]) -> None:
    source, head = draft.source, block.children[0]
    inner = head[head.index("(") + 1 : head.index(")")]
    child, _, above = inner.partition("|")
    names, given = (split_words(source, part, head.line) for part in (child, above))
    if len(names) != 1:
        source.fail(
            head.line,
            f"expected (variable) or (variable | parents), got ({inner[:60]}). Joint tables "
            "are not read.",
        )
    told = _attributes(source, block)
    if "data" not in told:
        cure = "Let Hugin write the table out." if "model_data" in told else "Add it."
        source.fail(head.line, f"expected data of {names[0]!r}, got none. {cure}")
    scope = [full.get(name, name) for name in (*given, names[0])]
    draft.add_table(scope, _fill(source, told["data"]), head.line)


def _fill(source: FileText, data: _Value) -> Fill:
    """Numbers in parentheses: one pair around all of them, or one for every row of every axis."""
    text = data.text
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

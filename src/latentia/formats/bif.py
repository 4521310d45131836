"""BIF: the Bayesian interchange format, as bnlearn's repository, pgmpy and pyAgrum have it.

A table stands as rows, `(states of the parents) probabilities;`, or after the word `table`, where
the variable itself changes slowest and the last parent fastest. Rows that are not there are those
of `default`. A latent has the property `latent = yes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

from latentia.errors import FormatError
from latentia.formats.file_text import FileText, read_numbers, without_comments
from latentia.formats.grammars import WORD, children, parse, split_words, tokens
from latentia.formats.plain_network import Draft, Fill, PlainNetwork
from latentia.typing import Array, Foreign

_INNER = r'(?:[^"(){};]++|"[^"\n]*+")*+'
_DIGITS = r"[-+.\deE,\s]"
_LIST = r'(?:[^"{};]++|"[^"\n]*+")*+'
# Tokens are long, and swallow the blanks behind them: there are six for each variable.
GRAMMAR = rf"""
start: network? (variable | probability)*
network: NETWORK PROPERTY* CLOSE
variable: VARIABLE (TYPE | PROPERTY)* CLOSE
probability: PROBABILITY (TABLE | DEFAULT | ROWS | PROPERTY)* CLOSE
NETWORK: /network\b\s*+(?:{WORD})?+\s*+\{{\s*+/
VARIABLE: /variable\b\s*+(?:{WORD})\s*+\{{\s*+/
PROBABILITY: /probability\s*+\({_INNER}\)\s*+\{{\s*+/
CLOSE: /\}}\s*+/
PROPERTY: /property\b(?:[^";]++|"[^"\n]*+")*+"?+[^;]*+;\s*+/
TYPE: /type\s+discrete\s*+\[\s*+\d{{1,9}}\s*+\]\s*+\{{{_LIST}\}}\s*+;\s*+/
TABLE: /table\b{_DIGITS}*+;\s*+/
DEFAULT: /default\b{_DIGITS}*+;\s*+/
ROWS: /(?:\({_INNER}\){_DIGITS}*+;\s*+)++/
%ignore /\s+/
"""
_TYPE = re.compile(r"type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{(.*)\}\s*;\s*", re.DOTALL)
_BAR = re.compile(r'((?:[^"|]|"[^"]*+")*+)(\|?)(.*)', re.DOTALL)
_HEAD = re.compile(r"(?:variable|probability)(.*)\{\s*", re.DOTALL)
COMMENTS = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)"  # one without end takes all
_ROW = re.compile(rf"\(({_INNER})\)([^;]*+);")
_LATENT = re.compile(r'property\s+"?\s*latent\s*=?\s*(\w+)\s*"?\s*;\s*')
_PLAIN = re.compile(rf"(?!.*(?://|/\*))(?:{WORD})\Z")


def read_bif(source: FileText, normalize: bool = False) -> PlainNetwork:
    """The network in a text of the format BIF."""
    source = without_comments(source, COMMENTS)
    draft = Draft(source, normalize=normalize)
    tree = parse(source, GRAMMAR)
    for block in children(tree, "variable"):
        _read_variable(draft, block)
    for block in children(tree, "probability"):
        _read_probability(draft, block)
    return draft.finish()


def _read_variable(draft: Draft, block: Foreign) -> None:
    source, head = draft.source, block.children[0]
    (name,) = split_words(source, _HEAD.findall(head)[0], head.line)
    types = list(tokens(block, "TYPE"))
    if len(types) != 1:
        source.fail(head.line, f"expected one type discrete of {name!r}, got {len(types)}.")
    count, listed = _TYPE.findall(types[0])[0]
    states = split_words(source, listed, types[0].line)
    if len(states) != int(count):
        source.fail(
            types[0].line,
            f"expected {count} states of {name!r}, as declared, got {len(states)}. Correct one.",
        )
    draft.add_variable(name, states, head.line)
    for told in tokens(block, "PROPERTY"):
        found = _LATENT.fullmatch(told)
        if found:
            draft.mark_latent(name, found[1], told.line)


def _read_probability(draft: Draft, block: Foreign) -> None:
    source, head = draft.source, block.children[0]
    inner = _HEAD.findall(head)[0].strip()[1:-1]
    child, bar, above = inner.partition("|")
    if '"' in inner:  # where a bar may be part of a name
        child, bar, above = _BAR.findall(inner)[0]
    names = split_words(source, child, head.line)
    if len(names) != 1:
        source.fail(
            head.line,
            f"expected (variable) or (variable | parents), got ({inner[:60]}). Joint tables "
            "are not read.",
        )
    parents = split_words(source, above, head.line) if bar else []
    draft.add_table([*parents, names[0]], _fill(source, block, len(parents)), head.line)


def _fill(source: FileText, block: Foreign, parents: int) -> Fill:
    """How the table of a block is made, once the states are known."""
    rows, whole, default = (list(tokens(block, kind)) for kind in ("ROWS", "TABLE", "DEFAULT"))
    line = block.children[0].line
    if len(whole) > 1 or len(default) > 1 or (whole and (rows or default)):
        source.fail(line, "expected one table, or rows with at most one default. Remove some.")

    def fill(axes: list[tuple[str, ...]]) -> Array:
        shape = [len(states) for states in axes]
        if whole:
            numbers = _numbers(source, whole[0], math.prod(shape))
            return np.moveaxis(numbers.reshape(shape[-1:] + shape[:-1]), 0, -1)
        table = np.empty((math.prod(shape[:-1]), shape[-1]))
        if default:
            table[:] = _numbers(source, default[0], shape[-1])
        seen: set[int] = set()
        for run in rows:
            places, numbers = _read_rows(source, run, axes)
            before = len(seen)
            seen.update(places)
            if len(seen) < before + len(places):
                source.fail(run.line, "expected every row of a table once, got one twice.")
            table[places] = numbers
        if len(seen) < len(table) and not default:
            _miss(source, line, axes, next(k for k in range(len(table)) if k not in seen))
        return table.reshape(shape)

    return fill


def _numbers(source: FileText, token: Foreign, count: int) -> Array:
    words = token.rstrip()[:-1].removeprefix("table").removeprefix("default")
    found = read_numbers(source, words.replace(",", " "), token.line)
    if found.size != count:
        source.fail(token.line, f"expected {count:,} numbers, got {found.size:,}. Is it cut off?")
    return found


def _read_rows(
    source: FileText, run: Foreign, axes: list[tuple[str, ...]]
) -> tuple[list[int], Array]:
    """Which rows of a table `(states) numbers;` … are, (rows,), and them, (rows, states)."""
    pairs = _ROW.findall(run)
    codes = [{state: k for k, state in enumerate(states)} for states in axes[:-1]]
    width, quoted, places = len(axes[-1]), '"' in run, []
    for row, (given, numbers) in enumerate(pairs):
        words = (
            split_words(source, given, run.line)
            if quoted
            else [w.strip() for w in given.split(",")]
        )
        count = numbers.count(",") + 1
        if count != width and len(numbers.replace(",", " ").split()) != width:
            line = _line_of_row(source, run, row)
            source.fail(
                line,
                f"expected {width} numbers in a row, got {numbers.strip()[:60]!r}. Give one for "
                "each state.",
            )
        place = 0
        try:
            for word, code in zip(words, codes, strict=True):
                place = place * len(code) + code[word]
        except (KeyError, ValueError):
            line = _line_of_row(source, run, row)
            source.fail(
                line,
                f"expected a state of every parent, in order, got ({given[:60]}). Spell them as "
                "declared.",
            )
        places.append(place)
    text = "\n".join([numbers.replace("\n", " ") for _, numbers in pairs]).replace(",", " ")
    found = read_numbers(source, text, run.line)
    if found.size != len(pairs) * width:
        source.fail(run.line, f"expected {width} numbers in every row, got some rows with others.")
    return places, found.reshape(-1, width)


def _line_of_row(source: FileText, run: Foreign, row: int) -> int:
    for k, found in enumerate(_ROW.finditer(run)):
        if k == row:
            return source.line_at(found.start(), run, run.line)
    return int(run.line)


def _miss(source: FileText, line: int, axes: list[tuple[str, ...]], row: int) -> None:
    shape = [len(states) for states in axes[:-1]]
    if not shape:
        source.fail(line, "expected a table of probabilities, got none.")
    where = np.unravel_index(row, shape)
    given = ", ".join(states[k] for states, k in zip(axes, where, strict=False))
    source.fail(line, f"expected a row for every state of the parents, got none for ({given}).")


# --- writing --------------------------------------------------------------------------------------


def bif_text(network: PlainNetwork) -> str:
    """The network as a text of the format BIF."""
    parts = ["network unknown {\n}\n"]
    quoted = {name: _quoted(name) for name in network.states}
    for name, states in network.states.items():
        listed = ", ".join(map(_quoted, states))
        hidden = "  property latent = yes ;\n" * (name in network.latents)
        parts.append(
            f"variable {quoted[name]} {{\n"
            f"  type discrete [ {len(states)} ] {{ {listed} }};\n{hidden}}}\n"
        )
    for scope, table in network.tables.items():
        *above, child = (quoted[name] for name in scope)
        given = f" | {', '.join(above)}" if above else ""
        lines = _row_lines([[_quoted(s) for s in network.states[v]] for v in scope[:-1]], table)
        parts.append(f"probability ( {child}{given} ) {{\n{''.join(lines)}}}\n")
    return "".join(parts)


def _row_lines(states: list[list[str]], table: Array) -> Iterable[str]:
    rows = table.reshape(-1, table.shape[-1]).tolist()
    if not states:
        return [f"  table {', '.join(map(repr, rows[0]))};\n"]
    given = [""]
    for listed in states:
        given = [f"{before}, {state}" if before else state for before in given for state in listed]
    return [f"  ({g}) {', '.join(map(repr, row))};\n" for g, row in zip(given, rows, strict=True)]


def _quoted(name: str) -> str:
    if _PLAIN.match(name) and '"' not in name:
        return name
    if '"' in name:
        raise FormatError(
            f"names in BIF cannot hold quotes, got {name!r}. Rename it, or write .xmlbif."
        )
    return f'"{name}"'

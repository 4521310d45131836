"""Text that follows a grammar, parsed by lark: tables are single tokens, for numpy to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NoReturn

from latentia.errors import MissingLibraryError
from latentia.formats.file_text import FileText
from latentia.typing import Foreign

MOST_BLOCKS = 200_000  # braces of a file: two blocks for each variable
MOST_DEPTH = 50  # of blocks within blocks
WORD = r'"[^"\n]*+"|[^\s"{}()\[\],;|]++'  # a name in quotes or without
_WORD = re.compile(WORD)
_WORDS = re.compile(rf"\s*+(?:(?:{WORD})\s*+(?:,\s*+(?=[^\s,]))?+)*+")

# What the tokens of the grammars mean to a reader of messages.
TOLD = {
    "ID": "a name",
    "NETWORK": "network name {",
    "VARIABLE": "variable name {",
    "PROBABILITY": "probability ( variable | parents ) {",
    "NET": "net {",
    "BLOCK": "node name {",
    "POTENTIAL": "potential ( variable | parents ) {",
    "ATTRIBUTE": "name = value;",
    "CLOSE": "}",
    "TYPE": "type discrete [ number ] { states };",
    "PROPERTY": "property …;",
    "ROWS": "(states) numbers;",
    "TABLE": "table numbers;",
    "DEFAULT": "default numbers;",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "SEMICOLON": ";",
    "COMMA": ",",
    "EQUAL": "=",
    "COLON": ":",
    "$END": "the end of the file",
}


def parse(source: FileText, grammar: str) -> Foreign:
    """The tree of a text (lark's `Tree`, of tokens that know their line); in linear time."""
    if source.text.count("{") > MOST_BLOCKS:
        source.fail(None, f"expected at most {MOST_BLOCKS:,} blocks, got more. Split the network.")
    parser, unexpected_end, unexpected_token, unexpected_letters = _parser(grammar)
    try:
        return parser.parse(source.text)
    except unexpected_end:
        return source.fail(source.text.count("\n") + 1, "the file ends too early. Is it cut off?")
    except unexpected_token as error:
        place = None if error.token.type == "$END" else error.token.start_pos
        return _fail(source, error.accepts or error.expected, place)
    except unexpected_letters as error:
        return _fail(source, error.allowed or (), error.pos_in_stream)


@cache
def _parser(grammar: str) -> tuple[Foreign, Foreign, Foreign, Foreign]:
    try:
        from lark import Lark
        from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken
    except ImportError:
        raise MissingLibraryError(
            "reading this format needs lark, which is not installed: pip install lark"
        ) from None
    parser = Lark(grammar, parser="lalr", lexer="contextual", maybe_placeholders=False)
    return parser, UnexpectedEOF, UnexpectedToken, UnexpectedCharacters


def _fail(source: FileText, expected: Foreign, place: int | None) -> NoReturn:
    words = sorted({TOLD.get(token, token.lower()) for token in expected})
    told = " or ".join(words[:8]) or "something else"
    if place is None:
        line, got = source.text.rstrip().count("\n") + 1, "the end of the file: is it cut off?"
    else:
        line, got = source.line_at(place), repr(source.text[place : place + 40].split("\n")[0])
    cure = "" if place is None else ". Correct it, or let the tool write the file anew."
    source.fail(line, f"expected {told}, got {got}{cure}")


def check_depth(source: FileText) -> None:
    """Refuse blocks that lie too deep within others, where a grammar allows this."""
    depth = 0
    for found in re.finditer(r'"[^"]*+"|([{}])', source.text):
        depth += {"{": 1, "}": -1}.get(found[1], 0)
        if depth > MOST_DEPTH:
            line = source.line_at(found.start())
            source.fail(line, f"expected at most {MOST_DEPTH} blocks within blocks, got more.")


def split_words(source: FileText, text: str, line: int) -> list[str]:
    """Names with commas or spaces between, quotes taken off."""
    found = _WORDS.match(text)
    end = 0 if found is None else found.end()
    if end < len(text):
        bad = text[end:].split("\n", 1)[0].strip()
        source.fail(
            source.line_at(end, text, line), f"expected names with commas, got {bad[:40]!r}."
        )
    if '"' not in text:
        return text.replace(",", " ").split()
    return [word.strip('"') for word in _WORD.findall(text)]


def children(tree: Foreign, kind: str) -> Iterator[Foreign]:
    """The subtrees of a rule's name, directly below."""
    return (below for below in tree.children if getattr(below, "data", None) == kind)


def tokens(tree: Foreign, kind: str) -> Iterator[Foreign]:
    """The tokens of a kind, directly below."""
    return (below for below in tree.children if getattr(below, "type", None) == kind)

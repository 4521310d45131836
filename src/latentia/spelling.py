"""Spelling text that comes from data where people read it: in terminals, pictures and pages.

A name or state may hold anything: escape sequences that clear a screen, newlines, marks that turn
the direction of writing, halves of surrogate pairs, characters that XML forbids even as entities.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latentia.typing import ByName, Cell


MOST_BITS = 2**13  # of whole numbers that Python writes out
LONGEST = 120  # characters of a value in an error
JOINERS = "\u200c\u200d"  # Persian words and many emoji need them, and they move nothing


def printable(value: object, keep: str = "") -> str:
    """What a value prints, with every character that cannot be seen written as in a Python string.

    `keep` lists characters that stay, such as the newlines of a text of ours.

    >>> print(printable("\\x1b[31mred\\n\\u202e<b>\\ud800"))
    \\x1b[31mred\\n\\u202e<b>\\ud800
    >>> printable("naïve 日本語") == "naïve 日本語"
    True
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if _is_seen(c) or c in keep else _escaped(c) for c in text)


def shortened(value: object, most: int = LONGEST) -> str:
    """What Python writes for a value; of long texts and numbers their beginning and end.

    >>> shortened("abc"), shortened(10**100, 12)
    ("'abc'", '100000…000000')
    """
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    text = repr(value)
    half = most // 2
    return text if len(text) <= most + 1 else f"{text[:half]}…{text[-half:]}"


def printable_evidence(evidence: ByName[Cell] | None) -> str:
    """What is known, as titles tell it.

    >>> printable_evidence({"a": 1, "b": "x\\ny"})
    'a=1, b=x\\\\ny'
    """
    pairs = (evidence or {}).items()
    return ", ".join(f"{printable(name)}={printable(value)}" for name, value in pairs)


def _is_seen(character: str) -> bool:
    """Printable, a space of some width, or a joiner within words."""
    return (
        character.isprintable()
        or character in JOINERS
        or unicodedata.category(character) == "Zs"  # but not those of lines and paragraphs
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

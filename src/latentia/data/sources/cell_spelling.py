"""What cells of text spell: nothing, a number, true or false, a state of a known column.

One set of rules for every file of text and for words of the command line:

- A cell that holds one of `MISSING`, blanks around it aside, is missing.
- A column is of integers if every other cell is spelled as an integer is printed: 0, 7, -12. If
  no type of 64 bits, signed or not, holds all of them, all are text.
- It is of true and false if every cell is one of these words, in small, large or first large
  letters.
- It is of decimals if every cell is a number. There 1, 1.0 and 1e0 are one number. But a cell
  without point and exponent that no integer is printed as (01, +5) is a code, and integers that a
  decimal cannot hold (beyond 2^53, most) would fall together: these make a column of text.
- Everything else is text, letter by letter; dates are text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.values import Words, as_objects
from latentia.errors import EvidenceError
from latentia.typing import Cell, CellArray, Foreign

MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "#NA",
    "<NA>",
    "NaN",
    "nan",
    "-NaN",
    "-nan",
    "NULL",
    "null",
)
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")

# Understood alike by Python's and Arrow's regular expressions.
INTEGER = r"^(0|-?[1-9][0-9]*)$"
WHOLE = r"^[+-]?[0-9]+$"  # digits only, however they are spelled
CODE = r"^(\+[0-9]+|-?0[0-9]+)$"  # digits that no integer is printed as
NUMBER = (
    r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
)
SURE = 15  # so many digits every decimal can hold
FEW = 1000  # cells that are looked at first

Cells: TypeAlias = CellArray | Words
Kind: TypeAlias = Literal["integers", "unsigned", "truths", "decimals", "text"]


@final
@dataclass(frozen=True, slots=True)
class CellLook:
    """What the cells of a column may be, as far as they were seen."""

    integers: bool = True  # every cell is spelled as one
    large: bool = False  # some of them are 2^63 or more …
    negative: bool = False  # … some below zero …
    beyond: bool = False  # … and some fit into no 64 bits at all
    truths: bool = True
    decimals: bool = True
    padded: bool = False  # blanks around cells
    seen: bool = False  # any cell that is not missing

    def __add__(self, other: CellLook) -> CellLook:
        return CellLook(
            self.integers and other.integers,
            self.large or other.large,
            self.negative or other.negative,
            self.beyond or other.beyond,
            self.truths and other.truths,
            self.decimals and other.decimals,
            self.padded or other.padded,
            self.seen or other.seen,
        )

    @property
    def kind(self) -> Kind:
        """What the column is of, if these were all of its cells."""
        if not self.seen:
            return "text"
        if self.integers:
            return "text" if self._too_wide else "unsigned" if self.large else "integers"
        return "truths" if self.truths else "decimals" if self.decimals else "text"

    @property
    def _too_wide(self) -> bool:
        """No type of 64 bits holds all integers."""
        return self.beyond or (self.large and self.negative)

    @property
    def settled(self) -> bool:
        """Nothing but text is left, whatever comes."""
        numbers = self.decimals or (self.integers and not self._too_wide)
        return self.seen and not (numbers or self.truths)


def look_at_cells(texts: Foreign, before: CellLook | None = None) -> CellLook:
    """A look at cells of text, an Arrow array; what was ruled out `before` is not looked for.

    >>> import pyarrow as pa
    >>> look_at_cells(pa.array(["1", "NA", "-3"])).kind, look_at_cells(pa.array(["01", "1"])).kind
    ('integers', 'text')
    """
    import pyarrow.compute as pc

    if before is None:
        before = CellLook() if len(texts) <= FEW else look_at_cells(texts[:FEW])
    if before.settled:
        return before
    few = len(pc.unique(texts[:FEW])) < FEW // 2
    cells = pc.unique(texts) if few else texts
    trimmed = pc.utf8_trim_whitespace(cells)
    padded = not pc.all(pc.equal(trimmed, cells)).as_py()
    there = trimmed.filter(pc.invert(spells_missing(trimmed)))
    if not len(there):
        return before + CellLook(padded=padded)
    integers = before.integers and _every(there, INTEGER)
    decimals = integers or (before.decimals and _every(there, NUMBER))
    wide: tuple[bool, bool, bool] = (False, False, False)
    if decimals:
        whole = there if integers else there.filter(pc.match_substring_regex(there, WHOLE))
        long = whole.filter(pc.greater(pc.binary_length(whole), SURE)).to_pylist()
        codes = not integers and pc.any(pc.match_substring_regex(whole, CODE)).as_py()
        negative = integers and bool(pc.any(pc.starts_with(there, "-")).as_py())
        wide = _width([int(text) for text in long], negative)
        decimals = not codes and all(map(_is_exact, long))
    truths = before.truths and bool(pc.all(pc.is_in(there, _words((*TRUE, *FALSE)))).as_py())
    return before + CellLook(integers, *wide, truths, decimals, padded, True)


def _width(long: list[int], negative: bool) -> tuple[bool, bool, bool]:
    """Whether any is 2^63 or more, any is negative, and any fits into no 64 bits."""
    low, high = min(long, default=0), max(long, default=0)
    return high >= 2**63, negative, low < -(2**63) or high >= 2**64


def _every(cells: Foreign, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())


def spells_missing(trimmed: Foreign) -> Foreign:
    """Which cells of an Arrow array of text spell a missing cell; blanks must be cut off."""
    import pyarrow.compute as pc

    return pc.is_in(trimmed, _words(MISSING))


def _words(words: tuple[str, ...]) -> Foreign:
    import pyarrow as pa

    return pa.array(words)


def _is_exact(digits: str) -> bool:
    """Can a decimal hold this integer?"""
    try:
        return int(float(digits)) == int(digits)
    except OverflowError:
        return False


def typed(texts: Foreign, look: CellLook) -> Foreign:
    """Cells of text as an Arrow array of the type that all cells of their column allow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if look.kind == "text":
        return _typed_text(texts, look.padded)
    trimmed = pc.utf8_trim_whitespace(texts) if look.padded else texts
    kept = pc.if_else(spells_missing(trimmed), pa.scalar(None, pa.string()), trimmed)
    match look.kind:
        case "integers":
            return pc.cast(kept, pa.int64())
        case "unsigned":
            return pc.cast(kept, pa.uint64())
        case "truths":
            return pc.cast(pc.utf8_lower(kept), pa.bool_())
        case "decimals":
            return pc.cast(kept, pa.float64())


def _typed_text(texts: Foreign, padded: bool) -> Foreign:
    """A dictionary of the different texts, each looked at once; no index where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    packed = texts.combine_chunks().dictionary_encode()
    words, codes = packed.dictionary, packed.indices
    missing = spells_missing(pc.utf8_trim_whitespace(words) if padded else words)
    if not pc.any(missing).as_py():  # most columns: their cells are not looked at again
        return packed
    kept = pc.if_else(missing.take(codes), pa.scalar(None, codes.type), codes)
    return pa.DictionaryArray.from_arrays(kept, words)


def as_known(column: Column, packed: Foreign) -> Cells:
    """Cells, a dictionary array of text, as the states or numbers of a column that is known.

    Each different text is looked up once; one that is no state, or no number, is left for the model
    to name.
    """
    words = [_meant(column, text) for text in packed.dictionary.to_pylist()]
    return plain_cells(words, packed.indices.to_numpy(zero_copy_only=False))


def _meant(column: Column, text: str) -> Cell:
    """The state or number that a cell means; None: it is missing."""
    missing = text.strip() in MISSING
    if column.continuous:
        found = None if missing else as_float(text)
        return found if found is not None or missing else text
    if missing and text not in column.labels and text.strip() not in column.labels:
        return None
    return find_state(column, text)


def plain_cells(words: list[Cell], codes: CellArray) -> Cells:
    """words[code] for every row, in the plainest array that holds them; None is missing.

    What is neither numbers nor true and false stays words.

    >>> plain_cells([3, None, 5], np.array([0, 1, 2, 0])).tolist()
    [3, None, 5, 3]
    """
    there = [word for word in words if word is not None]
    kinds = {type(word) for word in there}
    found: CellArray
    if kinds == {float}:
        found = np.array([np.nan if word is None else word for word in words])
        return _taken(found, codes)
    whole = _whole_kind(there) if kinds == {int} else None
    if kinds == {bool} or whole is not None:
        found = np.array([0 if word is None else word for word in words], dtype=whole or bool)
        if len(there) < len(words):
            found = np.ma.array(found, mask=[word is None for word in words])
        return _taken(found, codes)
    return Words(as_objects(words), codes)


def _whole_kind(words: list[int]) -> type | None:
    """The type of 64 bits that holds all of these integers."""
    low, high = min(words), max(words)
    if low >= -(2**63) and high < 2**63:
        return np.int64
    return np.uint64 if low >= 0 and high < 2**64 else None


def _taken(values: CellArray, codes: CellArray) -> CellArray:
    taken: CellArray = values[codes]
    return taken


def find_state(column: Column, text: str) -> Cell:
    """The state that `text` means; what is none is left for the model to refuse.

    >>> from latentia.data.columns.discrete import DiscreteColumn
    >>> find_state(DiscreteColumn("G", (1, 2)), "2"), find_state(DiscreteColumn("G", ("2",)), "2")
    (2, '2')
    >>> find_state(DiscreteColumn("G", (False, True)), "true")
    True
    >>> find_state(DiscreteColumn("G", (1, 2)), "3"), find_state(DiscreteColumn("G", (1, 2)), "x")
    (3, 'x')
    """
    number = as_number(text)
    found = [state for state in column.labels if _reads_as(state, text, number)]
    if len(found) > 1:
        listed = " and ".join(repr(state) for state in found)
        raise EvidenceError(
            f"{column.name}={text} could be {listed}: text cannot tell them apart. Ask in Python."
        )
    if found:
        return found[0]
    numeric = all(isinstance(s, int | float) and not isinstance(s, bool) for s in column.labels)
    return number if numeric and number is not None else text


def as_number(text: str) -> int | float | None:
    """The number that a word spells; codes such as 01 spell none.

    >>> as_number("7"), as_number(" 7.0"), as_number("07"), as_number("1_0")
    (7, 7.0, None, None)
    """
    word = text.strip()
    if re.match(INTEGER, word):
        return int(word)
    return None if re.match(CODE, word) else as_float(word)


def as_float(text: str) -> float | None:
    """The same, codes too: in a column of decimals 01 is one.

    >>> as_float("01"), as_float(".5"), as_float("red")
    (1.0, 0.5, None)
    """
    word = text.strip()
    return float(word) if re.match(NUMBER, word) else None


def _reads_as(state: Hashable, text: str, number: float | None) -> bool:
    if isinstance(state, bool):
        return text.strip().lower() == str(state).lower()
    if isinstance(state, int | float):
        return number is not None and number == state
    return str(state) == text

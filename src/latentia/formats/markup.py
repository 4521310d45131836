"""XML, read by expat without entities, within bounds, by elements that know their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from latentia.formats.file_text import FileText
from latentia.typing import Foreign

MOST_DEPTH = 50
MOST_ELEMENTS = 2_000_000


@final
@dataclass(slots=True)
class Element:
    """A tag with its attributes, its text without that of children, and the line it began in."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def every(self, *tags: str) -> Iterator[Element]:
        """The children of these tags."""
        return (child for child in self.children if child.tag in tags)


def read_markup(path: str, data: bytes, encoding: str | None = None) -> tuple[FileText, Element]:
    """The root element; entities, deep nesting and floods of elements are refused."""
    source = FileText(path, "")
    try:
        parser = expat.ParserCreate(encoding)
        reading = _Reading(source, parser)
        parser.Parse(data, True)
    except expat.ExpatError as error:
        source.fail(
            error.lineno,
            f"this is no well-formed XML: {expat.ErrorString(error.code)}. Is the file cut off, or "
            "in another format than its name says?",
        )
    except (LookupError, ValueError) as error:  # encodings that Python does not know, or wide ones
        if type(error).__module__.startswith("latentia"):
            raise
        source.fail(1, f"its encoding is unknown ({error}). Save the file as UTF-8.")
    assert reading.root is not None  # expat refuses an empty file
    return source, reading.root


class _Reading:
    """Handlers of expat; names lose the address of their namespace."""

    def __init__(self, source: FileText, parser: Foreign) -> None:
        self.source, self.parser = source, parser
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = 0
        parser.buffer_text = True
        parser.buffer_size = 1 << 16
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.EntityDeclHandler = self.refuse
        parser.UnparsedEntityDeclHandler = self.refuse
        parser.ExternalEntityRefHandler = self.refuse
        parser.SkippedEntityHandler = self.refuse

    def start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self.count += 1
        if self.count > MOST_ELEMENTS or len(self.open) >= MOST_DEPTH:
            self.source.fail(
                line,
                f"expected at most {MOST_ELEMENTS:,} elements and {MOST_DEPTH} within each other, "
                "got more. No network needs them.",
            )
        found = Element(name.rpartition(":")[2], attributes, line)
        if self.open:
            self.open[-1].children.append(found)
        else:
            self.root = found
        self.open.append(found)

    def end(self, name: str) -> None:
        self.open.pop()

    def characters(self, text: str) -> None:
        self.open[-1].pieces.append(text)

    def refuse(self, *anything: object) -> NoReturn:
        self.source.fail(
            self.parser.CurrentLineNumber,
            "entities are not read: they can make a small file huge, or name other files. Write "
            "the text itself.",
        )


def tagged(tag: str, text: str, **attributes: str) -> str:
    """One element with text, as XML."""
    told = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{tag}{told}>{escape(text)}</{tag}>"

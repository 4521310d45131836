"""XMLBIF 0.3: BIF as XML. The variable changes fastest, the first parent slowest.

A latent has `<PROPERTY>latent = yes</PROPERTY>`.
"""

from __future__ import annotations

import re

from latentia.formats.file_text import FileText, read_numbers
from latentia.formats.markup import Element, tagged
from latentia.formats.plain_network import Draft, PlainNetwork, filled

_LATENT = re.compile(r"\s*latent\s*=?\s*(\w+)\s*")


def read_xmlbif(source: FileText, root: Element, normalize: bool = False) -> PlainNetwork:
    """The network below an element BIF."""
    networks = list(root.every("NETWORK"))
    if root.tag != "BIF" or len(networks) != 1:
        source.fail(
            root.line,
            f"expected one NETWORK within BIF, got {len(networks)} within {root.tag[:40]!r}.",
        )
    draft = Draft(source, normalize=normalize)
    for block in networks[0].every("VARIABLE"):
        _read_variable(draft, block)
    for block in networks[0].every("DEFINITION", "PROBABILITY"):
        _read_definition(draft, block)
    return draft.finish()


def _read_variable(draft: Draft, block: Element) -> None:
    kind = block.attributes.get("TYPE", "nature")
    name = _one(draft.source, block, "NAME")
    if kind != "nature":
        draft.source.fail(
            block.line,
            f"expected variables of TYPE nature, got {kind[:40]!r} of {name!r}. Decisions and "
            "utilities are not read; remove them.",
        )
    draft.add_variable(name, [e.text.strip() for e in block.every("OUTCOME", "VALUE")], block.line)
    for told in block.every("PROPERTY"):
        found = _LATENT.fullmatch(told.text)
        if found:
            draft.mark_latent(name, found[1], told.line)


def _read_definition(draft: Draft, block: Element) -> None:
    source = draft.source
    child = _one(source, block, "FOR")
    scope = [*(given.text.strip() for given in block.every("GIVEN")), child]
    tables = list(block.every("TABLE"))
    if len(tables) != 1 or tables[0].children:
        source.fail(block.line, f"expected one TABLE of numbers of {child!r}, got another thing.")
    numbers = read_numbers(source, tables[0].text, tables[0].line)
    draft.add_table(scope, filled(source, numbers, tables[0].line), block.line)


def _one(source: FileText, block: Element, tag: str) -> str:
    found = list(block.every(tag))
    if len(found) != 1:
        source.fail(block.line, f"expected one {tag} in {block.tag}, got {len(found)}.")
    return found[0].text.strip()


def xmlbif_text(network: PlainNetwork) -> str:
    """The network as a text of the format XMLBIF."""
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n<BIF VERSION="0.3">\n<NETWORK>\n'
        "<NAME>unknown</NAME>\n"
    ]
    for name, states in network.states.items():
        inner = [tagged("NAME", name), *(tagged("OUTCOME", state) for state in states)]
        inner += [tagged("PROPERTY", "latent = yes")] * (name in network.latents)
        parts.append(f'<VARIABLE TYPE="nature">\n{_lines(inner)}</VARIABLE>\n')
    for scope, table in network.tables.items():
        inner = [tagged("FOR", scope[-1]), *(tagged("GIVEN", name) for name in scope[:-1])]
        inner.append(tagged("TABLE", " ".join(map(repr, table.ravel().tolist()))))
        parts.append(f"<DEFINITION>\n{_lines(inner)}</DEFINITION>\n")
    return "".join([*parts, "</NETWORK>\n</BIF>\n"])


def _lines(inner: list[str]) -> str:
    return "".join(f"  {line}\n" for line in inner)

"""One self-contained page: markup, style, scripts and facts in a file, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from functools import cache
from importlib.resources import files

from latentia.errors import LatentiaError
from latentia.typing import Facts
from latentia.whole_file import whole_file

LARGEST = 3_000_000  # bytes of a page
SCRIPTS = (  # each uses only those before it
    "inference.js",
    "dom.js",
    "evidence.js",
    "engine.js",
    "chart.js",
    "cards.js",
    "canvas.js",
    "details.js",
    "tree.js",
    "rows.js",
    "compare.js",
    "check.js",
    "finder.js",
    "app.js",
)
KINDS = {  # of pages
    "model": SCRIPTS,
    "check": ("dom.js", "check.js", "check_page.js"),
    "sequences": ("dom.js", "timeline.js", "sequences.js"),
}


def put_page(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page, unless it is too large to be sent around."""
    page = text.encode("utf-8")
    if len(page) > LARGEST:
        raise LatentiaError(
            f"the page would have {len(page):,} bytes, expected at most {LARGEST:,}. Use "
            "model.explore() without `to`, where Python answers."
        )
    with whole_file(path) as file:
        file.write(page)


def make_page(facts: Facts, kind: str = "model") -> str:
    """The page as text; a policy in its head forbids whatever is not written here."""
    style = page_source("style.css")
    scripts = [page_source(name) for name in KINDS[kind]]
    wired = "\n".join(f"<script>{script}</script>" for script in scripts)
    parts = {
        "policy": policy(scripts, style, server="server" in facts),
        "title": html.escape(str(facts["title"])),
        "style": style,
        "facts": embedded(facts),
        "scripts": wired,
    }
    page = page_source("page.html")
    first, *rest = page.split("{{")  # one walk: what is put in is not looked through again
    return first + "".join(
        parts[name] + after for name, after in (part.split("}}", 1) for part in rest)
    )


def embedded(facts: Facts) -> str:
    """JSON that cannot end the element it stands in, nor a line of a script.

    >>> embedded({"a": "</script>\\u2028"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u2028"}'
    """
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))  # ASCII: \\u2028 is escaped
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def policy(scripts: list[str], style: str, server: bool) -> str:
    """What the page may load: these scripts and this style, by their checksums."""
    allowed = " ".join(map(_checksum, scripts))
    connect = "'self'" if server else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_checksum(style)}; "
        f"connect-src {connect}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _checksum(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def page_source(name: str) -> str:
    """A file of the page as it is shipped."""
    return (files("latentia.explore") / "page" / name).read_text(encoding="utf-8")

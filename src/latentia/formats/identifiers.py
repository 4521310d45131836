"""Identifiers for tools that want them: letters, digits and underscores, none twice."""

from __future__ import annotations

import re
from collections.abc import Iterable

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def identifiers(names: Iterable[str], start: str) -> dict[str, str]:
    """{name: identifier}: names that are identifiers stay, others begin with `start`.

    >>> identifiers(["age", "0", "< 5", "<=5"], "s_")
    {'age': 'age', '0': 's_0', '< 5': 's_5', '<=5': 's_5_2'}
    """
    listed = list(names)
    taken = {name for name in listed if _IDENTIFIER.match(name)}
    found = {}
    for name in listed:
        if name in taken and _IDENTIFIER.match(name):
            found[name] = name
            continue
        stem = start + re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
        fresh, count = stem, 1
        while fresh in taken:
            count += 1
            fresh = f"{stem}_{count}"
        taken.add(fresh)
        found[name] = fresh
    return found

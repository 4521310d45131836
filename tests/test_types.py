"""`Any` stands in `latentia.typing`, under names that say what of the user's comes in."""

import ast
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "latentia"

# What is left, and must not grow: the widths of numpy's integers, fields that are replaced by name,
# and two memories of what was made by whoever asks.
LEFT = {"data": 1, "exact": 2, "inference": 1, "model": 1}


def any_in(code: str) -> int:
    """How often `Any` is written in code, imports and prose apart."""
    if "Any" not in code:
        return 0
    nodes = list(ast.walk(ast.parse(code)))
    quoted = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    names = [n.id for n in nodes if isinstance(n, ast.Name)]
    return names.count("Any") + sum("Any]" in text or "[Any" in text for text in quoted)


def test_any_is_counted() -> None:
    assert any_in("from typing import Any\nx: list[Any]\ndef f(y: Any) -> None: ...") == 2
    assert any_in('T: TypeAlias = "dict[str, Any]"\n"""Any table."""') == 1


def test_any_has_a_name_that_says_what_comes_in() -> None:
    found: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place != Path("typing.py"):
            package = place.parts[0] if len(place.parts) > 1 else ""
            found[package] += any_in(path.read_text(encoding="utf-8"))
    grown = {p: n for p, n in found.items() if n > LEFT.get(p, 0)}
    assert not grown, "tell the type, or take Cell, TableLike, Given, Foreign of latentia.typing"

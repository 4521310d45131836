"""For mkdocstrings: examples in docstrings become code, wherever they stand."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """Blocks that begin with >>> between fences; what stands under Examples is known already."""
    if "Examples\n---" in text:
        return text
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            lines += ["", "```python"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line.strip() if inside and line.lstrip().startswith(">>>") else line)
    return "\n".join(lines + ["```"] * inside)


class Doctests(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

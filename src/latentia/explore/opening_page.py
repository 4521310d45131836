"""`model.explore()`: a page written to a file, or shown by a server on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from latentia.errors import LatentiaError
from latentia.explore.page_file import write_page

OPTIONS = ("rows", "other", "port", "browser", "title")


def explore(model: Any, to: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """Where the page was written, or the server that shows it."""
    odd = sorted(set(options) - set(OPTIONS))
    if odd:
        raise TypeError(f"explore() got {odd[0]!r}, expected any of to, {', '.join(OPTIONS)}.")
    if to is None:
        from latentia.explore.local_server import serve_page

        return serve_page(model, **options)
    served = sorted(set(options) - {"title", "other"})
    if served:
        raise LatentiaError(
            f"{served[0]!r} is for a page that is served; a page in a file answers by itself. "
            "Leave out `to`, or this option."
        )
    if Path(to).suffix.lower() not in (".html", ".htm"):
        raise LatentiaError(
            f"expected the name of a page, such as 'model.html', got {os.fspath(to)!r}."
        )
    write_page(model, to, **options)
    return Path(to)

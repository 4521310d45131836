"""`model.explore()`: a page written to a file, or shown by a server on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, overload

from latentia.errors import LatentiaError
from latentia.explore.writing_pages import write_page, write_sequence_page
from latentia.sequences.sequence_model import SequenceModel
from latentia.typing import FilePath, Given

if TYPE_CHECKING:
    from latentia.explore.local_server import PageServer

SERVED = ("port", "browser")
OF_MODELS = ("title", "rows", "other", "check")
OF_SEQUENCES = ("title", "rows", "steps", "lengths", "given")


@overload
def explore(model: Given, to: None = None, **options: Given) -> PageServer: ...


@overload
def explore(model: Given, to: FilePath, **options: Given) -> Path: ...


def explore(model: Given, to: FilePath | None = None, **options: Given) -> PageServer | Path:
    """Where the page was written, or the server that shows it."""
    chain = isinstance(model, SequenceModel)
    known = (OF_SEQUENCES if chain else OF_MODELS) + SERVED
    odd = sorted(set(options) - set(known))
    if odd:
        raise TypeError(f"explore() got {odd[0]!r}, expected any of to, {', '.join(known)}.")
    if to is None:
        from latentia.explore.local_server import serve_page

        return serve_page(model, **options)
    served = sorted(set(options) & {*SERVED, *(() if chain else ("rows",))})
    if served:
        raise LatentiaError(
            f"{served[0]!r} is for a page that is served; a page in a file answers by itself. "
            "Leave out `to`, or this option."
        )
    if Path(to).suffix.lower() not in (".html", ".htm"):
        raise LatentiaError(
            f"expected the name of a page, such as 'model.html', got {os.fspath(to)!r}."
        )
    if isinstance(model, SequenceModel):
        write_sequence_page(model, to, options.pop("rows", None), **options)
    else:
        write_page(model, to, **options)
    return Path(to)

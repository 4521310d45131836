"""For mkdocs: pages of the explorer inside the docs, made when the site is built."""

from __future__ import annotations

import contextlib
import doctest
import io
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIVE = ("tutorials/nile", "tutorials/berkeley", "checking")  # whose code makes a `page`


def on_post_build(config: Any) -> None:
    """Write live/tumours.html, live/alarm.html and the pages that other docs make."""
    import latentia as lt

    sys.path.insert(0, str(ROOT / "examples"))
    from tumours import tumour_model, tumours

    place = Path(config["site_dir"]) / "live"
    place.mkdir(parents=True, exist_ok=True)
    model = tumour_model(tumours()[0], error_bars=True)
    model.explore(to=place / "tumours.html", title="Breast tumours")
    lt.read(_alarm()).explore(to=place / "alarm.html", title="Alarm")
    for name in LIVE:
        shutil.copyfile(_made(name)["page"], place / f"{Path(name).name}.html")


def _made(name: str) -> dict[str, Any]:
    """All that the code of a page has made, once it has run."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for example in doctest.DocTestParser().get_examples(text):
            exec(example.source, found)
    return found


def _alarm() -> str:
    """The file of the alarm network, as pgmpy ships it."""
    import importlib.util

    found = importlib.util.find_spec("pgmpy")
    assert found is not None, "the docs need pgmpy's networks: pip install 'latentia[docs]'"
    assert found.origin is not None
    return str(Path(found.origin).parent / "utils" / "example_models" / "alarm.bif.gz")

"""For mkdocs: pages of the explorer inside the docs, made when the site is built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def on_post_build(config: Any) -> None:
    """Write live/tumours.html and live/alarm.html into the site."""
    import latentia as lt

    sys.path.insert(0, str(ROOT / "examples"))
    from tumours import tumour_model, tumours

    place = Path(config["site_dir"]) / "live"
    place.mkdir(parents=True, exist_ok=True)
    model = tumour_model(tumours()[0], error_bars=False)
    model.explore(to=place / "tumours.html", title="Breast tumours")
    lt.read(_alarm()).explore(to=place / "alarm.html", title="Alarm")


def _alarm() -> str:
    """The file of the alarm network, as pgmpy ships it."""
    import importlib.util

    found = importlib.util.find_spec("pgmpy")
    assert found is not None, "the docs need pgmpy's networks: pip install 'latentia[docs]'"
    assert found.origin is not None
    return str(Path(found.origin).parent / "utils" / "example_models" / "alarm.bif.gz")

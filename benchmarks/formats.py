"""Reading networks: latentia.read against pyAgrum's reader; process time.

Run: python benchmarks/formats.py. Needs pyagrum and the BIF files of pgmpy.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import latentia as lt

NETWORKS = [
    "asia",
    "alarm",
    "hailfinder",
    "hepar2",
    "andes",
    "pigs",
    "link",
    "munin",
    "munin2",
    "barley",
    "mildew",
    "diabetes",
]
FORMATS = ("bif", "bifxml", "net")  # that pyAgrum reads as they are meant


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--networks", nargs="*", default=NETWORKS)
    given = asked.parse_args()
    warnings.simplefilter("ignore")  # pyagrum warns while it loads
    gum: Any = importlib.import_module("pyagrum")
    spec = importlib.util.find_spec("pgmpy")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "utils" / "example_models"
    print("milliseconds, best of 7; tables: read and checked; model: with its junction tree")
    print("network        cells format    tables    model  pyAgrum  ratios")
    with tempfile.TemporaryDirectory() as place:
        for name in given.networks:
            text = gzip.decompress((folder / f"{name}.bif.gz").read_bytes())
            (Path(place) / "x.bif").write_bytes(text)
            model = lt.read(Path(place) / "x.bif")
            cells = sum(table.size for table in model.tables.values())
            for ending in FORMATS:
                path = Path(place) / f"x.{ending}"
                if ending != "bif":
                    lt.write(model, path)
                tables = _best(lambda path=path: lt.read(path, graph_only=True))
                whole = _best(lambda path=path: lt.read(path))
                theirs = _best(lambda path=path: gum.loadBN(str(path)))
                shown = " ".join(f"{seconds * 1e3:8.1f}" for seconds in (tables, whole, theirs))
                ratios = f"{tables / theirs:6.2f} {whole / theirs:6.2f}"
                print(f"{name:11} {cells:8,} {ending:7} {shown} {ratios}", flush=True)


def _best(work: Callable[[], object], times: int = 7) -> float:
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
        if sum(found) > 3:
            break
    return min(found)


if __name__ == "__main__":
    main()

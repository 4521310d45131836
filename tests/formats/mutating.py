"""Mutated files of every format: a clear error of ours, or a sound network, never anything else.

The long form: `python -m tests.formats.mutating --cases 10000`; one case: `--only 7`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from tests.formats.samples import ENDINGS, odd_model, plain_model

import latentia as lt
from latentia.errors import FormatError, LatentiaError, PlanError

ALL = [*ENDINGS, "dot", "graphml", "uai.names"]
PIECES = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "|",
    "=",
    '"',
    "'",
    "<",
    ">",
    "</",
    "/>",
    "&",
    "&amp;",
    "&x;",
    "%",
    "//",
    "/*",
    "*/",
    "#",
    "->",
    "--",
    "]]>",
    "<![CDATA[",
    "<!--",
    "0",
    "1",
    "-1",
    "2.5",
    "1e9",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "999999999",
    "1000000000",
    "99999999999999999999",
    "1_0",
    "0x1",
    "٣",
    "\\",
    "\x00",
    "\x1b",
    "\n",
    "variable",
    "probability",
    "type",
    "discrete",
    "table",
    "default",
    "property",
    "latent=yes",
    "latent=maybe",
    "node",
    "states",
    "potential",
    "data",
    "BAYES",
    "MARKOV",
    "graph",
    "digraph",
    "subgraph",
    "strict",
    "edge",
    "true",
    "false",
    "null",
    "NaN",
]


@cache
def originals() -> tuple[tuple[str, bytes], ...]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in (odd_model(), plain_model("tree"), plain_model("undirected")):
            for ending in ALL:
                path = Path(folder) / f"x.{ending}"
                if not model.graph.directed and ending not in (
                    "uai",
                    "uai.names",
                    "dot",
                    "graphml",
                ):
                    continue
                lt.write(model, path.with_suffix("") if ending == "uai.names" else path)
                found.append((ending, path.read_bytes()))
    return tuple(found)


def mutated(data: bytes, random: Random) -> bytes:
    """One to four changes: bytes, spans, lines, words, cuts."""
    for _ in range(random.choice([1, 1, 2, 4])):
        a, b = sorted(random.randrange(len(data) + 1) for _ in range(2))
        near = min(b, a + random.randrange(1, 40))
        piece = random.choice(PIECES).encode() * random.choice([1, 1, 1, 3, 200])
        lines = data.split(b"\n")
        k = random.randrange(len(lines))
        data = random.choice(
            [
                data[:a],
                data[a:],
                data[:a] + data[near:],
                data[:a] + piece + data[a:],
                data[:a] + piece + data[near:],
                data[:a] + data[a:near] * random.choice([2, 50]) + data[near:],
                data[:a] + bytes(random.randrange(256) for _ in range(3)) + data[near:],
                b"\n".join(lines[:k] + lines[k + 1 :]),
                b"\n".join([*lines[:k], lines[k], lines[k], *lines[k + 1 :]]),
                b"\n".join([*lines[:k], random.choice(lines), *lines[k + 1 :]]),
                data.replace(random.choice(data.split() or [b" "]), piece.strip() or b" "),
                data.swapcase() if random.random() < 0.05 else data[:near] + data[a:],
            ]
        )[:1_000_000]
    return data


def case(number: int, folder: Path) -> str:
    """What came of a case; anything but an error of ours or a sound network is raised."""
    random = Random(number)
    ending, data = random.choice(originals())
    path = folder / f"x.{ending}"
    path.write_bytes(mutated(data, random))
    if ending == "uai.names":
        path = folder / "x.uai"
        path.write_bytes(next(text for kind, text in originals() if kind == "uai"))
    try:
        found = lt.read(path, normalize=random.random() < 0.3)
    except LatentiaError as error:
        if not isinstance(error, FormatError | PlanError):
            raise
        if path.name not in str(error) and not isinstance(error, PlanError):
            raise AssertionError(f"no file is named: {error}") from error
        return f"{ending}: error"
    finally:
        for left in folder.iterdir():
            left.unlink()
    if isinstance(found, lt.TabularModel):
        for table in found.cpts.values():
            assert np.isfinite(table).all()
            assert (table >= 0).all()
            if found.graph.directed:
                np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-12)
    return f"{ending}: sound"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--cases", type=int, default=10_000)
    asked.add_argument("--only", type=int)
    given = asked.parse_args()
    came, longest = Counter[str](), (0.0, -1)
    with tempfile.TemporaryDirectory() as folder:
        numbers = range(given.cases) if given.only is None else [given.only]
        for number in numbers:
            began = time.process_time()
            try:
                came[case(number, Path(folder))] += 1
            except Exception as error:
                came[f"FINDING {type(error).__name__}"] += 1
                print(f"case {number}: {error!r:.300}", flush=True)
            longest = max(longest, (time.process_time() - began, number))
    for what, count in sorted(came.items()):
        print(f"{count:7,} {what}")
    print(f"the longest took {longest[0]:.2f} s, case {longest[1]}")


if __name__ == "__main__":
    main()

"""The command line: random arguments, broken tables; exit codes 0 to 3 and one sentence."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from typer.testing import CliRunner

from latentia.cli.application import application as app

from .evidence import models
from .files import folder
from .trial import Finding

HEADERS = [
    "a,b,e",
    "a,b",
    "a,a,b",
    "",
    "a",
    "a,b,c,d,e",
    "\ufeffa,b",
    "a;b;c",
    '"a","b"',
    "x,y",
    "a,b,u,v",
    "a,,b",
    ",",
    "a,b,H",
]
CELLS = [
    "lo",
    "hi",
    "0",
    "1",
    "2",
    "",
    "NA",
    "nan",
    "inf",
    "1e400",
    "-1",
    "true",
    "True",
    '"',
    '"a,b"',
    "\x00",
    "é",
    "\udcff",
    "x" * 300,
    "0x1",
    "1,5",
    " 1",
    "2020-01-01",
]
WORDS = [
    "a",
    "b",
    "e",
    "u",
    "H",
    "zz",
    "",
    "-",
    "--",
    "a=lo",
    "b=1",
    "u=1.5",
    "u=0..3",
    "u=..",
    "e=9",
    "=",
    "a=",
    "=1",
    "a=lo=hi",
    "b=0:.2,1:.8",
    "b=0:x",
    "b=:",
    "H=2",
    "H=x",
    "H",
    "2",
    "-1",
    "1e9",
    "a=continuous",
    "b=discrete",
    "a->b",
    "H->a,b",
    "H->a; H->b",
    "a->a",
    "a->b; b->a",
    "@nothing",
    "@graph.json",
    "pbp",
    "em",
    "odd",
    "restarts=1",
    "max_iter=x",
    "refine=true",
    "{}",
    "[]",
    "null",
]
OPTIONS = [
    "--latents",
    "--states",
    "--kinds",
    "--graph",
    "--learner",
    "--set",
    "--weights",
    "--state-names",
    "--given",
    "--soft",
    "--target",
    "--quantiles",
    "--out",
    "-n",
    "--seed",
    "--map",
    "--proba",
    "--rows",
    "--json",
    "--quiet",
    "--debug",
    "--odd",
    "-x",
]
FLAGS = ["--json", "--quiet", "--json", "-q"]
TAKES = {
    "plan": ["--latents", "--states", "--kinds"],
    "fit": ["--latents", "--kinds", "--graph", "--learner", "--set", "--weights", "--state-names"],
    "query": ["--given", "--soft", "--given"],
    "predict": ["--quantiles", "--out"],
    "score": ["--weights"],
    "sample": ["--seed", "--out"],
}
NAMES = [
    "plan",
    "fit",
    "query",
    "query",
    "predict",
    "score",
    "sample",
    "inspect",
    "check",
    "odd",
    "--help",
    "--version",
    "",
]


@cache
def place() -> Path:
    """A folder with two models and a graph."""
    here = folder()[1]
    models()[0].save(here / "m.latentia")
    models()[9].save(here / "mixed.latentia")
    (here / "graph.json").write_text('{"edges": [["H", "a"], ["H", "b"]], "latents": {"H": 2}}')
    return here


def broken(r: Random) -> bytes:
    lines = [r.choice(HEADERS)]
    width = lines[0].count(",") + 1
    odd = CELLS if r.random() < 0.5 else CELLS[:6]
    for _ in range(r.choice([0, 1, 3, 20])):
        k = width if r.random() < 0.9 else r.randint(0, 6)
        lines.append(",".join(r.choice(odd) for _ in range(k)))
    text = r.choice(["\n", "\n", "\r\n", "\r"]).join(lines).encode("utf-8", "surrogateescape")
    way = r.random()
    if way < 0.05:
        return gzip.compress(text)
    if way < 0.1:
        return bytes(r.getrandbits(8) for _ in range(r.randint(0, 40)))
    return text if way < 0.9 else text.decode("utf-8", "replace").encode("utf-16")


def arguments(r: Random) -> list[str]:
    here = place()
    name = r.choice(NAMES)
    table = here / r.choice(["t.csv", "t.csv", "t.csv", "t.csv.gz", "t.parquet", "none.csv"])
    if table.name != "none.csv":
        table.write_bytes(broken(r))
    model = str(
        here / r.choice(["m.latentia", "m.latentia", "mixed.latentia", "none.latentia", "t.csv"])
    )
    word = lambda: r.choice(WORDS).replace("@graph", f"@{here}/graph")  # noqa: E731
    usual: dict[str, list[str]] = {
        "plan": [r.choice(["H->a,b,c", word()]), "--latents", "H=2", "--states", "2"],
        "fit": [
            str(table),
            "--out",
            str(here / "new.latentia"),
            "--graph",
            r.choice(["H->a,b", "H->a", word()]),
            "--latents",
            "H=2",
        ],
        "query": [
            model,
            r.choice(["a", "b", "u", word()]),
            *(["--given", word()] if r.random() < 0.7 else []),
        ],
        "predict": [model, str(table), "--target", r.choice(["a", "b", "u", word()])],
        "score": [model, str(table)],
        "check": [model, str(table)],
        "sample": [model, "-n", r.choice(["1", "3", "0", "x"])],
        "inspect": [model],
    }
    args = [name, *(usual.get(name, []) if r.random() < 0.9 else [])]
    for _ in range(r.choice([0, 0, 1, 2])):
        extra = r.choice(FLAGS + TAKES.get(name, []) if r.random() < 0.9 else OPTIONS)
        args += [extra] if (extra in FLAGS) != (r.random() < 0.05) else [extra, word()]
        if args[-2] == "--out" and r.random() < 0.7:
            args[-1] = str(here / r.choice(["o.csv", "o.parquet", "o.odd", "no/o.csv"]))
    if r.random() < 0.03:
        r.shuffle(args)
    fine = {"--debug"}  # shows where an error came from: a traceback on purpose
    return [a for a in args if a not in fine and "\x00" not in a]


def case(r: Random) -> str:
    args = arguments(r)
    before = os.getcwd()
    os.chdir(place())  # outputs named by chance must not land elsewhere
    try:
        result = CliRunner().invoke(
            app, args, input=r.choice(["", "a,b\nlo,1\n"]), prog_name="latentia"
        )
    finally:
        os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in (0, 1, 2, 3):
        raise Finding(f"exit code {result.exit_code} of {args}")
    said: Any = result.stderr
    if (
        "a mistake of ours" in said
        or "Traceback" in said
        or (result.exit_code in (1, 3) and "latentia: " not in said)
    ):
        raise Finding(f"{args} said {said[:300]!r}")
    if (
        result.exit_code == 0
        and "--json" in args
        and "--help" not in args
        and args[0] not in ("--help", "--version")
    ):
        json.loads(result.stdout, parse_constant=_no_constant)
    return f"exit {result.exit_code}"


def _no_constant(word: str) -> None:
    raise Finding(f"{word} in a JSON document")

"""How far from the limit: every step from text to posterior, against its floor, in one table.

Run: python benchmarks/limits.py [--only ROW …] [--quick]
ROW: text, start, plan, estep, wide, online, answers, closed, classifier, cores, outside.
Codes of text are the seconds of a fit, or of predict_proba, less those of the same on ready codes:
a small difference of large numbers, zero where noise is larger.
Seconds are those of the processor (this process, all threads; one core unless "cores" says
otherwise), the best of a few runs. A floor is what nobody can do without: reading the codes once, a
bare interpreter, the matrix products alone; where there is none, a rival or the figure of before.
*outside* compares whole default fits with StepMix (ten starts), hmmlearn (times ten) and the
`reference_em`; pgmpy and pyAgrum take minutes to hours a fit and stand in `rivals.py`.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import latentia as lt
from latentia.linear_algebra import one_thread

QUICK = False


@dataclass(frozen=True)
class Line:
    """One line of the table; `bar` is a ratio, or seconds where there is no floor."""

    what: str
    ours: float
    floor: float | None
    unit: str
    bar: float | None
    more: bool = False  # more is better: rows a second, times faster

    def told(self) -> list[str]:
        ratio = None if self.floor is None else self.ours / self.floor
        judged = self.ours if ratio is None else ratio
        met = None if self.bar is None else judged >= self.bar if self.more else judged <= self.bar
        word = "" if met is None else "met" if met else "MISSED"
        sign = "≥" if self.more else "≤"
        return [
            self.what,
            f"{self.ours:.3g} {self.unit}",
            "–" if self.floor is None else f"{self.floor:.3g} {self.unit}",
            "–" if ratio is None else f"{ratio:.3g}",
            "" if self.bar is None else f"{sign} {self.bar:g}",
            word,
        ]


def seconds(call: Callable[[], Any], repeats: int = 3) -> float:
    """Least processor seconds of a few calls."""
    found = []
    for _ in range(1 if QUICK else repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def cores(count: int) -> None:
    """Let this process use so many cores."""
    os.sched_setaffinity(0, sorted(ALL_CORES)[-count:])


ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}


# --- text -----------------------------------------------------------------------------------------


def text() -> Iterator[Line]:
    """Codes of ten text columns, in fit and in predict, against factorize or dictionary_encode."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    n = 10**5 if QUICK else 10**6
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "grey", "white"])
    h = rng.integers(5, size=n)
    codes = [np.where(rng.random(n) < 0.6, h, rng.integers(5, size=n)) for _ in range(10)]
    plain = pd.DataFrame({f"x{i}": words[c] for i, c in enumerate(codes)})
    arrow = pa.Table.from_pandas(plain, preserve_index=False)
    enum = pl.Enum(words.tolist())

    def factorize(frame: pd.DataFrame) -> None:
        for name in frame:
            pd.factorize(frame[name])

    def encode(table: pa.Table) -> None:
        for column in table.columns:
            column.dictionary_encode()

    strings = arrow.cast(pa.schema([(name, pa.string()) for name in arrow.column_names]))
    frames: dict[str, tuple[Any, Callable[[], None]]] = {
        "pandas str": (plain, lambda: factorize(plain)),
        "pandas object": (own := plain.astype(object), lambda: factorize(own)),
        "pandas category": (plain.astype("category"), lambda: encode(strings)),
        "polars String": (pl.from_arrow(arrow), lambda: encode(strings)),
        "polars Categorical": (
            pl.from_arrow(arrow).with_columns(pl.all().cast(pl.Categorical)),
            lambda: encode(strings),
        ),
        "polars Enum": (
            pl.from_arrow(arrow).with_columns(pl.all().cast(enum)),
            lambda: encode(strings),
        ),
        "Arrow string": (strings, lambda: encode(strings)),
        "Arrow dictionary": (
            pa.table({c: strings[c].dictionary_encode() for c in strings.column_names}),
            lambda: encode(strings),
        ),
    }
    graph = "H->" + ",".join(plain.columns)
    model = lt.LatentModel(graph, {"H": 5}, learner=lt.PBP(refine=False)).fit(plain)
    ready = pd.DataFrame({name: c.astype(np.int8) for name, c in zip(plain, codes, strict=True)})
    coded = lt.LatentModel(graph, {"H": 5}, learner=lt.PBP(refine=False))
    bare_fit = seconds(lambda: coded.fit(ready))
    bare_ask = seconds(lambda: coded.predict_proba(ready, "x0"))
    for kind, (frame, floor) in frames.items():
        least = seconds(floor)
        fit = seconds(lambda frame=frame: model.fit(frame)) - bare_fit
        yield Line(f"codes of text, fit, {kind}", max(fit, 0.0), least, "s", 2.0)
        ask = seconds(lambda frame=frame: model.predict_proba(frame, "x0")) - bare_ask
        yield Line(f"codes of text, predict, {kind}", max(ask, 0.0), least, "s", 2.0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.csv")
        plain.to_csv(path, index=False)

        def read() -> None:
            encode(pa_csv.read_csv(path))

        fit = seconds(lambda: model.fit(path)) - bare_fit
        yield Line("codes of text, fit, CSV", max(fit, 0.0), seconds(read), "s", 2.0)


# --- start ----------------------------------------------------------------------------------------


def start() -> Iterator[Line]:
    """Processor seconds of fresh processes, compiled modules in place."""
    rng = np.random.default_rng(0)
    h = rng.integers(3, size=2000)
    rows = {c: np.where(rng.random(2000) < 0.7, h, rng.integers(3, size=2000)) for c in "xyz"}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "m.latentia")
        lt.LatentModel("H->x,y,z", {"H": 3}).fit(rows).save(path)
        bare = _process(["-c", "pass"])
        yield Line("import latentia", _process(["-c", "import latentia"]) - bare, None, "s", 0.1)
        yield Line("latentia --help", _process(["-m", "latentia", "--help"]), None, "s", 0.3)
        asked = ["-m", "latentia", "query", path, "x"]
        yield Line("latentia query m.latentia x", _process(asked), None, "s", 0.6)


def _process(words: list[str]) -> float:
    """Least of a few, after one that compiles what is imported."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *words],
                env={**kept, "PYTHONPYCACHEPREFIX": folder},
                check=True,
                stdout=subprocess.DEVNULL,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])


# --- plan -----------------------------------------------------------------------------------------


def plan() -> Iterator[Line]:
    """Star, chain, random tree of 5,000, ladder of 1,000: seconds, and slopes from a quarter."""
    pairs = {"star": (1250, 5000), "chain": (1250, 5000), "tree": (1250, 5000)}
    pairs["ladder"] = (1000, 4000)  # smaller ones are planned as a whole, which has another slope
    for kind, (few, many) in pairs.items():
        found = {
            n: seconds(lambda n=n, k=kind: lt.make_plan(_graph(k, n)), 2)
            for n in (few // 5 if QUICK else few, many // 5 if QUICK else many)
        }
        judged = list(found)[0 if kind == "ladder" else 1]
        yield Line(f"plan: {kind} of {judged:,}", found[judged], None, "s", 2.0)
        slope = float(np.diff(np.log(list(found.values())))[0] / np.log(4))
        yield Line(f"plan: {kind}, slope to {max(found):,}", slope, None, "", 1.15)
    columns = 500 if QUICK else 5000
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=100)
    rows = {f"X{i}": np.where(rng.random(100) < 0.7, h, 1 - h) for i in range(columns)}
    model = lt.LatentModel("H->" + ",".join(rows), {"H": 2})
    yield Line(f"fit of 100 × {columns:,}", seconds(lambda: model.fit(rows), 1), None, "s", 20.0)


def _graph(kind: str, n: int) -> lt.LatentGraph:
    from latentia.structure.templates import hidden_markov, latent_class

    rng = np.random.default_rng(0)
    if kind == "star":
        graph = latent_class(n, 2)
    elif kind == "chain":
        graph = hidden_markov(n // 2, 2)
    elif kind == "tree":
        edges = [(f"H{rng.integers(i)}", f"H{i}") for i in range(1, n // 3)]
        edges += [(f"H{i}", f"X{i}_{j}") for i in range(n // 3) for j in range(2)]
        graph = lt.as_graph(edges, {f"H{i}": 2 for i in range(n // 3)})
    else:
        half = n // 4
        edges = [(f"{a}{i}", f"{a}{i + 1}") for a in "AB" for i in range(half - 1)]
        edges += [(f"A{i}", f"B{i}") for i in range(half)]
        edges += [(f"{a}{i}", f"{a}x{i}") for a in "AB" for i in range(half)]
        graph = lt.as_graph(edges, {f"{a}{i}": 2 for a in "AB" for i in range(half)})
    return graph.with_states({graph.names[v]: 4 for v in graph.observed})


# --- answers, closed form, classifier, cores ------------------------------------------------------


def _chain(rank: int, n: int) -> tuple[Any, dict[str, Any]]:
    import engine

    truth = engine.chain(16, rank)
    rows = engine.sample(truth, n)
    return truth, {
        str(truth.graph.names[v]): c for v, c in zip(truth.graph.observed, rows.codes, strict=True)
    }


PASSES: Any = ("M rows/s", None, True)
ISSUE_PASS = 12.6  # M rows/s: that of the machine on which bars and prototypes were measured


def bare_pass(codes: list[Any]) -> float:
    """Millions of rows a second of look-ups and products alone, by numpy: tells machines apart."""
    n, table = len(codes[0]), np.random.default_rng(0).random((16, 4, 4))

    def bare() -> None:
        for first in range(0, n, 2**13):
            total = np.ones((4, min(2**13, n - first)))
            for own, c in zip(table, codes, strict=True):
                total *= own.take(c[first : first + 2**13], axis=1)

    return n / seconds(bare) / 1e6


def answers() -> Iterator[Line]:
    """Millions of rows a second, against one pass of table look-ups over the same codes."""
    n = 10**5 if QUICK else 10**6
    truth, rows = _chain(4, n)
    model = lt.LatentModel(truth.graph, learner=lt.PBP(refine=False)).fit(rows)
    yield Line("a bare pass over 10⁶ × 16", bare_pass(list(rows.values())), None, *PASSES)
    asked = n / seconds(lambda: model.predict_proba(rows, "X8")) / 1e6
    yield Line("predict_proba on 10⁶ × 16", asked, None, "M rows/s", 8.0, more=True)
    asked = n / seconds(lambda: model.score_samples(rows)) / 1e6
    yield Line("score on 10⁶ × 16", asked, None, "M rows/s", 6.0, more=True)


def closed() -> Iterator[Line]:
    """Against what it took before: 2.3, 9.3 and 20 s; three times less is asked for."""
    from latentia.data.rows import Rows
    from latentia.data.sources.memory import LocalRows

    for what, rank, learner, before in (
        ("closed form, rank 8", 8, lt.PBP(refine=False), 2.3),
        ("closed form, rank 16", 16, lt.PBP(refine=False), 9.3),
        ("PBP(), rank 8", 8, lt.PBP(), 20.0),
    ):
        n = 10**4 if QUICK else 10**5
        truth, rows = _chain(rank, n)
        made = lt.make_plan(truth.graph)
        source = LocalRows(Rows(tuple(rows.values())), threads=1)
        took = seconds(lambda p=made, s=source, own=learner: own.learn(p, s), 2)
        yield Line(f"{what}, {n:,} rows", took, None if QUICK else before, "s", 0.333)


def classifier() -> Iterator[Line]:
    """2,400 rows of six numbers and six words, two classes."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def draw(n: int, seed: int) -> tuple[pd.DataFrame, Any]:
        rng = np.random.default_rng(seed)
        y, h = rng.integers(2, size=n), rng.integers(3, size=n)
        numbers = {f"x{i}": rng.normal(size=n) + (0.5 * y if i < 3 else 0.7 * h) for i in range(6)}
        noise = rng.integers(3, size=(6, n)) * (rng.random((6, n)) < 0.5)
        words = {f"c{i}": np.array(list("abcd"))[(y + h + noise[i]) % 4] for i in range(6)}
        return pd.DataFrame(numbers | words), y

    def loss(model: Any) -> float:
        return -float(np.log(model.predict_proba(X_new)[np.arange(len(y_new)), y_new]).mean())

    (X, y), (X_new, y_new) = draw(2400, 0), draw(4000, 1)
    ours, spread = (
        lt.LatentClassifier(),
        make_column_transformer(
            (OneHotEncoder(), [f"c{i}" for i in range(6)]),
            (StandardScaler(), [f"x{i}" for i in range(6)]),
        ),
    )
    rival = make_pipeline(spread, LogisticRegression())
    floor, took = seconds(lambda: rival.fit(X, y)), seconds(lambda: ours.fit(X, y), 2)
    yield Line("LatentClassifier().fit, 2,400 × 12 mixed", took, None, "s", 0.5)
    yield Line("… beside logistic regression", took, floor, "s", None)
    yield Line("… its log loss beside that", loss(ours), loss(rival), "nats", None)


def two_cores() -> Iterator[Line]:
    """Seconds of the clock on one core over those on two, the least of a few that take turns.

    What two processes gain that share nothing is the most that a machine gives: 2, or less where
    cores share caches, memory and a clock with each other and with neighbours.
    """
    n = 10**5 if QUICK else 10**6
    truth, rows = _chain(4, n)
    works: dict[str, Callable[[], Any]] = {}
    model = lt.LatentModel(truth.graph, learner=lt.PBP(refine=False)).fit(rows)
    works["fit"] = lambda: model.fit(rows)
    works["predict_proba"] = lambda: model.predict_proba(rows, "X8")
    climb = lt.LatentModel(truth.graph, learner=lt.EM(restarts=1, max_iter=10, random_state=0))
    works["ten E-steps, with reading"] = lambda: climb.fit(rows)
    for what, work in works.items():
        work()  # all is loaded, and memory is there
        least = {1: float("inf"), 2: float("inf")}
        for _ in range(1 if QUICK else 4):
            for count in least:
                cores(count)
                begun = time.perf_counter()
                work()
                least[count] = min(least[count], time.perf_counter() - begun)
        gain = least[1] / least[2]
        yield Line(f"two cores: {what}, 10⁶ rows", gain, None, "×", 1.7, more=True)
        if hasattr(os, "fork"):
            apart = 2 * least[1] / _beside_another(work)
            yield Line("… against two processes that share nothing", gain, apart, "×", 0.85, True)
    cores(1)


def _beside_another(work: Callable[[], Any]) -> float:
    """Least seconds of the clock while another process does the same on another core."""
    first, *others = sorted(ALL_CORES)
    child = os.fork()
    if not child:
        os.sched_setaffinity(0, others[:1])
        while True:
            work()
    os.sched_setaffinity(0, {first})
    try:
        work()
        found = []
        for _ in range(1 if QUICK else 4):
            begun = time.perf_counter()
            work()
            found.append(time.perf_counter() - begun)
        return min(found)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


ROWS: dict[str, Callable[[], Iterator[Line]]] = {
    "text": text,
    "start": start,
    "plan": plan,
    "answers": answers,
    "closed": closed,
    "classifier": classifier,
    "cores": two_cores,
}


def main() -> None:
    global QUICK
    from limits_learning import MORE

    every = {**ROWS, **MORE}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=every, default=list(every))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, once each")
    given = parser.parse_args()
    QUICK = given.quick
    warnings.simplefilter("ignore")
    cores(1)
    print("| what | ours | floor, rival or before | ratio | bar | |\n|---|---|---|---|---|---|")
    with one_thread():
        for row in given.only:
            for line in every[row]():
                print("| " + " | ".join(line.told()) + " |", flush=True)


if __name__ == "__main__":
    import limits  # the module that `limits_learning` knows: one QUICK for both

    limits.main()

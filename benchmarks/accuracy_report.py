"""The tables and the plot of benchmarks/accuracy.py: medians, worst models, ratios, bars.

Results of single fits are many; their summary, one line for each cell and learner, is kept beside
this file (accuracy.csv). All tables and the plot are made from the summary alone.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

ORDER = (
    "marginal",
    "closed",
    "default",
    "unknown",
    "refined",
    "EM10",
    "EM10 prior",
    "long EM",
    "spectral",
    "stepwise",
)
DRAWS = 2000
MARK = "<!-- figures: written by benchmarks/accuracy.py -->\n"


@dataclass(frozen=True)
class Figures:
    """One learner in one cell. Ratios are medians over the models that both learners have.

    NaN (an empty field in the file) where there is nothing to compare.
    """

    models: int
    failed: int
    kl: float = math.nan  # weighted by P(evidence): median …
    worst: float = math.nan  # … and of the worst model
    uniform: float = math.nan  # KL uniform over evidence: median
    seconds: float = math.nan
    passes: float = math.nan
    over_em10: float = math.nan  # KL over that of EM10 …
    over_em10_low: float = math.nan  # … and a bootstrap interval of its median (90 %)
    over_em10_high: float = math.nan
    worst_over_em10: float = math.nan  # the worst KL of each, over the models that both have
    faster_than_em10: float = math.nan  # EM10's seconds over its own
    over_marginal: float = math.nan
    over_default: float = math.nan
    over_long_em: float = math.nan
    fewer_passes_than_long_em: float = math.nan


Summary = Mapping[str, Mapping[str, Figures]]  # cell -> learner, all of ORDER


# --- the summary ----------------------------------------------------------------------------------


def summarise(lines: list[dict[str, Any]]) -> Summary:
    """From results of single fits, one dict each."""
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    failed: dict[tuple[str, str], int] = defaultdict(int)
    for line in lines:
        if "failed" in line:
            failed[line["cell"], line["learner"]] += 1
        else:
            found[line["cell"]][line["learner"]][line["seed"]] = line
    return {
        name: {learner: _figures(cell, learner, failed[name, learner]) for learner in ORDER}
        for name, cell in found.items()
    }


def _figures(cell: Mapping[str, dict[int, dict[str, Any]]], learner: str, failed: int) -> Figures:
    own = cell[learner]
    if not own:
        return Figures(0, failed)

    def median(what: str) -> float:
        return float(np.median([result[what] for result in own.values()]))

    middle, low, high = _interval(_ratios(cell, learner, "EM10"))
    shared = own.keys() & cell["EM10"].keys()
    worst = [max((cell[k][s]["kl_weighted"] for s in shared), default=1) for k in (learner, "EM10")]
    return Figures(
        models=len(own),
        failed=failed,
        kl=median("kl_weighted"),
        worst=max(result["kl_weighted"] for result in own.values()),
        uniform=median("kl_uniform"),
        seconds=median("seconds"),
        passes=median("passes"),
        over_em10=middle,
        over_em10_low=low,
        over_em10_high=high,
        worst_over_em10=worst[0] / worst[1] if shared else math.nan,
        faster_than_em10=_middle(_ratios(cell, "EM10", learner, "seconds")),
        over_marginal=_middle(_ratios(cell, learner, "marginal")),
        over_default=_middle(_ratios(cell, learner, "default")),
        over_long_em=_middle(_ratios(cell, learner, "long EM")),
        fewer_passes_than_long_em=_middle(_ratios(cell, "long EM", learner, "passes")),
    )


def _ratios(cell: Mapping[str, Any], one: str, other: str, what: str = "kl_weighted") -> Any:
    """One learner's figure over another's, model by model; those over nothing are left out."""
    seeds = sorted(cell[one].keys() & cell[other].keys())
    pairs = [(cell[one][s][what], cell[other][s][what]) for s in seeds]
    return np.array([a / b for a, b in pairs if b > 0])


def _middle(x: Any) -> float:
    return float(np.median(x)) if len(x) else math.nan


def _interval(x: Any) -> tuple[float, float, float]:
    """Median, and a bootstrap interval of it (90 %)."""
    if not len(x):
        return math.nan, math.nan, math.nan
    rng = np.random.default_rng(0)
    medians = np.median(x[rng.integers(len(x), size=(DRAWS, len(x)))], axis=1)
    low, high = np.quantile(medians, [0.05, 0.95])
    return float(np.median(x)), float(low), float(high)


def write_summary(found: Summary, path: Path) -> None:
    """One line for each cell and learner that was run."""
    names = [field.name for field in fields(Figures)]
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["cell", "learner", *names])
        for cell in sorted(found, key=_key):
            for learner, figures in found[cell].items():
                if figures.models or figures.failed:
                    told = (_told(x) for x in asdict(figures).values())
                    out.writerow([cell, learner, *told])


def _told(x: float) -> str:
    return "" if math.isnan(x) else f"{x:.10g}"


def read_summary(path: Path) -> Summary:
    """What `write_summary` wrote; learners that were not run have no models."""
    kinds: dict[str, Callable[[str], Any]] = {
        field.name: int if field.type == "int" else lambda text: float(text or "nan")
        for field in fields(Figures)
    }
    found: dict[str, dict[str, Figures]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            cell = found.setdefault(line["cell"], {name: Figures(0, 0) for name in ORDER})
            cell[line["learner"]] = Figures(**{name: kinds[name](line[name]) for name in kinds})
    return found


# --- tables ---------------------------------------------------------------------------------------


def table(found: Summary) -> list[str]:
    """KL weighted by P(evidence): median / worst, and the default's ratios."""
    head = ["cell", "models", *ORDER, "default / EM10 (90 %)", "EM10 s / default s", "closed"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in sorted(found, key=_key):
        cell = found[name]
        own = cell["default"]
        line = [name, str(own.models)]
        for learner in ORDER:
            x = cell[learner]
            line.append(f"{_short(x.kl)} / {_short(x.worst)}" if x.models else "–")
        if not math.isnan(own.over_em10):
            low, high = own.over_em10_low, own.over_em10_high
            line.append(f"{own.over_em10:.2f} ({low:.2f}–{high:.2f})")
            line += [f"{cell[k].faster_than_em10:.0f}" for k in ("default", "closed")]
        line += ["–"] * (len(head) - len(line))
        rows.append("| " + " | ".join(line) + " |")
    return rows


def uniform(found: Summary) -> list[str]:
    head = ["cell", *ORDER]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in sorted(found, key=_key):
        own = [found[name][learner] for learner in ORDER]
        shown = [_short(x.uniform) if x.models else "–" for x in own]
        rows.append("| " + " | ".join([name, *shown]) + " |")
    return rows


def counts(found: Summary) -> list[str]:
    """How many models of each cell every learner has seen: fewest–most over the cells."""
    sizes = sorted({_key(name)[0] for name in found})
    rows = ["| rows | " + " | ".join(ORDER) + " |", "|" + "---|" * (1 + len(ORDER))]
    for n in sizes:
        cells = [cell for name, cell in found.items() if _key(name)[0] == n]
        seen = [[cell[learner].models for cell in cells] for learner in ORDER]
        shown = [f"{min(x)}–{max(x)}" if min(x) < max(x) else str(max(x) or "–") for x in seen]
        rows.append("| " + " | ".join([str(n), *shown]) + " |")
    return rows


def bars(found: Summary) -> list[str]:
    """Every bar: met, or missed by how much and where."""
    cells = {
        name: found[name]
        for name in sorted(found, key=_key)
        if not math.isnan(found[name]["default"].over_em10)
    }

    def at(learner: str, what: str, where: Callable[[int, str], bool]) -> dict[str, float]:
        """A figure of a learner in the cells `where` (rows, kind of tables) holds."""
        picked = {
            name: float(getattr(cell[learner], what))
            for name, cell in cells.items()
            if where(int(name.split()[2]), name.split()[1])
        }
        return {name: x for name, x in picked.items() if not math.isnan(x)}

    def every(rows: int, kind: str) -> bool:
        return True

    def large(rows: int, kind: str) -> bool:
        return rows >= 1000

    lines = [
        _bar(
            "default / EM10 at most 1.0 in 90 % of the cells",
            at("default", "over_em10", every),
            1.0,
            allowed=0.1,
        ),
        _bar("default / EM10 at most 1.1 in every cell", at("default", "over_em10", every), 1.1),
        _bar(
            "worst model at most 1.25 × EM10's worst", at("default", "worst_over_em10", every), 1.25
        ),
        _bar(
            "half of the marginal's KL from 1,000 rows", at("default", "over_marginal", large), 0.5
        ),
        _bar("a tenth at 10,000", at("default", "over_marginal", lambda n, _: n == 10_000), 0.1),
        _bar(
            "15 × faster than EM10 from 1,000 rows",
            at("default", "faster_than_em10", large),
            15,
            least=True,
        ),
        f"| 50 × faster in the median cell | "
        f"{_middle(list(at('default', 'faster_than_em10', large).values())):.0f} × |",
    ]
    if any(cell["long EM"].models for cell in cells.values()):
        long, passes = "over_long_em", "fewer_passes_than_long_em"
        lines += [
            _bar("default / long EM at most 1.1 at 10,000", at("default", long, every), 1.1),
            _bar("50 × fewer passes than long EM", at("default", passes, every), 50, least=True),
        ]
    lines += [
        _bar(
            "numbers of states unknown: at most 1.2 × the KL with them",
            at("unknown", "over_default", every),
            1.2,
        ),
        _bar(
            "closed form 100 × faster from 10,000 rows",
            at("closed", "faster_than_em10", lambda n, _: n >= 10_000),
            100,
            least=True,
        ),
        _bar(
            "closed form / EM10 at most 1 at 100,000, ordinary",
            at("closed", "over_em10", lambda n, kind: n >= 100_000 and kind == "ordinary"),
            1.0,
        ),
        _bar(
            "closed form / EM10 at most 2 at 10,000, ordinary",
            at("closed", "over_em10", lambda n, kind: n == 10_000 and kind == "ordinary"),
            2.0,
        ),
    ]
    return ["| bar | result |", "|---|---|", *lines]


def _bar(
    what: str, figures: dict[str, float], limit: float, least: bool = False, allowed: float = 0.0
) -> str:
    missed = {n: x for n, x in figures.items() if (x < limit if least else x > limit)}
    if not figures:
        return f"| {what} | not run |"
    if len(missed) <= allowed * len(figures):
        return f"| {what} | **met** ({len(figures) - len(missed)} of {len(figures)} cells) |"
    listed = ", ".join(f"{n} {x:.2f}" if x < 10 else f"{n} {x:.0f}" for n, x in missed.items())
    return f"| {what} | missed in {len(missed)} of {len(figures)} cells: {listed} |"


def _key(name: str) -> tuple[int, str]:
    structure, kind, rows = name.split()
    return int(rows), f"{structure} {kind}"


def _short(x: float) -> str:
    return f"{x:.4f}".lstrip("0") if x < 1 else f"{x:.2f}"


def tables(found: Summary) -> str:
    """All tables of docs/accuracy.md."""
    parts = [
        "## Bars",
        *bars(found),
        "",
        "## Models a cell",
        *counts(found),
        "",
        "## KL weighted by P(evidence): median / worst model",
        "Ratios are paired by model: their median, and a bootstrap interval of it. Speeds are",
        "ratios of processor seconds, EM10's over ours, without planning.",
        "",
        *table(found),
        "",
        "## KL uniform over evidence: median",
        "",
        *uniform(found),
    ]
    return "\n".join(parts) + "\n"


# --- the plot and the page ------------------------------------------------------------------------

# After Okabe and Ito, with marks of their own: told apart in grey print, too.
LOOKS = {
    "marginal": ("#888888", "s", ":"),
    "closed": ("#56b4e9", "^", "--"),
    "default": ("#0072b2", "o", "-"),
    "EM10": ("#d55e00", "D", "-."),
    "spectral": ("#009e73", "x", ":"),
}


def plot(found: Summary, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "latentia"
    import matplotlib.pyplot as plt

    kinds = sorted({" ".join(n.split()[:2]) for n in found})
    figure, axes = plt.subplots(
        2, (len(kinds) + 1) // 2, figsize=(16, 6.5), sharex=True, layout="constrained"
    )
    for axis, kind in zip(axes.T.ravel(), kinds, strict=False):
        for learner, (colour, mark, line) in LOOKS.items():
            sizes = sorted(int(n.split()[2]) for n in found if n.startswith(kind + " "))
            seen = [(n, found[f"{kind} {n}"][learner]) for n in sizes]
            points = [(n, x.kl) for n, x in seen if x.models]
            if points:
                axis.plot(
                    *zip(*points, strict=True),
                    color=colour,
                    marker=mark,
                    linestyle=line,
                    label=learner,
                    markersize=5,
                )
        axis.set(xscale="log", yscale="log", title=kind)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    figure.supxlabel("rows")
    figure.supylabel("median KL, weighted by P(evidence)")
    figure.savefig(path, metadata={"Date": None})


def write_page(found: Summary, docs: Path) -> None:
    """docs/accuracy.svg, and the tables below the mark of docs/accuracy.md."""
    path = docs / "accuracy.md"
    before = path.read_text(encoding="utf-8").split(MARK)[0] if path.exists() else ""
    path.write_text(before + MARK + tables(found), encoding="utf-8")
    plot(found, docs / "accuracy.svg")

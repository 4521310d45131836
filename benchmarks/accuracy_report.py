"""The table and the plot of benchmarks/accuracy.py: medians, worst models, ratios, bars."""

from __future__ import annotations

from collections import defaultdict
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

Results = dict[str, dict[str, dict[int, dict[str, Any]]]]  # cell -> learner -> seed -> result


def gather(lines: list[dict[str, Any]]) -> Results:
    found: Results = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        if "failed" not in line:
            found[line["cell"]][line["learner"]][line["seed"]] = line
    return found


def ratios(cell: dict[str, Any], one: str, other: str, what: str = "kl_weighted") -> Any:
    seeds = sorted(cell[one].keys() & cell[other].keys())
    return np.array([cell[one][s][what] / max(cell[other][s][what], 1e-12) for s in seeds])


def interval(x: Any) -> tuple[float, float, float]:
    """Median, and a bootstrap interval of it (90 %)."""
    rng = np.random.default_rng(0)
    medians = np.median(x[rng.integers(len(x), size=(DRAWS, len(x)))], axis=1)
    return float(np.median(x)), *(float(q) for q in np.quantile(medians, [0.05, 0.95]))


def values(cell: dict[str, Any], learner: str, what: str) -> Any:
    return np.array([r[what] for r in cell[learner].values()])


def table(found: Results) -> list[str]:
    """KL weighted by P(evidence): median / worst, and the default's ratios."""
    head = ["cell", "models", *ORDER, "default / EM10 (90 %)", "EM10 s / default s", "closed"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in sorted(found, key=_key):
        cell = found[name]
        line = [name, str(len(cell["default"]))]
        for learner in ORDER:
            kl = values(cell, learner, "kl_weighted")
            line.append(f"{_short(np.median(kl))} / {_short(kl.max())}" if len(kl) else "–")
        both = ratios(cell, "default", "EM10")
        if len(both):
            line.append("{:.2f} ({:.2f}–{:.2f})".format(*interval(both)))
            for learner in ("default", "closed"):
                line.append(f"{np.median(1 / ratios(cell, learner, 'EM10', 'seconds')):.0f}")
        line += ["–"] * (len(head) - len(line))
        rows.append("| " + " | ".join(line) + " |")
    return rows


def uniform(found: Results) -> list[str]:
    head = ["cell", *ORDER]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in sorted(found, key=_key):
        kl = [values(found[name], learner, "kl_uniform") for learner in ORDER]
        shown = [_short(np.median(x)) if len(x) else "–" for x in kl]
        rows.append("| " + " | ".join([name, *shown]) + " |")
    return rows


def counts(found: Results) -> list[str]:
    """How many models of each cell every learner has seen: fewest–most over the cells."""
    sizes = sorted({_key(name)[0] for name in found})
    rows = ["| rows | " + " | ".join(ORDER) + " |", "|" + "---|" * (1 + len(ORDER))]
    for n in sizes:
        cells = [cell for name, cell in found.items() if _key(name)[0] == n]
        seen = [[len(cell[learner]) for cell in cells] for learner in ORDER]
        shown = [f"{min(x)}–{max(x)}" if min(x) < max(x) else str(max(x) or "–") for x in seen]
        rows.append("| " + " | ".join([str(n), *shown]) + " |")
    return rows


def bars(found: Results) -> list[str]:
    """Every bar: met, or missed by how much and where."""
    ordered = sorted(found.items(), key=lambda x: _key(x[0]))
    cells = {n: c for n, c in ordered if c["EM10"].keys() & c["default"].keys()}
    rows_of = {n: int(n.split()[2]) for n in cells}
    default = {n: float(np.median(ratios(c, "default", "EM10"))) for n, c in cells.items()}
    worst = {
        n: _worst(c, "default", "EM10") / _worst(c, "EM10", "default") for n, c in cells.items()
    }
    share = {n: float(np.median(ratios(c, "default", "marginal"))) for n, c in cells.items()}
    speed = {
        n: float(np.median(1 / ratios(c, "default", "EM10", "seconds"))) for n, c in cells.items()
    }
    closed_speed = {
        n: float(np.median(1 / ratios(c, "closed", "EM10", "seconds"))) for n, c in cells.items()
    }
    closed = {n: float(np.median(ratios(c, "closed", "EM10"))) for n, c in cells.items()}
    large = {n for n in cells if rows_of[n] >= 1000}
    lines = [
        _bar("default / EM10 at most 1.0 in 90 % of the cells", default, 1.0, allowed=0.1),
        _bar("default / EM10 at most 1.1 in every cell", default, 1.1),
        _bar("worst model at most 1.25 × EM10's worst", worst, 1.25),
        _bar("half of the marginal's KL from 1,000 rows", _at(share, large), 0.5),
        _bar("a tenth at 10,000", {n: x for n, x in share.items() if rows_of[n] == 10_000}, 0.1),
        _bar("15 × faster than EM10 from 1,000 rows", _at(speed, large), 15, least=True),
        f"| 50 × faster in the median cell | {_median(_at(speed, large)):.0f} × |",
    ]
    long = {n: c for n, c in cells.items() if c["long EM"]}
    if long:
        ratio = {n: float(np.median(ratios(c, "default", "long EM"))) for n, c in long.items()}
        passes = {
            n: float(np.median(1 / ratios(c, "default", "long EM", "passes")))
            for n, c in long.items()
        }
        lines.append(_bar("default / long EM at most 1.1 at 10,000", ratio, 1.1))
        lines.append(_bar("50 × fewer passes than long EM", passes, 50, least=True))
    unknown = {
        n: float(np.median(ratios(c, "unknown", "default")))
        for n, c in cells.items()
        if c["unknown"]
    }
    lines.append(_bar("numbers of states unknown: at most 1.2 × the KL with them", unknown, 1.2))
    many = {n for n in cells if rows_of[n] >= 10_000}
    plain = {n for n in cells if "ordinary" in n}
    most = {n for n in plain if rows_of[n] >= 100_000}
    lines += [
        _bar("closed form 100 × faster from 10,000 rows", _at(closed_speed, many), 100, least=True),
        _bar("closed form / EM10 at most 1 at 100,000, ordinary", _at(closed, most), 1.0),
        _bar(
            "closed form / EM10 at most 2 at 10,000, ordinary",
            {n: closed[n] for n in plain if rows_of[n] == 10_000},
            2.0,
        ),
    ]
    return ["| bar | result |", "|---|---|", *lines]


def _worst(cell: dict[str, Any], one: str, other: str) -> float:
    """The largest KL of a learner over the models that both have."""
    return max(cell[one][s]["kl_weighted"] for s in cell[one].keys() & cell[other].keys())


def _at(figures: dict[str, float], names: set[str]) -> dict[str, float]:
    return {n: x for n, x in figures.items() if n in names}


def _median(figures: dict[str, float]) -> float:
    return float(np.median(list(figures.values()))) if figures else float("nan")


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


# After Okabe and Ito, with marks of their own: told apart in grey print, too.
LOOKS = {
    "marginal": ("#888888", "s", ":"),
    "closed": ("#56b4e9", "^", "--"),
    "default": ("#0072b2", "o", "-"),
    "EM10": ("#d55e00", "D", "-."),
    "spectral": ("#009e73", "x", ":"),
}


def plot(found: Results, path: Path) -> None:
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
            points = [
                (n, np.median(kl))
                for n in sizes
                if len(kl := values(found[f"{kind} {n}"], learner, "kl_weighted"))
            ]
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


def write_report(lines: list[dict[str, Any]], docs: Path) -> str:
    """docs/accuracy.svg and the tables, between the marks of docs/accuracy.md."""
    found = gather(lines)
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
    text = "\n".join(parts) + "\n"
    path = docs / "accuracy.md"
    mark = "<!-- figures: written by benchmarks/accuracy.py -->\n"
    before = path.read_text(encoding="utf-8").split(mark)[0] if path.exists() else ""
    path.write_text(before + mark + text, encoding="utf-8")
    plot(found, docs / "accuracy.svg")
    return text

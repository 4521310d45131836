"""The report: tables, figures, the CSV behind them, settings, versions and the machine."""

from __future__ import annotations

import csv
import html
import io
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import final

import numpy as np

from latentia.reproduce.cells import Cell, Experiment, Figure, Result, Settings
from latentia.reproduce.rivals import RIVALS
from latentia.typing import Foreign
from latentia.version import LIBRARY


@final
@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of words: one line for each learner, one column for each number of rows."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """One experiment that has been run."""

    experiment: Experiment
    settings: Mapping[str, object]
    learners: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(r.cell.variant for r in self.results))

    @property
    def sizes(self) -> list[int]:
        return sorted({r.cell.size for r in self.results})

    def values(self, metric: str, variant: str, learner: str, size: int) -> list[float]:
        """What was measured in the repetitions of one kind of cell."""
        found = (
            r.metrics[metric]
            for r in self.results
            if (r.cell.variant, r.cell.learner, r.cell.size) == (variant, learner, size)
        )
        return [v for v in found if not math.isnan(v)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return low, middle, high


# --- tables ---------------------------------------------------------------------------------------


def sheets(outcome: Outcome) -> list[Sheet]:
    """Median [quartiles] of each metric by learner and number of rows."""
    found = []
    for figure in outcome.experiment.figures:
        for variant in outcome.variants:
            lines = []
            for learner in outcome.learners:
                cells = [
                    _told(outcome.values(figure.metric, variant, learner, size), figure.digits)
                    for size in outcome.sizes
                ]
                if any(cells):
                    lines.append((RIVALS[learner].label, *cells))
            title = f"{figure.title}: {figure.label}" + (f" ({variant})" if variant else "")
            head = ("median [quartiles]", *(f"N = {size:,}" for size in outcome.sizes))
            if lines:
                found.append(Sheet(title, head, tuple(lines)))
    return found


def _told(values: Sequence[float], digits: str) -> str:
    if not values:
        return ""
    low, middle, high = (f"{v:{digits}}" for v in quartiles(values))
    return middle if len(values) < 2 else f"{middle} [{low}, {high}]"


MOST_BESIDE = 4  # panels of a figure in a row

# --- figures --------------------------------------------------------------------------------------


def draw_figure(outcome: Outcome, figure: Figure) -> str:
    """Medians over N with bars from quartile to quartile, as SVG text."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 10}):
        panels = [v for v in outcome.variants if _any(outcome, figure, v)]
        rows = -(-len(panels) // MOST_BESIDE)
        beside = -(-len(panels) // rows)
        canvas = Canvas(figsize=(4.6 * beside + 1.9, 3.9 * rows), layout="constrained")
        FigureCanvasSVG(canvas)
        axes = np.atleast_1d(canvas.subplots(rows, beside, sharey=True)).ravel()
        for panel, variant in zip(axes, panels, strict=False):
            _panel(panel, outcome, figure, variant)
        for panel in axes[::beside]:
            panel.set_ylabel(figure.label)
        for spare in axes[len(panels) :]:
            spare.set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside right center", frameon=False)
        return as_svg(canvas, f"{outcome.experiment.name}-{figure.metric}")


def as_svg(canvas: Foreign, name: str) -> str:
    """A matplotlib figure as SVG text, the same on every run; names within it begin with `name`."""
    from matplotlib import rc_context

    look: Foreign = {
        "svg.fonttype": "none",  # text stays text: searched, read aloud, scaled
        "svg.hashsalt": name,
        "font.sans-serif": ["DejaVu Sans"],
    }
    buffer = io.StringIO()
    with rc_context(look):
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "latentia"})
    text = buffer.getvalue()
    start, end = text.index("<metadata>"), text.index("</metadata>") + len("</metadata>")
    return text[text.index("<svg") : start] + text[end:].lstrip()  # who made it is in the report


def _any(outcome: Outcome, figure: Figure, variant: str) -> bool:
    return any(
        outcome.values(figure.metric, variant, learner, size)
        for learner in outcome.learners
        for size in outcome.sizes
    )


def _panel(panel: Foreign, outcome: Outcome, figure: Figure, variant: str) -> None:
    """One learner beside the next, so that bars do not hide each other."""
    count = len(outcome.learners)
    gaps = np.diff(np.log(outcome.sizes))
    aside = 0.12 * float(gaps.min(initial=2.3)) / count  # on the log axis
    for i, learner in enumerate(outcome.learners):
        rival = RIVALS[learner]
        spread = {s: outcome.values(figure.metric, variant, learner, s) for s in outcome.sizes}
        told = [(size, *quartiles(values)) for size, values in spread.items() if values]
        if not told:
            continue
        size, low, middle, high = (np.array(x) for x in zip(*told, strict=True))
        panel.errorbar(
            size * np.exp(aside * (i - (count - 1) / 2)),
            middle,
            yerr=[middle - low, high - middle],
            label=rival.label,
            color=rival.colour,
            marker=rival.marker or None,
            linestyle=rival.line,
            linewidth=1.5,
            markersize=5.5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            capsize=2,
            elinewidth=0.9,
        )
    panel.set_xscale("log")
    if figure.log:
        panel.set_yscale("log")
    panel.set_xlabel("rows to learn from, N")
    panel.set_title(variant or figure.title, fontsize=10.5)
    panel.grid(True, which="major", color="#dddddd", linewidth=0.7)
    panel.set_axisbelow(True)
    if len(outcome.sizes) <= 6:
        panel.set_xticks(outcome.sizes, [f"{s:,}" for s in outcome.sizes])
        panel.minorticks_off()
    margin = np.exp(max(aside * count, 0.05 * float(gaps.sum())))  # also where one size was run
    panel.set_xlim(min(outcome.sizes) / margin, max(outcome.sizes) * margin)


# --- files ----------------------------------------------------------------------------------------


def write_csv(outcome: Outcome, path: Path) -> None:
    """Every cell and what was measured in it; an empty field where a metric does not apply."""
    metrics = list(dict.fromkeys(name for r in outcome.results for name in r.metrics))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["variant", "learner", "rows", "repetition", *metrics])
        for result in outcome.results:
            cell: Cell = result.cell
            values = [result.metrics[name] for name in metrics]
            shown = ["" if math.isnan(v) else f"{v:.6g}" for v in values]
            writer.writerow([cell.variant, cell.learner, cell.size, cell.repetition, *shown])


def surroundings(command: str) -> dict[str, str]:
    """What the numbers, and above all the seconds, depend on besides the settings."""
    facts = {"command": command, "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}
    facts["latentia"] = LIBRARY
    facts["Python"] = platform.python_version()
    for library in ("numpy", "scipy", "scikit-learn", "matplotlib"):
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            continue
    facts["system"] = f"{platform.system()} {platform.machine()}"
    facts["processor"] = f"{_processor()}, {os.cpu_count()} cores"
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


STYLE = """
body{font:16px/1.5 Helvetica,Arial,sans-serif;color:#1a1a1a}
body{max-width:62em;margin:2em auto;padding:0 1em}
h1{font-size:1.7em}h2{margin-top:2.2em;border-bottom:1px solid #ccc}
figure{margin:1.2em 0;overflow-x:auto}figure svg{max-width:100%;height:auto}
figcaption,.note{color:#555;font-size:.88em}
table{border-collapse:collapse;font-size:.88em;margin:.6em 0 1.4em;display:block;overflow-x:auto}
caption{text-align:left;font-weight:bold;padding:.3em 0}
th,td{padding:.25em .8em .25em 0;border-bottom:1px solid #e3e3e3;text-align:left;white-space:nowrap}
td+td,th+th{text-align:right}.facts td+td{text-align:left;white-space:normal}
@media print{body{max-width:none}h2{break-before:page}}
"""


def write_report(outcomes: Sequence[Outcome], folder: Path, facts: Mapping[str, str]) -> Path:
    """report.html, with all it shows inside; beside it each figure as SVG and the CSV."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'><title>latentia: experiments</title>",
        f"<style>{STYLE}</style></head><body><h1>latentia: experiments</h1>",
    ]
    for outcome in outcomes:
        parts.append(_chapter(outcome, folder))
    parts.append("<h2>Versions and machine</h2>")
    parts += [_facts(facts), "</body></html>"]
    path = folder / "report.html"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _none(settings: Settings) -> dict[str, tuple[str, Foreign]]:
    return {}


def _chapter(outcome: Outcome, folder: Path) -> str:
    experiment = outcome.experiment
    write_csv(outcome, folder / f"{experiment.name}.csv")
    parts = [f"<h2>{html.escape(experiment.title)}</h2><p>{html.escape(experiment.text)}</p>"]
    for figure in experiment.figures:
        if not any(_any(outcome, figure, v) for v in outcome.variants):
            continue
        svg = draw_figure(outcome, figure)
        name = f"{experiment.name}-{figure.metric.replace('_', '-')}.svg"
        (folder / name).write_text(svg, encoding="utf-8")
        better = "lower is better" if figure.lower_is_better else "higher is better"
        parts.append(
            f"<figure>{svg}<figcaption>{html.escape(figure.title)} ({better}). Marks are medians, "
            "bars run from quartile to quartile of the repetitions.</figcaption></figure>"
        )
    for name, (caption, canvas) in (experiment.pictures or _none)(dict(outcome.settings)).items():
        svg = as_svg(canvas, f"{experiment.name}-{name}")
        (folder / f"{experiment.name}-{name}.svg").write_text(svg, encoding="utf-8")
        told = html.escape(caption)
        parts.append(f"<figure>{svg}<figcaption>{told}</figcaption></figure>")
    parts += [_table(sheet) for sheet in sheets(outcome)]
    parts.append(f"<p class='note'>All cells: {experiment.name}.csv beside this page.</p>")
    learners = {RIVALS[n].label: _spelled(n, outcome) for n in outcome.learners}
    parts.append("<h3>Settings</h3>")
    parts.append(_facts({**{k: _short(v) for k, v in outcome.settings.items()}, **learners}))
    return "\n".join(parts)


def _spelled(name: str, outcome: Outcome) -> str:
    make = RIVALS[name].make
    return "landmark" if make is None else repr(make(dict(outcome.settings), 0))


def _short(value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(f"{v:,}" if isinstance(v, int) else str(v) for v in value)


def _table(sheet: Sheet) -> str:
    head = "".join(f"<th>{html.escape(h)}</th>" for h in sheet.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in line) + "</tr>"
        for line in sheet.lines
    )
    return (
        f"<table><caption>{html.escape(sheet.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(str(v))}</td></tr>"
        for k, v in facts.items()
    )
    return f"<table class='facts'><tbody>{rows}</tbody></table>"

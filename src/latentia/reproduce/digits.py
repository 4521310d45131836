"""Pen digits (paper, figures 6 and 7; design 7, 12): argmax_c p̂_c(16 coordinates) P(c).

A latent chain over eight pen points for each of ten digits. Our PBP reads the coordinates as they
are, through kernels, and Gaussian EM does; the others read them in bins.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from latentia.model.classifier import LatentClassifier
from latentia.model.latent_model import LatentModel
from latentia.reproduce.cells import Cell, Experiment, Figure, Settings, every_cell
from latentia.reproduce.datasets import pendigits
from latentia.reproduce.rivals import make_learner
from latentia.typing import Array, CellArray, Foreign

CONTINUOUS = ("kernel", "gram", "finite", "gauss")
HIDDEN = 4  # pen points from this one on are hidden in the picture


def chain() -> str:
    """H0 → … → H7, each telling one pen point."""
    steps = [f"H{t}->H{t + 1}" for t in range(7)]
    return "; ".join(steps + [f"H{t}->x{t},y{t}" for t in range(8)])


def settings(quick: bool, seed: int) -> Settings:
    return {
        "seed": seed,
        "quick": quick,
        "graph": chain(),
        "classes": 4 if quick else 10,
        "rows": [100, 300] if quick else [200, 500, 1_000, 2_000, 4_000, 7_000],
        "repetitions": 1 if quick else 3,  # random parts of the 7,000 training rows
        "judged by": "valid" if quick else "test",
        "bins": 6,  # of every coordinate, for learners of discrete columns; not chosen by results
        "states": 6,  # of every latent, for the same; not chosen by results
        "noise": 0.5,  # integers become intervals: uniform noise, for continuous columns
        "restarts": 1 if quick else 10,
        "max_iter": 30 if quick else 200,
        "tol": 1e-5,
        "smoothing": 1.0,  # pseudo-count of each row of each table, for both kinds of EM
    }


def in_bins(columns: Mapping[str, CellArray], bins: int) -> Settings:
    """Coordinates 0..100 in bins of equal width."""
    return {n: np.clip((c * bins / 100.01).astype(int), 0, bins - 1) for n, c in columns.items()}


def model_of(learner: str, settings: Settings, seed: int) -> LatentClassifier:
    """The chain, over continuous or over in_bins columns; kernels find their ranks themselves."""
    names = [f"{axis}{t}" for t in range(8) for axis in "xy"]
    made = make_learner(learner, settings, seed)
    latents = [f"H{t}" for t in range(8)]
    if learner in CONTINUOUS:
        kinds = dict.fromkeys(names, "continuous")
        given = dict.fromkeys(latents, settings["states"]) if learner == "gauss" else latents
        return LatentClassifier(settings["graph"], given, learner=made, kinds=kinds)
    states = {name: list(range(settings["bins"])) for name in names}
    counts = dict.fromkeys(latents, settings["states"])
    return LatentClassifier(settings["graph"], counts, learner=made, state_names=states)


def _part(name: str, classes: int) -> tuple[dict[str, CellArray], CellArray]:
    """Columns and digits of one part; in quick runs only the first few digits."""
    columns, target = pendigits().part(name)
    assert target is not None
    kept = target < classes
    return {n: c[kept] for n, c in columns.items()}, target[kept]


def measure(cell: Cell, settings: Settings) -> dict[str, float]:
    train, labels = _part("train", settings["classes"])
    test, wanted = _part(settings["judged by"], settings["classes"])
    rng = np.random.default_rng([settings["seed"], cell.repetition])
    rows = rng.permutation(len(labels))[: cell.size]
    part, target = {n: c[rows] for n, c in train.items()}, labels[rows]
    if cell.learner in ("nearest", "svm"):
        guess, seconds = _landmark(cell.learner, part, target, test)
    else:
        if cell.learner in CONTINUOUS:
            part = _with_noise(part, settings["noise"], rng)
        else:
            part, test = in_bins(part, settings["bins"]), in_bins(test, settings["bins"])
        model = model_of(cell.learner, settings, settings["seed"] + cell.repetition)
        start = time.perf_counter()
        model.fit(part, target)
        seconds = time.perf_counter() - start
        guess = model.predict(test)
    return {"accuracy": 100 * float(np.mean(guess == wanted)), "seconds": seconds}


def _with_noise(
    columns: Mapping[str, CellArray], width: float, rng: np.random.Generator
) -> Settings:
    return {n: c + rng.uniform(-width, width, len(c)) for n, c in columns.items()}


def _landmark(
    name: str, train: Mapping[str, CellArray], target: CellArray, test: Mapping[str, CellArray]
) -> tuple[Array, float]:
    """1-NN, or an SVM with RBF kernel (C = 10, gamma by scikit-learn's "scale")."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    classifier = KNeighborsClassifier(1) if name == "nearest" else SVC(C=10)
    X, Z = (np.column_stack(list(columns.values())) for columns in (train, test))
    start = time.perf_counter()
    classifier.fit(X, target)
    seconds = time.perf_counter() - start
    return np.asarray(classifier.predict(Z)), seconds


# --- pictures -------------------------------------------------------------------------------------


def pictures(settings: Settings) -> dict[str, tuple[str, Foreign]]:
    """Half a digit and what the model expects of the rest; and digits drawn from each model."""
    train, labels = _part("train", settings["classes"])
    test, wanted = _part("test", settings["classes"])
    rng = np.random.default_rng(settings["seed"])
    rows = rng.permutation(len(labels))[: max(settings["rows"])]
    part = _with_noise({n: c[rows] for n, c in train.items()}, settings["noise"], rng)
    fitted = model_of("kernel", settings, settings["seed"]).fit(part, labels[rows])
    models = dict(zip(fitted.classes_.tolist(), fitted.models_, strict=True))
    filled = [_filled(models[d], {n: c[wanted == d][:1] for n, c in test.items()}) for d in models]
    drawn = [model.sample(5, settings["seed"]) for model in models.values()]
    return {
        "filled": (
            "The first four pen points of a test digit are given (black); the model of its class "
            "tells the others: medians (diamonds) and 90 % intervals. Grey: what was written.",
            _draw_filled(filled),
        ),
        "sampled": ("Five digits drawn from the model of each class.", _draw_sampled(drawn)),
    }


def _filled(model: LatentModel, row: Mapping[str, CellArray]) -> tuple[Array, Array]:
    """The points of a row, (2, 8), and quantiles of the hidden ones, (2, hidden, 3)."""
    known = {n: c for n, c in row.items() if int(n[1]) < HIDDEN}
    told = [
        [
            [
                float(v[0])
                for v in model.predict_quantiles(known, f"{axis}{t}", (0.05, 0.5, 0.95)).values()
            ]
            for t in range(HIDDEN, 8)
        ]
        for axis in "xy"
    ]
    points = [[float(row[f"{axis}{t}"][0]) for t in range(8)] for axis in "xy"]
    return np.array(points), np.array(told)


def _panels(rows: int, columns: int, height: float) -> tuple[Foreign, Foreign]:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(1.7 * columns, height * rows), layout="constrained")
    FigureCanvasSVG(canvas)
    axes = canvas.subplots(rows, columns, sharex=True, sharey=True)
    for panel in axes.ravel():
        panel.set(xlim=(-12, 112), ylim=(-12, 112), xticks=[], yticks=[], aspect="equal")
    return canvas, axes


def _draw_filled(filled: Sequence[tuple[Array, Array]]) -> Foreign:
    rows = 2 if len(filled) > 5 else 1
    canvas, axes = _panels(rows, len(filled) // rows, 1.9)
    for digit, (panel, (points, told)) in enumerate(zip(axes.ravel(), filled, strict=True)):
        panel.plot(*points[:, HIDDEN - 1 :], color="#999999", linestyle=":", linewidth=1.5)
        panel.plot(*points[:, :HIDDEN], color="black", marker="o", markersize=3, linewidth=2)
        (x, y), (low_x, low_y), (high_x, high_y) = told[..., 1], told[..., 0], told[..., 2]
        panel.errorbar(
            x,
            y,
            xerr=[x - low_x, high_x - x],
            yerr=[y - low_y, high_y - y],
            color="#0072b2",
            marker="D",
            markersize=4,
            linestyle="-",
            linewidth=1,
            elinewidth=0.6,
        )
        panel.set_title(f"digit {digit}", fontsize=9)
    canvas.supxlabel("x of the pen", fontsize=9)
    canvas.supylabel("y of the pen", fontsize=9)
    return canvas


def _draw_sampled(drawn: Sequence[Mapping[str, CellArray]]) -> Foreign:
    canvas, axes = _panels(5, len(drawn), 1.7)
    for digit, rows in enumerate(drawn):
        for k in range(5):
            x, y = ([rows[f"{axis}{t}"][k] for t in range(8)] for axis in "xy")
            axes[k, digit].plot(x, y, color="#0072b2", marker="o", markersize=2.5, linewidth=1.5)
        axes[0, digit].set_title(f"digit {digit}", fontsize=9)
    canvas.supxlabel("x of the pen", fontsize=9)
    canvas.supylabel("y of the pen", fontsize=9)
    return canvas


EXPERIMENT = Experiment(
    name="digits",
    title="Pen digits: ten models of eight pen points",
    text=(
        "A latent chain H0 → … → H7 tells the pen points (x_t, y_t) of a written digit; one model "
        "for each digit, and a row goes to the class with the largest evidence probability times "
        "prior. PBP on kernels reads the coordinates as they are, with the library's default "
        "kernel settings (which were chosen on the 494 validation digits, never on test rows); so "
        "do PBP as published, in both its forms, and Gaussian EM with six states for every latent. "
        "The others read them in six bins, with six states. 1-NN and an SVM are landmarks: they "
        "classify and do nothing else. The test rows are those of other writers."
    ),
    settings=settings,
    cells=every_cell,
    measure=measure,
    figures=(
        Figure("accuracy", "accuracy [%]", "Accuracy on other writers", False, False, ".1f"),
        Figure("seconds", "seconds to train", "Training time, ten classes together"),
    ),
    learners=(
        *("kernel", "gram", "finite", "closed", "refined", "gauss", "em", "stepwise"),
        *("spectral", "nearest", "svm"),
    ),
    datasets=("pendigits",),
    pictures=pictures,
)

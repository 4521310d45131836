"""The learners of the experiments: their names, settings, and how they look in figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from latentia.kernels.settings import KernelSettings
from latentia.model.learners import PBP
from latentia.model.published_learners import Spectral
from latentia.networks.em import EM
from latentia.networks.stepwise import StepwiseEM
from latentia.networks.tables import Tables
from latentia.typing import Foreign

if TYPE_CHECKING:
    from latentia.networks.learner import Learner
    from latentia.reproduce.cells import Settings


@final
@dataclass(frozen=True, slots=True)
class Rival:
    """A learner, or a landmark that is none of ours (`make` is None)."""

    label: str
    colour: str  # after Okabe and Ito
    marker: str
    line: str
    make: Callable[[Settings, int], Learner] | None = None  # (settings, seed)


def _em(settings: Settings, seed: int) -> EM:
    return EM(
        restarts=settings["restarts"],
        max_iter=settings["max_iter"],
        tol=settings["tol"],
        smoothing=settings["smoothing"],
        random_state=seed,
    )


def _stepwise(settings: Settings, seed: int) -> StepwiseEM:
    return StepwiseEM(
        restarts=settings["restarts"], smoothing=settings["smoothing"], random_state=seed
    )


RIVALS: dict[str, Rival] = {
    "paper": Rival("PBP as published", "#d55e00", "s", "--", lambda s, r: PBP.paper()),
    "closed": Rival("PBP closed form", "#56b4e9", "o", "-", lambda s, r: PBP(refine=False)),
    "pbp": Rival("PBP (default)", "#0072b2", "D", "-", lambda s, r: PBP(random_state=r)),
    "refined": Rival(
        "PBP refined", "#000000", "P", "-", lambda s, r: PBP(refine=True, random_state=r)
    ),
    "tables": Rival(
        "own tables", "#f0a000", "d", "-", lambda s, r: Tables(s["smoothing"], random_state=r)
    ),
    "em": Rival("EM", "#009e73", "^", "-.", _em),
    "stepwise": Rival("stepwise EM", "#cc79a7", "v", "-.", _stepwise),
    "spectral": Rival("spectral", "#e69f00", "X", ":", lambda s, r: Spectral()),
    "kernel": Rival(
        "PBP on kernels",
        "#0072b2",
        "D",
        "-",
        lambda s, r: PBP(refine=False, kernel=KernelSettings(), random_state=r),
    ),
    "gram": Rival(
        "PBP as published (Gram)",
        "#d55e00",
        "p",
        "-",
        lambda s, r: PBP.paper(kernel="rbf", form="gram"),
    ),
    "finite": Rival(
        "PBP as published (finite)",
        "#d55e00",
        "s",
        "--",
        lambda s, r: PBP.paper(kernel="rbf", form="finite"),
    ),
    "gauss": Rival("EM, Gaussian", "#009e73", "<", "-", _em),
    "nearest": Rival("1-NN", "#7f7f7f", "*", ":"),
    "svm": Rival("SVM", "#7f7f7f", "h", "--"),
    "marginal": Rival("the marginal", "#7f7f7f", "", "-"),
    "bayes": Rival("naive Bayes", "#7f7f7f", "*", ":"),
    "hmmlearn": Rival("hmmlearn, restarts", "#d55e00", "s", "--"),
    "independent": Rival("independence", "#7f7f7f", "", "-"),
}


def make_learner(name: str, settings: Settings, seed: int) -> Foreign:
    """The learner of this name."""
    make = RIVALS[name].make
    assert make is not None, f"{name} is a landmark, not a learner"
    return make(settings, seed)

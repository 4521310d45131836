"""latentia: latent-variable graphical models, learned in closed form from sums over rows."""

from latentia import errors, testing
from latentia.data.moments import Moments
from latentia.draw.svg import Drawing
from latentia.exact.tabular_model import TabularModel
from latentia.inference.operators import Operators
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density
from latentia.kernels.settings import KernelSettings
from latentia.model.classifier import LatentClassifier
from latentia.model.frozen_model import FrozenModel
from latentia.model.latent_model import LatentModel
from latentia.model.learners import PBP, PublishedPBP, Spectral
from latentia.networks.em import EM
from latentia.networks.stepwise import StepwiseEM
from latentia.reproduce import datasets
from latentia.store.file import load, save
from latentia.structure import templates
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.version import LIBRARY

__version__ = LIBRARY

__all__ = [
    "LatentGraph",
    "as_graph",
    "Plan",
    "make_plan",
    "templates",
    "Moments",
    "Operators",
    "PBP",
    "KernelSettings",
    "PublishedPBP",
    "Spectral",
    "EM",
    "StepwiseEM",
    "LatentModel",
    "LatentClassifier",
    "FrozenModel",
    "save",
    "load",
    "Posterior",
    "Density",
    "Assignment",
    "Drawing",
    "TabularModel",
    "testing",
    "datasets",
    "errors",
]

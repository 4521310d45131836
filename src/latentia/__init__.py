"""latentia: latent-variable graphical models, learned in closed form from sums over rows."""

from latentia import datasets, errors, templates, testing
from latentia.classifier import LatentClassifier
from latentia.draw import Drawing
from latentia.em import EM
from latentia.embedding import KernelSettings
from latentia.estimator import LatentModel
from latentia.exact import TabularModel
from latentia.gathering import FrozenModel
from latentia.graph import LatentGraph, as_graph
from latentia.learners import PBP, PublishedPBP, Spectral
from latentia.moments import Moments
from latentia.operators import Operators
from latentia.plan import Plan, make_plan
from latentia.posterior import Assignment, Posterior
from latentia.posterior_density import Density
from latentia.stepwise import StepwiseEM
from latentia.store import load, save

__version__ = "0.1.0"

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

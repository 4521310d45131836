"""latentia: latent-variable graphical models, learned in closed form from sums over rows.

Names are loaded when they are first asked for: `import latentia` is quick, and the command line can
be interrupted from its first moment.
"""

from latentia.version import LIBRARY

TYPE_CHECKING = False  # `typing` takes its time; type checkers know the name
if TYPE_CHECKING:
    from latentia import errors, testing
    from latentia.data.moments import Moments
    from latentia.data.sources.progress import show_progress
    from latentia.discovery.finding import Structure, learn_structure
    from latentia.discovery.found_structure import FoundStructure
    from latentia.draw.svg import Drawing
    from latentia.exact.tabular_model import TabularModel
    from latentia.formats.interchange import read, write
    from latentia.formats.networkx_models import from_networkx, to_networkx
    from latentia.formats.pgmpy_learning import PgmpyEM, pgmpy_em
    from latentia.formats.pgmpy_models import from_pgmpy, to_pgmpy
    from latentia.formats.pyagrum_models import from_pyagrum, to_pyagrum
    from latentia.formats.stepmix_models import from_stepmix
    from latentia.inference.operators import Operators
    from latentia.inference.posterior import Assignment, Posterior
    from latentia.inference.posterior_density import Density
    from latentia.kernels.settings import KernelSettings
    from latentia.model.classifier import LatentClassifier
    from latentia.model.comparing import compare
    from latentia.model.frozen_model import FrozenModel
    from latentia.model.latent_imputer import LatentImputer
    from latentia.model.latent_model import LatentModel
    from latentia.model.learners import PBP
    from latentia.model.published_learners import PublishedPBP, Spectral
    from latentia.native.configuration import show_config
    from latentia.networks.em import EM
    from latentia.networks.stepwise import StepwiseEM
    from latentia.networks.tables import Tables
    from latentia.reproduce import datasets
    from latentia.sequences.hmmlearn_models import from_hmmlearn, to_hmmlearn
    from latentia.sequences.sequence_model import SequenceModel
    from latentia.store.file import load, save
    from latentia.structure import templates
    from latentia.structure.graph import LatentGraph
    from latentia.structure.plan import Plan, make_plan
    from latentia.structure.reading_graphs import as_graph

__version__ = LIBRARY

__all__ = [
    "LatentGraph",
    "as_graph",
    "Plan",
    "make_plan",
    "templates",
    "learn_structure",
    "Structure",
    "FoundStructure",
    "Moments",
    "Operators",
    "PBP",
    "KernelSettings",
    "PublishedPBP",
    "Spectral",
    "EM",
    "StepwiseEM",
    "Tables",
    "LatentModel",
    "LatentClassifier",
    "FrozenModel",
    "SequenceModel",
    "LatentImputer",
    "compare",
    "show_progress",
    "save",
    "load",
    "Posterior",
    "Density",
    "Assignment",
    "Drawing",
    "TabularModel",
    "read",
    "write",
    "from_pgmpy",
    "to_pgmpy",
    "PgmpyEM",
    "pgmpy_em",
    "from_pyagrum",
    "to_pyagrum",
    "from_networkx",
    "to_networkx",
    "from_hmmlearn",
    "to_hmmlearn",
    "from_stepmix",
    "testing",
    "datasets",
    "errors",
    "show_config",
]

_HOMES = {  # the same as above; tests/test_imports.py compares them
    "LatentGraph": "structure.graph",
    "as_graph": "structure.reading_graphs",
    "Plan": "structure.plan",
    "make_plan": "structure.plan",
    "templates": "structure.templates",
    "learn_structure": "discovery.finding",
    "Structure": "discovery.finding",
    "FoundStructure": "discovery.found_structure",
    "Moments": "data.moments",
    "Operators": "inference.operators",
    "PBP": "model.learners",
    "KernelSettings": "kernels.settings",
    "PublishedPBP": "model.published_learners",
    "Spectral": "model.published_learners",
    "EM": "networks.em",
    "StepwiseEM": "networks.stepwise",
    "Tables": "networks.tables",
    "LatentModel": "model.latent_model",
    "LatentClassifier": "model.classifier",
    "FrozenModel": "model.frozen_model",
    "SequenceModel": "sequences.sequence_model",
    "LatentImputer": "model.latent_imputer",
    "compare": "model.comparing",
    "show_progress": "data.sources.progress",
    "save": "store.file",
    "load": "store.file",
    "Posterior": "inference.posterior",
    "Density": "inference.posterior_density",
    "Assignment": "inference.posterior",
    "Drawing": "draw.svg",
    "TabularModel": "exact.tabular_model",
    "read": "formats.interchange",
    "write": "formats.interchange",
    "from_pgmpy": "formats.pgmpy_models",
    "to_pgmpy": "formats.pgmpy_models",
    "PgmpyEM": "formats.pgmpy_learning",
    "pgmpy_em": "formats.pgmpy_learning",
    "from_pyagrum": "formats.pyagrum_models",
    "to_pyagrum": "formats.pyagrum_models",
    "from_networkx": "formats.networkx_models",
    "to_networkx": "formats.networkx_models",
    "from_hmmlearn": "sequences.hmmlearn_models",
    "to_hmmlearn": "sequences.hmmlearn_models",
    "from_stepmix": "formats.stepmix_models",
    "testing": "testing",
    "datasets": "reproduce.datasets",
    "errors": "errors",
    "show_config": "native.configuration",
}

if not TYPE_CHECKING:  # type checkers would take any name for granted

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = _HOMES[name]
        module = import_module(f"{__name__}.{home}")
        found = module if home.split(".")[-1] == name else getattr(module, name)
        globals()[name] = found  # asked for once
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

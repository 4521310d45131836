"""pgmpy's EM, by latentia: estimators that stand where pgmpy's own do, in both of its ways.

Rows with holes are kept (pgmpy drops them), several starts are made, and the E-step is exact on
junction trees over the different rows, so that many latents need no product of their states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from latentia.errors import DataError, UnknownNameError
from latentia.formats.foreign_tables import library_missing, refuse
from latentia.formats.model_tables import model_tables
from latentia.formats.pgmpy_models import cpd_of
from latentia.model.latent_model import LatentModel
from latentia.networks.em import EM
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.typing import Array, ByName, Cell, Foreign, Given, Label, Seed, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.networks.learner import Learner

PRIORS = ("dirichlet", "BDeu", "K2")
STATES = 2  # of a latent of which nothing is known, as pgmpy has it


class PgmpyEM:
    """Where pgmpy's `ExpectationMaximization` stands: the same arguments, the same list of CPDs.

    Parameters
    ----------
    model : DAG or DiscreteBayesianNetwork of pgmpy
        Its `latents` are latent; so are columns without any cell.
    data : pandas DataFrame
        Holes are NaN; rows with holes are learned from, too.
    state_names : dict of variable -> list of states, optional
        The values seen, unless told.

    Examples
    --------
    >>> import warnings
    >>> from pgmpy.base import DAG
    >>> import numpy as np, pandas as pd, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> h = rng.integers(2, size=500)
    >>> data = pd.DataFrame({c: np.where(rng.random(500) < 0.8, h, 1 - h) for c in "xyz"})
    >>> network = DAG([("h", "x"), ("h", "y"), ("h", "z")], latents={"h"})
    >>> cpds = lt.PgmpyEM(network, data).get_parameters(latent_card={"h": 2}, seed=0)
    >>> [cpd.variable for cpd in cpds]
    ['h', 'x', 'y', 'z']
    """

    def __init__(
        self,
        model: Given,
        data: TableLike,
        state_names: object = None,
        *,
        sample_weight: WeightLike | None = None,
        complete_samples_only: bool = False,
    ) -> None:
        self.model = model
        self.data = data.dropna() if complete_samples_only else data
        self.state_names = state_names
        self.sample_weight = sample_weight

    def get_parameters(
        self,
        latent_card: ByName[int] | None = None,
        apply_smoothing: bool = False,
        max_iter: int = 200,
        atol: float = 1e-8,
        n_jobs: int | None = 1,
        batch_size: int = 1000,
        seed: Seed = None,
        init_cpds: object = None,
        show_progress: bool = False,
        *,
        restarts: int = 10,
        learner: Learner | None = None,
        **prior: Given,
    ) -> list[Cell]:
        """CPDs of largest likelihood, a `TabularCPD` for each variable, latents too.

        As pgmpy's, and: `atol` is the gain in log-likelihood per row at which a start has come to
        rest; `restarts` starts are made and the best is kept; any `learner` with tables may take
        the place of `lt.EM`. With `apply_smoothing`: `prior_type` ("BDeu", "K2" or "dirichlet"),
        `equivalent_sample_size` and `pseudo_counts`. Rows are not read in batches.
        """
        del batch_size
        if prior and not apply_smoothing:
            raise DataError(f"expected apply_smoothing=True with {list(prior)}, got False.")
        graph, states = _read(self.model, self.data, latent_card, self.state_names)
        if learner is None:
            learner = EM(
                restarts=restarts,
                max_iter=max_iter,
                tol=atol,
                smoothing=pseudo_counts(graph, **prior) if apply_smoothing else 0.0,
                init=_start(graph, init_cpds, states),
                n_jobs=n_jobs,
                random_state=seed,
                verbose=bool(show_progress),
            )
        columns = [graph.names[v] for v in graph.observed]
        model = LatentModel(
            graph,
            learner=learner,
            kinds=dict.fromkeys(columns, "discrete"),
            state_names={name: states[name] for name in columns},
        )
        found = model_tables(model.fit(self.data[columns], sample_weight=self.sample_weight))
        found = replace(found, states=tuple(tuple(states[name]) for name in found.graph.names))
        return [cpd_of(found, scope) for scope in found.tables]


def _read(
    network: Foreign, data: TableLike, latent_card: ByName[int] | None, state_names: Given
) -> tuple[LatentGraph, dict[Label, list[Cell]]]:
    """The graph of a pgmpy network with all numbers of states, and the states."""
    if type(network).__module__.split(".")[0] != "pgmpy":
        refuse("a DAG or network of pgmpy", network, "Others are fitted by lt.LatentModel.")
    if not hasattr(data, "columns") or not hasattr(data, "isna"):
        raise DataError(f"expected a pandas DataFrame, got {type(data).__name__}.")
    graph = as_graph(network)
    empty = [name for name in data.columns if name in graph.names and data[name].isna().all()]
    hidden = [*(graph.names[v] for v in sorted(graph.latent)), *empty]
    lacking = [n for n in graph.names if n not in hidden and n not in list(data.columns)]
    if lacking:
        raise DataError(
            f"expected a column for every variable that is not latent, got none for {lacking[:20]}."
            " Add them, or name them in the network's latents."
        )
    for name in latent_card or {}:
        if name not in hidden:
            raise UnknownNameError("latent (in latent_card)", name, hidden)
    states: dict[Label, list[Cell]] = {}
    for name in graph.names:
        told = list((state_names or {}).get(name, ()))
        if name in hidden:
            before = graph.states[graph.index(name)]  # of the CPDs that the network has
            count = (latent_card or {}).get(name, len(told) or before or STATES)
            if told and len(told) != count:
                raise DataError(f"{name!r} has {count} states in latent_card, and {told} as names.")
            states[name] = told or list(range(count))
        else:
            states[name] = told or _seen(data[name])
    counts = {name: len(listed) for name, listed in states.items()}
    fresh = replace(graph, states=(None,) * len(graph.names))
    return as_graph(fresh, hidden or None, counts), states


def _seen(column: Foreign) -> list[Cell]:
    """The states of a column of a data frame, sorted as pgmpy does."""
    values = column.dropna().unique().tolist()
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=str)


def _start(graph: LatentGraph, given: Given, states: ByName[Cell]) -> Foreign:
    """Tables to start from, of CPDs by variable."""
    if not given or given == "random":
        return "random"
    if given == "uniform":
        raise DataError(
            "expected init_cpds to be CPDs by variable, or 'random', got 'uniform': EM never "
            "leaves a start whose states of latents are all alike."
        )
    if not isinstance(given, Mapping) or {*given} != {*graph.names}:
        raise DataError(
            "expected init_cpds to be {variable: TabularCPD} for all variables, latents too, or "
            f"'random', got {list(given)!r:.80}."
        )
    parents, found = graph.parents(), {}
    for v, name in enumerate(graph.names):
        axes = [*(graph.names[p] for p in parents[v]), name]
        found[name] = cpd_cells(given[name], axes, states)
    return found


def cpd_cells(cpd: Foreign, axes: list[Label], states: ByName[Cell]) -> Array:
    """The cells of a CPD along these axes, states in this order."""
    own = list(cpd.variables)
    if set(own) != set(axes):
        raise DataError(f"expected a CPD of {axes[-1]!r} given {axes[:-1]}, got {own}.")
    cells = np.asarray(cpd.values, dtype=float).transpose([own.index(a) for a in axes])
    for k, name in enumerate(axes):
        here = list(cpd.state_names[name])
        wanted = list(states.get(name, range(cells.shape[k])))
        if sorted(map(repr, here)) != sorted(map(repr, wanted)):
            raise DataError(f"expected the states {wanted} of {name!r} in a CPD, got {here}.")
        cells = cells.take([here.index(s) for s in wanted], axis=k)
    return cells


def pseudo_counts(
    graph: LatentGraph,
    prior_type: str = "BDeu",
    equivalent_sample_size: Given = 5,
    pseudo_counts: Given = None,
) -> dict[Label, Array]:
    """What a prior adds to the counts of every table: axes (parents, variable)."""
    if prior_type not in PRIORS:
        raise UnknownNameError("prior_type", prior_type, PRIORS)
    found: dict[Label, Array] = {}
    for v, above in enumerate(graph.parents()):
        name = graph.names[v]
        shape = tuple(graph.states[u] or 1 for u in (*above, v))
        if prior_type == "K2":
            found[name] = np.ones(shape)
        elif prior_type == "BDeu":
            size = equivalent_sample_size
            own = size.get(name, 0) if isinstance(size, Mapping) else size
            found[name] = np.full(shape, float(own) / np.prod(shape))
        else:
            own = (
                pseudo_counts.get(name, 0) if isinstance(pseudo_counts, Mapping) else pseudo_counts
            )
            if own is None:
                raise DataError("expected pseudo_counts with prior_type='dirichlet', got none.")
            cells = np.asarray(own, dtype=float)
            if cells.ndim:  # (states, joint states of the parents), as pgmpy has it
                cells = np.moveaxis(cells.reshape(shape[-1], *shape[:-1]), 0, -1)
            found[name] = np.array(np.broadcast_to(cells, shape))
    return found


# --- pgmpy 1.1 and later: network.fit(data, estimator=…) ------------------------------------------


def pgmpy_em(**settings: object) -> Foreign:
    """Where pgmpy's `DiscreteEM` stands: ``network.fit(data, estimator=lt.pgmpy_em(seed=0))``.

    Takes its settings, and `restarts` and `learner` besides; sample weights, too.
    """
    return _estimator_class()(**settings)


@cache
def _estimator_class() -> Foreign:
    """The class is made when pgmpy is there: it must be a child of pgmpy's own."""
    try:
        from pgmpy.parameter_estimator.base import DiscreteParameterEstimator
    except ImportError:
        raise library_missing("pgmpy_em", "pgmpy>=1.1") from None

    class LatentiaEM(DiscreteParameterEstimator):  # type: ignore[misc, unused-ignore]
        _tags: ClassVar = {"supports_latent_variables": True, "supports_weighted_data": True}

        def __init__(
            self,
            state_names: object = None,
            latent_card: object = None,
            max_iter: int = 200,
            atol: float = 1e-8,
            n_jobs: int | None = 1,
            seed: Seed = None,
            init_cpds: object = None,
            show_progress: bool = False,
            restarts: int = 10,
            learner: Learner | None = None,
        ) -> None:
            self.latent_card = latent_card
            self.max_iter = max_iter
            self.atol = atol
            self.n_jobs = n_jobs
            self.seed = seed
            self.init_cpds = init_cpds
            self.show_progress = show_progress
            self.restarts = restarts
            self.learner = learner
            super().__init__(state_names=state_names)

        def fit(self, model: Given, data: TableLike, sample_weight: Given = None) -> Foreign:
            settings = self.get_params(deep=False)
            names = settings.pop("state_names")
            em = PgmpyEM(model, data, names, sample_weight=sample_weight)
            self.parameters_ = em.get_parameters(**settings)
            self.state_names_ = {
                cpd.variable: list(cpd.state_names[cpd.variable]) for cpd in self.parameters_
            }
            return self

        def __reduce__(self) -> Foreign:
            return _restored, (self.get_params(deep=False), dict(self.__dict__))

    return LatentiaEM


def _restored(settings: dict[str, Foreign], kept: dict[str, Foreign]) -> Foreign:
    found = pgmpy_em(**settings)
    found.__dict__.update(kept)
    return found

"""LatentModel: the engine behind the contract that scikit-learn users know. No mathematics here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from latentia import doors
from latentia.assess.error_bars import Bars, bars_of, checked_confidence, intervals
from latentia.assess.fit_figures import measure_fit
from latentia.assess.jackknife import Replicates
from latentia.assess.report import CheckReport, make_report
from latentia.data.columns.continuous import (
    ContinuousColumn,
)
from latentia.data.rows import Rows
from latentia.data.sources.table import Table, read_table
from latentia.errors import (
    DataError,
    EvidenceError,
    GraphError,
    NotLearnedError,
    UnknownNameError,
)
from latentia.exact.estep import latent_posteriors
from latentia.exact.estep_wiring import compile_estep
from latentia.inference.grid_density import quantiles
from latentia.inference.joint import joint_posterior, most_probable, one_answer
from latentia.inference.many_rows import (
    every_column,
    in_precision,
    latent_codes,
    one_column,
    row_scores,
)
from latentia.inference.messages import Answers, Evidence, answer, read_evidence
from latentia.inference.on_engines import (
    ask_bars,
    ask_best,
    ask_everything,
    ask_marginals,
    ask_one,
    ask_scores,
    asker,
    best_value,
    engine_of,
    everything,
    in_states,
    mean_score,
    summary,
    summary_names,
    summary_of,
)
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density
from latentia.inference.questions import column_place, named, one_row, read_levels
from latentia.inference.sampling import sample_rows
from latentia.model.frozen_model import (
    engine_weight,
    weights_of,
)
from latentia.model.mixed_plans import column_cells, state_labels
from latentia.model.notices import (
    checked_weight,
    note_outside,
    note_repaired,
)
from latentia.model.training import Learning
from latentia.networks.accelerate import free_parameters
from latentia.seeds import as_generator
from latentia.typing import Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing


class LatentModel(Learning):
    """A latent-variable graphical model over the columns of a table.

    Parameters
    ----------
    graph : str, edges, dict of parents, networkx graph, LatentGraph or callable, optional
        How columns and latents are tied together; or a function that makes one of these from the
        list of column names. Default: one latent class tells every column, with as many states as
        the data show.
    latents : dict of name -> number of states, or list of names
        The variables of the graph that are not columns. A number that is left out, or None, is
        found from the data: see `states_`.
    learner : "pbp", "paper", "spectral", "em", "stepwise", or a learner such as ``EM(...)``
        How the model is learned.
    kinds : dict of column -> "discrete" or "continuous", optional
        Kinds of columns, where the rule is not wanted: decimals with more than 20 different values
        (more than 4 if they have more than three decimals) and integers with more than 40 are
        continuous, all others discrete.
    state_names : dict of column -> list of states, optional
        States and their order; default: the sorted values seen in fit.

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> h = rng.integers(2, size=3000)
    >>> data = {c: np.where(rng.random(3000) < 0.8, h, 1 - h) for c in "xyz"}
    >>> model = lt.LatentModel("H->x; H->y; H->z", latents={"H": 2}).fit(data)
    >>> round(model.query("x", {"y": 1, "z": 1})[1], 2)
    0.77
    """

    # -- questions -----------------------------------------------------------------------------

    def query(
        self,
        variables: Any,
        evidence: Mapping[Any, Any] | None = None,
        soft: Mapping[Any, Any] | None = None,
        confidence: float | None = None,
    ) -> Posterior | Density:
        """P(variables | evidence): one variable, or several for their joint posterior.

        Evidence of a continuous column is a number, or an interval ``{"x": (0, 3)}``. `soft` gives
        likelihoods of states instead of one state, ``{"G": {0: .2, 1: .8}}``, or for a continuous
        column a function of its values. A continuous variable is answered by a `Density`.

        With a `confidence`, such as 0.9, the posterior has `lower` and `upper`: intervals that
        cover the sampling error (not a wrong graph). It needs fit(frame, error_bars=True).
        """
        self._check_fitted()
        level = None if confidence is None else checked_confidence(confidence)
        replicates = None if level is None else self._error_bars()
        names = named(variables, self.plan_.graph.names)
        codes, likelihoods = one_row(
            self.columns_, self.plan_.graph.names, names, evidence or {}, soft or {}
        )
        note_outside(self.columns_, evidence or {})
        places = [self._place(name) for name in names]
        if len(places) == 1:
            found = self._answer(read_evidence(self.operators_.plan, codes, likelihoods), places)
            v = self.operators_.plan.graph.observed[places[0]]
            table, log = found.probabilities[v][:, 0], float(found.log_evidence[0])
            clipped = float(found.clipped[v][0])
            if found.repaired[0]:
                note_repaired(1)
        else:
            flat, log, clipped = joint_posterior(self.operators_, codes, likelihoods, places)
            table = flat.reshape([column_cells(self.columns_[i]) for i in places])
        ends: tuple[Any, Any] = (None, None)
        if level is not None and replicates is not None:
            ask = partial(one_answer, codes=codes, soft=likelihoods, places=places)
            others = (ask(each) for each in replicates.without)
            flat_ends = intervals(table.ravel(), ask(replicates.whole), others, level)
            ends = (flat_ends[0].reshape(table.shape), flat_ends[1].reshape(table.shape))
        shown = {
            **(evidence or {}),
            **{k: dict(v) if isinstance(v, Mapping) else "soft" for k, v in (soft or {}).items()},
        }
        log += self._density_factor(evidence or {})
        first = self.columns_[places[0]]
        if len(places) == 1 and isinstance(first, ContinuousColumn):
            return Density(first, np.array(table), log, clipped, shown, bool(found.repaired[0]))
        states = tuple(state_labels(self.columns_[i]) for i in places)
        return Posterior(tuple(names), states, np.array(table), log, clipped, shown, *ends, level)

    def map_query(
        self,
        variables: Any,
        evidence: Mapping[Any, Any] | None = None,
        soft: Mapping[Any, Mapping[Any, float]] | None = None,
        random_state: Any = 0,
    ) -> Assignment:
        """The most probable joint assignment of variables given evidence.

        Up to a million joint states are enumerated; beyond, a search answers with exact=False.
        """
        self._check_fitted()
        names = named(variables, self.plan_.graph.names)
        codes, likelihoods = one_row(
            self.columns_, self.plan_.graph.names, names, evidence or {}, soft or {}
        )
        places = [self._place(name) for name in names]
        found, log, exact = most_probable(
            self.operators_, codes, likelihoods, places, as_generator(random_state)
        )
        values = {
            name: state_labels(self.columns_[i])[c]
            for name, i, c in zip(names, places, found, strict=True)
        }
        return Assignment(values, log, exact)

    def predict_proba(
        self, X: Any, target: Any = None, *, dtype: Any = None, confidence: float | None = None
    ) -> Any:
        """P(target | all other present cells) of every row: (rows, states), as the frame came.

        Without a target: those of all discrete columns side by side, named ``column=state``. With
        ``dtype="float32"`` messages are passed in single precision. With a `confidence`, such as
        0.9: three such tables, ``proba, lower, upper = …``, the ends of intervals that cover the
        sampling error; it needs fit(frame, error_bars=True).
        """
        self._check_fitted()
        if confidence is not None:
            return self._bars(X, target, dtype, checked_confidence(confidence))
        operators = in_precision(self.operators_, dtype)
        engine = engine_of(X, self.columns_)
        if target is None:
            if engine is not None:
                return ask_everything(engine, operators, self.columns_)
            table = self._read(X)
            return table.like(everything(operators, self.columns_, table))
        place = self._place(target)
        if isinstance(self.columns_[place], ContinuousColumn):
            raise EvidenceError(
                f"{target!r} is continuous and has no list of states. Use predict for its mean, "
                "predict_quantiles for its spread, or query for its density."
            )
        if engine is not None:
            return ask_one(engine, operators, self.columns_, place)
        table = self._read(X)
        return table.like(summary_of(operators, self.columns_, place, table))

    def _error_bars(self) -> Replicates:
        if not hasattr(self, "error_bars_"):
            raise NotLearnedError(
                "a confidence needs error bars, which this model was learned without. Use "
                "fit(frame, error_bars=True); or model.with_error_bars(frame) with the same rows."
            )
        return self.error_bars_

    def _bars(self, X: Any, target: Any, dtype: Any, confidence: float) -> Bars:
        """Probabilities with both ends, as the frame came."""
        kept = self._error_bars()
        operators = in_precision(self.operators_, dtype)
        without = tuple(in_precision(each, dtype) for each in kept.without)
        replicates = Replicates(in_precision(kept.whole, dtype), without)
        place = None if target is None else self._place(target)
        ask = partial(bars_of, asker(self.columns_, place), operators, replicates, confidence)
        engine = engine_of(X, self.columns_)
        if engine is not None:
            return Bars(*ask_bars(engine, ask, self.columns_, place))
        table = self._read(X)
        return Bars(*(table.like(found) for found in ask(table)))

    def predict(self, X: Any, target: Any = None) -> Any:
        """The most probable state of `target` given all other present cells of each row.

        Of a continuous target the posterior mean. Without a target: the table's columns with their
        missing cells filled in, each so, given the present cells of its row.
        """
        self._check_fitted()
        engine = engine_of(X, self.columns_)
        if engine is not None:
            if target is None:
                raise DataError("name a target: rows that are read in blocks are not filled in.")
            return ask_best(engine, self.operators_, self.columns_, self._place(target))
        if target is None:
            return self._completed(self._read(X))
        place = self._place(target)
        table = self._read(X)
        best = one_column(self.operators_, self.columns_, table, place, best_value)[0]
        return table.like_column(in_states(self.columns_[place], best), self.columns_[place].name)

    def predict_quantiles(
        self, X: Any, target: Any, quantile: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
    ) -> Any:
        """Quantiles of a continuous target given all other present cells: (rows, quantiles)."""
        self._check_fitted()
        place = self._place(target)
        column = self.columns_[place]
        if not isinstance(column, ContinuousColumn):
            raise EvidenceError(f"{target!r} is discrete; use predict_proba for its states.")
        levels = read_levels(quantile)
        table = self._read(X)
        found = one_column(
            self.operators_, self.columns_, table, place, lambda c, p: quantiles(column, p, levels)
        )
        return table.like({f"{q:g}": found[j] for j, q in enumerate(levels)})

    def _completed(self, table: Table) -> Any:
        found = every_column(self.operators_, self.columns_, table, best_value)
        filled = {}
        for i, c in enumerate(self.columns_):
            best = in_states(c, found[i][0])
            if c.name in table.names:
                best = c.filled(table.column(c.name), found[i][0])
            filled[c.name] = best
        return table.like(filled)

    def marginals(self, X: Any, *, dtype: Any = None) -> dict[Any, Any]:
        """P(column | all other present cells) for every column: name -> (rows, states).

        Of a continuous column its mean and its quantiles 0.05, 0.5 and 0.95.
        """
        self._check_fitted()
        operators = in_precision(self.operators_, dtype)
        engine = engine_of(X, self.columns_)
        if engine is not None:
            return ask_marginals(engine, operators, self.columns_)
        table = self._read(X)
        out = every_column(operators, self.columns_, table, summary)
        return {
            c.name: table.like(dict(zip(summary_names(c), out[i], strict=True)))
            for i, c in enumerate(self.columns_)
        }

    def predict_latent(self, X: Any, name: Any) -> Any:
        """P(latent | all present cells) of every row: (rows, states), as the frame came.

        States are numbered as in `cpts_`. Only learners of tables (learner='em') tell latents.
        """
        self._check_fitted()
        tables, graph = self._tables("predict_latent"), self.operators_.plan.graph
        latents = {graph.names[v]: v for v in sorted(graph.latent)}
        if name in [c.name for c in self.columns_]:
            raise EvidenceError(f"{name!r} is a column, not a latent. Use predict_proba for it.")
        if name not in list(latents):  # a list: names may be of any kind, and be compared only
            raise UnknownNameError("latent", name, latents)
        table = self._read(X)
        leaves, v = self.operators_.gaussians, latents[name]
        codes = latent_codes(graph, self.columns_, table, leaves)
        gaps = [u for u, c in zip(graph.observed, codes, strict=True) if (c < 0).any()]
        estep = compile_estep(graph, gaps, continuous=leaves)
        found = latent_posteriors(estep, {**tables, **leaves}, Rows(codes), [v])[v]
        return table.like(dict(enumerate(found)))

    def score_samples(self, X: Any) -> Any:
        """log P(present cells) of each row: an array, or a column of the engine's own kind.

        The closed form is signed: its scores need not sum to one over all rows and are no
        likelihood; rows to which it gives no positive probability are scored as if their columns
        were independent, times N^-½, with a warning.
        """
        self._check_fitted()
        engine = engine_of(X, self.columns_)
        if engine is not None:
            return ask_scores(engine, self.operators_, self.columns_)
        out, none = row_scores(self.operators_, self.columns_, self._read(X))
        if none.any():
            note_repaired(int(none.sum()))
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log P(present cells) per row."""
        self._check_fitted()
        engine = engine_of(X, self.columns_)
        if engine is not None:
            weight = engine_weight(sample_weight, engine)
            return mean_score(engine, self.operators_, self.columns_, weight)
        scores = self.score_samples(X)
        if not len(scores):
            raise DataError("0 sample(s): there are no rows to score.")
        return float(np.average(scores, weights=weights_of(sample_weight, self._read(X))))

    def check(self, X: Any) -> CheckReport:
        """Does the model fit these rows? Best asked of rows that it was not learned from.

        Log loss of every column against its marginal, calibration, the worst-fitting pairs of
        columns, clipped mass and identifiability: in words, as a table, and as values.
        """
        self._check_fitted()
        table = self._read(X)
        if table.length < 2:
            raise DataError(f"a check needs two rows at least, got {table.length}.")
        fit = measure_fit(self.plan_, self.operators_, self.columns_, table)
        return make_report(fit, (*self.plan_.notes, *self.operators_.notes))

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """k log N - 2 log P(rows), k free parameters and N the weight of the rows: less is better.

        Only for valid distributions: EM, stepwise EM, a refined network.
        """
        k, log, N = self._likelihood("bic", X, sample_weight)
        return k * float(np.log(N)) - 2.0 * log

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """2k - 2 log P(rows), k free parameters: less is better. For valid distributions only."""
        k, log, _ = self._likelihood("aic", X, sample_weight)
        return 2.0 * k - 2.0 * log

    def _likelihood(self, wanted: str, X: Any, sample_weight: Any) -> tuple[int, float, float]:
        """Free parameters, log-likelihood of the rows, and their weight."""
        self._check_fitted()
        choice = self.operators_.choice
        if choice is not None and choice.chosen == "marginal":
            k = sum(len(mu) - 1 for mu in self.operators_.marginals)
        elif self.operators_.tables:
            k = free_parameters(self.operators_.tables)
        else:
            raise NotLearnedError(
                f"{wanted} needs the likelihood of a valid distribution; this model was learned by "
                f"{self.diagnostics_.learner} and is signed. Use PBP(refine=True) or lt.EM(...)."
            )
        scores = self.score_samples(X)
        weight = checked_weight(sample_weight, len(scores))
        weight = np.ones(len(scores)) if weight is None else weight
        return k, float(scores @ weight), float(weight.sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> dict[Any, Any]:
        """Rows drawn from the learned distribution: a dict of columns, ready for any data frame."""
        self._check_fitted()
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise DataError(
                f"expected a positive number of samples, and a whole one, got {n_samples!r}."
            )
        rng = as_generator(random_state)
        codes = sample_rows(self.operators_, int(n_samples), rng)
        return {c.name: c.draw(x, rng) for c, x in zip(self.columns_, codes, strict=True)}

    # -- pictures ------------------------------------------------------------------------------

    def draw(self, evidence: Mapping[Any, Any] | None = None, target: Any = None) -> Drawing:
        """The graph and its junction tree; with evidence or a target: messages as they pass.

        `target` is a column, or several; default: every column that was not observed.
        """
        self._check_fitted()
        plan = self.operators_.plan
        if evidence is None and target is None:
            return doors.draw_plan(plan)
        asked = [] if target is None else named(target, plan.graph.names)
        codes, soft = one_row(self.columns_, plan.graph.names, asked, evidence or {}, {})
        known = {i for i, code in enumerate(codes) if code is not None} | {*soft}
        places = [self._place(name) for name in asked] or [
            i for i in range(len(codes)) if i not in known
        ]
        variables, columns = plan.graph.observed, self.columns_
        shown = {v: state_labels(c) for v, c in zip(variables, columns, strict=True)}
        seen = {variables[i]: str((evidence or {})[columns[i].name]) for i in sorted(known)}
        what = ", ".join(str(self.columns_[i].name) for i in places)
        given = ", ".join(f"{plan.graph.names[v]}={state}" for v, state in seen.items())
        title = f"Messages towards {what}" + (f", given {given}" if given else "")
        found = read_evidence(plan, codes, soft)
        return doors.draw_messages(
            self.operators_, found, seen, [variables[i] for i in places], shown, title
        )

    def _repr_html_inner(self) -> str:
        """What notebooks show: scikit-learn's diagram, and once fitted, the picture."""
        plain = str(super()._repr_html_inner())
        if not hasattr(self, "operators_"):
            return plain
        try:
            return plain + self.draw()._repr_html_()
        except GraphError:  # too large for a picture
            return plain

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    # -- reading questions ---------------------------------------------------------------------

    def _place(self, name: Label) -> int:
        return column_place(name, self.columns_, self.plan_.graph.names)

    def _density_factor(self, evidence: Mapping[Any, Any]) -> float:
        """log of what turns masses at points into densities, over the continuous evidence."""
        total = 0.0
        for c in self.columns_:
            value = evidence.get(c.name)
            if isinstance(c, ContinuousColumn) and isinstance(value, int | float | np.number):
                total += float(c.log_density_factor(np.array([float(value)]))[0])
        return total

    def _read(self, X: Any) -> Table:
        self._check_fitted()
        table = read_table(X, [c.name for c in self.columns_])
        known = [c.name for c in self.columns_]
        if table.names and not set(known) & set(table.names):
            raise UnknownNameError(
                "column", table.names[0], known, "None of the model's columns is there."
            )
        return table

    def _answer(self, evidence: Evidence, places: Sequence[int]) -> Answers:
        observed = self.operators_.plan.graph.observed
        return answer(self.operators_, evidence, [observed[i] for i in places])

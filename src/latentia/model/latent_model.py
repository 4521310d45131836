"""LatentModel: the engine behind the contract that scikit-learn users know. No mathematics here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from latentia import doors
from latentia.assess.intervals import checked_confidence, intervals
from latentia.data.columns.values import is_missing
from latentia.errors import DataError, GraphError, NotLearnedError, PlanError
from latentia.inference.answering import Answers, answer
from latentia.inference.evidence import Evidence, read_evidence
from latentia.inference.joint import joint_posterior, most_probable, one_answer
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density, as_answer
from latentia.inference.questions import named, one_row, read_evidence_given
from latentia.model.arrow_questions import ArrowQuestions
from latentia.model.latent_questions import (
    best_own,
    check_asked_alone,
    check_drawn_alone,
    draw_own,
    hidden_names,
    query_own,
    sampled_own,
)
from latentia.model.notices import note_outside
from latentia.model.why_questions import WhyQuestions
from latentia.seeds import as_generator
from latentia.typing import Array, ByName, Cell, FilePath, Given, Label, Names, Seed, TableLike

if TYPE_CHECKING:
    from pathlib import Path

    from latentia.draw.svg import Drawing
    from latentia.explore.local_server import PageServer
    from latentia.model.aligning import Alignment
    from latentia.model.profile import Profile


class LatentModel(ArrowQuestions, WhyQuestions):
    """A latent-variable graphical model over the columns of a table.

    Parameters
    ----------
    graph : str, edges, dict of parents, networkx graph, LatentGraph or callable, optional
        How columns and latents are tied together; or a function that makes one of these from the
        list of column names. Or a word: "auto" finds which columns hang together (default, from
        100 rows that can be read again), "tree", "islands", "chow-liu", or a `Structure`; "class"
        is one latent class that tells every column, with as many states as the data show.
    latents : dict of name -> number of states, or list of names
        The variables of the graph that are not columns. A number that is left out, or None, is
        found from the data: see `states_`.
    learner : "pbp", "paper", "spectral", "em", "stepwise", or a learner such as ``EM(...)``
        How the model is learned.
    kinds : dict of column -> "discrete" or "continuous", optional
        Kinds of columns, where the rule is not wanted: decimals with more than 10 different values
        (more than 4 if they have more than three decimals) and integers with more than 40 are
        continuous, all others discrete; half as many are enough where some are seen only once.
    state_names : dict of column -> list of states, optional
        States and their order; default: the sorted values seen in fit.
    order_by : column, or dict of latent -> column, optional
        How the states of latents are numbered: by the mean of this column, rising. Default: by
        size, the largest first; states whose shares differ by less than .02 go by what they tell.
    name_states : dict of latent -> list of names, optional
        Names of the states of latents, in that order, for answers and evidence; default: 0, 1, ….
        They may be given after the fit as well: `with_state_names`.
    link : dict of latent or discrete column -> "logit", optional
        A variable that its parents, continuous columns or many of them, tell by a multinomial logit
        instead of a table; see `coefficients`. Learners of tables ("tables", "em") take it by
        themselves where a parent is continuous; continuous columns are then normal around lines of
        their continuous parents. The default learner does so for latents, beside its own model,
        which answers for the columns.
    mechanism : dict of column -> list of variables, optional
        What the holes of a column depend on, columns (itself, too) or latents: the model then has a
        column ``R_<column>``, "missing" or "present", below these, and answers use it.

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
        variables: Names,
        evidence: ByName[Cell] | None = None,
        soft: ByName[Cell] | None = None,
        confidence: float | None = None,
        do: ByName[Cell] | None = None,
        approximate: bool = False,
    ) -> Posterior | Density:
        """P(variables | evidence): one variable, or several for their joint posterior.

        Latents are asked for as columns are, alone and together with these, and are taken as
        evidence, hard or soft; their states are numbers, or have the names of `name_states`.

        Evidence of a continuous column is a number, or an interval ``{"x": (0, 3)}``. `soft` gives
        likelihoods of states instead of one state, ``{"G": {0: .2, 1: .8}}``, or for a continuous
        column a function of its values. A continuous variable is answered by a `Density`.

        With a `confidence`, such as 0.9, the posterior has `lower` and `upper`: intervals that
        cover the sampling error (not a wrong graph). It needs fit(frame, error_bars=True).

        `do` sets variables by hand, ``do={"x": 2}``, instead of observing them: see `effect`.

        If `approximate`, tables answer by drawing where an exact answer would be too wide; the
        posterior has a `standard_error` then (zero where it is exact), and `log_evidence` is an
        estimate, too.
        """
        self._check_fitted()
        check_drawn_alone(approximate, confidence=confidence, do=do)
        level = None if confidence is None else checked_confidence(confidence)
        replicates = None if level is None else self._error_bars()
        evidence = read_evidence_given(evidence, self._graph.names)
        linked = self._query_arrows(variables, evidence, soft or {})
        if linked is None:
            linked = self._query_linked(variables, evidence, soft or {})
        if linked is not None:
            check_asked_alone(confidence=confidence, do=do, approximate=approximate or None)
            return linked
        names = named(variables, self._graph.names)
        if approximate:
            return sampled_own(self._tables_to_draw(), names, evidence, soft or {})
        if do is not None:
            return self._query_set(names, evidence, soft, do, level)
        hidden = hidden_names(self._graph, (*names, *evidence, *(soft or {})))
        if hidden:
            own = self._told(hidden)
            without = [] if level is None else self._tables_without(hidden[0])
            return query_own(own, names, evidence, soft or {}, without, level)
        codes, likelihoods = one_row(self.columns_, self._graph.names, names, evidence, soft or {})
        note_outside(self.columns_, evidence)
        places, instead = [self._place(name) for name in names], False
        if len(places) == 1:
            found = self._answer(read_evidence(self.operators_.plan, codes, likelihoods), places)
            v = self.operators_.plan.graph.observed[places[0]]
            table, log = found.probabilities[v][:, 0], float(found.log_evidence[0])
            clipped = float(found.clipped[v][0])
            instead = bool(found.repaired[0])
            if instead:
                from latentia.inference.row_answers import note_repaired

                note_repaired(1)
        else:
            flat, log, clipped = joint_posterior(self.operators_, codes, likelihoods, places)
            table = flat.reshape([self.columns_[i].cells for i in places])
        ends: tuple[Array | None, Array | None] = (None, None)
        if level is not None and replicates is not None:
            ask = partial(one_answer, codes=codes, soft=likelihoods, places=places)
            others = (ask(each) for each in replicates.without)
            flat_ends = intervals(table.ravel(), ask(replicates.whole), others, level)
            ends = (flat_ends[0].reshape(table.shape), flat_ends[1].reshape(table.shape))
        shown = {
            **evidence,
            **{k: dict(v) if isinstance(v, Mapping) else "soft" for k, v in (soft or {}).items()},
        }
        log += self._density_factor(evidence)
        columns = [self.columns_[i] for i in places]
        return as_answer(columns, np.array(table), log, clipped, shown, instead, ends, level)

    def map_query(
        self,
        variables: Names | None = None,
        evidence: ByName[Cell] | None = None,
        soft: ByName[ByName[float]] | None = None,
        random_state: Seed = 0,
    ) -> Assignment:
        """The most probable joint assignment of variables, latents or columns, given evidence.

        Without `variables`: of all that is not observed, the most probable explanation.
        Tables (learner="tables" or "em") tell it exactly, however many variables there are: along a
        chain it is Viterbi's path. Of equally probable states the first win, in the order asked.
        Closed forms look at up to a million joint states; beyond, a search answers exact=False.
        """
        self._check_fitted()
        evidence = read_evidence_given(evidence, self._graph.names)
        names = self._open_ones(evidence, soft) if variables is None else []
        names = names or named(variables, self._graph.names)
        told = self._best_arrows(names, evidence, soft or {})
        told = told or self._best_linked(names, evidence, soft or {})
        if told is not None:
            return told
        hidden = hidden_names(self._graph, (*names, *evidence, *(soft or {})))
        if hidden or self._answers_by_tables:
            own = self._told(hidden)
            try:
                return best_own(own, names, evidence, soft or {})
            except PlanError:  # too wide
                if hidden:
                    raise
        codes, likelihoods = one_row(self.columns_, self._graph.names, names, evidence, soft or {})
        places = [self._place(name) for name in names]
        found, log, exact = most_probable(
            self.operators_, codes, likelihoods, places, as_generator(random_state)
        )
        values = {
            name: self.columns_[i].labels[c]
            for name, i, c in zip(names, places, found, strict=True)
        }
        return Assignment(values, log, exact)

    def sample(
        self,
        n_samples: int = 1,
        random_state: Seed = None,
        *,
        latents: bool = False,
        joint: bool = False,
    ) -> dict[Label, Cell]:
        """Rows drawn from the learned distribution: a dict of columns, ready for any data frame.

        With `latents` the states of latents come along, before the columns; that needs tables.
        Mixed tables without a graph have a chain of trees that draws rows more like the table's;
        `joint` draws from the model that scores and answers queries all the same.
        """
        self._check_fitted()
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise DataError(
                f"expected a positive number of samples, and a whole one, got {n_samples!r}."
            )
        rng = as_generator(random_state)
        if self._alone is not None or (latents and self._arrows is not None):
            return self._draw_arrows(int(n_samples), rng, latents)
        if latents:
            return draw_own(self._told(self._hidden), int(n_samples), rng)
        drawn = self._draw_rows(int(n_samples), rng, joint)
        return {c.name: x for c, x in zip(self.columns_, drawn, strict=True)}

    def _draw_rows(self, n: int, rng: np.random.Generator, joint: bool) -> list[Cell]:
        """By the chain of a pool where it has one; else by the joint model."""
        from latentia.inference.sampling import sample_rows

        chain = self.pool_.chain if hasattr(self, "pool_") and not joint else None
        if chain is not None and chain.links:
            return chain.draw(self.columns_, self.pool_.scores, n, rng)
        codes = sample_rows(self.operators_, n, rng)
        drawn = [c.draw(x, rng) for c, x in zip(self.columns_, codes, strict=True)]
        return drawn if chain is None else chain.settled(self.columns_, drawn, rng)

    def profile(self, name: Label) -> Profile:
        """What the states of a latent look like: sizes, and every column in each of them.

        Print it for words, `.plot()` it for a picture, `.to_frame()` for a data frame. With error
        bars (fit(frame, error_bars=True)) every figure has its standard error.
        """
        from latentia.model.profiling import profile_of

        if self._arrows is not None:
            return self._profile_arrows(name)
        own = self._told([name])
        others = self._tables_without(name) if hasattr(self, "error_bars_") else []
        return profile_of(own, name, self.operators_.weight, others)

    def align(self, other: LatentModel, X: TableLike = None) -> Alignment:
        """Which states of another model's latents are the same as this one's.

        `.mapping` tells it state by state, `.agreement` how well they fit, and `.model` is the
        other model with its states numbered and named as here. Rows, by which states are matched,
        are drawn from this model, unless a table is given.
        """
        from latentia.model.aligning import align_models

        for model in (self, other):
            model._refuse_arrows("align", beside=True)
        return align_models(self, other, X, self._told(self._hidden), other._told(other._hidden))

    # -- pictures ------------------------------------------------------------------------------

    def draw(self, evidence: ByName[Cell] | None = None, target: Names | None = None) -> Drawing:
        """The graph and its junction tree; with evidence or a target: messages as they pass.

        `target` is a column, or several; default: every column that was not observed.
        """
        self._check_fitted()
        plan = self.operators_.plan
        if self._alone is not None:
            if evidence is not None or target is not None:
                self._refuse_arrows("a picture of messages")
            return doors.draw_graph(self._graph)
        if evidence is None and target is None:
            network = self.operators_.network
            if network is None:
                return doors.draw_plan(plan)
            measured = [c.name for c in self.columns_ if c.continuous]
            return doors.draw_graph(network.graph.without_states(measured))
        if self.operators_.network is not None:
            raise NotLearnedError(
                "tables answer without messages, so that there are none to draw. Use draw() for "
                "the graph, or query(...).plot() for an answer."
            )
        asked = [] if target is None else named(target, plan.graph.names)
        evidence = read_evidence_given(evidence, plan.graph.names)
        codes, soft = one_row(self.columns_, plan.graph.names, asked, evidence, {})
        known = {i for i, code in enumerate(codes) if code is not None} | {*soft}
        places = [self._place(name) for name in asked] or [
            i for i in range(len(codes)) if i not in known
        ]
        variables, columns = plan.graph.observed, self.columns_
        shown = {v: c.labels for v, c in zip(variables, columns, strict=True)}
        seen = {variables[i]: str(evidence[columns[i].name]) for i in sorted(known)}
        what = ", ".join(str(self.columns_[i].name) for i in places)
        given = ", ".join(f"{plan.graph.names[v]}={state}" for v, state in seen.items())
        title = f"Messages towards {what}" + (f", given {given}" if given else "")
        found = read_evidence(plan, codes, soft)
        return doors.draw_messages(
            self.operators_, found, seen, [variables[i] for i in places], shown, title
        )

    def explore(self, to: FilePath | None = None, **options: Given) -> PageServer | Path:
        """A page to look at: click states to know them, and see what follows.

        ``explore(to="model.html")`` writes one file that answers by itself, wherever it is opened.
        Without `to`, a server on this machine only shows the page in the browser until it is
        stopped; `rows` is a table to look through with it, `port` and `browser` (False: do not
        open one) say where. `title` names the page; `other` is a second model to compare with,
        `check` a report of ``model.check(rows)`` to show beside it.
        """
        self._check_fitted()
        return doors.explore(self, to, **options)

    def _repr_html_inner(self) -> str:
        """What notebooks show: scikit-learn's diagram, and once fitted, the picture."""
        plain = str(super()._repr_html_inner())
        if not hasattr(self, "operators_"):
            return plain
        try:
            return plain + self.draw()._repr_html_()
        except GraphError:  # too large for a picture
            return plain

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    # -- reading questions ---------------------------------------------------------------------

    def _density_factor(self, evidence: ByName[Cell]) -> float:
        """log of what turns masses at points into densities, over the continuous evidence."""
        total = 0.0
        for c in self.columns_:
            value = evidence.get(c.name)
            if not (is_missing(value) or c.is_range(value)):
                total += float(c.log_factor(c.told(value))[0])
        return total

    def _answer(self, evidence: Evidence, places: Sequence[int]) -> Answers:
        observed = self.operators_.plan.graph.observed
        return answer(self.operators_, evidence, [observed[i] for i in places])

"""Models of mixed columns with any arrows: learning them, and every question to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from latentia.announcing import warn
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import dense_columns
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import (
    ConvergenceWarning,
    DataError,
    EvidenceError,
    LatentiaError,
    NotLearnedError,
    UnknownNameError,
)
from latentia.inference.operators import independent
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.posterior_density import Density, as_answer
from latentia.inference.questions import named, one_row
from latentia.model.linked_questions import LinkedQuestions
from latentia.model.state_names import checked_names
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Cell, Codes, Given, Label, Names

if TYPE_CHECKING:
    from latentia.data.sources.progress import ProgressLike
    from latentia.exact.arrows import ArrowNetwork
    from latentia.model.arrow_figures import LineCoefficients
    from latentia.model.arrow_learning import ArrowModel
    from latentia.model.coefficients import Coefficients
    from latentia.model.links import LogitLink
    from latentia.model.opened_table import Opened
    from latentia.model.profile import Profile
    from latentia.networks.learner import Learner


class ArrowQuestions(LinkedQuestions):
    """Logits of discrete variables below continuous columns, lines of continuous ones."""

    arrows_: ArrowModel
    logits_: ArrowModel  # of coefficients only
    class_logit_: LogitLink  # the same where rows lack covariates
    _no_logits: str  # why there are none

    @property
    def _arrows(self) -> ArrowModel | None:
        found: ArrowModel | None = self.__dict__.get("arrows_")
        return found

    @property
    def _alone(self) -> ArrowModel | None:
        """The network of arrows, if nothing else answers for the columns."""
        found = self._arrows
        return found if found is not None and found.alone else None

    # -- learning ------------------------------------------------------------------------------

    def _fit_opened(
        self, opened: Opened, learner: Learner, groups: int, progress: ProgressLike = None
    ) -> Self:
        from latentia.model.class_counts import counted_latents
        from latentia.networks.em import EM
        from latentia.networks.tables import Tables

        for name in ("arrows_", "logits_", "class_logit_", "_no_logits"):
            self.__dict__.pop(name, None)
        if opened.wish is None and self._takes_arrows(opened, learner):
            return self._fit_arrows(opened, learner, groups)
        if isinstance(learner, EM | Tables) and self._has_linked_class(opened):
            first = opened.first(opened.columns)
            counted = counted_latents(opened.graph, opened.columns, first)
            opened = replace(opened, graph=counted)
        super()._fit_opened(opened, learner, groups, progress)
        if opened.wish is not None or groups:
            return self
        if self._needs_names(opened):
            self._add_names(opened)
        elif self._needs_logits(opened):
            self._add_logits(opened)
        return self

    def _takes_arrows(self, opened: Opened, learner: Learner) -> bool:
        """Is this a graph that tables alone, or a class with covariates, cannot tell?"""
        from latentia.model.arrow_learning import asked_links, dense_parents
        from latentia.model.links import is_linked_class
        from latentia.networks.em import EM
        from latentia.networks.tables import Tables

        graph, columns = opened.graph, opened.columns
        if not graph.directed or not isinstance(learner, EM | Tables):
            return False
        linked = asked_links(graph, columns, self.link)
        lines = dense_parents(graph, columns)
        if not (linked or lines):
            return False
        told = sorted(linked | {b for a, b in graph.edges if a in lines})
        return not (len(told) == 1 and is_linked_class(graph, told[0], columns))

    def _has_linked_class(self, opened: Opened) -> bool:
        """Is a latent class told by covariates?"""
        from latentia.model.arrow_learning import asked_links, dense_parents
        from latentia.model.links import is_linked_class

        graph, columns = opened.graph, opened.columns
        if opened.wish is not None or not graph.directed:
            return False
        lines = dense_parents(graph, columns)
        told = asked_links(graph, columns, self.link) | {b for a, b in graph.edges if a in lines}
        return any(is_linked_class(graph, v, columns) for v in told)

    def _fit_arrows(self, opened: Opened, learner: Learner, groups: int) -> Self:
        from latentia.assess.diagnostics import diagnose
        from latentia.data.sources.table_rows import missing_shares
        from latentia.model.arrow_learning import arrow_settings, asked_links, learn_arrows
        from latentia.networks.tables import column_plan

        self.__dict__.pop("link_", None)
        self.__dict__.pop("structure_", None)
        if groups:
            raise DataError(
                "error bars are not told where continuous columns are parents; coefficients have "
                "errors. Leave error_bars out."
            )
        smoothing, seed = arrow_settings(learner)
        linked = asked_links(opened.graph, opened.columns, self.link)
        found = learn_arrows(opened, linked, smoothing, seed, self.order_by)
        if not found.converged:
            warn("EM was stopped before it came to rest.", ConvergenceWarning)
        checked_names(found.graph, self.name_states)
        plan = column_plan(found.graph)
        places = [plan.nodes[k].columns[0] for k in plan.leaves]
        marginals = [np.full(c.cells, 1.0 / c.cells) for c in (found.columns[p] for p in places)]
        operators = independent(plan, marginals, found.weight)
        told = diagnose(operators, f"{learner!r}, by arrows", missing_shares(opened.seen))
        self._keep(plan, operators, found.columns, told)
        self.arrows_, self._ignored = found, opened.ignored
        return self

    def _needs_names(self, opened: Opened) -> bool:
        """Mixed columns whose model tells nothing of the latents that the graph names."""
        from latentia.model.mixed_plans import has_continuous

        graph = opened.graph
        if not graph.latent or not has_continuous(opened.columns):
            return False
        own = self._own_tables()
        names = {graph.names[v] for v in graph.latent}
        return not opened.counted and (own is None or not names <= {*own.hidden})

    def _add_names(self, opened: Opened) -> None:
        """Arrows beside what answers for the columns, so that latents can be asked for.

        Edges without a direction are turned into arrows that say the same.
        """
        from latentia.data.sources.table_rows import missing_shares
        from latentia.model.arrow_learning import asked_links, learn_arrows
        from latentia.model.holed_covariates import class_arrows
        from latentia.model.logits_beside import holed_class
        from latentia.structure.directing import with_arrows

        opened = replace(opened, graph=with_arrows(opened.graph)[0])
        holed = holed_class(opened.graph, opened.columns, missing_shares(opened.seen))
        try:
            linked = asked_links(opened.graph, opened.columns, self.link)
            if holed is None:
                found = learn_arrows(opened, linked, 1.0, 0, self.order_by, alone=False)
            else:
                found = class_arrows(opened, holed, self.order_by)
            checked_names(found.graph, self.name_states)
        except LatentiaError as error:  # the model of the columns stands all the same
            self.operators_ = self.operators_.told(nameless=str(error))
            return
        self.arrows_ = found

    def _needs_logits(self, opened: Opened) -> bool:
        """Has a latent continuous parents, and the model turned these arrows round?"""
        from latentia.model.logits_beside import has_covariates

        if self._link is not None or opened.counted or not opened.graph.directed:
            return False
        return has_covariates(opened.graph, opened.columns)

    def _add_logits(self, opened: Opened) -> None:
        """Coefficients beside a model that answers for latents, its states numbered as there."""
        from latentia.data.sources.table_rows import missing_shares
        from latentia.model.arrow_learning import asked_links, learn_arrows
        from latentia.model.links import learn_linked
        from latentia.model.logits_beside import classes_as_told, holed_class, states_as_told

        def like(network: ArrowNetwork, variables: Sequence[Column], h: int) -> Codes:
            asking = self._asking_latent(network.graph.names[h], "missing")
            known = [c.name for c in self.columns_]
            return states_as_told(asking, known, network, variables, h)

        def like_tables(told: Mapping[Label, Array]) -> Codes:
            own = self._linked_tables()
            tables = {name: own.answers.tables[own.graph.index(name)] for name in told}
            return classes_as_told(tables, told)

        holed = holed_class(opened.graph, opened.columns, missing_shares(opened.seen))
        try:
            linked = asked_links(opened.graph, opened.columns, self.link)
            if holed is None:
                self.logits_ = learn_arrows(opened, linked, 1.0, 0, alone=False, like=like)
            else:
                self.class_logit_ = learn_linked(opened, holed, 1.0, 0, like=like_tables)[1]
        except LatentiaError as error:  # the model stands all the same
            self._no_logits = str(error)

    # -- what was learned ----------------------------------------------------------------------

    @property
    def _graph(self) -> LatentGraph:
        found = self._arrows
        return super()._graph if found is None else found.graph

    @property
    def cpts_(self) -> dict[Label, Cell]:
        """Tables P(variable | parents) by name; coefficients where a logit or a line tells.

        Axes of tables are (parents in the order given, itself).
        """
        from latentia.exact.arrows import TableArrow

        self._check_fitted()
        found = self._arrows
        if found is None:
            return dict(super().cpts_)
        tables: dict[Label, Cell] = {}
        for v, arrow in sorted(found.network.arrows.items()):
            name = found.graph.names[v]
            tables[name] = arrow.table if isinstance(arrow, TableArrow) else self.coefficients(name)
        return tables

    def coefficients(  # type: ignore[override]
        self, latent: Label, robust: bool = False
    ) -> Coefficients | LineCoefficients:
        """What continuous parents do: log odds of a latent or discrete column, or a line, ± errors.

        Errors are of the observed information, or, if `robust`, of the sandwich form, which holds
        where the model is not quite right.
        """
        from latentia.model.arrow_figures import coefficients_of

        self._check_fitted()
        found: ArrowModel | None = self._arrows or self.__dict__.get("logits_")
        if found is None:
            return super().coefficients(latent, robust)
        return coefficients_of(found, latent, robust, self.name_states or {})

    def _parameters(self, wanted: str) -> int:
        from latentia.exact.arrows import LineArrow, LogitArrow, TableArrow

        found = self._alone
        if found is None:
            return super()._parameters(wanted)
        count = 0
        for arrow in found.network.arrows.values():
            if isinstance(arrow, TableArrow):
                count += arrow.table.size - arrow.table.size // arrow.table.shape[-1]
            elif isinstance(arrow, LogitArrow):
                count += arrow.B[1:].size
            else:
                assert isinstance(arrow, LineArrow)
                count += arrow.lines.size + arrow.variances.size
        return count

    # -- rows ----------------------------------------------------------------------------------

    def _asking(self, unknown: str) -> Given:
        from latentia.model.arrow_rows import ArrowAsking

        self._check_fitted()
        found = self._alone
        return super()._asking(unknown) if found is None else ArrowAsking(found, unknown)

    def _latent_column(self, name: Label) -> DiscreteColumn:
        """A latent of the arrows with the names of its states."""
        from latentia.model.arrow_figures import labels_in

        found = self._arrows
        assert found is not None
        if name not in found.hidden:
            raise UnknownNameError("latent", name, found.hidden)
        labels = labels_in(found, found.graph.index(name), self.name_states or {})
        return DiscreteColumn(name, labels)

    def _asking_latent(self, name: Label, unknown: str) -> Given:
        from latentia.model.arrow_rows import ArrowAsking, ArrowLatent

        found = self._arrows
        if found is None:
            return super()._asking_latent(name, unknown)
        if name in [c.name for c in self.columns_]:
            raise EvidenceError(f"{name!r} is a column, not a latent. Use predict_proba for it.")
        return ArrowLatent(ArrowAsking(found, unknown), self._latent_column(name))

    def _is_told_latent(self, name: Label) -> bool:
        found = self._arrows
        return super()._is_told_latent(name) if found is None else name in found.hidden

    def _latent_labels(self, name: Label) -> tuple[Cell, ...]:
        if self._arrows is None:
            return super()._latent_labels(name)
        return self._latent_column(name).labels

    # -- single questions ----------------------------------------------------------------------

    def _asks_arrows(self, names: Sequence[Label], *given: ByName[Cell]) -> bool:
        """Is this a question to the arrows: one of latents, if something else knows the columns?"""
        found = self._arrows
        if found is None or found.alone:
            return found is not None
        return any(name in found.hidden for name in (*names, *(k for g in given for k in g)))

    def _arrow_row(
        self, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
    ) -> tuple[ArrowModel, Array, dict[int, Array], float]:
        """The row of a question, likelihoods, and what is to be added to the log of evidence."""
        found = self._arrows
        assert found is not None
        variables = self._arrow_variables()
        codes, likelihoods = one_row(variables, found.graph.names, names, evidence, soft)
        row = np.full(len(variables), np.nan)
        for v, code in enumerate(codes):
            row[v] = np.nan if code is None else float(code[0])
        for v, column in dense_columns(range(len(variables)), variables).items():
            if codes[v] is not None:
                row[v] = float(column.scaled(column.read([evidence[column.name]]))[0])
        seen = [v for v in range(len(row)) if not np.isnan(row[v])]
        return found, row, {v: x[:, 0] for v, x in likelihoods.items()}, found.unit_shift(seen)

    def _arrow_variables(self) -> list[Column]:
        found = self._arrows
        assert found is not None
        return [
            self._latent_column(c.name) if c.name in found.hidden else c for c in found.variables
        ]

    def _query_arrows(
        self, variables: Names, evidence: ByName[Cell], soft: ByName[Cell]
    ) -> Posterior | Density | None:
        """`query` by the arrows; None where they are not asked."""
        if self._arrows is None:
            return None
        names = named(variables, self._graph.names)
        if not self._asks_arrows(names, evidence, soft):
            return None
        from latentia.exact.arrow_answers import log_joint, posterior_shares

        found, row, likelihoods, shift = self._arrow_row(names, evidence, soft)
        places = [found.graph.index(name) for name in names]
        p, log = posterior_shares(log_joint(found.network, row[None], places, likelihoods))
        if not np.isfinite(log[0]):
            raise EvidenceError("the evidence is impossible under this model.")
        shown = {
            **evidence,
            **{k: dict(v) if isinstance(v, Mapping) else "soft" for k, v in soft.items()},
        }
        own = self._arrow_variables()
        columns, level = [own[v] for v in places], float(log[0]) + shift
        return as_answer(columns, p[0], level, 0.0, shown)

    def _best_arrows(
        self, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
    ) -> Assignment | None:
        """`map_query` by the arrows; None where they are not asked."""
        from latentia.exact.arrow_answers import best_joint

        if not self._asks_arrows(names, evidence, soft):
            return None
        found, row, likelihoods, _ = self._arrow_row(names, evidence, soft)
        places = [found.graph.index(name) for name in names]
        at, log, whole = best_joint(found.network, row, places, likelihoods)
        own = self._arrow_variables()
        values = {own[v].name: own[v].labels[k] for v, k in zip(places, at, strict=True)}
        exact = not any(v in found.network.dense for v in places)
        return Assignment(values, min(log - whole, 0.0), exact)

    def _draw_arrows(self, n: int, rng: np.random.Generator, latents: bool) -> dict[Label, Cell]:
        """n rows; with latents, these come first."""
        from latentia.exact.arrow_answers import draw_arrows

        found = self._arrows
        assert found is not None
        cells, variables = draw_arrows(found.network, n, rng), self._arrow_variables()
        hidden = sorted(found.graph.latent) if latents else []
        drawn = {}
        for v in (*hidden, *found.graph.observed):
            column = variables[v]
            drawn[column.name] = column.of_measures(cells[:, v])
        return drawn

    def _profile_arrows(self, name: Label) -> Profile:
        from latentia.model.arrow_figures import profile_arrows

        found = self._arrows
        assert found is not None
        if name not in found.hidden:
            raise UnknownNameError("latent", name, found.hidden)
        return profile_arrows(found, name, self.name_states or {})

    def _refuse_arrows(self, what: str, beside: bool = False) -> None:
        """An error for what a network of arrows, alone or `beside` others, cannot do yet."""
        if (self._arrows if beside else self._alone) is not None:
            raise NotLearnedError(
                f"{what} is not made for models in which continuous columns are parents of others, "
                "or logits tell. They answer query, map_query, predict, predict_proba, marginals, "
                "transform, profile, coefficients, relate, sample, score and explore."
            )

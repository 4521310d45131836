"""Models with covariates: learning them, and questions whose evidence holds covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import DTypeLike

from latentia.data.columns.column import Column
from latentia.data.columns.values import is_missing
from latentia.data.sources.table import Table
from latentia.errors import DataError, EvidenceError, NotLearnedError
from latentia.inference.posterior import Assignment, Posterior
from latentia.inference.questions import named
from latentia.model.latent_questions import OwnTables
from latentia.model.latent_uses import LatentUses
from latentia.model.state_names import checked_names
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Cell, Codes, Given, Label, Names

if TYPE_CHECKING:
    from latentia.data.sources.engine import Engine
    from latentia.data.sources.progress import ProgressLike
    from latentia.exact.latent_rows import AskingLatent
    from latentia.exact.table_answers import TableAnswers
    from latentia.inference.row_answers import Asking, Found, ScoreSum
    from latentia.model.coefficients import Coefficients
    from latentia.model.links import LogitLink
    from latentia.model.opened_table import Opened
    from latentia.networks.learner import Abilities, Learner


class LinkedQuestions(LatentUses):
    """A latent that covariates tell by a logit: `link={"class": "logit"}`.

    The learners of tables ("tables", "em") take it by themselves where a parent is continuous.
    """

    @property
    def _link(self) -> LogitLink | None:
        found: LogitLink | None = getattr(self, "link_", None)
        return found

    def _fit_opened(
        self, opened: Opened, learner: Learner, groups: int, progress: ProgressLike = None
    ) -> Self:
        from latentia.assess.diagnostics import diagnose
        from latentia.data.sources.table_rows import missing_shares
        from latentia.model.links import learn_linked, linked_latents
        from latentia.networks.em import EM
        from latentia.networks.knowledge import least_smoothing
        from latentia.networks.tables import Tables, as_operators

        self.__dict__.pop("link_", None)
        able = isinstance(learner, EM | Tables)
        linked = linked_latents(opened.graph, opened.columns, self.link, able)
        if not linked:
            return super()._fit_opened(opened, learner, groups, progress)
        self.__dict__.pop("structure_", None)
        names = [opened.graph.names[v] for v in linked]
        if len(linked) > 1:
            shown = ", ".join(map(str, names))
            raise DataError(f"one latent can be told by a logit, got {shown}. Bin some parents.")
        if groups:
            raise DataError("error bars are not told with covariates; coefficients have errors.")
        if (opened.graph.states[linked[0]] or 1) < 2:
            raise DataError(
                f"expected two states or more of {names[0]!r}: latents={{{names[0]!r}: 2}}."
            )
        asked: Abilities = learner.abilities
        if isinstance(asked.smoothing, Mapping):
            raise DataError("expected one number as smoothing of a model with covariates.")
        seed = 0 if asked.random_state is None else asked.random_state
        found, link, columns, fit = learn_linked(
            opened, linked[0], float(least_smoothing(asked.smoothing)), seed, self.order_by
        )
        checked_names(found.graph, self.name_states)
        operators = as_operators(found)
        told = diagnose(operators, f"{learner!r}, with covariates", missing_shares(opened.seen))
        self._keep(operators.plan, operators, columns, told)
        self.link_, self._ignored = link, (*opened.ignored, *link.names)
        self.log_likelihood_ = fit.log_likelihood
        return self

    def coefficients(self, latent: Label, robust: bool = False) -> Coefficients:
        """What covariates do to the classes of a latent: log odds against the first one, ± errors.

        Errors are of the observed information, or, if `robust`, of the sandwich form, which holds
        where the model is not quite right.
        """
        self._check_fitted()
        link: LogitLink | None = self._link or self.__dict__.get("class_logit_")
        if link is None or link.latent != latent:
            why = self.__dict__.get("_no_logits") or self.operators_.provenance.nameless
            raise NotLearnedError(
                f"{latent!r} is not told by covariates. Give it parents, and "
                f"link={{{latent!r}: 'logit'}}; continuous parents of a latent make one by "
                "themselves, and those of a column with learner='tables' or 'em'."
                + (f" Here none could be made: {why}" if why else "")
            )
        found = link.robust if robust else link.coefficients
        return replace(found, classes=self._linked_tables().latent(latent).labels)

    # -- questions -----------------------------------------------------------------------------

    def _query_linked(
        self, variables: Names, evidence: ByName[Cell], soft: ByName[Cell]
    ) -> Posterior | None:
        """`query` where some of the evidence are covariates; None without them."""
        names = named(variables, self._graph.names)
        told = self._told_by_covariates(names, evidence, soft)
        if told is None:
            return None
        own, (rest, both) = self._linked_tables(), told
        table = np.asarray(own.answers.joint(list(names), rest, both)[0])
        log = float(own.answers.log_evidence(rest, both)[0])
        states = tuple(own.variables[own.graph.index(name)].labels for name in names)
        return Posterior(tuple(names), states, table, log, 0.0, {**evidence, **soft})

    def _best_linked(
        self, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
    ) -> Assignment | None:
        """`map_query` where some of the evidence are covariates; None without them."""
        from latentia.exact.max_product import max_product_states
        from latentia.exact.reading_evidence import read_codes
        from latentia.exact.tabular_model import check_rows_possible

        told = self._told_by_covariates(names, evidence, soft)
        if told is None:
            return None
        own, (rest, both) = self._linked_tables(), told
        codes, weights = read_codes(own.answers, rest, both)
        likelihoods = {v: x[0] for v, x in weights.items()}
        places = [own.graph.index(name) for name in names]
        found = max_product_states(own.graph, own.answers.tables, codes[0], likelihoods, places)
        check_rows_possible(np.array([found.log_evidence]))
        labels = (own.variables[v].labels[k] for v, k in zip(places, found.codes, strict=True))
        values = dict(zip(names, labels, strict=True))
        return Assignment(values, min(found.log_joint - found.log_evidence, 0.0), True)

    def _told_by_covariates(
        self, names: Sequence[Label], evidence: ByName[Cell], soft: ByName[Cell]
    ) -> tuple[dict[Label, Cell], dict[Label, Cell]] | None:
        """Evidence without covariates, and soft evidence with what they say; None without them.

        Those that are not given are summed out, as in a row that lacks them.
        """
        link = self._link
        given = {k: x for k, x in evidence.items() if link is not None and k in link.names}
        if link is None or not given:
            return None
        if link.latent in soft:
            raise EvidenceError(
                f"{link.latent!r} has soft evidence beside its covariates. Keep one of them."
            )
        rest = {k: x for k, x in evidence.items() if k not in given}
        twice = [name for name in (*rest, *soft) if name in names]
        if twice:
            raise EvidenceError(
                f"{twice[0]!r} is asked for and observed at once. Leave it out of the evidence."
            )
        told = [(c, given.get(c.name)) for c in link.columns]
        places = [c.nothing(1) if is_missing(x) else c.place_of(x) for c, x in told]
        return rest, {**soft, link.latent: link.of_places(places)[0]}

    def _there(self, engine: Engine, without: int | None) -> list[Label]:
        link = self._link
        kept = super()._there(engine, without)
        return kept if link is None else [*kept, *(n for n in link.names if n in engine.names)]

    def _asking_latent(self, name: Label, unknown: str) -> Given:
        asking = super()._asking_latent(name, unknown)
        link = self._link
        return asking if link is None else AskingLinked(asking, link, self._linked_tables().answers)

    def _linked_tables(self) -> OwnTables:
        own = self._own_tables()
        assert own is not None  # a link stands on tables
        return own

    def _asking(self, unknown: str) -> Given:
        asking = super()._asking(unknown)
        link = self._link
        if link is None:
            return asking
        latent = LatentUses._asking_latent(self, link.latent, unknown)
        return LinkedAsking(asking, AskingLinked(latent, link, self._linked_tables().answers))

    def _parameters(self, wanted: str) -> int:
        count, link = super()._parameters(wanted), self._link
        if link is None:
            return count
        return count + link.coefficients.values[1:].size - (len(link.share) - 1)


@final
@dataclass(frozen=True, slots=True)
class AskingLinked:
    """A latent as it is asked about rows with covariates."""

    plain: AskingLatent
    link: LogitLink
    answers: TableAnswers

    @property
    def graph(self) -> LatentGraph:
        return self.plain.graph

    @property
    def latent(self) -> int:
        return self.plain.latent

    @property
    def column(self) -> Column:
        return self.plain.column

    def read(self, table: Table) -> tuple[Codes, dict[Label, Array]]:
        """Codes of the columns, (rows, all variables), and likelihoods of the latent."""
        wide = np.full((table.length, len(self.graph.names)), -1, dtype=np.int64)
        for v, own in zip(self.graph.observed, self.plain._codes(table), strict=True):
            wide[:, v] = own
        return wide, {self.link.latent: self.link.likelihoods(table)}

    def posterior(self, table: Table, v: int) -> Array:
        """P(variable | all other present cells, covariates), (n, states)."""
        from latentia.inference.row_answers import note_impossible

        codes, soft = self.read(table)
        codes[:, v] = -1
        name = self.graph.names[v]
        possible = np.isfinite(self.answers.log_evidence(codes, soft))
        found = np.repeat(self.answers.posteriors(None, [name])[name], len(codes), axis=0)
        if possible.any():
            kept = {k: x[possible] for k, x in soft.items()}
            found[possible] = self.answers.posteriors(codes[possible], [name], kept)[name]
        note_impossible(~possible, table.first)
        return found

    def memberships(self, table: Table) -> Found:
        shares = self.posterior(table, self.latent).T
        return dict(zip(self.column.summary_names, shares, strict=True))

    def best(self, table: Table) -> Found:
        best = self.posterior(table, self.latent).argmax(axis=1)
        return {self.column.name: self.column.answers(best)}


class LinkedAsking:
    """Columns as they are asked about rows with covariates; what is not told yet says so."""

    def __init__(self, plain: Asking, latent: AskingLinked) -> None:
        self.plain = plain
        self.latent = latent

    def in_precision(self, dtype: DTypeLike | None) -> LinkedAsking:
        return self

    def one_kinds(self, place: int) -> dict[Label, type]:
        return self.plain.one_kinds(place)

    def one(self, place: int, table: Table) -> Found:
        found = self.latent.posterior(table, self.latent.graph.observed[place])
        return dict(zip(self.plain.columns[place].summary_names, found.T, strict=True))

    def best(self, place: int, table: Table) -> Found:
        found = self.latent.posterior(table, self.latent.graph.observed[place])
        column = self.plain.columns[place]
        return {column.name: column.answers(found.argmax(axis=1))}

    def scores(self, table: Table) -> Found:
        from latentia.inference.row_answers import SCORE

        codes, soft = self.latent.read(table)
        return {SCORE: self.latent.answers.log_evidence(codes, soft)}

    def score_sum(self, weight: Label | None, table: Table) -> ScoreSum | None:
        from latentia.data.sources.engine import row_weights
        from latentia.inference.row_answers import SCORE, Noted, ScoreSum

        if table.length == 0:
            return None
        log, own = self.scores(table)[SCORE], row_weights(weight, table)
        w = np.ones(table.length) if own is None else own
        some = w > 0
        lost = int(np.isneginf(log[some]).sum())
        total, weights = float(log[some] @ w[some]), float(w.sum())
        return ScoreSum(total, weights, int(some.sum()), Noted(impossible=lost))

    def __getattr__(self, name: str) -> Given:
        raise NotLearnedError(
            "a model with covariates answers query, predict, predict_proba, predict_latent, "
            f"transform, relate and score; it has no {name} yet."
        )

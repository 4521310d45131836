"""Questions to a model about every row of a table: any table, answered as the kind that came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from latentia.data.sources.table import Table
from latentia.errors import DataError, EvidenceError, NotLearnedError, UnknownNameError
from latentia.inference.operators import Operators
from latentia.inference.questions import read_levels
from latentia.model.latent_questions import (
    OwnTables,
    asking_latent,
    check_can_tell,
    kept_tables,
    kept_tables_without,
    membership_bars,
    tables_to_draw,
)
from latentia.model.score_questions import ScoreQuestions
from latentia.typing import ByName, Cell, Label, Names, TableLike

if TYPE_CHECKING:
    from latentia.assess.intervals import Bars
    from latentia.assess.jackknife import Replicates
    from latentia.exact.latent_rows import AskingLatent
    from latentia.inference.row_answers import Asking, Found


class Sampled(NamedTuple):
    """Probabilities that were drawn, and their standard errors: two tables of the same kind."""

    proba: TableLike
    error: TableLike


class TableQuestions(ScoreQuestions):
    """Everything that a fitted model can be asked about each row of a table."""

    def predict_proba(
        self,
        X: TableLike,
        target: Names | None = None,
        *,
        dtype: DTypeLike | None = None,
        confidence: float | None = None,
        unknown: str = "error",
        approximate: bool = False,
    ) -> TableLike:
        """P(target | all other present cells) of every row: (rows, states), as the frame came.

        Without a target: those of all discrete columns side by side, named ``column=state``. With
        ``dtype="float32"`` messages are passed in single precision. With a `confidence`, such as
        0.9: three such tables, ``proba, lower, upper = …``, the ends of intervals that cover the
        sampling error; it needs fit(frame, error_bars=True).

        If `approximate`, tables answer by drawing where an exact answer would be too wide: two such
        tables, ``proba, error = …``, the second of standard errors (zero where it is exact).
        """
        from latentia.assess.intervals import checked_confidence

        asking = self._asking(unknown).in_precision(dtype)
        if approximate:
            return self._sampled(X, target, asking)
        if target is not None and self._is_told_latent(target):
            return self.predict_latent(X, target, confidence=confidence, unknown=unknown)
        place = None if target is None else self._place(target)
        if confidence is not None:
            return self._bars(X, place, asking, dtype, checked_confidence(confidence))
        if place is None:
            return self._ask(X, asking.everything, asking.everything_kinds(), unknown=unknown)
        if self.columns_[place].continuous:
            raise EvidenceError(
                f"{target!r} is continuous and has no list of states. Use predict for its mean, "
                "predict_quantiles for its spread, or query for its density."
            )
        kinds = asking.one_kinds(place)
        return self._ask(X, partial(asking.one, place), kinds, place, unknown=unknown)

    def _sampled(self, X: TableLike, target: Names, asking: Asking) -> Sampled:
        """Probabilities of one variable with their standard errors, as the frame came."""
        from latentia.data.sources.engine import OneBlock

        answers = self._tables_to_draw().answers
        engine = self._open(X)
        if target is None or not isinstance(engine, OneBlock):
            raise EvidenceError(
                "approximate=True answers for one target, and for a table in memory. Name the "
                "target, and pass the rows as a frame."
            )
        place = None if self._is_told_latent(target) else self._place(target)
        asked = asking.read(engine.table, place)
        codes = np.full((asked.rows, len(answers.names)), -1, dtype=np.int64)
        for column, own in zip(self.columns_, asked.codes, strict=True):
            if own is not None:
                codes[:, answers.graph.index(column.name)] = own
        found = answers.sampled(target, codes, rng=0)
        names = range(found.table.shape[1]) if place is None else self.columns_[place].labels
        tables = (asked.spread(x.T) for x in (found.table, found.error))
        return Sampled(*(engine.table.like(dict(zip(names, x, strict=True))) for x in tables))

    def _error_bars(self) -> Replicates:
        if not hasattr(self, "error_bars_"):
            raise NotLearnedError(
                "a confidence needs error bars, which this model was learned without. Use "
                "fit(frame, error_bars=True); or model.with_error_bars(frame) with the same rows."
            )
        return self.error_bars_

    def _bars(
        self,
        X: TableLike,
        place: int | None,
        asking: Asking,
        dtype: DTypeLike | None,
        confidence: float,
    ) -> Bars:
        """Probabilities with both ends, as the frame came."""
        from latentia.assess.intervals import bars_of
        from latentia.assess.jackknife import Replicates
        from latentia.inference.many_rows import in_precision

        kept = self._error_bars()
        without = tuple(in_precision(each, dtype) for each in kept.without)
        replicates = Replicates(in_precision(kept.whole, dtype), without)
        ask = partial(bars_of, partial(_asked, asking, place), asking.operators, replicates)
        kinds = asking.everything_kinds() if place is None else asking.one_kinds(place)
        return self._three_tables(X, ask, kinds, place, confidence, asking.unknown)

    def _three_tables(
        self,
        X: TableLike,
        ask: Callable[[float, Table], Sequence[Found]],
        kinds: ByName[type],
        place: int | None,
        confidence: float,
        unknown: str,
    ) -> Bars:
        """What `ask(confidence, table)` finds of every block: probabilities, and both ends."""
        from latentia.assess.intervals import Bars
        from latentia.data.sources.engine import OneBlock

        engine = self._open(X)
        if isinstance(engine, OneBlock):
            found = ask(confidence, engine.table)
            return Bars(*(engine.table.like(each) for each in found))
        if engine.once:
            raise DataError(
                "these rows can be read only once, but probabilities with a confidence are three "
                "tables. Pass a function that opens them anew, or write them to a Parquet file."
            )
        wanted = self._checked(engine, place, unknown)
        ends = (partial(_one_of, ask, confidence, k) for k in range(3))
        return Bars(*(engine.answer(work, kinds, wanted) for work in ends))

    def predict(
        self, X: TableLike, target: Names | None = None, *, unknown: str = "error"
    ) -> TableLike:
        """The most probable state of `target` given all other present cells of each row.

        Of a continuous target the posterior mean. Without a target: the model's columns with their
        missing cells filled in, each so, given the present cells of its row.
        """
        asking = self._asking(unknown)
        if target is None:
            kinds = {c.name: c.answer_type for c in self.columns_}
            return self._ask(X, asking.filled, kinds, unknown=unknown)
        if self._is_told_latent(target):
            latent = self._asking_latent(target, unknown)
            kinds = {target: latent.column.answer_type}
            return self._ask(X, latent.best, kinds, form="column", unknown=unknown)
        place = self._place(target)
        column = self.columns_[place]
        kinds = {column.name: column.answer_type}
        return self._ask(X, partial(asking.best, place), kinds, place, "column", unknown)

    def predict_quantiles(
        self,
        X: TableLike,
        target: Names,
        quantile: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
        *,
        unknown: str = "error",
    ) -> TableLike:
        """Quantiles of a continuous target given all other present cells: (rows, quantiles)."""
        asking = self._asking(unknown)
        place = self._place(target)
        if not self.columns_[place].continuous:
            raise EvidenceError(f"{target!r} is discrete; use predict_proba for its states.")
        levels = read_levels(quantile)
        kinds = dict.fromkeys((f"{q:g}" for q in levels), self.columns_[place].summary_type)
        return self._ask(X, partial(asking.spread, place, levels), kinds, place, unknown=unknown)

    def marginals(
        self,
        X: TableLike,
        *,
        dtype: DTypeLike | None = None,
        unknown: str = "error",
        latents: bool = False,
    ) -> dict[Label, Cell]:
        """P(column | all other present cells) for every column: name -> (rows, states).

        Of a continuous column its mean and its quantiles 0.05, 0.5 and 0.95. With `latents`, those
        of latents given all present cells come along, behind the columns; that needs tables.
        """
        from latentia.data.sources.engine import OneBlock

        if latents:
            hidden = [name for name in self._hidden if self._latent_labels(name)]
            quiet = "missing" if unknown == "warn" else unknown  # told once, with the columns
            found = self.marginals(X, dtype=dtype, unknown=unknown)
            return found | {h: self.predict_latent(X, h, unknown=quiet) for h in hidden}
        asking = self._asking(unknown).in_precision(dtype)
        engine = self._open(X)
        if isinstance(engine, OneBlock):  # all columns in one look
            found = asking.all_columns(engine.table)
            return {name: engine.table.like(each) for name, each in found.items()}
        if engine.once:
            raise DataError(
                "these rows can be read only once, but marginals makes a table for each column. "
                "Use predict_proba(X), which has them all side by side."
            )
        return {
            c.name: engine.answer(
                partial(asking.one, i), asking.one_kinds(i), self._checked(engine, i, unknown)
            )
            for i, c in enumerate(self.columns_)
        }

    def predict_latent(
        self, X: TableLike, name: Label, *, confidence: float | None = None, unknown: str = "error"
    ) -> TableLike:
        """P(latent | all present cells) of every row: (rows, states), as the frame came.

        States are numbered as in `cpts_`, or have the names of `name_states`. With a `confidence`
        three such tables, as `predict_proba` has them. Only learners of tables tell latents.
        """
        from latentia.assess.intervals import checked_confidence

        asking = self._asking_latent(name, unknown)
        kinds = dict.fromkeys(asking.column.summary_names, float)
        if confidence is None:
            return self._ask(X, asking.memberships, kinds, unknown=unknown)
        quiet = "missing" if unknown == "warn" else unknown
        others = [
            asking_latent(own, self.columns_, name, quiet) for own in self._tables_without(name)
        ]
        ask = partial(membership_bars, asking, others)
        level = checked_confidence(confidence)
        return self._three_tables(X, ask, kinds, None, level, unknown)

    def _tables_without(self, name: Label) -> list[OwnTables]:
        """Tables of the user's own graph without one group of rows each."""
        kept = self._error_bars()
        found = kept_tables_without(kept, self.plan_, self.columns_, self.name_states)
        if not found:
            raise NotLearnedError(
                f"the error bars of this model have no tables of {name!r}. Make them anew: "
                "model.with_error_bars(frame) with the same rows."
            )
        return found

    def _told(self, hidden: Sequence[Label]) -> OwnTables:
        """Tables of the user's own graph, or an error that names a latent."""
        own = self._own_tables()
        why = self.operators_.provenance.nameless
        check_can_tell(own, hidden, self.diagnostics_.learner, why)
        assert own is not None
        return own

    def _latent_labels(self, name: Label) -> tuple[Cell, ...]:
        """States of a latent, or an error for a model that has no table of it."""
        return self._told([name]).latent(name).labels

    def _tables_to_draw(self) -> OwnTables:
        return tables_to_draw(self._own_tables(), self.diagnostics_.learner)

    def _own_tables(self) -> OwnTables | None:
        """Tables of the user's own graph, if there are any."""
        self._check_fitted()
        return kept_tables(self.plan_, self.operators_, self.columns_, self.name_states)

    @property
    def _hidden(self) -> list[Label]:
        """The latents by name; a model without any is refused what needs one."""
        self._check_fitted()
        names = list(self.states_)
        if not names:
            raise EvidenceError("this model has no latents. Name one in the graph, or in latents.")
        return names

    @property
    def _answers_by_tables(self) -> bool:
        """Are columns answered by the tables of the user's own graph, too?"""
        own, operators = self._own_tables(), self.operators_
        beside = operators.network is None and operators.beside is not None
        return own is not None and operators.valid and not beside and own.graph == self._graph

    def _is_told_latent(self, name: Label) -> bool:
        """Is this a latent of which the model has a table?"""
        own = self._own_tables()
        return own is not None and name in own.hidden

    def _asking_latent(self, name: Label, unknown: str) -> AskingLatent:
        self._check_fitted()
        if name in [c.name for c in self.columns_]:
            raise EvidenceError(f"{name!r} is a column, not a latent. Use predict_proba for it.")
        own = self._own_tables()
        if own is None:
            raise NotLearnedError(self._lacks("predict_latent", "tables"))
        if name not in own.hidden:  # a tuple: names may be of any kind, and be compared only
            raise UnknownNameError("latent", name, own.hidden)
        return asking_latent(own, self.columns_, name, unknown)


def _asked(asking: Asking, place: int | None, operators: Operators, table: Table) -> Found:
    """What a table is asked: probabilities of one column's states, or of all columns'."""
    own = asking if operators is asking.operators else asking.using(operators)
    return own.everything(table) if place is None else own.one(place, table)


def _one_of(
    ask: Callable[[float, Table], Sequence[Found]], confidence: float, which: int, table: Table
) -> Found:
    found: Found = ask(confidence, table)[which]
    return found

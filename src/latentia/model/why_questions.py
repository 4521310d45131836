"""Questions of cause: interventions, effects and their intervals, to a model with tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import DTypeLike

from latentia.data.columns.column import Column, is_present
from latentia.data.sources.table import Table
from latentia.errors import DataError, EvidenceError, NotLearnedError
from latentia.inference.operators import Operators
from latentia.inference.posterior import Posterior
from latentia.inference.questions import read_evidence_given, without_missing
from latentia.model.latent_questions import check_drawn_alone, own_tables
from latentia.model.table_questions import TableQuestions
from latentia.structure.plan import Plan
from latentia.typing import Array, ByName, Cell, Codes, Given, Label, Names, TableLike

if TYPE_CHECKING:
    from latentia.assess.intervals import Bars
    from latentia.data.sources.engine import Engine
    from latentia.exact.sensitivity import Sensitivity
    from latentia.exact.table_answers import TableAnswers
    from latentia.inference.row_answers import Found
    from latentia.model.effects import Effect
    from latentia.model.explaining import Explanation


class WhyQuestions(TableQuestions):
    """What would be if a variable were set by hand."""

    def effect(
        self,
        treatment: Label,
        outcome: Label,
        evidence: ByName[Cell] | None = None,
        *,
        baseline: Label = None,
        confidence: float | None = None,
    ) -> Effect:
        """P(outcome | do treatment, evidence) for every state of the treatment, and its changes.

        The arrows into the treatment are cut in the graph's own tables, so that whatever confounds
        it is accounted for, latents too. The answer names the columns by which the effect could be
        told without the model (back-door or front-door); a warning says if none can. Changes are
        against the `baseline`, the first state unless named. A `confidence` needs error bars.

        >>> import numpy as np, latentia as lt
        >>> rng = np.random.default_rng(0)
        >>> ill = rng.random(4000) < 0.4
        >>> drug = rng.random(4000) < np.where(ill, 0.8, 0.2)  # the ill take it more often
        >>> well = rng.random(4000) < 0.6 - 0.4 * ill + 0.2 * drug
        >>> data = {"ill": ill * 1, "drug": drug * 1, "well": well * 1}
        >>> model = lt.LatentModel("ill -> drug, well; drug -> well", learner="tables").fit(data)
        >>> effect = model.effect("drug", "well")
        >>> effect.identification.back_door, round(effect.average[1], 1)
        (('ill',), 0.2)
        """
        from latentia.assess.intervals import checked_confidence
        from latentia.model.effects import effect_of, note_unidentified, with_confidence

        answers = self._cut_by()
        level = None if confidence is None else checked_confidence(confidence)
        found = effect_of(answers, treatment, outcome, evidence, baseline)
        note_unidentified(answers.graph, [treatment], [outcome], list(found.evidence or {}))
        if level is None:
            return found
        kept = self._error_bars()
        whole, *without = (self._tables_of(each) for each in (kept.whole, *kept.without))
        return with_confidence(found, without, whole, level)

    def explain(
        self, target: Names, row: Cell, *, state: Label = None, order: object = "given"
    ) -> Explanation:
        """How far each piece of evidence in a row has moved P(target = state), in log-odds.

        Once by leaving it out, and once by adding one after the other, in the order given, in that
        of their "strength", or in that of a list. `state` is the one in the row, or the most
        probable. The answer is words, a `frame()` and a picture, `plot()`.
        """
        from latentia.model.explaining import explain_by

        self._check_fitted()
        model: Given = self  # what answers is defined above it

        def ask(evidence: ByName[Cell]) -> Posterior:
            found = model.query(target, evidence)
            if not isinstance(found, Posterior):
                raise EvidenceError(
                    f"{target!r} is continuous and has no states to explain. Bin it, or explain a "
                    "discrete column or latent."
                )
            return found

        return explain_by(ask, target, row, self._graph.names, state, order)

    def sensitivity(
        self,
        target: Names,
        evidence: ByName[Cell] | None = None,
        *,
        state: Label = None,
        of: Names | None = None,
    ) -> Sensitivity:
        """How P(target = state | evidence) depends on each cell of the tables: exact slopes.

        The other cells of a row change in proportion. `of` names the variables whose tables are
        looked at; `state` is the most probable one unless named. Cells tell the answer at any
        value: ``cell.at(0.3)``.
        """
        from latentia.exact.sensitivity import sensitivity_of

        own = self._cut_by()
        given = without_missing(read_evidence_given(evidence, own.names))
        return sensitivity_of(own, target, given, state, of)

    def _open_ones(self, evidence: ByName[Cell] | None, soft: ByName[Cell] | None) -> list[Label]:
        """What is not observed; latents only where there are tables of them."""
        own = self._own_tables()
        names = [c.name for c in self.columns_] if own is None else own.graph.names
        known = [*without_missing(evidence), *(soft or {})]
        found = [name for name in names if name not in known]
        if not found:
            raise EvidenceError("everything is observed, so that nothing is left to explain it.")
        return found

    def _query_set(
        self,
        names: Sequence[Label],
        evidence: ByName[Cell] | None,
        soft: ByName[Cell] | None,
        do: ByName[Cell],
        level: float | None,
    ) -> Posterior:
        """P(names | evidence, do …)."""
        from latentia.assess.intervals import intervals
        from latentia.exact.surgery import check_apart
        from latentia.model.effects import intervened, note_unidentified, query_tables

        answers, given = self._cut_by(), without_missing(evidence)
        check_apart(do, names, given, soft)
        found = query_tables(intervened(answers, do), names, given, soft or {})
        note_unidentified(answers.graph, list(do), names, [*given, *(soft or {})])
        found = replace(found, do=dict(do))
        if level is None:
            return found

        def ask(operators: Operators) -> Array:
            own = intervened(self._tables_of(operators), do)
            return query_tables(own, names, given, soft or {}).table

        kept = self._error_bars()
        others = (ask(each) for each in kept.without)
        lower, upper = intervals(found.table, ask(kept.whole), others, level)
        return replace(found, lower=lower, upper=upper, confidence=level)

    def predict_proba(
        self,
        X: TableLike,
        target: Names | None = None,
        *,
        dtype: DTypeLike | None = None,
        confidence: float | None = None,
        unknown: str = "error",
        do: ByName[Cell] | None = None,
        approximate: bool = False,
    ) -> TableLike:
        """P(target | all other present cells) of every row: (rows, states), as the frame came.

        Without a target: those of all discrete columns side by side, named ``column=state``. With
        ``dtype="float32"`` messages are passed in single precision. With a `confidence`, such as
        0.9: three such tables, ``proba, lower, upper = …``, the ends of intervals that cover the
        sampling error; it needs fit(frame, error_bars=True).

        With ``do={"x": 2}``: P(target | other cells, do x=2), whatever the rows say of x. The other
        cells are what is seen once x is set; leave out columns that x changes, and that were seen
        before.

        If `approximate`, tables answer by drawing where an exact answer would be too wide: two such
        tables, ``proba, error = …``, the second of standard errors (zero where it is exact).
        """
        from latentia.assess.intervals import checked_confidence

        check_drawn_alone(approximate, confidence=confidence, do=do)
        if do is None:
            return super().predict_proba(
                X,
                target,
                dtype=dtype,
                confidence=confidence,
                unknown=unknown,
                approximate=approximate,
            )
        engine, asking = self._open(X), self._asking_set(target, do, unknown)
        self._note_rows(engine, asking)
        if confidence is not None:
            return self._set_bars(engine, asking, checked_confidence(confidence))
        return engine.answer(asking.shares, asking.kinds, self._there(engine, None))

    def predict(
        self,
        X: TableLike,
        target: Names | None = None,
        *,
        unknown: str = "error",
        do: ByName[Cell] | None = None,
    ) -> TableLike:
        """The most probable state of `target` given all other present cells of each row.

        Of a continuous target the posterior mean. Without a target: the model's columns with their
        missing cells filled in, each so, given the present cells of its row. With ``do={"x": 2}``:
        as if x were set to 2, see `predict_proba`.
        """
        if do is None:
            return super().predict(X, target, unknown=unknown)
        engine, asking = self._open(X), self._asking_set(target, do, unknown)
        self._note_rows(engine, asking)
        column = next((c for c in self.columns_ if c.name == target), None)
        kind = int if column is None else column.answer_type
        return engine.answer(asking.best, {target: kind}, self._there(engine, None), "column")

    def _asking_set(self, target: Names, do: ByName[Cell], unknown: str) -> AskingSet:
        from latentia.exact.surgery import check_apart
        from latentia.model.effects import intervened

        if target is None:
            raise EvidenceError("expected a target to predict with do. Name one column or latent.")
        answers = self._cut_by()
        v = answers.graph.index(target)
        check_apart(do, [target], None, None)
        cut = intervened(answers, do)
        return AskingSet(cut, tuple(self.columns_), v, dict(do), unknown)

    def _note_rows(self, engine: Engine, asking: AskingSet) -> None:
        """What the rows hold is given, besides what is asked for or set."""
        from latentia.model.effects import note_unidentified

        target = asking.answers.names[asking.variable]
        note_unidentified(self._graph, list(asking.do), [target], self._there(engine, None))

    def _set_bars(self, engine: Engine, asking: AskingSet, confidence: float) -> Bars:
        """Shares with both ends, as the frame came."""
        from latentia.assess.intervals import Bars, bars_of
        from latentia.data.sources.engine import OneBlock

        if not isinstance(engine, OneBlock):
            raise DataError(
                "probabilities with do and a confidence are made for tables in memory. Ask for the "
                "rows block by block."
            )
        ask = partial(_shares_of, asking, self.plan_)
        found = bars_of(ask, self.operators_, self._error_bars(), confidence, engine.table)
        return Bars(*(engine.table.like(each) for each in found))

    def _cut_by(self) -> TableAnswers:
        """The graph's own tables, or an error that says why there are none."""
        from latentia.exact.surgery import check_can_be_set

        self._check_fitted()
        check_can_be_set(self._graph)
        if hasattr(self, "link_") or hasattr(self, "arrows_"):
            raise NotLearnedError(
                "effects and sensitivities are computed from tables, and this model has a logit of "
                "covariates or lines besides. Bin continuous parents, and leave link= out."
            )
        own = self._own_tables()
        if own is not None and not own.mixed:
            return own.answers
        odd = next((c.name for c in self.columns_ if c.continuous), None)
        if odd is not None:
            raise NotLearnedError(
                f"effects are computed from tables, and {odd!r} is continuous. Bin it, or name its "
                "kind: kinds={column: 'discrete'}."
            )
        raise NotLearnedError(
            f"effects are computed from the graph's own tables, which this model, learned by "
            f"{self.diagnostics_.learner}, has not. Use learner='tables' or 'em'."
        )

    def _tables_of(self, operators: Operators) -> TableAnswers:
        """The tables of a replicate."""
        found = own_tables(self.plan_, operators, self.columns_, self.name_states)
        if found is None:
            raise NotLearnedError(
                "the error bars of this model hold no tables, so that effects have none. Learn it "
                "with lt.EM(...) and fit(frame, error_bars=True)."
            )
        return found.answers


@final
@dataclass(frozen=True, slots=True)
class AskingSet:
    """A variable as it is asked for in every row, others being set by hand."""

    answers: TableAnswers  # after the intervention
    columns: tuple[Column, ...]
    variable: int
    do: ByName[Cell]
    unknown: str = "error"

    def __post_init__(self) -> None:
        from latentia.inference.row_answers import check_unknown

        check_unknown(self.unknown)

    @property
    def labels(self) -> tuple[Cell, ...]:
        from latentia.exact.reading_evidence import labels_of

        return labels_of(self.answers, self.variable)

    @property
    def kinds(self) -> dict[Label, type]:
        return dict.fromkeys(self.labels, float)

    def shares(self, table: Table) -> Found:
        """P(state | other cells, do …), (rows,) each."""
        from latentia.exact.own_network import OwnNetwork
        from latentia.inference.row_answers import note_impossible

        network = OwnNetwork(self.answers, ())
        found, impossible = network.posterior(self._codes(table), {}, self.variable)
        note_impossible(impossible, table.first)
        return dict(zip(self.labels, found, strict=True))

    def best(self, table: Table) -> Found:
        """The most probable state of every row."""
        place = np.stack(list(self.shares(table).values())).argmax(axis=0)
        name = self.answers.names[self.variable]
        column = next((c for c in self.columns if c.name == name), None)
        return {name: place if column is None else column.answers(place)}

    def _codes(self, table: Table) -> Codes:
        """(rows, variables): what is set has its state in every row, whatever it was."""
        from latentia.exact.surgery import read_do
        from latentia.inference.row_answers import note_unknown

        graph = self.answers.graph
        found = np.full((table.length, len(graph.names)), -1, dtype=np.int64)
        for v, c in zip(graph.observed, self.columns, strict=True):
            if c.name not in table.names or c.name in self.do:
                continue
            values = table.column(c.name)
            if self.unknown != "error":
                values, odd = c.known(values)
                if self.unknown == "warn" and odd.any():
                    note_unknown([(c.name, int(odd.sum()), values.cells[int(odd.argmax())])])
            cells = c.place(values)
            found[:, v] = np.where(is_present(cells), cells, -1)
        for v, code in read_do(self.answers, self.do).items():
            found[:, v] = code
        return found


def _shares_of(asking: AskingSet, plan: Plan, operators: Operators, table: Table) -> Found:
    """The same question to other tables."""
    from latentia.exact.table_answers import TableAnswers
    from latentia.model.effects import intervened

    own = own_tables(plan, operators, asking.columns)
    if own is None:
        raise NotLearnedError(
            "the error bars of this model hold no tables, so that effects have none. Learn it with "
            "lt.EM(...) and fit(frame, error_bars=True)."
        )
    names = asking.answers.state_names
    named = TableAnswers(own.answers.graph, own.answers.cpts, state_names=names)
    return replace(asking, answers=intervened(named, asking.do)).shares(table)

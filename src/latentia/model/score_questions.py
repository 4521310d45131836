"""How likely the rows of a table are, and whether a model fits them; the way of any question."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from latentia.errors import DataError, EvidenceError, NotLearnedError, UnknownNameError
from latentia.inference.questions import column_place
from latentia.model.learning import Learning
from latentia.model.notices import note_not_asked
from latentia.typing import ByName, Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.assess.report import CheckReport
    from latentia.data.sources.engine import Answer, Engine, Form
    from latentia.data.sources.table_rows import TableRows
    from latentia.inference.row_answers import Asking


class ScoreQuestions(Learning):
    """What a fitted model says of rows as a whole.

    Tables may be whatever `fit` takes. `unknown` tells what becomes of cells that hold no state
    which was learned: an "error", as good as "missing", or the same with a warning ("warn").
    """

    def score_samples(self, X: TableLike, *, unknown: str = "error") -> TableLike:
        """log P(present cells) of each row: an array, or a column of the engine's own kind.

        The closed form is signed: its scores need not sum to one over all rows and are no
        likelihood; rows to which it gives no positive probability are scored as if their columns
        were independent, times N^-½, with a warning. Impossible rows are scored -inf.
        """
        from latentia.data.sources.table_rows import TableRows
        from latentia.inference.row_answers import SCORE

        asking, engine = self._asking(unknown), self._open(X)
        self._note_not_asked(TableRows(engine))
        return engine.answer(
            asking.scores, {SCORE: float}, self._checked(engine, None, unknown), "array"
        )

    def _note_not_asked(self, rows: TableRows) -> None:
        """Columns that the model does not know, unless `fit` has told of them."""
        known = [*(c.name for c in self.columns_), *self._ignored]
        note_not_asked([name for name in rows.names if name not in known])

    def score(
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        sample_weight: WeightLike | None = None,
        *,
        unknown: str = "error",
    ) -> float:
        """Mean log P(present cells) per row; -inf if one of them is impossible."""
        total, weight = self._score_sums(X, sample_weight, unknown)
        return total / weight

    def _score_sums(
        self, X: TableLike, sample_weight: WeightLike | None, unknown: str
    ) -> tuple[float, float]:
        """Σ w log P(row) and Σ w: a fold like any other."""
        from latentia.data.sources.engine import OneBlock
        from latentia.data.sources.table_rows import WEIGHT, TableRows
        from latentia.data.sources.weights import check_total, checked_weight, weight_name

        asking, engine = self._asking(unknown), self._open(X)
        name = weight_name(sample_weight, engine.names)
        if isinstance(engine, OneBlock) and sample_weight is not None and name is None:
            own = checked_weight(sample_weight, engine.table.length)
            engine, name = OneBlock(engine.table.beside(WEIGHT, own)), WEIGHT
        elif sample_weight is not None and name is None:
            raise DataError(
                "expected sample_weight to be the name of a column for a table that is read in "
                f"blocks, got {type(sample_weight).__name__}. Put the weights into a column."
            )
        self._note_not_asked(TableRows(engine, name))
        wanted = [*self._there(engine, None), *([] if name is None else [name])]
        found = engine.fold(partial(asking.score_sum, name), wanted)
        if found is None or not found.rows:
            raise DataError("0 sample(s): there are no rows to score.")
        check_total(0, found.weight)
        found.noted.tell()
        return found.log, found.weight

    def check(self, X: TableLike, *, unknown: str = "missing") -> CheckReport:
        """Does the model fit these rows? Best asked of rows that it was not learned from.

        Log loss of every column against its marginal, calibration, the worst-fitting pairs of
        columns, clipped mass and identifiability: in words, as a table, and as values. Cells that
        hold no state which was learned are as good as missing, and counted; with `unknown`
        ``"warn"`` it is said which, with ``"error"`` the first of them is an error.
        """
        from latentia.assess.fit_figures import measure_fit
        from latentia.assess.report import make_report

        self._check_fitted()
        self._refuse_arrows("check")
        fit = measure_fit(self.plan_, self.operators_, self.columns_, self._open(X), unknown)
        return make_report(fit, (*self.plan_.notes, *self.operators_.provenance.notes))

    def bic(self, X: TableLike, sample_weight: WeightLike | None = None) -> float:
        """k log N - 2 log P(rows), k free parameters and N the weight of the rows: less is better.

        Only for valid distributions: EM, stepwise EM, a refined network.
        """
        k = self._parameters("bic")
        log, N = self._score_sums(X, sample_weight, "error")
        return k * float(np.log(N)) - 2.0 * log

    def aic(self, X: TableLike, sample_weight: WeightLike | None = None) -> float:
        """2k - 2 log P(rows), k free parameters: less is better. For valid distributions only."""
        k = self._parameters("aic")
        return 2.0 * k - 2.0 * self._score_sums(X, sample_weight, "error")[0]

    def _parameters(self, wanted: str) -> int:
        """Free parameters of a valid distribution."""
        from latentia.networks.accelerate import free_parameters

        self._check_fitted()
        if self.operators_.independent:
            return sum(len(mu) - 1 for mu in self.operators_.marginals)
        if self.operators_.valid:
            return free_parameters(self.operators_.model_tables)
        raise NotLearnedError(
            f"{wanted} needs the likelihood of a valid distribution; this model was learned by "
            f"{self.diagnostics_.learner} and is signed. Use PBP(refine=True) or lt.EM(...)."
        )

    def _refuse_arrows(self, what: str, beside: bool = False) -> None:
        """An error for what some models cannot be asked; these can."""

    # -- the way of a question -----------------------------------------------------------------

    def _asking(self, unknown: str) -> Asking:
        from latentia.inference.row_answers import Asking

        self._check_fitted()
        return Asking(self.operators_, self.columns_, unknown, getattr(self, "pool_", None))

    def _ask(
        self,
        X: TableLike,
        work: Answer,
        kinds: ByName[type],
        without: int | None = None,
        form: Form = "table",
        unknown: str = "error",
    ) -> TableLike:
        """What `work` finds for every row of a table, as the kind of table that came."""
        engine = self._open(X)
        return engine.answer(work, kinds, self._checked(engine, without, unknown), form)

    def _checked(self, engine: Engine, without: int | None, unknown: str) -> list[Label]:
        """The columns that a question reads; their cells are looked at where errors get lost."""
        from latentia.data.sources.engine import check_cells

        wanted = self._there(engine, without)
        if unknown == "error":
            asked = [c for i, c in enumerate(self.columns_) if i != without]
            check_cells(engine, asked, wanted)
        return wanted

    def _open(self, X: TableLike) -> Engine:
        """The table that is asked about; some of its columns must be the model's."""
        from latentia.data.sources.indicators import with_indicators
        from latentia.data.sources.opening import open_question
        from latentia.model.mechanism import indicator_names

        self._check_fitted()
        known = [c.name for c in self.columns_]
        told = indicator_names(self.mechanism)
        own = [c for c in self.columns_ if c.name not in told]
        engine = with_indicators(open_question(X, own), told)
        if engine.names and not set(known) & set(engine.names):
            raise UnknownNameError(
                "column", engine.names[0], known, "None of the model's columns is there."
            )
        return engine

    def _there(self, engine: Engine, without: int | None) -> list[Label]:
        """The model's columns that the table has and the question needs; at least one, to count."""
        names = [c.name for c in self.columns_ if c.name in engine.names]
        kept = [n for n in names if without is None or n != self.columns_[without].name]
        return kept or names

    def _place(self, name: Label) -> int:
        self._check_fitted()
        if name in self._silent:
            raise EvidenceError(
                f"no column lies below {name!r}: rows tell nothing of it, and the model does "
                "without. Tie it to columns that it acts on, or leave it out of the graph."
            )
        return column_place(name, self.columns_, self._graph.names)

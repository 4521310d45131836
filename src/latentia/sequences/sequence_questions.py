"""Questions to sequences: filter, smooth, decode, score, forecast, sample, one step at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from latentia.announcing import warn
from latentia.assess.intervals import checked_confidence
from latentia.data.sources.opening import open_question
from latentia.errors import DataError, EvidenceError, ImpossibleRowWarning
from latentia.inference.posterior import Posterior
from latentia.inference.posterior_density import Density, as_answer
from latentia.model.contract import Estimator
from latentia.seeds import as_generator
from latentia.sequences.chain_errors import asked_replicates
from latentia.sequences.chain_forecasts import (
    forecast_steps,
    latent_headings,
    next_columns,
    sampled_inputs,
)
from latentia.sequences.chain_intervals import with_intervals
from latentia.sequences.chain_questions import (
    Beliefs,
    Chain,
    believed_cells,
    decode_states,
    filter_states,
    sample_steps_of,
    smooth_states,
)
from latentia.sequences.comparing_chains import parameters_of
from latentia.sequences.fitting_chains import FittedChain
from latentia.sequences.long_rows import (
    LongSteps,
    Naming,
    empty_cells,
    listed_sequences,
    read_long,
)
from latentia.sequences.online_state import OnlineState
from latentia.sequences.signed_chain import SignedChain
from latentia.sequences.signed_questions import (
    SignedOnline,
    check_column,
    nameless,
    sample_signed,
    signed_forecast,
    signed_next,
    signed_query,
    signed_scores,
)
from latentia.sequences.slices import Slice
from latentia.sequences.step_answers import (
    like_column,
    like_tables,
    new_table,
)
from latentia.sequences.step_data import Sequences, missing_cells
from latentia.typing import Cell, Given, Label, Seed, TableLike


class SequenceQuestions(Estimator):
    """Everything that a fitted model can be asked about sequences."""

    _learned: ClassVar[str] = "fitted_"
    fitted_: FittedChain

    @property
    def slice_(self) -> Slice:
        """The slice as it was read."""
        return self._known.slice

    def filter(self, X: TableLike, *, lengths: ArrayLike | None = None) -> TableLike:
        """P(latent | rows so far) for every row: a table with columns ``z=0``, ``z=1``, …"""
        chain, (steps, naming) = self._chain, self._read(X, lengths)
        found = filter_states(chain, steps.sequences, scored=False)
        return self._told(steps, naming, found)

    def smooth(self, X: TableLike, *, lengths: ArrayLike | None = None) -> TableLike:
        """P(latent | all rows of the sequence) for every row."""
        chain, (steps, naming) = self._chain, self._read(X, lengths)
        return self._told(steps, naming, smooth_states(chain, steps.sequences))

    def decode(self, X: TableLike, *, lengths: ArrayLike | None = None) -> TableLike:
        """States of the latents on the most probable path: a column, or a table for several."""
        chain, (steps, naming) = self._chain, self._read(X, lengths)
        layout, path = decode_states(chain, steps.sequences)
        found = {
            self.slice_.names[v]: self._chain.labelled(v, steps.to_rows(layout.values[v, 0][path]))
            for v in sorted(self.slice_.latent)
        }
        if not found:
            raise EvidenceError("the slice has no latent; there is nothing to decode.")
        if len(found) == 1:
            ((name, values),) = found.items()
            return self._listed(like_column(steps.tables, name, values, naming.blocks), naming)
        return self._listed(like_tables(steps.tables, found, naming.blocks), naming)

    def score_samples(self, X: TableLike, *, lengths: ArrayLike | None = None) -> TableLike:
        """log P(row | rows before it in its sequence), densities per unit; -inf if it cannot be.

        The sum over a sequence is its log-likelihood.
        """
        steps, naming = self._read(X, lengths)
        signed = self._signed
        if signed is None:
            levels = filter_states(self._chain, steps.sequences).log_scale
        else:
            levels = signed_scores(self._known, signed, steps.sequences)
        scores = steps.to_rows(levels) + steps.log_slopes
        if not naming.blocks:
            return self._listed(scores, naming)
        ends = np.cumsum([t.length for t in steps.tables])[:-1]
        return np.split(scores, ends)

    def score(
        self, X: TableLike, y: ArrayLike | None = None, *, lengths: ArrayLike | None = None
    ) -> float:
        """Mean of `score_samples` over all rows."""
        found = self.score_samples(X, lengths=lengths)
        return float(np.mean(np.concatenate(found) if isinstance(found, list) else found))

    def bic(self, X: TableLike, *, lengths: ArrayLike | None = None) -> float:
        """k log N − 2 log P(rows), k free parameters and N rows: less is better."""
        return self._penalised(X, lengths, None)

    def aic(self, X: TableLike, *, lengths: ArrayLike | None = None) -> float:
        """2 k − 2 log P(rows): less is better."""
        return self._penalised(X, lengths, 2.0)

    def predict_next(self, X: TableLike, *, lengths: ArrayLike | None = None) -> TableLike:
        """P(columns of a row | rows before it in its sequence): a table with as many rows.

        What was to be expected one step ahead, as `forecast` tells it of the step behind the last:
        ``word=a``, means and quantiles of continuous columns, P(latent) where latents have states.
        """
        steps, naming = self._read(X, lengths)
        if self._signed is None:
            told = next_columns(self._chain, steps.sequences)
        else:
            told = signed_next(self._known, self._signed, steps.sequences)
        rows = {name: steps.to_rows(np.asarray(x)) for name, x in told.items()}
        return self._listed(like_tables(steps.tables, rows, naming.blocks), naming)

    def forecast(
        self,
        X: TableLike,
        steps: int = 1,
        *,
        given: Given = None,
        lengths: ArrayLike | None = None,
    ) -> TableLike:
        """The next `steps` steps of every sequence: a long table.

        A row for each sequence and step ahead: probabilities of states as ``word=a``, of continuous
        columns mean and quantiles, and P(latent). `given` is a table of the inputs of these steps,
        if the slice has any: as many rows for each sequence.
        """
        count = int(number_from("steps", steps, 1))
        read, naming = self._read(X, lengths)
        if self._signed is None:
            told = forecast_steps(self._chain, read, naming, count, given)
        elif given is not None:
            raise EvidenceError("given= holds inputs of steps to come, but the slice has none.")
        else:
            told = signed_forecast(self._known, self._signed, read, naming, count)
        return new_table(read.tables, told)

    def query(
        self, variable: Label, at: int, given: Given = None, *, confidence: float | None = None
    ) -> Posterior | Density:
        """P(variable at step `at` of one sequence | its rows): steps count from 0.

        Steps behind the last row are forecast. `given` is the table of one sequence. With a
        `confidence`, such as 0.9, shares have `lower` and `upper` (after ``error_bars=True``).
        """
        bars = None
        if confidence is not None:
            confidence = checked_confidence(confidence)
            bars = asked_replicates(self.fitted_.replicates if self._chain else None)
        v = self.slice_.index(variable)
        if isinstance(at, bool) or not isinstance(at, int | np.integer) or at < 0:
            raise EvidenceError(f"expected at as a step from 0 on, got {at!r}.")
        if v in self.slice_.given:
            raise EvidenceError(f"{variable!r} is given, not modelled.")
        if given is None:
            none = {u: empty_cells(c, 0) for u, c in self._known.columns.items()}
            sequences = Sequences(none, np.array([0, 0]))
        else:
            sequences = self._read(given, None, one=True)[0].sequences
        if len(sequences) != 1:
            raise EvidenceError(f"expected the rows of one sequence, got {len(sequences)}.")
        sequences = sequences.longer(max(0, int(at) + 1 - sequences.steps))
        if v not in self.slice_.latent and not missing_cells(sequences.cells[v])[at]:
            raise EvidenceError(
                f"{variable!r} is told at step {at}. Leave the cell missing to ask for it."
            )
        if self._signed is not None:
            check_column(self._known, v)
            return signed_query(self._known, self._signed, sequences, v, int(at))
        found = smooth_states(self._chain, sequences)
        self._note_impossible(found)
        if v in self.slice_.latent:
            p = found.of(v)[:, at]
            answer: Posterior | Density = Posterior(
                (variable,), (self._chain.labels(v),), p / p.sum()
            )
        else:
            p = believed_cells(self._chain, found, sequences, v, np.array([at]))[:, 0]
            answer = as_answer([self._chain.columns[v]], p / p.sum())
        if bars is None or confidence is None:
            return answer
        return with_intervals(answer, self._chain, bars, sequences, v, int(at), confidence)

    def start(self) -> OnlineState | SignedOnline:
        """Begin a sequence: `observe` row by row, and `forecast`."""
        signed = self._signed
        return OnlineState(self._chain) if signed is None else SignedOnline(self._known, signed)

    def sample(
        self, n: int = 1, length: int = 10, random_state: Seed = None, given: Given = None
    ) -> TableLike:
        """Draw `n` sequences of `length` steps: a dict of arrays in long format, latents too.

        Of a model in closed form columns only.

        `given` holds the inputs, if there are any: columns of n · length rows.
        """
        n, length = int(number_from("n", n, 1)), int(number_from("length", length, 1))
        chain, rng = self._known, as_generator(random_state)
        if self._signed is None:
            inputs = sampled_inputs(chain, given, n, length)
            drawn = sample_steps_of(chain, n, length, rng, inputs)
        else:
            codes = sample_signed(self._signed, n, length, rng)
            drawn = dict(zip(chain.slice.columns, codes, strict=True))
        found: dict[Label, Cell] = {
            "sequence" if self.fitted_.naming.sequence is None else self.fitted_.naming.sequence: (
                np.repeat(np.arange(n), length)
            ),
            "time" if self.fitted_.naming.time is None else self.fitted_.naming.time: np.tile(
                np.arange(length), n
            ),
        }
        for v, x in sorted(drawn.items()):
            flat = x.ravel()
            name = chain.slice.names[v]
            hidden = v in chain.slice.latent
            found[name] = chain.labelled(v, flat) if hidden else chain.columns[v].of_measures(flat)
        return found

    # -- behind them ---------------------------------------------------------------------------

    @property
    def _known(self) -> Chain:
        """Slice and columns; tables only where the model is not in closed form."""
        self._check_fitted()
        return self.fitted_.chain

    @property
    def _signed(self) -> SignedChain | None:
        self._check_fitted()
        return self.fitted_.signed

    @property
    def _chain(self) -> Chain:
        """The same with tables."""
        if self._signed is not None:
            raise EvidenceError(nameless("this question"))
        return self._known

    def _read(
        self, X: TableLike, lengths: ArrayLike | None, one: bool = False
    ) -> tuple[LongSteps, Naming]:
        self._check_fitted()
        naming = replace(self.fitted_.naming, lengths=lengths)
        columns = dict(self._known.columns)
        X, naming = listed_sequences(X, naming, len(columns))
        engine = open_question(X, list(columns.values()))
        apart = (naming.blocks or one) and naming.sequence not in engine.names
        if naming.lengths is not None or apart:  # these tell sequences themselves
            naming = replace(naming, sequence=None)
        ordered = one or naming.lengths is not None  # rows are steps where no column tells times
        if ordered and naming.time not in engine.names:
            naming = replace(naming, time=None)
        absent = frozenset(self.slice_.columns)
        if not any(c.name in engine.names for c in columns.values()):
            wanted = ", ".join(repr(c.name) for c in columns.values())
            raise DataError(
                f"expected a table with columns of the slice ({wanted}), got "
                f"{', '.join(map(repr, engine.names[:10]))}. Columns that are not there are holes, "
                "but one must be."
            )
        return read_long(engine, columns, naming, self.fitted_.step, absent), naming

    def _told(self, steps: LongSteps, naming: Naming, found: Beliefs) -> TableLike:
        self._note_impossible(found)
        told: dict[Label, Cell] = {}
        for v in sorted(self.slice_.latent):
            rows = steps.to_rows(found.of(v))
            told |= dict(zip(latent_headings(self._chain, v), rows, strict=True))
        return self._listed(like_tables(steps.tables, told, naming.blocks), naming)

    @staticmethod
    def _listed(answers: TableLike, naming: Naming) -> TableLike:
        """Answers to a list of arrays as such a list."""
        return np.split(answers, np.cumsum(naming.lengths)[:-1]) if naming.cut else answers

    def _note_impossible(self, found: Beliefs) -> None:
        count = int(np.isneginf(found.log_scale).sum())
        if count:
            warn(
                f"{count} row(s) cannot be under the model after the rows before them; they count "
                "as missing. score_samples tells which (-inf).",
                ImpossibleRowWarning,
            )

    def _penalised(self, X: TableLike, lengths: ArrayLike | None, per: float | None) -> float:
        scores = self.score_samples(X, lengths=lengths)
        flat = np.concatenate(scores) if isinstance(scores, list) else scores
        k = parameters_of(self._chain, self._chain.tables)
        return k * (np.log(len(flat)) if per is None else per) - 2.0 * float(flat.sum())


def number_from(name: str, value: Given, least: float) -> float:
    """A setting as a number that is large enough."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not value >= least:
        raise DataError(f"expected {name} to be a number from {least:g} on, got {value!r}.")
    return float(value)

"""SequenceModel: hidden Markov models and their kin, behind scikit-learn's contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from latentia.announcing import warn
from latentia.data.sources.opening import open_question
from latentia.errors import DataError, EvidenceError, ImpossibleRowWarning
from latentia.exact.gaussian_leaves import as_table
from latentia.inference.posterior import Posterior
from latentia.inference.posterior_density import Density
from latentia.model.contract import Estimator
from latentia.networks.accelerate import PSEUDO_COUNTS, free_parameters
from latentia.seeds import as_generator
from latentia.sequences.cell_beliefs import in_grid_steps
from latentia.sequences.chain_forecasts import forecast_steps, sampled_inputs
from latentia.sequences.chain_questions import (
    Beliefs,
    Chain,
    believed_cells,
    decode_states,
    filter_states,
    own_values,
    sample_steps_of,
    smooth_states,
)
from latentia.sequences.chain_templates import template
from latentia.sequences.families import families_of, family_name
from latentia.sequences.fitting_chains import FittedChain, fit_chain
from latentia.sequences.learn_chain import ChainLearning
from latentia.sequences.long_rows import (
    LongSteps,
    Naming,
    empty_cells,
    is_list_of_frames,
    joined_arrays,
    read_long,
)
from latentia.sequences.online_state import OnlineState
from latentia.sequences.slices import Slice, read_slice
from latentia.sequences.step_answers import (
    as_answer,
    like_column,
    like_tables,
    new_table,
)
from latentia.sequences.step_data import Sequences, missing_cells
from latentia.typing import Label


class SequenceModel(Estimator):
    """A model of sequences of any length: one slice, repeated, with one set of tables.

    Parameters
    ----------
    slice : str or edges
        One step and what ties it to the next: ``"z -> z', z -> word, pitch"``. A primed name is the
        next step's. Columns may feed back (``word -> z'``, ``word -> word'``).
    latents : dict of name -> number of states
        The variables that are not columns; several make a factorial chain.
    given : list of columns
        Inputs: they are told at every step, and not modelled.
    kinds : dict of column -> "discrete" or "continuous", optional
        Kinds of columns, where the library's rule is not wanted.
    state_names : dict of column -> list of states, optional
        States and their order; default: the sorted values seen in fit.
    pseudo_counts : float, or dict of table -> float or array
        For every row of every table, spread like the column's marginal (uniformly for latents). A
        dict tells them table by table, by the names of `cpts_` (none for those it leaves out).
    max_iter : int
        E-steps on all sequences.
    tol : float
        With continuous columns: climbing stops at this gain in log-likelihood per step.
    random_state : int, numpy Generator or RandomState, optional
        Seed of the starts.
    known : dict of table -> array, optional
        Cells of tables that are known and held fixed, NaN where they are to be learned; a zero
        stays a zero. Names and axes as in `cpts_`. States of latents with known tables keep their
        numbers; others are put in order of their size.
    learner : None, "em", "stepwise", EM(...) or StepwiseEM(...)
        None: starts from the closed form and at random race, the best climbs. Others start at
        random, as often as they say; their smoothing and known, if any, take the place of these.

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> worn = (np.arange(600) // 50) % 2  # fifty steps in order, fifty worn
    >>> noise = np.where(rng.random(600) < 0.9, worn, 1 - worn)
    >>> model = lt.SequenceModel("z -> z', z -> noise", latents={"z": 2})
    >>> path = model.fit({"noise": noise}).decode({"noise": noise})
    >>> bool(max((path == worn).mean(), (path != worn).mean()) > 0.95)
    True
    """

    _learned: ClassVar[str] = "fitted_"
    fitted_: FittedChain

    def __init__(
        self,
        slice: Any,
        latents: Any = None,
        given: Any = (),
        kinds: Mapping[Any, str] | None = None,
        state_names: Mapping[Any, Any] | None = None,
        pseudo_counts: Any = PSEUDO_COUNTS,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = 0,
        known: Mapping[Any, Any] | None = None,
        learner: Any = None,
    ) -> None:
        self.slice = slice
        self.latents = latents
        self.given = given
        self.kinds = kinds
        self.state_names = state_names
        self.pseudo_counts = pseudo_counts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.known = known
        self.learner = learner

    @classmethod
    def named(cls, name: str, columns: Any, states: int, **more: Any) -> SequenceModel:
        """A common model by its name; `more` are its own settings, and those of any model.

        "hmm"; "left-right" (states are never gone back to; ``jump=1`` state at most); "factorial"
        (``chains=2`` latents); "input-output" (``inputs=["dose"]`` tell the latent of their step);
        "autoregressive" (each column also tells itself in the next step). The latent is called z.

        >>> SequenceModel.named("left-right", ["sound"], 4).latents
        {'z': 4}
        """
        own = {key: more.pop(key) for key in ("jump", "chains", "inputs") if key in more}
        found = template(name, columns, states, **own)
        known = {**(found.known or {}), **(more.pop("known", None) or {})} or None
        return cls(found.edges, found.latents, list(found.given), known=known, **more)

    # -- learning ------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sequence: Label | None = None,
        time: Label | None = None,
        lengths: Any = None,
    ) -> SequenceModel:
        """Learn from a long table, a list of tables, or an array with `lengths`.

        `sequence` names the column that tells which sequence a row belongs to, `time` the one that
        tells its place in it. Without them rows are one sequence in their order; of a list of
        tables each is a sequence. Whole-number times and dates may leave gaps: these are steps of
        which nothing was seen.
        """
        slice_ = read_slice(self.slice, self.latents, self.given)
        naming = Naming(sequence, time, lengths)
        how = ChainLearning(
            pseudo_counts=self.pseudo_counts,
            max_iter=int(_at_least("max_iter", self.max_iter, 3)),
            tol=_at_least("tol", self.tol, 0.0),
            known=self.known,
        )
        rng = as_generator(self.random_state)
        self.fitted_ = fit_chain(
            slice_, X, naming, how, rng, self.kinds, self.state_names, self.learner
        )
        return self

    @property
    def slice_(self) -> Slice:
        """The slice as it was read."""
        return self._chain.slice

    @property
    def states_(self) -> dict[Label, int]:
        """Number of states of every latent."""
        slice_ = self.slice_
        return {slice_.names[v]: slice_.states[v] or 1 for v in sorted(slice_.latent)}

    @property
    def cpts_(self) -> dict[Label, Any]:
        """Tables P(variable | parents), axes (parents in the order given, itself).

        A primed name is the table of all steps but the first. Of a continuous column a
        `GaussianTable`.
        """
        chain = self._chain
        found = {}
        for n, family in enumerate(families_of(chain.slice)):
            column, table = chain.columns.get(family.variable), chain.tables[n]
            if column is not None and column.continuous:
                table = as_table(in_grid_steps(table, column), column)  # type: ignore[arg-type,assignment]
            found[family_name(chain.slice, family)] = table
        return found

    @property
    def converged_(self) -> bool:
        """Whether learning came to rest."""
        self._check_fitted()
        return self.fitted_.learned.converged

    @property
    def n_iter_(self) -> int:
        """Steps of learning on all sequences."""
        self._check_fitted()
        return len(self.fitted_.learned.history)

    @property
    def history_(self) -> list[float]:
        """Penalised log-likelihood after every step."""
        self._check_fitted()
        return list(self.fitted_.learned.history)

    # -- questions -----------------------------------------------------------------------------

    def filter(self, X: Any, *, lengths: Any = None) -> Any:
        """P(latent | rows so far) for every row: a table with columns ``z=0``, ``z=1``, …"""
        steps, naming = self._read(X, lengths)
        return self._told(steps, naming, filter_states(self._chain, steps.sequences))

    def smooth(self, X: Any, *, lengths: Any = None) -> Any:
        """P(latent | all rows of the sequence) for every row."""
        steps, naming = self._read(X, lengths)
        return self._told(steps, naming, smooth_states(self._chain, steps.sequences))

    def decode(self, X: Any, *, lengths: Any = None) -> Any:
        """States of the latents on the most probable path: a column, or a table for several."""
        steps, naming = self._read(X, lengths)
        layout, path = decode_states(self._chain, steps.sequences)
        found = {
            self.slice_.names[v]: steps.to_rows(layout.values[v, 0][path])
            for v in sorted(self.slice_.latent)
        }
        if not found:
            raise EvidenceError("the slice has no latent; there is nothing to decode.")
        if len(found) == 1:
            ((name, values),) = found.items()
            return like_column(steps.tables, name, values, naming.blocks)
        return like_tables(steps.tables, found, naming.blocks)

    def score_samples(self, X: Any, *, lengths: Any = None) -> Any:
        """log P(row | rows before it in its sequence), densities per unit; -inf if it cannot be.

        The sum over a sequence is its log-likelihood.
        """
        steps, naming = self._read(X, lengths)
        found = filter_states(self._chain, steps.sequences)
        scores = steps.to_rows(found.log_scale) + steps.log_slopes
        if not naming.blocks:
            return scores
        ends = np.cumsum([t.length for t in steps.tables])[:-1]
        return np.split(scores, ends)

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """Mean of `score_samples` over all rows."""
        found = self.score_samples(X, lengths=lengths)
        return float(np.mean(np.concatenate(found) if isinstance(found, list) else found))

    def bic(self, X: Any, *, lengths: Any = None) -> float:
        """k log N − 2 log P(rows), k free parameters and N rows: less is better."""
        return self._penalised(X, lengths, None)

    def aic(self, X: Any, *, lengths: Any = None) -> float:
        """2 k − 2 log P(rows): less is better."""
        return self._penalised(X, lengths, 2.0)

    def forecast(self, X: Any, steps: int = 1, *, given: Any = None, lengths: Any = None) -> Any:
        """The next `steps` steps of every sequence: a long table.

        A row for each sequence and step ahead: probabilities of states as ``word=a``, of continuous
        columns mean and quantiles, and P(latent). `given` is a table of the inputs of these steps,
        if the slice has any: as many rows for each sequence.
        """
        count = int(_at_least("steps", steps, 1))
        read, naming = self._read(X, lengths)
        return new_table(read.tables, forecast_steps(self._chain, read, naming, count, given))

    def query(self, variable: Label, at: int, given: Any = None) -> Posterior | Density:
        """P(variable at step `at` of one sequence | its rows): steps count from 0.

        Steps behind the last row are forecast. `given` is the table of one sequence.
        """
        v = self.slice_.index(variable)
        if isinstance(at, bool) or not isinstance(at, int | np.integer) or at < 0:
            raise EvidenceError(f"expected at as a step from 0 on, got {at!r}.")
        if v in self.slice_.given:
            raise EvidenceError(f"{variable!r} is given, not modelled.")
        if given is None:
            none = {u: empty_cells(c, 0) for u, c in self._chain.columns.items()}
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
        found = smooth_states(self._chain, sequences)
        self._note_impossible(found)
        if v in self.slice_.latent:
            return as_answer(None, variable, found.of(v)[:, at])
        p = believed_cells(self._chain, found, sequences, v, np.array([at]))
        return as_answer(self._chain.columns[v], variable, p[:, 0])

    def start(self) -> OnlineState:
        """Begin a sequence: `observe` row by row, and `forecast`."""
        return OnlineState(self._chain)

    def sample(
        self, n: int = 1, length: int = 10, random_state: Any = None, given: Any = None
    ) -> Any:
        """Draw `n` sequences of `length` steps: a dict of arrays in long format, latents too.

        `given` holds the inputs, if there are any: columns of n · length rows.
        """
        n, length = int(_at_least("n", n, 1)), int(_at_least("length", length, 1))
        chain, rng = self._chain, as_generator(random_state)
        inputs = sampled_inputs(chain, given, n, length)
        drawn = sample_steps_of(chain, n, length, rng, inputs)
        found: dict[Any, Any] = {
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
            found[name] = flat if v in chain.slice.latent else own_values(chain.columns[v], flat)
        return found

    # -- behind them ---------------------------------------------------------------------------

    @property
    def _chain(self) -> Chain:
        self._check_fitted()
        return self.fitted_.chain

    def _read(self, X: Any, lengths: Any, one: bool = False) -> tuple[LongSteps, Naming]:
        self._check_fitted()
        naming = replace(self.fitted_.naming, lengths=lengths)
        if is_list_of_frames(X):
            X, naming = joined_arrays(X, naming)
        columns = dict(self._chain.columns)
        engine = open_question(X, list(columns.values()))
        apart = naming.blocks and naming.sequence not in engine.names
        if naming.lengths is not None or apart or one:  # these tell sequences themselves
            naming = replace(naming, sequence=None)
        if naming.time is not None and naming.time not in engine.names and one:
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

    def _told(self, steps: LongSteps, naming: Naming, found: Beliefs) -> Any:
        self._note_impossible(found)
        told: dict[Any, Any] = {}
        for v in sorted(self.slice_.latent):
            rows = steps.to_rows(found.of(v))
            told |= {f"{self.slice_.names[v]}={k}": p for k, p in enumerate(rows)}
        return like_tables(steps.tables, told, naming.blocks)

    def _note_impossible(self, found: Beliefs) -> None:
        count = int(np.isneginf(found.log_scale).sum())
        if count:
            warn(
                f"{count} row(s) cannot be under the model after the rows before them; they count "
                "as missing. score_samples tells which (-inf).",
                ImpossibleRowWarning,
            )

    def _penalised(self, X: Any, lengths: Any, per: float | None) -> float:
        scores = self.score_samples(X, lengths=lengths)
        flat = np.concatenate(scores) if isinstance(scores, list) else scores
        chain = self._chain
        discrete = {n: t for n, t in chain.tables.items() if not self._is_bell(n)}
        bells = sum(t.size // 3 * 2 for n, t in chain.tables.items() if self._is_bell(n))
        k = free_parameters(discrete) + bells
        return k * (np.log(len(flat)) if per is None else per) - 2.0 * float(flat.sum())

    def _is_bell(self, number: int) -> bool:
        chain = self._chain
        return chain.sizes[families_of(chain.slice)[number].variable] == 0


def _at_least(name: str, value: Any, least: float) -> float:
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not value >= least:
        raise DataError(f"expected {name} to be a number from {least:g} on, got {value!r}.")
    return float(value)

"""SequenceModel: hidden Markov models and their kin, behind scikit-learn's contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from numpy.typing import ArrayLike

from latentia import doors
from latentia.announcing import hearing_climbs
from latentia.assess.intervals import checked_confidence
from latentia.data.sources.progress import ProgressLike, as_progress, show_progress
from latentia.errors import DataError
from latentia.exact.gaussian_leaves import as_table
from latentia.model.aligning import Alignment
from latentia.networks.accelerate import PSEUDO_COUNTS
from latentia.seeds import as_generator
from latentia.sequences.aligning_chains import align_chains
from latentia.sequences.cell_beliefs import in_grid_steps
from latentia.sequences.chain_errors import asked_replicates, groups_asked
from latentia.sequences.chain_forecasts import forecast_steps
from latentia.sequences.chain_intervals import table_intervals
from latentia.sequences.chain_pictures import (
    draw_decoded_steps,
    draw_forecast_steps,
    draw_latent_moves,
    only_latent,
)
from latentia.sequences.chain_profile import ChainProfile, profile_chain
from latentia.sequences.chain_templates import template
from latentia.sequences.comparing_chains import ChainComparison, compare_chains, state_ranges
from latentia.sequences.families import families_of, family_name
from latentia.sequences.fitting_chains import StateWishes, fit_chain, prepare
from latentia.sequences.learn_chain import ChainLearning
from latentia.sequences.long_rows import Naming
from latentia.sequences.sequence_questions import SequenceQuestions, number_from
from latentia.sequences.slices import read_slice
from latentia.typing import ByName, Cell, FilePath, Given, Label, Seed, TableLike

if TYPE_CHECKING:
    from pathlib import Path

    from latentia.draw.svg import Drawing
    from latentia.explore.local_server import PageServer
    from latentia.model.state_names import OrderBy
    from latentia.networks.knowledge import PseudoCounts
    from latentia.networks.learner import LearnerLike
    from latentia.structure.reading_graphs import GraphLike, Latents


class SequenceModel(SequenceQuestions):
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
    learner : None, "closed-form", "em", "stepwise", PBP(...), EM(...) or StepwiseEM(...)
        None (or PBP()): starts from the closed form and at random race, the best climbs.
        "closed-form" (or PBP(refine=False)) is the closed form itself, two passes over discrete
        columns: signed, it tells columns and no states. The other learners start at random, as
        often as they say; their smoothing and known, if any, take the place of these.
    order_by : column, or dict of latent -> column, optional
        States go along the mean of a column (of states, of their places); default: by size.
    name_states : dict of latent -> list of names, optional
        Names for the states of latents, in their order; default: numbers from 0 on. Answers,
        profiles and pictures have them, and files keep them.

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

    def __init__(
        self,
        slice: GraphLike,
        latents: Latents = None,
        given: Iterable[Label] = (),
        kinds: ByName[str] | None = None,
        state_names: ByName[Cell] | None = None,
        pseudo_counts: PseudoCounts = PSEUDO_COUNTS,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Seed = 0,
        known: ByName[Cell] | None = None,
        learner: LearnerLike | None = None,
        order_by: OrderBy = None,
        name_states: ByName[Cell] | None = None,
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
        self.order_by = order_by
        self.name_states = name_states

    @classmethod
    def named(cls, name: str, columns: Given, states: int, **more: Given) -> SequenceModel:
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
        X: TableLike,
        y: object = None,
        *,
        sequence: Label | None = None,
        time: Label | None = None,
        lengths: ArrayLike | None = None,
        progress: ProgressLike = None,
        error_bars: bool | int = False,
    ) -> SequenceModel:
        """Learn from a long table, a list of tables, or an array with `lengths`.

        `sequence` names the column that tells which sequence a row belongs to, `time` the one that
        tells its place in it. Without them rows are one sequence in their order; of a list of
        tables each is a sequence. Whole-number times and dates may leave gaps: these are steps of
        which nothing was seen. `progress`: True, or a function that hears how climbs go.

        With `error_bars` (True, or a number of groups) the tables are learned again without each
        of twenty groups of sequences, or stretches of them where there are fewer than ten:
        `profile` then has the errors of a sample, `query` and `table_intervals` take a confidence.
        """
        slice_ = read_slice(self.slice, self.latents, self.given)
        naming = Naming(sequence, time, lengths)
        how = self._how()
        rng = as_generator(self.random_state)
        prepared = prepare(slice_, X, naming, self.kinds, self.state_names)
        wishes = StateWishes(self.order_by, self.name_states)
        groups = groups_asked(error_bars)
        with show_progress(progress), hearing_climbs(as_progress(progress).climbing()):
            self.fitted_ = fit_chain(prepared, how, rng, self.learner, wishes, groups)
        return self

    def with_state_names(self, name_states: ByName[Cell]) -> Self:
        """The same model, in place, with names for the states of latents, in their order.

        For what is named once it has been looked at; latents that are left out keep theirs, and
        without any (``{}``) all states are numbers again.
        """
        given = {**(self.name_states or {}), **name_states} if name_states else {}
        named = StateWishes(name_states=given or None).named(self.slice_)
        self.fitted_ = replace(self.fitted_, chain=replace(self._chain, named=named))
        self.name_states = given or None
        return self

    def align(
        self, other: SequenceModel, X: TableLike = None, *, lengths: ArrayLike | None = None
    ) -> Alignment:
        """Match the states of another model's latents with those of this one.

        By the rows given, or by some drawn from this model. ``.mapping`` tells which is which,
        ``.agreement`` on how many rows both agree, ``.model`` is the other with states numbered
        and named as here.
        """
        return align_chains(self, other, X, lengths)

    def _how(self) -> ChainLearning:
        return ChainLearning(
            pseudo_counts=self.pseudo_counts,
            max_iter=int(number_from("max_iter", self.max_iter, 3)),
            tol=number_from("tol", self.tol, 0.0),
            known=self.known,
        )

    @classmethod
    def compare(
        cls,
        X: TableLike,
        slice: GraphLike,
        latents: ByName[Cell],
        *,
        sequence: Label | None = None,
        time: Label | None = None,
        lengths: ArrayLike | None = None,
        **settings: Given,
    ) -> ChainComparison:
        """Numbers of states side by side: ``latents={"z": range(1, 7)}``; all combinations.

        Log-likelihood, parameters, AIC, BIC of all rows, and the loss on rows held out: a quarter
        of the sequences, or the last quarter of each where there are fewer than ten. `settings` are
        those of the model.
        """
        if not isinstance(latents, Mapping) or not latents:
            raise DataError('expected latents as a dict such as {"z": range(1, 7)}.')
        first = {n: k if isinstance(k, int) else next(iter(k), None) for n, k in latents.items()}
        model = cls(slice, first, **settings)
        candidates = state_ranges(read_slice(model.slice, model.latents, model.given), latents)
        slice_ = read_slice(model.slice, candidates[-1], model.given)  # of the most states
        naming = Naming(sequence, time, lengths)
        prepared = prepare(slice_, X, naming, model.kinds, model.state_names)
        seed = as_generator(model.random_state).integers(2**32)
        return compare_chains(prepared, candidates, model._how(), seed)

    @property
    def states_(self) -> dict[Label, int]:
        """Number of states of every latent."""
        slice_ = self.slice_
        return {slice_.names[v]: slice_.states[v] or 1 for v in sorted(slice_.latent)}

    @property
    def cpts_(self) -> dict[Label, Cell]:
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

    def profile(self, latent: Label | None = None) -> ChainProfile:
        """What the states of a latent look like: sizes, columns in each of them, moves.

        In words (print it), `to_dict`, `to_frame`, with errors.
        """
        v = only_latent(self._chain, latent)
        return profile_chain(self._chain, self.fitted_.counts, v, self.fitted_.replicates)

    def table_intervals(self, confidence: float = 0.9) -> dict[Label, Cell]:
        """Of every table of `cpts_` the lower and upper ends of its cells.

        They are to hold the truth so often, for a model that was fitted with ``error_bars=True``.
        Of a continuous column they are of (mean, deviation), in the last axis. Where there were
        fewer than ten sequences, tables of first steps are left out.
        """
        bars = asked_replicates(self.fitted_.replicates if self._chain else None)
        return dict(table_intervals(self._chain, bars, checked_confidence(confidence)))

    # -- pictures ------------------------------------------------------------------------------

    def draw(self, steps: int = 2) -> Drawing:
        """The slice as a picture: this step and the next; more `steps` show the unrolled graph."""
        slice_ = self.fitted_.chain.slice if hasattr(self, "fitted_") else None
        if slice_ is None:
            slice_ = read_slice(self.slice, self.latents, self.given)
        return doors.draw_slice(slice_, steps)

    def plot_moves(self, latent: Label | None = None) -> Drawing:
        """P(next state | state) of a latent, as a heat map."""
        return draw_latent_moves(self._chain, latent)

    def plot_decoded(
        self, X: TableLike, which: object = None, *, lengths: ArrayLike | None = None
    ) -> Drawing:
        """The best path of one sequence as bands of colour over its columns; default: the first.

        `which` is the sequence's id, or its number where tables have no ids.
        """
        return draw_decoded_steps(self._chain, self._read(X, lengths)[0], which)

    def plot_forecast(
        self,
        X: TableLike,
        steps: int = 10,
        which: object = None,
        *,
        columns: object = None,
        given: Given = None,
        lengths: ArrayLike | None = None,
    ) -> Drawing:
        """The last rows of one sequence, and a fan of what may come; see `forecast`."""
        count = int(number_from("steps", steps, 1))
        read, naming = self._read(X, lengths)
        told = forecast_steps(self._chain, read, naming, count, given)
        return draw_forecast_steps(self._chain, read, told, which, columns)

    def explore(
        self, rows: TableLike = None, to: FilePath | None = None, **options: Given
    ) -> PageServer | Path:
        """A page of timelines: columns, decoded states as bands of colour, what may come.

        ``explore(rows, to="page.html")`` writes one file that needs no Python; without `to`, a
        server on this machine shows it. `steps` are forecast behind every sequence (12), with
        `given`, the inputs to come, if the slice has some; `lengths` as for `decode`; `title`,
        `port` and `browser` as for any model.
        """
        self._chain  # noqa: B018 a model in closed form has no states to show
        return doors.explore(self, to, rows=rows, **options)

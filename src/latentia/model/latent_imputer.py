"""LatentImputer: scikit-learn's transformer that fills holes, by a model of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_feature_names_in

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import draw
from latentia.data.sources.engine import OneBlock
from latentia.data.sources.opening import open_question
from latentia.data.sources.table import Table
from latentia.errors import DataError, UnknownNameError
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.inference.operators import Operators
from latentia.model.latent_model import LatentModel
from latentia.model.specification import columns_of
from latentia.seeds import as_generator
from latentia.typing import ByName, Cell, CellArray, Foreign, Label, Seed, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.networks.learner import LearnerLike
    from latentia.structure.reading_graphs import GraphLike, Latents

STRATEGIES = ("best", "draw")
BLOCK = 2**12  # rows at a time


class LatentImputer(TransformerMixin, BaseEstimator):
    """Fills missing cells given the present cells of their row, by a `LatentModel` of the columns.

    Parameters
    ----------
    graph, latents, learner, kinds, state_names
        As in `LatentModel`; default: the structure is found.
        Columns that the graph does not name pass through as they are.
    strategy : "best" or "draw"
        "best" is the most probable state of each cell, of a continuous column its mean. "draw"
        draws the missing cells of a row together from what the model thinks of them: several such
        tables are multiple imputations, see `draws`.
    random_state : int, numpy Generator or RandomState, optional
        Seed of what is drawn. With a number, the same table is filled in the same way each time.

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> h = np.random.default_rng(0).integers(2, size=300)
    >>> X = np.column_stack([h, h, h]).astype(float)
    >>> X[0, 1] = np.nan
    >>> bool(lt.LatentImputer().fit_transform(X)[0, 1] == h[0])
    True
    """

    def __init__(
        self,
        graph: GraphLike | None = None,
        latents: Latents = None,
        learner: LearnerLike = "pbp",
        kinds: ByName[str] | None = None,
        state_names: ByName[Sequence[Cell]] | None = None,
        strategy: str = "best",
        random_state: Seed = None,
    ) -> None:
        self.graph = graph
        self.latents = latents
        self.learner = learner
        self.kinds = kinds
        self.state_names = state_names
        self.strategy = strategy
        self.random_state = random_state

    def __sklearn_tags__(self) -> Foreign:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def fit(self, X: TableLike, y: object = None, sample_weight: WeightLike | None = None) -> Self:
        """Learn the model of the columns; holes are welcome here, too."""
        self._checked_strategy()
        self.model_ = LatentModel(
            self.graph, self.latents, self.learner, self.kinds, self.state_names
        ).fit(X, sample_weight=sample_weight)
        table = self._table(X)
        self.n_features_in_ = len(table.names)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in table.names], dtype=object)
        return self

    def transform(self, X: TableLike) -> TableLike:
        """The table with its holes filled, as the kind of table that came."""
        return self._filled(X, self.random_state)

    def draws(self, X: TableLike, count: int) -> list[Cell]:
        """So many tables with their holes drawn: multiple imputations of the same rows."""
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise DataError(f"expected a positive whole number of draws, got {count!r}.")
        seeds = as_generator(self.random_state).spawn(int(count))
        return [self._filled(X, seed, strategy="draw") for seed in seeds]

    def get_feature_names_out(self, input_features: object = None) -> CellArray:
        """The columns of the table, under their names."""
        self._check_fitted()
        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)

    def _filled(self, X: TableLike, seed: Seed, strategy: str | None = None) -> TableLike:
        self._check_fitted()
        table = self._table(X)
        if len(table.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(table.names)} features, but LatentImputer is expecting "
                f"{self.n_features_in_} features as input."
            )
        columns, operators = self.model_.columns_, self.model_.operators_
        strategy = strategy or self._checked_strategy()
        if strategy == "best":
            found = self.model_._asking("error").filled(table)
        else:
            found = drawn_cells(operators, columns, table, as_generator(seed))
        return table.like({name: _like_given(table, name, found) for name in table.names})

    def _table(self, X: TableLike) -> Table:
        engine = open_question(X, self.model_.columns_)
        if not isinstance(engine, OneBlock):
            raise DataError(
                f"LatentImputer fills tables in memory, got {type(X).__name__}. Use "
                "LatentModel(...).fit(table).predict(table), which fills any table block by block."
            )
        lacking = [n for n in columns_of(self.model_._graph) if n not in engine.names]
        if lacking:
            raise UnknownNameError("column", lacking[0], engine.names, "The model knows it.")
        return engine.table

    def _checked_strategy(self) -> str:
        if self.strategy not in STRATEGIES:
            raise UnknownNameError("strategy", self.strategy, STRATEGIES)
        return self.strategy

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                "this LatentImputer instance is not fitted yet. Call fit(frame) first."
            )


def _like_given(table: Table, name: Label, found: ByName[Cell]) -> CellArray:
    """A column that was filled, with numbers of the type that came; others as they are."""
    given = np.asarray(table.column(name).cells)
    if name not in found:
        return given
    cells = np.asarray(found[name])
    return cells.astype(given.dtype) if given.dtype.kind == "f" != cells.dtype.kind else cells


def drawn_cells(
    operators: Operators, columns: Sequence[Column], table: Table, rng: np.random.Generator
) -> dict[Label, Cell]:
    """Every column with its missing cells drawn, one after the other given all before them.

    So those of a row are drawn together: P(a, b | rest) = P(a | rest) P(b | a, rest).
    """
    places = [c.place(table.column(c.name)) for c in columns]
    observed, filled = operators.plan.graph.observed, {}
    for i, c in enumerate(columns):
        gone = np.flatnonzero(~c.present(places[i]))
        values = table.column(c.name)
        if not gone.size:
            filled[c.name] = c.filled(values, _nothing_drawn(c, len(places[i])))
            continue
        cells = np.empty(len(gone), dtype=np.int64)
        for start in range(0, len(gone), BLOCK):
            part = gone[start : start + BLOCK]
            evidence = read_evidence(operators.plan, [p[part] for p in places])
            p = answer(operators, evidence, [observed[i]]).probabilities[observed[i]]
            levels = np.cumsum(p, axis=0)  # (cells, rows)
            level = rng.random(len(part)) * levels[-1]
            cells[start : start + len(part)] = np.minimum((levels <= level).sum(axis=0), len(p) - 1)
        best = _nothing_drawn(c, len(places[i]))
        best[gone] = draw(c, cells, rng) if isinstance(c, ContinuousColumn) else cells
        places[i] = places[i].copy()
        places[i][gone] = cells
        filled[c.name] = c.filled(values, best)
    return filled


def _nothing_drawn(column: Column, count: int) -> CellArray:
    return np.zeros(count, dtype=float if column.continuous else np.int64)

"""Candidates of graphs with continuous columns: by EM, whose leaves are Gaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.columns.column import Column, is_present
from latentia.data.rows import Rows, Source
from latentia.errors import DataError
from latentia.exact.estep import pack_rows
from latentia.exact.estep_wiring import EStep, compile_estep
from latentia.exact.row_posteriors import latent_posteriors, passed_up
from latentia.inference.operators import Operators
from latentia.model.mixed_plans import prepare_mixed
from latentia.networks.accelerate import PSEUDO_COUNTS, free_parameters
from latentia.networks.candidates import Fitted
from latentia.networks.em import EM
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label

RESTARTS, HELD_RESTARTS = 10, 4
MOST_ITERATIONS = 1000
NEAR = 1e-7  # gain a row at which a climb has come to rest


@final
@dataclass(frozen=True, slots=True)
class MixedRoad:
    """Candidates by EM, every one from starts of its own."""

    graph: LatentGraph
    columns: tuple[Column, ...]
    smoothing: float

    def fit(
        self,
        states: Mapping[Label, int],
        source: Source,
        rng: np.random.Generator,
        before: Fitted | None,
        held: bool = False,
    ) -> Fitted:
        """One candidate; those that are judged by other rows have pseudo-counts."""
        learner = EM(
            restarts=HELD_RESTARTS if held else RESTARTS,
            max_iter=MOST_ITERATIONS,
            tol=NEAR,
            smoothing=max(self.smoothing, PSEUDO_COUNTS) if held else self.smoothing,
            random_state=rng,
        )
        sized = self.graph.with_states(dict(states))
        plan, columns = prepare_mixed(sized, self.columns, learner.abilities)
        return _fitted(states, learner.learn_mixed(plan, columns, source), columns)

    def ratios(
        self, small: Fitted, large: Fitted, rows: Rows, count: int, rng: np.random.Generator
    ) -> Array:
        raise DataError(
            "bootstrapped likelihood ratios are for discrete columns, and some are continuous. "
            "Leave out bootstrap, or bin them: kinds={column: 'discrete'}."
        )


def gaussian_columns(graph: LatentGraph, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns as Gaussian leaves want them."""
    return prepare_mixed(graph, columns, EM().abilities)[1]


def _fitted(states: Mapping[Label, int], operators: Operators, columns: Sequence[Column]) -> Fitted:
    graph, leaves = operators.model_graph, operators.gaussians
    latents = sorted(graph.latent)
    both = {**operators.model_tables, **leaves}
    ascent = operators.provenance.ascent
    assert ascent is not None

    def wired(rows: Rows) -> EStep:
        observed = zip(graph.observed, rows.codes, strict=True)
        gaps = [v for v, c in observed if not is_present(c).all()]
        return compile_estep(graph, gaps, continuous=leaves)

    def log_rows(rows: Rows) -> Array:
        return _log_rows(wired(rows), both, rows) + _log_units(columns, rows)

    def posteriors(rows: Rows) -> list[Array]:
        found = latent_posteriors(wired(rows), both, rows, latents)
        return [found[v].T for v in latents]

    nothing = Rows(tuple(c.nothing(1) for c in columns))
    parameters = free_parameters(
        {v: t for v, t in operators.model_tables.items() if v not in leaves}
    )
    parameters += sum(_leaf_parameters(leaf) for leaf in leaves.values())
    return Fitted(
        dict(states),
        ascent.paths[ascent.best][-1] * operators.weight,
        parameters,
        ascent.converged[ascent.best],
        tuple(alone[0] for alone in posteriors(nothing)),
        log_rows,
        posteriors,
    )


def _log_rows(estep: EStep, tables: Mapping[int, Array], rows: Rows) -> Array:
    """log P(row) in steps of grids, (n,)."""
    log = np.empty(len(rows))
    for part, codes, up, used in passed_up(estep, tables, pack_rows(estep, Rows(rows.codes))):
        log[part] = up.log
        for p in estep.free:  # columns that no latent tells
            log[part] += np.log(used.packs[p][0]).take(codes[p])
    return log


def _leaf_parameters(leaf: Array) -> int:
    """Mean and variance of each component, and their shares: leaf (parents …, components, 3)."""
    rows, components = leaf.size // (leaf.shape[-1] * leaf.shape[-2]), leaf.shape[-2]
    return int(rows * (3 * components - 1))


def _log_units(columns: Sequence[Column], rows: Rows) -> Array:
    """log of what turns densities per step of a grid into those in the columns' units: (n,)."""
    total = np.zeros(len(rows))
    for column, codes in zip(columns, rows.codes, strict=True):
        total += column.log_units(codes)
    return total

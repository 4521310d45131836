"""What EM climbs: rows, the E-step that sums over them, and the prior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, Self, TypeAlias, final

import numpy as np

from latentia.data.columns.column import Column, Places
from latentia.data.columns.continuous import dense_columns
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows, unique_rows
from latentia.errors import DataError
from latentia.exact.estep import pack_rows, packed_counts, sum_counts
from latentia.exact.estep_factors import Tables
from latentia.exact.estep_wiring import EStep, check_graph, compile_estep
from latentia.exact.gaussian_leaves import features
from latentia.exact.leaf_pieces import WideGraph
from latentia.exact.wide_layout import wide_layout
from latentia.inference.operators import smooth_unseen
from latentia.networks.accelerate import Prior
from latentia.networks.compiled_counts import joint_states_and_holes
from latentia.networks.knowledge import (
    Knowledge,
    PseudoCounts,
    Smoothing,
    check_kinds,
    read_smoothing,
)
from latentia.networks.leaf_cells import LeafCells
from latentia.networks.tied import common_scales
from latentia.networks.to_operators import check_operators
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, Given

Counts: TypeAlias = Mapping[int, Array]  # variable -> (parents …, variable)
Scale: TypeAlias = tuple[float, float]  # mean and standard deviation of a column


class Posed(Protocol):
    """What a climb needs to know of its problem."""

    @property
    def graph(self) -> LatentGraph: ...
    @property
    def source(self) -> Source: ...
    @property
    def weight(self) -> float: ...
    @property
    def prior(self) -> Prior | None: ...
    @property
    def scales(self) -> Mapping[int, Scale]: ...
    @property
    def smoothing(self) -> Mapping[int, float]: ...
    @property
    def floor(self) -> float: ...
    @property
    def knowledge(self) -> Knowledge: ...
    @property
    def leaves(self) -> Mapping[int, LeafCells]: ...

    @property
    def coarse(self) -> bool:
        """Are E-steps in single precision cheaper?"""
        ...

    def sum(self, tables: Tables, single: bool = False) -> Moments:
        """One E-step: "counts/<variable>" and "log_likelihood"; in single precision if it can."""
        ...

    def block(self, tables: Tables, rows: Rows) -> Moments:
        """The same of some rows, with the columns of the source."""
        ...

    def on(self, threads: int) -> Self:
        """The same, each fold on so many threads."""
        ...


PACKED_ROWS = 2**17  # of a block: threads meet less often


@final
@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, the E-step that sums over them, and the prior of the M-step."""

    estep: EStep
    source: Source
    packed: bool  # the rows of the source are packed already
    weight: float  # N
    marginals: Mapping[int, Array]  # counts of the states of each discrete column
    prior: Prior | None  # None: maximum likelihood
    scales: Mapping[int, Scale] = field(default_factory=dict)  # of continuous columns
    smoothing: Mapping[int, float] = field(default_factory=dict)  # their pseudo-counts
    floor: float = 0.0  # of their variances
    knowledge: Knowledge = field(default_factory=Knowledge)
    pieces: WideGraph | None = None  # columns with atoms and gaps; the E-step is of the wide graph
    leaves: Mapping[int, LeafCells] = field(default_factory=dict)  # no column is in cells

    @property
    def wide(self) -> WideGraph:
        return self.pieces or WideGraph(self.estep.graph, self.estep.graph, {})

    @property
    def graph(self) -> LatentGraph:
        return self.estep.graph

    @property
    def coarse(self) -> bool:
        """Are E-steps in single precision cheaper?"""
        return self.packed and wide_layout(self.estep) is not None

    def sum(self, tables: Tables, single: bool = False) -> Moments:
        """One E-step."""
        if self.packed:
            return self.source.fold(partial(packed_counts, self.estep, tables, single=single))
        return self.source.fold(partial(_counts_of, self.estep, tables, self.scales, self.wide))

    def block(self, tables: Tables, rows: Rows) -> Moments:
        """The sums of some rows of the source, which are packed as these are."""
        return packed_counts(self.estep, tables, rows)

    @property
    def learned_marginals(self) -> Mapping[int, Array]:
        """Counts of the states of columns whose tables are learned, tied ones together."""
        counts = self.knowledge.pooled(self.marginals)
        return {v: x for v, x in counts.items() if v not in self.knowledge.cells}

    def on(self, threads: int) -> Problem:
        """The same, each fold on so many threads."""
        if not isinstance(self.source, LocalRows):
            return self
        source = LocalRows(self.source.rows, self.source.block_rows, threads)
        return replace(self, source=source)


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """What earlier rows have shown, where learning goes on."""

    weight: float = 0.0
    marginals: Mapping[int, Array] = field(default_factory=dict)


def pose(
    plan: Plan,
    source: Source,
    smoothing: PseudoCounts = 0.0,
    floor: float = 0.0,
    before: Seen | None = None,
    scales: Mapping[int, Scale] | None = None,
    knowledge: Knowledge | None = None,
    wide: WideGraph | None = None,
) -> Problem:
    """Look at the rows once: columns with holes, marginals; in memory, unique rows are kept.

    Columns of decimals are continuous; they are standardised by `scales`, or by their own mean and
    deviation; `wide` tells which of them come in pieces. Where learning goes on after `before`,
    every column may have holes, and the rows before count, too.
    """
    wide = wide or WideGraph(plan.graph, plan.graph, {})
    graph = wide.wide
    given = read_smoothing(plan.graph, smoothing)
    pseudo = {v: given.get(wide.owner(v), 0.0) for v in range(len(graph.names))}
    knowledge = knowledge or Knowledge()
    check_graph(graph)
    check_operators(plan)
    seen = source.fold(partial(_count_pieces, wide))
    if not seen.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    moments = {v: x for v in graph.observed if (x := seen.sums.get(f"moments/{v}")) is not None}
    counts = {v: seen.sums[f"column/{v}"] for v in graph.observed if v not in moments}
    going = before is not None and before.weight > 0
    weight = seen.weight + (before.weight if before else 0.0)
    if before is not None and going:
        counts = {v: x + before.marginals[v] for v, x in counts.items()}
    for v in plan.graph.observed:
        told = wide.pieces[v].kind if v in wide.pieces else v
        if not going and not (counts[told].sum() if told in counts else moments[v][0]) > 0:
            raise DataError(
                f"no row has a value in {graph.names[v]}. Drop the column from the graph."
            )
    gaps = [v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0]
    holes = gaps if before is None else None
    if scales is None:
        scales = {v: scale_of(sums) for v, sums in knowledge.pooled(moments).items()}
    scales = wide.scales(scales)
    check_kinds(graph, knowledge, scales)
    estep = compile_estep(graph, holes, continuous=scales)
    prior = prior_of_tables(graph, counts, pseudo, knowledge)
    rows_of = {v: _pseudo_rows(graph, wide.owner(v), pseudo[v]) for v in scales}
    rest = (weight, counts, prior, scales, rows_of, float(floor), knowledge, wide)
    if not isinstance(source, LocalRows):
        return Problem(estep, source, False, *rest)
    rows = pack_rows(estep, standardised(graph, wide.rows(source.rows), scales))
    if not scales:
        rows = unique_rows(rows, [pack.codes for pack in estep.packs])
    blocks = max(source.block_rows, PACKED_ROWS)
    return Problem(estep, LocalRows(rows, blocks, source.threads), True, *rest)


def scale_of(sums: Array) -> Scale:
    """Mean and standard deviation from Σ w, Σ w x, Σ w x²; a constant column has deviation 1."""
    mean = float(sums[1] / sums[0])
    deviation = math.sqrt(max(float(sums[2] / sums[0]) - mean * mean, 0.0))
    return mean, deviation if deviation > 1e-9 * (1 + abs(mean)) else 1.0


def grid_scales(
    graph: LatentGraph, columns: Sequence[Column], tied: Sequence[Sequence[int]] = ()
) -> dict[int, Scale]:
    """Mean and deviation of continuous columns in steps of their grids, tied ones in common.

    Those of the column as it was discovered, perhaps over more rows than these: the floor of
    variances is a share of what the whole column varies, not of what one class of it does.
    """
    scales = {
        v: (-column.low / column.step - 0.5, column.spread / column.step)
        for v, column in dense_columns(graph.observed, columns).items()
    }
    return common_scales(graph, columns, scales, tied)


def standardised(graph: LatentGraph, rows: Rows, scales: Mapping[int, Scale]) -> Rows:
    """Continuous columns with mean 0 and variance 1."""
    if not scales:
        return rows
    codes: list[Places] = list(rows.codes)
    for i, v in enumerate(graph.observed):
        if v in scales:
            codes[i] = (codes[i] - scales[v][0]) / scales[v][1]
    return Rows(tuple(codes), rows.weight)


def _counts_of(
    estep: EStep, tables: Tables, scales: Mapping[int, Scale], wide: WideGraph, rows: Rows
) -> Moments:
    return sum_counts(estep, tables, standardised(estep.graph, wide.rows(rows), scales))


def _count_pieces(wide: WideGraph, rows: Rows) -> Moments:
    return count_columns(wide.wide, wide.rows(rows))


def count_columns(graph: LatentGraph, rows: Rows, families: Sequence[int] = ()) -> Moments:
    """Counts of the states of every column, and of its missing cells; of decimals, moments.

    `families`, by their variable: their joint states, too ("counts/<variable>").
    """
    discrete = [i for i, codes in enumerate(rows.codes) if codes.dtype.kind != "f"]
    sizes = [graph.states[v] or 1 for v in graph.observed]
    place, parents = {v: i for i, v in enumerate(graph.observed)}, graph.parents()
    own = {v: tuple(place[u] for u in (*parents[v], v)) for v in families}
    if len(discrete) < len(rows.codes):
        own = {v: members for v, members in own.items() if set(members).issubset(discrete)}
    joint, lacking = joint_states_and_holes(rows.codes, sizes, list(own.values()), rows.weight)
    sums = {f"counts/{v}": n for v, n in zip(own, joint, strict=True)}
    counts = _summed_out(list(own.values()), joint, lacking)
    left = [(i,) for i in discrete if i not in counts]
    found, more = joint_states_and_holes(rows.codes, sizes, left, rows.weight)
    counts |= {i: n for (i,), n in zip(left, found, strict=True)}
    for i, (v, codes) in enumerate(zip(graph.observed, rows.codes, strict=True)):
        if i in counts:
            holes = int((codes < 0).sum()) if i in lacking or i in more else 0
            sums[f"column/{v}"], sums[f"holes/{v}"] = counts[i], np.array([holes])
            continue
        F = features(np.asarray(codes, dtype=float))
        sums[f"moments/{v}"] = F.sum(axis=1) if rows.weight is None else F @ rows.weight
        sums[f"holes/{v}"] = np.array([(F[0] == 0).sum()])
    return Moments("columns", rows.total, len(rows), sums)


def _summed_out(
    families: Sequence[Sequence[int]], joint: Sequence[Array], lacking: frozenset[int]
) -> dict[int, Array]:
    """Counts of columns' states from the smallest family that holds them and lacks no cell."""
    found: dict[int, Array] = {}
    for k in sorted(range(len(families)), key=lambda k: joint[k].size):
        if not lacking.isdisjoint(families[k]):
            continue
        for axis, i in enumerate(families[k]):
            if i not in found:
                others = tuple(a for a in range(joint[k].ndim) if a != axis)
                found[i] = joint[k].sum(axis=others)
    return found


def sum_log_units(graph: LatentGraph, columns: Sequence[Column], rows: Rows) -> Moments:
    """`count_columns`, and Σ log of what turns densities per grid step into those per unit.

    Atoms have no units, and are not counted.
    """
    weight, codes = rows.weights, list[Places](rows.codes)
    total = 0.0
    for i, column in dense_columns(range(len(columns)), columns).items():
        codes[i] = np.where(codes[i] < column.points, codes[i], np.nan)
        x = column.unscaled(column.at(codes[i]))
        total += float(column.log_density_factor(x) @ weight)
    found = count_columns(graph, Rows(tuple(codes), rows.weight))
    return replace(found, sums={**found.sums, "log_units": np.array([total])})


def prior_of_tables(
    graph: LatentGraph, counts: Counts, pseudo: Smoothing, knowledge: Knowledge
) -> Prior | None:
    """Pseudo-counts of discrete tables, none at known cells; those of tied ones shared out."""
    seen = knowledge.pooled(counts)
    found: dict[int, Array] = {}
    for v, above in enumerate(graph.parents()):
        if v not in graph.latent and v not in counts:
            continue  # continuous
        size, given = graph.states[v] or 1, pseudo.get(v, 0.0)
        share = np.full(size, 1.0 / size)
        if above and v in seen:
            share = smooth_unseen(seen[v] / seen[v].sum(), float(seen[v].sum()))
        found[v] = (given if isinstance(given, np.ndarray) else given * share) * knowledge.share(v)
        if v in knowledge.cells:
            found[v] = np.where(np.isnan(knowledge.cells[v]), found[v], 0.0)
    return Prior(found) if any(a.any() for a in found.values()) else None


def _pseudo_rows(graph: LatentGraph, v: int, given: float | Array) -> float:
    if isinstance(given, np.ndarray):
        raise DataError(
            f"expected one number as smoothing of the continuous column {graph.names[v]!r}, rows "
            "with its own mean and variance, got a table."
        )
    return given


def at_least(name: str, value: Given, lowest: float, whole: bool = False) -> None:
    """A number of at least so much, or an error that says so."""
    kinds = (int, np.integer) if whole else (int, float, np.number)
    wrong = not isinstance(value, kinds) or (whole and isinstance(value, bool))
    if wrong or not lowest <= value < math.inf:
        what = "a whole number" if whole else "a number"
        raise DataError(f"expected {name} to be {what} of at least {lowest}, got {value!r}.")


def maximise(counts: Counts, prior: Prior | None) -> dict[int, Array]:
    """The M-step: counts and pseudo-counts, every row divided by its sum.

    A row that no data speak of takes the shares of all rows together.
    """
    tables = {}
    for v, count in counts.items():
        rows = count if prior is None else count + prior.counts[v]
        total = rows.sum(axis=-1, keepdims=True)
        if not total.min() > 0:
            pooled = count.reshape(-1, count.shape[-1]).sum(axis=0)
            rows = np.where(total > 0, rows, pooled)
            total = rows.sum(axis=-1, keepdims=True)
        tables[v] = rows / total
    return tables


def counts_in(moments: Moments) -> dict[int, Array]:
    return {
        int(name.removeprefix("counts/")): total
        for name, total in moments.sums.items()
        if name.startswith("counts/")
    }


def with_unseen(tables: Tables, marginals: Counts) -> dict[int, Array]:
    """States that were declared but never seen count as half a row, alike for all parents.

    So that they say nothing as evidence, rather than contradict the model.
    """
    found = dict(tables)
    for v, count in marginals.items():
        unseen = count == 0
        if unseen.any() and not tables[v][..., unseen].any():
            N = float(count.sum())
            share = smooth_unseen(count / N, N) * unseen
            found[v] = tables[v] * (1.0 - share.sum()) + share
    return found

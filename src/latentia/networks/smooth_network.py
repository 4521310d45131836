"""A valid distribution over continuous columns: smooth tables on grids per separator state.

The positive network of design 4.3 with the cells of each grid as states. Leaves are P(cell | s);
the M-step smooths them along the grid (EM with a smoothing step), so that they are kernel mixtures
and never histograms. Started from clusters of the kernel embedding's shared coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Additive, Rows, Source
from latentia.data.sources.changed_rows import change_rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.estep import pack_rows
from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent
from latentia.kernels.embedding import choose_sides, embed, sum_sides
from latentia.kernels.feature_maps import coordinates
from latentia.kernels.settings import KernelSettings
from latentia.kernels.smooth_leaves import smoothing
from latentia.networks.accelerate import Prior, Tables, make_prior, normalised
from latentia.networks.em_problem import Problem, counts_in, pose
from latentia.networks.soft_states import first_counts, memberships
from latentia.networks.to_operators import operators_of
from latentia.structure.plan import Plan, make_plan
from latentia.structure.state_network import PositiveNetwork, positive_network
from latentia.typing import Array

Sum = TypeVar("Sum", bound=Additive)

SAMPLE = 2000
TRIAL_STEPS = 12
MOST_STEPS = 100
CHOICE_STEPS = 12
BANDWIDTHS = (0.16, 0.11, 0.08, 0.055, 0.04, 0.028)
FEWEST_TO_CHOOSE = 100
MANY_ROWS = 30_000
REST = 1e-4  # gain in log density per row and step


@final
@dataclass(frozen=True, slots=True)
class SmoothSettings:
    """Bandwidth of the leaves in standard deviations; pseudo-counts of every table row."""

    bandwidth: float | None = None  # None: chosen on held-out rows
    pseudo_counts: float = 2.0
    starts: int = 4


def refine_mixed(
    plan: Plan,
    columns: Sequence[Column],
    source: Source,
    sample: Rows,
    kernel: KernelSettings,
    smooth: SmoothSettings,
    rng: np.random.Generator,
) -> Operators:
    """One start from the embedding, smoothed MAP-EM, operators of the network's own plan."""
    network = positive_network(plan)
    own = make_plan(network.graph)
    problem = pose(own, _on_cells(columns, source))
    first = smooth.bandwidth or BANDWIDTHS[0]
    tables, prior = _start(plan, columns, network, problem, sample, kernel, smooth, first, rng)
    bandwidth = first
    if smooth.bandwidth is None and len(sample) >= FEWEST_TO_CHOOSE:
        tables, bandwidth = _choose(columns, network, problem, sample, tables, prior)
    blur = _blurs(network, columns, bandwidth)
    if problem.weight > MANY_ROWS:
        few = LocalRows(pack_rows(problem.estep, nearest_cells(columns, sample)), threads=1)
        part = replace(problem, source=few, packed=True, weight=sample.total)
        tables, _, _ = _climb(part, tables, prior, blur, MOST_STEPS)
    scaled = Prior(
        {
            v: a * (smooth.pseudo_counts / max(float(a.sum()), 1e-300))
            for v, a in prior.counts.items()
        }
    )
    tables, path, rested = _climb(problem, tables, scaled, blur, MOST_STEPS)
    found = operators_of(own, tables, problem.weight, Ascent((tuple(path),), (rested,), 0))
    return replace(found, blur=(bandwidth, bandwidth))


def _start(
    plan: Plan,
    columns: Sequence[Column],
    network: PositiveNetwork,
    problem: Problem,
    sample: Rows,
    kernel: KernelSettings,
    smooth: SmoothSettings,
    bandwidth: float,
    rng: np.random.Generator,
) -> tuple[dict[int, Array], Prior]:
    """A few ways to cut a sample into states; the one that climbs highest on it."""
    few = sample[:SAMPLE]
    parts = _shared_parts(plan, columns, network, few, kernel)
    coded = nearest_cells(columns, few)
    small = LocalRows(pack_rows(problem.estep, coded), threads=1)
    trial = replace(problem, source=small, packed=True, weight=coded.total)
    blur = _blurs(network, columns, bandwidth)
    best: tuple[float, dict[int, Array], Prior] | None = None
    for k in range(smooth.starts):
        soft = memberships(network, parts, coded, rng if k else None)
        counts = _blurred(first_counts(network, soft, coded), blur)
        prior = make_prior(counts, smooth.pseudo_counts)
        tables, path, _ = _climb(trial, normalised(counts, prior), prior, blur, TRIAL_STEPS)
        if best is None or path[-1] > best[0]:
            best = (path[-1], tables, prior)
    assert best is not None
    return best[1], best[2]


def _choose(
    columns: Sequence[Column],
    network: PositiveNetwork,
    problem: Problem,
    sample: Rows,
    start: dict[int, Array],
    prior: Prior,
) -> tuple[dict[int, Array], float]:
    """Bandwidth of the leaves by the likelihood of held-out rows: from wide to narrow."""
    packed = pack_rows(problem.estep, nearest_cells(columns, sample))
    held = max(len(packed) // 5, 1)
    learn, test = packed[held:], packed[:held]
    part = replace(problem, source=LocalRows(learn, threads=1), packed=True, weight=learn.total)
    look = replace(problem, source=LocalRows(test, threads=1), packed=True, weight=test.total)
    best: tuple[float, dict[int, Array], float] | None = None
    tables = start
    for bandwidth in BANDWIDTHS:
        blur = _blurs(network, columns, bandwidth)
        tables, _, _ = _climb(part, tables, prior, blur, CHOICE_STEPS)
        level = float(look.sum(tables).sums["log_likelihood"][0]) / test.total
        if best is not None and level < best[0]:
            break
        best = (level, tables, bandwidth)
    assert best is not None
    return best[1], best[2]


def _on_cells(columns: Sequence[Column], source: Source) -> Source:
    """The same rows with cells in place of positions."""
    return change_rows(source, partial(nearest_cells, tuple(columns)))


def nearest_cells(columns: Sequence[Column], rows: Rows) -> Rows:
    """Positions rounded to cells; codes as they are."""
    codes = [c.nearest(values) for c, values in zip(columns, rows.codes, strict=True)]
    return Rows(tuple(codes), rows.weight)


def _blurs(
    network: PositiveNetwork, columns: Sequence[Column], bandwidth: float
) -> dict[int, Array]:
    """Smoothing of each continuous variable of the network, (cells, cells)."""
    found = {}
    for column in columns:
        S = smoothing(column, bandwidth)
        if S is not None:
            found[network.graph.index(column.name)] = S
    return found


def _blurred(counts: Tables, blur: Mapping[int, Array]) -> dict[int, Array]:
    return {v: c @ blur[v].T if v in blur else c for v, c in counts.items()}


def _climb(
    problem: Problem, start: Tables, prior: Prior, blur: Mapping[int, Array], most: int
) -> tuple[dict[int, Array], list[float], bool]:
    """EM whose M-step smooths the leaves; levels are log-likelihoods per row."""
    tables, path = dict(start), []
    best: tuple[float, dict[int, Array]] = (-np.inf, tables)
    for _ in range(most):
        moments = problem.sum(tables)
        path.append(float(moments.sums["log_likelihood"][0]) / problem.weight)
        if path[-1] > best[0]:
            best = (path[-1], tables)
        if len(path) > 2 and path[-1] - path[-2] < REST:
            return best[1], path, True
        tables = normalised(_blurred(counts_in(moments), blur), prior)
    return best[1], path, False


def _shared_parts(
    plan: Plan,
    columns: Sequence[Column],
    network: PositiveNetwork,
    rows: Rows,
    settings: KernelSettings,
) -> dict[int, Array]:
    """What inside and outside tell alike of each separator's state: (r − 1, n)."""
    weight = rows.weights / rows.total
    z = coordinates(columns, rows.codes)
    sides = choose_sides(plan, columns, z, settings)
    source = LocalRows(rows, threads=1)
    found = embed(plan, sides, source.fold(partial(sum_sides, columns, sides)), settings)
    phi = [m(z) for m in sides.maps]
    parts = {}
    for name, k in network.node_of.items():
        Q, mean = found.inside[k]
        V, middle = found.outside[k]
        f = Q @ (phi[sides.inside[k]] - mean[:, None])
        f = np.nan_to_num(f)
        eta = V @ (phi[sides.outside[k]] - middle[:, None])  # predicts f / e: scale back
        predicted = eta * found.strengths[k][:, None]
        noise = _variance(f, weight) + 1e-12
        d = np.sqrt(np.clip(_variance(predicted, weight) / noise, 1e-4, 0.98))
        a, b = f / np.sqrt(noise)[:, None], predicted / (np.sqrt(noise) * d)[:, None]
        parts[network.graph.index(name)] = (a + b) * (np.sqrt(d) / (1 + d))[:, None]
    return parts


def _variance(x: Array, share: Array) -> Array:
    """Of each row of x, whose columns count by their share: (len(x),)."""
    return np.asarray((x - (x @ share)[:, None]) ** 2 @ share)

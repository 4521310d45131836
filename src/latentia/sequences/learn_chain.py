"""Learning a chain: starts race on a sample, the best climbs on all sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from latentia.announcing import tell_climb
from latentia.linear_algebra import one_thread
from latentia.networks.accelerate import ENOUGH, FLOOR, PSEUDO_COUNTS, Prior, accelerate
from latentia.networks.knowledge import Knowledge, PseudoCounts
from latentia.sequences.bell_priors import BellPrior, bell_prior
from latentia.sequences.chain_wiring import Wired, wire_groups, wire_steps
from latentia.sequences.expectation import chain_estep
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.known_tables import as_prior, pseudo_counts_of, read_known
from latentia.sequences.step_data import Sequences
from latentia.sequences.window_moments import StepWindows, look_through_windows, symbols_of
from latentia.sequences.window_starts import (
    by_time,
    clustered,
    counts_of_beliefs,
    eigen_beliefs,
    latent_codes,
    random_beliefs,
    segments,
)
from latentia.typing import Array, ByName, Cell

SAMPLE = 30_000  # steps on which starts race
FIRST = (5, 5)  # E-steps of EM, and how many starts go on
SECOND = 15  # E-steps of the climb
FINALISTS = (3, 5)  # how many go on and come to rest: at the least, at the most
STEPS_TO_TELL = 5_000  # for one finalist: the more steps there are, the more optima differ
SAME = 1e-4  # nats per step: climbs that end so near each other found the same


@final
@dataclass(frozen=True, slots=True)
class ChainLearning:
    """How a chain is learned."""

    pseudo_counts: PseudoCounts = PSEUDO_COUNTS  # a number, or by name of the table
    eigen: int = 4  # starts of each kind
    clusters: int = 4
    random: int = 1
    max_iter: int = 200
    tol: float = 1e-6  # gain per step of a sequence at which climbing stops (continuous columns)
    known: ByName[Cell] | None = None  # cells of tables, by name


@final
@dataclass(frozen=True, slots=True)
class LearnedChain:
    """Tables by number of family, and how they were found."""

    tables: dict[int, Array]
    start: str
    converged: bool
    history: tuple[float, ...]  # penalised log-likelihood after each step
    log_likelihood: float


@final
@dataclass(frozen=True, slots=True)
class ChainPrior:
    """Pseudo-counts of discrete tables, pseudo-rows of Gaussians, and cells that are known."""

    discrete: Prior
    bells: Mapping[int, BellPrior]
    known: Knowledge = field(default_factory=Knowledge)

    def maximise(self, counts: Tables) -> dict[int, Array]:
        """The M-step."""
        found = {}
        for n, prior in self.discrete.counts.items():
            own = counts[n] + (prior + FLOOR)
            found[n] = own / own.sum(axis=-1, keepdims=True)
        for n, bell in self.bells.items():
            found[n] = bell.maximise(counts[n])
        return self.known.held(found)

    def log_density(self, tables: Tables) -> float:
        leaves = sum(bell.log_density(tables[n]) for n, bell in self.bells.items())
        return self.discrete.log_density(tables) + leaves


def chain_prior(
    layout: ChainLayout,
    sequences: Sequences,
    pseudo_counts: PseudoCounts,
    known: ByName[Cell] | None = None,
) -> ChainPrior:
    """What is believed of tables before any row."""
    prior, rows = as_prior(pseudo_counts_of(layout, sequences, pseudo_counts))
    states = math.prod(layout.sizes[v] for v in layout.slice.latent)
    bells = {
        n: bell_prior(sequences.cells[layout.families[n].variable], pseudo, states)
        for n, pseudo in rows.items()
    }
    return ChainPrior(prior, bells, read_known(layout, known))


def learn_chain(
    layout: ChainLayout, sequences: Sequences, how: ChainLearning, rng: np.random.Generator
) -> LearnedChain:
    """Tables of large penalised likelihood."""
    prior = chain_prior(layout, sequences, how.pseudo_counts, how.known)
    with one_thread():
        groups = wire_groups(layout, sequences)
        few = sample_steps(sequences, SAMPLE, rng)
        racing = groups if few is sequences else (wire_steps(layout, few),)
        best = _raced(few, racing, prior, how, rng)
        if few is sequences:
            return best
        return replace(climb_chain(groups, best.tables, prior, how), start=best.start)


def climb_chain(
    groups: Sequence[Wired],
    start: Tables,
    prior: ChainPrior,
    how: ChainLearning,
    enough: float = ENOUGH,
) -> LearnedChain:
    """To rest, on all sequences; `enough` is the gain per parameter at which discrete ones do."""
    if prior.bells:
        steps = sum(wired.sequences.steps for wired in groups)
        return plain_climb(groups, start, prior, how.max_iter, how.tol * steps)
    laid = [groups]

    def estep(tables: Tables) -> tuple[dict[int, Array], float]:
        counts, level, laid[0] = chain_estep(laid[0], tables)
        return counts, level

    hold = prior.known.held if prior.known.cells else None
    found = accelerate(start, prior.discrete, estep, most=how.max_iter, hold=hold, enough=enough)
    return LearnedChain(found.tables, "", found.converged, found.history, found.log_likelihood)


def plain_climb(
    groups: Sequence[Wired], tables: Tables, prior: ChainPrior, most: int, enough: float
) -> LearnedChain:
    """EM as it is; it never falls."""
    history: list[float] = []
    fit = -np.inf
    for _ in range(most):
        counts, fit, groups = chain_estep(groups, tables)
        history.append(fit + prior.log_density(tables))
        if len(history) > 1:
            gain = history[-1] - history[-2]
            tell_climb(len(history), gain)
            if gain < enough:
                return LearnedChain(dict(tables), "", True, tuple(history), fit)
        tables = prior.maximise(counts)
    return LearnedChain(dict(tables), "", False, tuple(history), fit)


def _raced(
    few: Sequences,
    groups: Sequence[Wired],
    prior: ChainPrior,
    how: ChainLearning,
    rng: np.random.Generator,
) -> LearnedChain:
    """The best of a few starts that came to rest on a sample.

    All take some steps of EM, the best of them some of the climb, and the best of those, if they
    are not on their way to the same place, climb to rest, until two of them end on the same top.
    """
    wired = groups[0] if len(groups) == 1 else wire_steps(groups[0].layout, few)
    running = [
        LearnedChain(prior.maximise(counts), name, False, (), 0.0)
        for name, counts in starts(wired, how, rng, prior.known)
    ]
    if len(running) > 1:
        rounds, keep = FIRST
        climbs = [
            replace(plain_climb(groups, r.tables, prior, rounds, 0.0), start=r.start)
            for r in running
        ]
        running = _best(climbs, keep, 0.0)
        some = replace(how, max_iter=SECOND)
        climbs = [
            replace(climb_chain(groups, r.tables, prior, some), start=r.start) for r in running
        ]
        keep = int(np.clip(few.steps // STEPS_TO_TELL, *FINALISTS))
        running = _best(climbs, keep, SAME * few.steps)
    ended: list[LearnedChain] = []
    for r in running:
        found = replace(climb_chain(groups, r.tables, prior, how), start=r.start)
        top = max((e.history[-1] for e in ended), default=-np.inf)
        ended.append(found)
        if abs(found.history[-1] - top) < SAME * few.steps:  # the best was found twice
            break
    return _best(ended, 1, 0.0)[0]


def _best(climbs: Sequence[LearnedChain], keep: int, same: float) -> list[LearnedChain]:
    """So many of the highest, no two of which are on the same level."""
    found: list[LearnedChain] = []
    for climb in sorted(climbs, key=lambda c: -c.history[-1]):
        near = any(abs(climb.history[-1] - other.history[-1]) < same for other in found)
        if len(found) < keep and not near:
            found.append(climb)
    return found


def starts(
    wired: Wired, how: ChainLearning, rng: np.random.Generator, known: Knowledge
) -> Iterator[tuple[str, dict[int, Array]]]:
    """Counts of every start, by name; where states are known by number, in the order of time."""
    layout = wired.layout
    _, count = latent_codes(layout)
    steps = wired.sequences.steps
    if count == 1:
        yield "counts", counts_of_beliefs(wired, np.ones((1, steps)))
        return
    windows = look_through_windows(layout, wired.sequences, count)
    if known.pinned:
        yield "segments", counts_of_beliefs(wired, segments(wired.sequences, count))
    if windows is not None:
        for name, make in _closed_form(windows, wired.sequences, count, how, rng):
            try:
                belief = make()
            except np.linalg.LinAlgError:
                continue
            if known.pinned:
                belief = by_time(wired.sequences, belief)
            yield name, counts_of_beliefs(wired, belief)
    for _ in range(max(how.random, int(windows is None))):
        belief = random_beliefs(*symbols_of(layout, wired.sequences), count, rng)
        yield "random", counts_of_beliefs(wired, belief)


def _closed_form(
    windows: StepWindows, few: Sequences, count: int, how: ChainLearning, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], Array]]]:
    steps, first = few.steps, few.first_steps()
    paired = bool((np.diff(windows.positions) == 1).any())  # short sequences have one window each
    full = len(windows.found.d) == count
    for _ in range(how.eigen if full and paired else 0):
        yield "eigenvectors", lambda: eigen_beliefs(windows, steps, first, rng)
    for k in range(how.clusters):
        Z, late = (windows.states(), 1) if k % 2 == 0 else (windows.both(), 0)
        yield "clusters", partial(clustered, windows, Z, steps, count, rng, late)


def sample_steps(sequences: Sequences, size: int, rng: np.random.Generator) -> Sequences:
    """About so many steps: whole sequences where they are short, else stretches of them."""
    if sequences.steps <= size:
        return sequences
    longest = max(size // 10, 1)
    spans: list[tuple[int, int]] = []
    left = size
    for s in rng.permutation(len(sequences)).tolist():
        a, b = int(sequences.offsets[s]), int(sequences.offsets[s + 1])
        if b - a > longest and len(sequences) > 10:
            a += int(rng.integers(b - a - longest + 1))
            b = a + longest
        b = min(b, a + left)
        spans.append((a, b))
        left -= b - a
        if left <= 0:
            break
    return sequences.spans(spans)

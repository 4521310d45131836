"""How many states should the latents of a chain have? Candidates side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.errors import DataError
from latentia.networks.accelerate import free_parameters
from latentia.sequences.chain_questions import Chain, filter_states
from latentia.sequences.fitting_chains import Prepared
from latentia.sequences.hidden_states import Tables
from latentia.sequences.learn_chain import ChainLearning, learn_chain
from latentia.sequences.slices import Slice
from latentia.sequences.step_data import Sequences
from latentia.spelling import printable
from latentia.typing import Array, Cell, Codes, Foreign, Given, Label, Seed

if TYPE_CHECKING:
    from latentia.sequences.packing import Indices

MOST_CANDIDATES = 32
ENOUGH_SEQUENCES = 10  # to hold whole ones out; else the last part of each
HELD_OUT = 0.25
BLOCK = 50  # steps that count as one where errors are told of a single sequence


@final
@dataclass(frozen=True, slots=True)
class ChainCandidate:
    """One choice of numbers of states, and its figures."""

    states: Mapping[Label, int]
    log_likelihood: float
    parameters: int
    rows: int
    held_out: float  # -log P(row | rows before), mean over rows that it was not learned from
    held_out_error: float
    behind: float  # by how much it is worse than the best …
    behind_error: float  # … and the standard error of that
    seconds: float
    converged: bool

    @property
    def aic(self) -> float:
        """2 k − 2 log P(rows)."""
        return 2.0 * self.parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log N − 2 log P(rows)."""
        return self.parameters * math.log(self.rows) - 2.0 * self.log_likelihood

    @property
    def name(self) -> str:
        if len(self.states) == 1:
            return str(next(iter(self.states.values())))
        return ", ".join(f"{printable(k)}={n}" for k, n in self.states.items())


@final
@dataclass(frozen=True, slots=True)
class ChainComparison:
    """Every candidate with its figures, and the one to take."""

    candidates: tuple[ChainCandidate, ...]

    @property
    def best(self) -> ChainCandidate:
        """Of those that predict other rows as well as the best does, the one of least BIC."""
        good = [c for c in self.candidates if c.behind <= c.behind_error]
        return min(good, key=lambda c: c.bic)

    @property
    def recommended(self) -> dict[Label, int]:
        """Numbers of states, ready for ``SequenceModel(slice, latents=...)``."""
        return dict(self.best.states)

    def to_dict(self) -> list[dict[Label, Cell]]:
        """One dict a candidate."""
        names = ("log_likelihood", "parameters", "aic", "bic", "held_out", "held_out_error")
        return [
            {**c.states, **{name: getattr(c, name) for name in (*names, "seconds", "converged")}}
            for c in self.candidates
        ]

    def to_frame(self) -> Foreign:
        """The same as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        head = ("states", "log-likelihood", "parameters", "AIC", "BIC", "held-out loss", "±", "s")
        rows = [head]
        for c in self.candidates:
            mark = "→ " if c is self.best else "  "
            loss = (f"{c.held_out:.4f}", f"{c.held_out_error:.4f}", f"{c.seconds:.2f}")
            likely = (f"{c.log_likelihood:,.1f}", f"{c.parameters:,}", f"{c.aic:,.1f}")
            rows.append((mark + c.name, *likely, f"{c.bic:,.1f}", *loss))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        shown = [
            "  ".join(x.rjust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        names = "; ".join(f"{printable(k)}: {n}" for k, n in self.best.states.items())
        return "\n".join([*shown, f"take {names}: nats per row, less is better"])


def state_ranges(slice_: Slice, latents: Given) -> list[dict[Label, int]]:
    """All combinations of numbers of states, the smallest first."""
    ranges = {}
    for name, given in latents.items():
        numbers = [given] if isinstance(given, Integral) else given
        listed = [] if isinstance(numbers, str) or not isinstance(numbers, Iterable) else [*numbers]
        whole = [
            isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in listed
        ]
        if not listed or not all(whole):
            raise DataError(f"expected numbers of states of {name!r} from 1 on, got {given!r:.80}.")
        ranges[name] = sorted({int(n) for n in listed})
    found = [dict(zip(ranges, chosen, strict=True)) for chosen in product(*ranges.values())]
    if not found or len(found) > MOST_CANDIDATES:
        raise DataError(
            f"expected 1 to {MOST_CANDIDATES} combinations of numbers of states, got {len(found)}."
        )
    return sorted(found, key=lambda states: math.prod(states.values()))


def compare_chains(
    prepared: Prepared, candidates: list[dict[Label, int]], how: ChainLearning, seed: Seed
) -> ChainComparison:
    """Learn every candidate from all rows, and from some to be judged by the others."""
    train, judged = _parted(prepared.sequences, np.random.default_rng(seed))
    found, losses = [], []
    for states in candidates:
        begun = time.perf_counter()
        chain = _with_states(prepared, states)
        layout = chain.layout(prepared.sequences.holes())
        whole = learn_chain(layout, prepared.sequences, how, np.random.default_rng(seed))
        part = learn_chain(layout, train, how, np.random.default_rng(seed))
        scores = filter_states(replace(chain, tables=part.tables), prepared.sequences).log_scale
        losses.append(judged.means(-(scores + prepared.log_slopes)))
        level = whole.log_likelihood + float(prepared.log_slopes.sum())
        told = ChainCandidate(
            states, level, parameters_of(chain, whole.tables), prepared.rows, 0.0, 0.0, 0.0, 0.0,
            time.perf_counter() - begun, whole.converged,
        )  # fmt: skip
        found.append(told)
    return ChainComparison(tuple(_judged(found, np.array(losses), judged.weights)))


def _judged(found: list[ChainCandidate], losses: Array, weights: Array) -> list[ChainCandidate]:
    """Losses by unit, (candidates, units), as means with errors, and against the best."""
    means = losses @ weights
    best = int(means.argmin())

    def error(x: Array) -> float:
        spread = float(weights @ (x - weights @ x) ** 2)
        return math.sqrt(spread * float(weights @ weights))

    return [
        replace(
            c,
            held_out=float(m),
            held_out_error=error(own),
            behind=float(m - means[best]),
            behind_error=error(own - losses[best]),
        )
        for c, m, own in zip(found, means, losses, strict=True)
    ]


@final
@dataclass(frozen=True, slots=True)
class _Judged:
    """Rows that judge, and the unit (a sequence, or a stretch) that each belongs to."""

    steps: Indices  # indices
    unit: Codes
    count: int

    @property
    def weights(self) -> Array:
        found = np.bincount(self.unit, minlength=self.count)
        return np.asarray(found / found.sum())

    def means(self, loss: Array) -> Array:
        """Mean loss of every unit."""
        sums = np.bincount(self.unit, loss[self.steps], self.count)
        return np.asarray(sums / np.maximum(np.bincount(self.unit, minlength=self.count), 1))


def _parted(sequences: Sequences, rng: np.random.Generator) -> tuple[Sequences, _Judged]:
    """What candidates learn from, and what judges them: whole sequences, or the ends of each."""
    lengths = np.diff(sequences.offsets)
    there = np.flatnonzero(lengths > 0)
    if len(there) >= ENOUGH_SEQUENCES:
        order = rng.permutation(there)
        cut = max(1, round(HELD_OUT * len(order)))
        held = np.sort(order[:cut])
        steps = np.concatenate([np.arange(*sequences.offsets[[s, s + 1]]) for s in held])
        unit = np.repeat(np.arange(cut), lengths[held])
        return sequences.some(np.sort(order[cut:]).tolist()), _Judged(steps, unit, cut)
    spans, parts = [], []
    for s in there.tolist():
        a, b = int(sequences.offsets[s]), int(sequences.offsets[s + 1])
        middle = b - round(HELD_OUT * (b - a))
        spans.append((a, middle))
        parts.append(np.arange(middle, b))
    steps = np.concatenate(parts)
    if len(steps) < 2:
        raise DataError("too few rows to hold some of them out. Fit, and look at bic().")
    unit = np.arange(len(steps)) // min(BLOCK, max(1, len(steps) // 4))
    return sequences.spans([span for span in spans if span[1] > span[0]]), _Judged(
        steps, unit, int(unit[-1]) + 1
    )


def _with_states(prepared: Prepared, states: Mapping[Label, int]) -> Chain:
    slice_ = prepared.slice
    sizes = tuple(
        states.get(slice_.names[v], size) if v in slice_.latent else size
        for v, size in enumerate(slice_.states)
    )
    return Chain(replace(slice_, states=sizes), prepared.columns, {})


def parameters_of(chain: Chain, tables: Tables) -> int:
    """Free numbers of all tables."""
    layout = chain.layout(frozenset())
    bells = {n for n, f in enumerate(layout.families) if not chain.sizes[f.variable]}
    discrete = {n: t for n, t in tables.items() if n not in bells}
    return free_parameters(discrete) + sum(tables[n].size // 3 * 2 for n in bells)

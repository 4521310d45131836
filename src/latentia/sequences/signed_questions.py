"""Questions to a chain in closed form: what is told of its columns; its state has no names."""

from __future__ import annotations

import numpy as np

from latentia.data.columns.labels import joint_summary_labels
from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.inference.posterior import Posterior
from latentia.inference.posterior_density import Density, as_answer
from latentia.sequences.chain_questions import Chain
from latentia.sequences.long_rows import LongSteps, Naming, cells_of, one_value
from latentia.sequences.packing import Indices
from latentia.sequences.signed_chain import (
    SignedChain,
    predicted,
    run_forward,
    step_behind,
    told_steps,
)
from latentia.sequences.step_answers import repeated_labels
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, ByName, Cell, CellArray, Label


def joint_cells(chain: Chain, sequences: Sequences) -> CellArray:
    """Codes of all columns, (steps, columns)."""
    found = [sequences.cells[v] for v in chain.slice.columns]
    return np.stack(found, axis=1).astype(np.intp)


def signed_scores(chain: Chain, signed: SignedChain, sequences: Sequences) -> Array:
    """log P(step | steps before), (steps,)."""
    return run_forward(signed, joint_cells(chain, sequences), sequences.offsets)[0]


def _column_shares(signed: SignedChain, place: int, p: Array) -> Array:
    """P(state of one column) from that of joint symbols, (symbols, n): (states, n)."""
    shaped = p.reshape(*signed.sizes, -1)
    axes = tuple(k for k in range(len(signed.sizes)) if k != place)
    return np.asarray(shaped.sum(axis=axes))


def told_columns(chain: Chain, signed: SignedChain, p: Array) -> dict[Label, Cell]:
    """P(state) of every column, with headings such as ``word=a``."""
    columns = [chain.columns[v] for v in chain.slice.columns]
    told: dict[Label, Cell] = {}
    for place, (column, labels) in enumerate(
        zip(columns, joint_summary_labels(columns), strict=True)
    ):
        shares = _column_shares(signed, place, p)
        told |= dict(zip(labels, column.summary(shares), strict=True))
    return told


def signed_next(chain: Chain, signed: SignedChain, sequences: Sequences) -> dict[Label, Cell]:
    """P(columns of a step | steps before), of all steps."""
    p = np.empty((len(signed.operators), sequences.steps))

    def hear(steps: Indices, b: Array) -> None:
        p[:, steps] = predicted(signed, b)

    run_forward(signed, joint_cells(chain, sequences), sequences.offsets, hear)
    return told_columns(chain, signed, p)


def signed_forecast(
    chain: Chain, signed: SignedChain, read: LongSteps, naming: Naming, count: int
) -> dict[Label, Cell]:
    """Columns of a long table: a row for each sequence and step ahead."""
    _, b = run_forward(signed, joint_cells(chain, read.sequences), read.sequences.offsets)
    parts = [predicted(signed, b)]
    for _ in range(count - 1):
        b = behind_nothing(signed, b)
        parts.append(predicted(signed, b))
    p = np.stack(parts, axis=2).reshape(len(signed.operators), -1)  # sequences, then steps
    told: dict[Label, Cell] = {
        "sequence" if naming.sequence is None else naming.sequence: repeated_labels(
            read.labels, count
        ),
        "ahead": np.tile(np.arange(1, count + 1), len(read.labels)),
    }
    return told | told_columns(chain, signed, p)


def behind_nothing(signed: SignedChain, b: Array) -> Array:
    """States behind a step of which nothing is seen."""
    move = signed.operators.sum(axis=0)
    return step_behind(signed, np.broadcast_to(move, (b.shape[1], *move.shape)), b)[0]


def signed_query(
    chain: Chain, signed: SignedChain, sequences: Sequences, v: int, at: int
) -> Posterior | Density:
    """P(column at a step | all other cells of the sequence)."""
    place = chain.slice.columns.index(v)
    cells = joint_cells(chain, sequences)
    _, ends = run_forward(signed, cells[:at], np.array([0, at]))
    told = told_steps(signed, cells[at:])
    can = told.symbols[told.which[0]]
    s = (signed.operators @ ends[:, 0]).T * can  # (K, symbols): unnormalised states behind each
    for which in told.which[1:]:
        s = told.operators[which] @ s
        s /= max(float(np.abs(s).max()), 1e-300)
    weight = np.maximum(s[0], 0.0)
    size = float(weight.sum())
    ahead = predicted(signed, ends)[:, 0] * can
    p = weight / size if size > 0 else ahead
    if signed.mix:
        p = p + signed.mix * ahead / max(float(ahead.sum()), 1e-300)
    if not p.sum() > 0:
        raise EvidenceError("the rows of the sequence cannot be under the model.")
    shares = _column_shares(signed, place, (p / p.sum())[:, None])[:, 0]
    return as_answer([chain.columns[v]], shares / shares.sum())


def sample_signed(
    signed: SignedChain, count: int, length: int, rng: np.random.Generator
) -> list[CellArray]:
    """Codes of every column, (count, length) each."""
    drawn = np.empty((count, length), dtype=np.intp)
    b = np.repeat(signed.start[:, None], count, axis=1)
    for t in range(length):
        level = predicted(signed, b).cumsum(axis=0)
        above = rng.random(count) * level[-1] >= level
        drawn[:, t] = np.minimum(above.sum(axis=0), len(level) - 1)
        b, _ = step_behind(signed, signed.operators[drawn[:, t]], b)
    return list(np.unravel_index(drawn, signed.sizes))


class SignedOnline:
    """One step at a time: `observe` a row, `forecast` the next; O(1) memory.

    Made by `SequenceModel.start` of a model in closed form.
    """

    def __init__(self, chain: Chain, signed: SignedChain) -> None:
        self._chain, self._signed = chain, signed
        self._state = signed.start[:, None]
        self.steps = 0

    def observe(self, row: ByName[Cell] | None = None) -> float:
        """Take in the next step, and tell log P(row | rows before); None or {}: nothing is seen."""
        row, chain = row or {}, self._chain
        columns = [chain.columns[v] for v in chain.slice.columns]
        for name in row:
            if name not in {c.name for c in columns}:
                raise UnknownNameError("column", name, [c.name for c in columns])
        cells = [
            -1 if _nothing(row.get(c.name)) else int(cells_of(c, one_value(row[c.name]))[0])
            for c in columns
        ]
        told = told_steps(self._signed, np.array([cells], dtype=np.intp))
        which = told.which[0]
        p = float(told.symbols[which] @ predicted(self._signed, self._state)[:, 0])
        if not p > 0.0:
            raise EvidenceError(
                f"the row {dict(row)!r:.200} cannot be under the model after the rows before."
            )
        self._state, _ = step_behind(self._signed, told.operators[which][None], self._state)
        self.steps += 1
        return float(np.log(p))

    def forecast(self, name: Label, ahead: int = 1) -> Posterior | Density:
        """P(column, so many steps ahead | rows so far)."""
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
            raise DataError(f"expected ahead as a whole number from 1 on, got {ahead!r}.")
        v = self._chain.slice.index(name)
        check_column(self._chain, v)
        b = self._state
        for _ in range(ahead - 1):
            b = behind_nothing(self._signed, b)
        place = self._chain.slice.columns.index(v)
        shares = _column_shares(self._signed, place, predicted(self._signed, b))[:, 0]
        return as_answer([self._chain.columns[v]], shares / shares.sum())


def _nothing(value: object) -> bool:
    return value is None or bool(value != value)


def check_column(chain: Chain, v: int) -> None:
    """An error where a latent is asked for."""
    if v in chain.slice.latent:
        raise EvidenceError(nameless(f"P({chain.slice.names[v]})"))


def nameless(what: str) -> str:
    """Why a question about states has no answer, and what to do."""
    return (
        f"{what} needs states, and this model was learned in closed form: its predictive state has "
        "coordinates, no named states and no tables. It can score_samples, predict_next, forecast, "
        "query columns, sample and start(). For states fit with learner=None, which starts from "
        "the closed form."
    )

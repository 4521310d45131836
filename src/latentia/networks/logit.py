"""A latent class whose members depend on covariates: P(class | x) = softmax(B x), tables below.

EM from the classes without covariates: memberships given x and the answers, then tables by counts
and B by Newton steps on Σ r log softmax(B x), each halved until it gains. Errors are of the
observed information of all rows, or of the sandwich form, which holds for a wrong model, too.

All rows lie in memory: covariates are numbers, so that hardly two rows are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.errors import DataError
from latentia.linear_algebra import rank_above_rounding, symmetric_inverse
from latentia.networks.covariate_holes import Copies, with_copies
from latentia.typing import Array, Codes

MOST_STEPS = 5000
NEAR = 1e-11  # gain a row at which EM rests
NEWTON_STEPS = 3  # in each step of EM
SURE = 1e-6  # probabilities nearer to 0 or 1 are held fixed when errors are told
RIDGE = 1e-2  # of standardised coefficients, for each pseudo-count of tables
STEP = 1e-5  # of derivatives
FEWEST = 5  # complete rows for each feature
TINY = 1e-300


@final
@dataclass(frozen=True, slots=True)
class LogitRows:
    """What is told by a class: columns of codes, with a mark at each state that was seen."""

    marks: Array  # (n, states of all columns), zero where missing
    sizes: tuple[int, ...]
    X: Array  # (n, covariates): the first one is 1
    weight: Array  # (n,)
    pseudo: tuple[Array, ...]  # pseudo-counts of each column's states
    ridge: float
    copies: Copies | None = None  # where rows lack covariates: these here are copies of rows

    @property
    def spans(self) -> list[slice]:
        """Where the states of each column are."""
        ends = np.cumsum(self.sizes)
        return [slice(e - k, e) for e, k in zip(ends, self.sizes, strict=True)]


@final
@dataclass(frozen=True, slots=True)
class LogitFit:
    """Coefficients and tables, and the log-likelihood where they rest."""

    B: Array  # (classes, covariates); that of class 0 is 0
    table: Array  # (classes, states of all columns)
    log_likelihood: float
    converged: bool
    steps: int


def answers_of(
    codes: Sequence[Codes],
    sizes: Sequence[int],
    X: Array,
    weight: Array,
    smoothing: float,
    donors: Array | None = None,
) -> LogitRows:
    """Rows as matrices; `X` has a column of ones first, and holes are filled in from `donors`."""
    marks = [(c[:, None] == np.arange(k)).astype(float) for c, k in zip(codes, sizes, strict=True)]
    shares = [weight @ m for m in marks]
    pseudo = tuple(smoothing * s / max(float(s.sum()), TINY) for s in shares)
    both = np.concatenate(marks, axis=1)
    if donors is None or not np.isnan(X).any():
        return LogitRows(both, tuple(sizes), X, weight, pseudo, RIDGE * smoothing)
    copies = with_copies(X, donors)
    at = copies.origin
    return LogitRows(
        both[at], tuple(sizes), copies.X, weight[at], pseudo, RIDGE * smoothing, copies
    )


def mean_share(rows: LogitRows, fit: LogitFit) -> Array:
    """P(class), the mean over the rows."""
    own = rows.weight if rows.copies is None else rows.weight * rows.copies.share
    return np.asarray(np.average(shares_of(fit.B, rows.X), axis=0, weights=own))


def shares_of(B: Array, X: Array) -> Array:
    """P(class | x), (n, classes)."""
    _, p, whole = _log_sum(B @ X.T)
    return np.asarray((p / whole).T)


def row_memberships(rows: LogitRows, fit: LogitFit) -> tuple[Array, Array]:
    """P(class | x, answers), (n, classes), and log P(answers | x), (n,).

    Of copies it is P(class, copy | answers), and the logarithm of a row is shared out among them.
    """
    score = fit.B @ rows.X.T
    joint = score - _log_sum(score)[0]
    joint += np.log(np.maximum(fit.table, TINY)) @ rows.marks.T
    if rows.copies is None:
        log, p, whole = _log_sum(joint)
        return (p / whole).T, log
    first, own = rows.copies.first, rows.copies.share
    times = np.diff(first, append=joint.shape[1])
    top = np.maximum.reduceat(joint.max(axis=0), first).repeat(times)
    p = np.exp(joint - top) * own
    whole = np.add.reduceat(p.sum(axis=0), first).repeat(times)
    return (p / whole).T, (np.log(whole) + top) / times.repeat(times)


def _log_sum(score: Array) -> tuple[Array, Array, Array]:
    """log Σ exp over classes (classes, n), and what it is of: exp less the largest, and their sum.

    Classes are few and rows many: what is done class by class runs along the rows.
    """
    top = score.max(axis=0)
    p = np.exp(score - top)
    whole = p.sum(axis=0)
    return np.log(whole) + top, p, whole


def climb_logit(rows: LogitRows, start: LogitFit, most: int = MOST_STEPS) -> LogitFit:
    """EM until it gains nothing any more."""
    fit, level = start, -math.inf
    for step in range(most):
        r, log = row_memberships(rows, fit)
        found = float(log @ rows.weight)
        above = found + _log_prior(rows, fit)
        if above - level < NEAR * rows.weight.sum():
            return replace(fit, log_likelihood=found, converged=True, steps=step)
        level = above
        own = r * rows.weight[:, None]
        fit = replace(fit, B=newton(rows, own, fit.B), table=tables_of(rows, own))
    return replace(fit, log_likelihood=found, converged=False, steps=most)


def tables_of(rows: LogitRows, own: Array) -> Array:
    """The M-step of the tables: (classes, states of all columns)."""
    counts = own.T @ rows.marks
    table = np.empty(counts.shape)
    for span, pseudo in zip(rows.spans, rows.pseudo, strict=True):
        part = counts[:, span] + pseudo
        whole = part.sum(axis=1, keepdims=True)
        flat = np.full(part.shape, 1.0 / part.shape[1])
        table[:, span] = np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), flat)
    return table


def _log_prior(rows: LogitRows, fit: LogitFit) -> float:
    log = np.log(np.maximum(fit.table, TINY))
    spans = zip(rows.spans, rows.pseudo, strict=True)
    tables = sum(float((log[:, span] * pseudo).sum()) for span, pseudo in spans)
    return tables - 0.5 * rows.ridge * float((fit.B[:, 1:] ** 2).sum())


def newton(rows: LogitRows, own: Array, B: Array) -> Array:
    """Newton steps on Σ own log softmax(B x), each halved until it gains; class 0 stays at 0."""
    X, whole = rows.X, own.sum(axis=1)
    met = own.T @ X  # Σ own B x = ⟨met, B⟩

    def look(b: Array) -> tuple[float, Array]:
        """The level there, and P(class | x), (n, classes)."""
        log, p, total = _log_sum(b @ X.T)
        gain = float((met * b).sum()) - float(whole @ log)
        return gain - 0.5 * rows.ridge * float((b[:, 1:] ** 2).sum()), (p / total).T

    best, p = look(B)
    for _ in range(NEWTON_STEPS):
        G = met - (p * whole[:, None]).T @ X
        G[:, 1:] -= rows.ridge * B[:, 1:]
        d = _solved(information(p, X, whole, rows.ridge), G[1:].ravel()).reshape(len(B) - 1, -1)
        size = 1.0
        while size > 1e-6:
            trial = B.copy()
            trial[1:] += size * d
            there, p = look(trial)
            if there >= best:
                break
            size /= 2
        else:
            return B
        gain, B, best = there - best, trial, there
        if gain < NEAR * max(float(whole.sum()), 1.0):
            break
    return B


def information(p: Array, X: Array, whole: Array, ridge: float) -> Array:
    """-d² Σ own log softmax / dB², of all classes but the first."""
    classes, D = p.shape[1], X.shape[1]
    H = np.empty((classes - 1, D, classes - 1, D))
    for a in range(1, classes):
        for b in range(1, a + 1):
            r = whole * p[:, a] * ((a == b) - p[:, b])
            H[a - 1, :, b - 1, :] = H[b - 1, :, a - 1, :] = (X * r[:, None]).T @ X
    flat = H.reshape((classes - 1) * D, -1)
    kept = np.tile(np.arange(D) > 0, classes - 1)
    return np.asarray(flat + np.diag(ridge * kept))


def _solved(H: Array, g: Array) -> Array:
    """H⁻¹ g; directions of which rows say nothing are left alone."""
    return np.asarray(symmetric_inverse(H, 1e-12) @ g)


# --- errors ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Free:
    """Parameters that can move: coefficients, and logits of table cells against the largest."""

    fit: LogitFit
    spans: list[slice]
    cells: list[tuple[int, int, int]]  # class, cell, and the cell that it is told against

    @property
    def count(self) -> int:
        return self.fit.B[1:].size + len(self.cells)

    def moved(self, step: Array) -> LogitFit:
        B, size = self.fit.B.copy(), self.fit.B[1:].size
        B[1:] += step[:size].reshape(B[1:].shape)
        log = np.log(np.maximum(self.fit.table, TINY))
        for (c, k, _), x in zip(self.cells, step[size:], strict=True):
            log[c, k] += x
        table = np.exp(log)
        for span in self.spans:
            table[:, span] /= table[:, span].sum(axis=1, keepdims=True)
        return replace(self.fit, B=B, table=table)

    def slope(self, rows: LogitRows, at: LogitFit) -> Array:
        """The sum of `scores` over rows, by weight, (parameters,)."""
        r = row_memberships(rows, at)[0] * rows.weight[:, None]
        gap = r - r.sum(axis=1, keepdims=True) * shares_of(at.B, rows.X)
        counts = r.T @ rows.marks  # (classes, states of all columns)
        told = [np.repeat(counts[:, s].sum(axis=1, keepdims=True), s.stop - s.start, 1)
                for s in self.spans]  # fmt: skip
        rest = counts - np.concatenate(told, axis=1) * at.table
        own = [rest[c, k] for c, k, _ in self.cells]
        return np.concatenate([(gap.T @ rows.X)[1:].ravel(), own])

    def scores(self, rows: LogitRows, at: LogitFit) -> Array:
        """d log P(answers | x) of every row, (n, parameters)."""
        r = row_memberships(rows, at)[0]
        met = r.sum(axis=1, keepdims=True)  # 1, but of copies
        gap = (r - met * shares_of(at.B, rows.X))[:, 1:]  # (n, classes - 1)
        first = (gap[:, :, None] * rows.X[:, None, :]).reshape(len(rows.X), -1)
        there = {span.start: rows.marks[:, span].sum(axis=1) for span in self.spans}
        begin = {k: span.start for span in self.spans for k in range(span.start, span.stop)}
        rest = [
            r[:, c] * (rows.marks[:, k] - there[begin[k]] * at.table[c, k])
            for c, k, _ in self.cells
        ]
        return np.column_stack([first, *rest])


def covariances_of(rows: LogitRows, fit: LogitFit) -> tuple[Array, Array]:
    """Of the coefficients of all classes but the first, ((classes - 1) covariates)²: plain, robust.

    All parameters of the model move at once; table cells at 0 or 1 are held.
    """
    cells = []
    for span in rows.spans:
        for c, row in enumerate(fit.table[:, span]):
            largest = int(row.argmax())
            cells += [
                (c, span.start + k, span.start + largest)
                for k, p in enumerate(row)
                if k != largest and SURE < p < 1 - SURE
            ]
    free = _Free(fit, rows.spans, cells)
    H = np.empty((free.count, free.count))
    for k in range(free.count):
        step = np.zeros(free.count)
        step[k] = STEP
        ahead, behind = (free.slope(rows, free.moved(sign * step)) for sign in (1.0, -1.0))
        H[:, k] = (ahead - behind) / (2 * STEP)
    H = -(H + H.T) / 2
    size = fit.B[1:].size
    if rows.ridge:
        kept = np.tile(np.arange(fit.B.shape[1]) > 0, len(fit.B) - 1)
        H[:size, :size] += np.diag(rows.ridge * kept)
    back = symmetric_inverse(H, 1e-12)
    each = free.scores(rows, fit) * rows.weight[:, None]
    if rows.copies is not None:
        each = np.add.reduceat(each, rows.copies.first)
    robust = back @ (each.T @ each) @ back
    return back[:size, :size], robust[:size, :size]


def check_covariates(X: Array, names: Sequence[str]) -> None:
    """Enough rows must have all covariates, and each tell something that the others do not."""
    whole = ~np.isnan(X).any(axis=1)
    if whole.sum() < FEWEST * X.shape[1]:
        lacking = np.isnan(X).sum(axis=0)
        name = names[int(lacking.argmax())]
        raise DataError(
            f"{int(whole.sum())} of {len(X)} rows have all covariates, at least "
            f"{FEWEST * X.shape[1]} are needed to fill in what others lack: {int(lacking.max())} "
            f"rows lack the covariate {name!r}. Leave it out, or fill it in before: "
            "lt.LatentImputer()."
        )
    if rank_above_rounding(X[whole]) < X.shape[1]:
        raise DataError(
            f"some of the covariates {', '.join(names)} are constant, or told by the others. Leave "
            "them out."
        )

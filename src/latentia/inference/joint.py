"""Several variables at once: their joint posterior, and their most probable assignment.

Both enumerate the joint states of the variables asked for, as rows of evidence. Beyond a limit the
joint is refused, and the most probable assignment is looked for by coordinate ascent (design 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from latentia.errors import EvidenceError
from latentia.inference.answering import answer, log_evidence
from latentia.inference.evidence import Evidence, read_evidence
from latentia.inference.evidence_level import component_evidence
from latentia.inference.operators import Operators
from latentia.typing import Array, Codes

ENUMERATE = 10**6  # joint states
CHUNK = 2**15
STARTS = 16
SWEEPS = 20


def joint_posterior(
    operators: Operators,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array],
    places: Sequence[int],
    limit: int = ENUMERATE,
) -> tuple[Array, float, float]:
    """P̂(columns at `places` | evidence), flat with the last column fastest; log P̂(e); clipped.

    Evidence is one row: one code per column in graph order (None: not observed).
    """
    sizes = _sizes(operators, places)
    cells = math.prod(sizes)
    if cells > limit:
        raise EvidenceError(
            f"the joint posterior would have {cells:.1e} states (at most {limit:.0e}). "
            "Ask for fewer variables, or for map_query."
        )
    logs, magnitude, negative = np.empty(cells), np.empty(cells), np.empty(cells, dtype=bool)
    for start in range(0, cells, CHUNK):
        part = np.arange(start, min(start + CHUNK, cells))
        evidence = _with_states(operators, codes, soft, places, np.unravel_index(part, sizes))
        components = component_evidence(operators, evidence)
        logs[part] = sum(c.log_positive(operators.mix) for c in components)
        with np.errstate(divide="ignore"):
            magnitude[part] = sum(np.log(np.abs(c.value)) + c.log + c.alone for c in components)
        negative[part] = sum((c.value < 0).astype(int) for c in components) > 0
    top = logs.max()
    if not np.isfinite(top):
        raise EvidenceError(
            "the evidence has probability zero under the model (a value never seen in training, or "
            "values never seen together). Leave a value out to marginalise it."
        )
    table = np.exp(logs - top)
    alone = read_evidence(operators.plan, codes, soft)
    total = log_evidence(operators, alone)[0]
    size = np.exp(magnitude - max(magnitude.max(), -1e300))
    clipped = float(size[negative].sum() / max(size.sum(), 1e-300))
    return table / table.sum(), float(total[0]), clipped


def one_answer(
    operators: Operators,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array],
    places: Sequence[int],
) -> Array:
    """P̂(columns at `places` | one row of evidence), flat: of one column as messages tell it."""
    if len(places) > 1:
        return joint_posterior(operators, codes, soft, places)[0]
    v = operators.plan.graph.observed[places[0]]
    found = answer(operators, read_evidence(operators.plan, codes, soft), [v])
    return found.probabilities[v][:, 0]


def most_probable(
    operators: Operators,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array],
    places: Sequence[int],
    rng: np.random.Generator,
    limit: int = ENUMERATE,
) -> tuple[list[int], float, bool]:
    """Codes of the best assignment, its log posterior probability, and whether it is exact."""
    sizes = _sizes(operators, places)
    if math.prod(sizes) <= limit:
        table, _, _ = joint_posterior(operators, codes, soft, places, limit)
        best = int(table.argmax())
        found = [int(c) for c in np.unravel_index(best, sizes)]
        return found, math.log(max(float(table[best]), 1e-300)), True
    found = _climb(operators, codes, soft, places, rng)
    chosen = [np.array([c]) for c in found]
    inside = _with_states(operators, codes, soft, places, chosen)
    outside = read_evidence(operators.plan, codes, soft)
    both = [log_evidence(operators, e)[0] for e in (inside, outside)]
    return found, min(float(both[0][0] - both[1][0]), 0.0), False


def _climb(
    operators: Operators,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array],
    places: Sequence[int],
    rng: np.random.Generator,
) -> list[int]:
    """Coordinate ascent from the single modes and from random starts, all starts at once."""
    observed = operators.plan.graph.observed
    targets = [observed[i] for i in places]
    first = answer(operators, read_evidence(operators.plan, codes, soft), targets)
    state = []
    for v in targets:
        p = first.probabilities[v][:, 0]
        state.append(np.append(p.argmax(), rng.choice(len(p), STARTS - 1, p=p)))
    for _ in range(SWEEPS):
        before = [s.copy() for s in state]
        for i, v in enumerate(targets):
            evidence = _with_states(operators, codes, soft, places, state)
            state[i] = answer(operators, evidence, [v]).probabilities[v].argmax(axis=0)
        if all((a == b).all() for a, b in zip(before, state, strict=True)):
            break
    scores = log_evidence(operators, _with_states(operators, codes, soft, places, state))[0]
    return [int(s[scores.argmax()]) for s in state]


def _with_states(
    operators: Operators,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array],
    places: Sequence[int],
    states: Sequence[Codes],
) -> Evidence:
    """The one row of evidence, repeated with every given assignment of the columns asked for."""
    n = len(states[0])
    filled: list[Codes | None] = [None if c is None else np.repeat(c, n) for c in codes]
    for place, state in zip(places, states, strict=True):
        filled[place] = state
    return read_evidence(operators.plan, filled, soft)


def _sizes(operators: Operators, places: Sequence[int]) -> list[int]:
    graph = operators.plan.graph
    return [graph.states[graph.observed[i]] or 1 for i in places]

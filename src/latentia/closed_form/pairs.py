"""Pass 1: which blocks of columns are counted together, and their counts (design 4.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, block_codes, row_chunks
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array, Codes

PANEL_STATES = 256  # indicators gathered in one product …
MOST_PANEL_STATES = 2**12  # … and where nodes share nearly all of theirs
LEAN_CELLS = 2**20  # cells of an indicator matrix that is small enough for a cache


@final
@dataclass(frozen=True, slots=True)
class PairLayout:
    """Which blocks are counted together: panels small enough for one matrix product each."""

    plan: Plan
    panel_of: tuple[int, ...]  # the panel that holds all blocks of node k (-1 at a root)
    spans: tuple[Mapping[Block, slice], ...]  # per panel: where each block's indicators are

    def width(self, panel: int) -> int:
        """Indicators of all blocks of a panel."""
        return int(max(span.stop for span in self.spans[panel].values()))

    def span(self, panel: int, block: Block) -> slice:
        """Rows of `block` in the panel's matrix."""
        return self.spans[panel][block]

    def states(self, panel: int) -> dict[int, int]:
        """Of the leaves of a panel."""
        return {x: self.plan.block_states((x,)) for block in self.spans[panel] for x in block}


@lru_cache(maxsize=8)
def pair_layout(plan: Plan) -> PairLayout:
    """Walk the separators from left to right and open a new panel when one is full."""
    sizes = plan.leaf_states()
    panels: list[dict[Block, int]] = []
    panel_of, width, nodes = [-1] * len(plan.nodes), 0, 0
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        wanted = {
            b: sizes[b[0]] if len(b) == 1 else math.prod(sizes[x] for x in b)
            for b in (*node.inside.wide, *node.outside.wide)
        }
        own = sum(wanted.values())
        more = sum(wanted[b] for b in wanted.keys() - panels[-1].keys()) if panels else own
        full = width + more > max(PANEL_STATES, own)
        if not panels or (full and not _worth(width, nodes, more)):
            panels.append({})
            width, nodes, more = 0, 0, own
        panels[-1].update(wanted)
        panel_of[k], width, nodes = len(panels) - 1, width + more, nodes + 1
    spans = []
    for panel in panels:
        blocks = sorted(panel, key=lambda b: (len(b), b))
        ends = np.cumsum([panel[b] for b in blocks]).tolist()
        spans.append({b: slice(e - panel[b], e) for b, e in zip(blocks, ends, strict=True)})
    return PairLayout(plan, tuple(panel_of), tuple(spans))


def _worth(width: int, nodes: int, more: int) -> bool:
    """Does a panel of so many nodes cost less for each of them with one more node?

    A product takes the square of its states, and neighbours in wide stars want nearly the same.
    """
    fits = width + more <= MOST_PANEL_STATES
    return fits and nodes * (width + more) ** 2 < (nodes + 1) * width**2


def sum_pairs(layout: PairLayout, rows: Rows) -> Moments:
    """Pass 1: counts of every pair of blocks of a panel, Σ w 1_b 1_b'ᵀ."""
    # counts of up to 2²⁰ rows at a time are exact in single precision; weights need double
    dtype = np.float32 if rows.weight is None else np.float64
    sums: dict[str, Array] = {}
    leaves = leaf_codes(layout.plan, rows)
    lean = rows.weight is None and all(c.min(initial=0) >= 0 for c in leaves)
    for p in range(len(layout.spans)):
        width = layout.width(p)
        if lean:
            sums[f"pairs/{p}"] = _count_lean(layout, p, leaves)
            continue
        total = np.zeros((width, width))
        for part in row_chunks(len(rows), width):
            F = one_hot(layout, p, some_rows(leaves, part), dtype)  # (width, n)
            G = F if rows.weight is None else F * rows.weight[part]
            total += F @ G.T
        sums[f"pairs/{p}"] = total
    return Moments(f"pairs of plan {layout.plan.fingerprint}", rows.total, len(rows), sums)


def _count_lean(layout: PairLayout, panel: int, leaves: Sequence[Codes]) -> Array:
    """The counts where nothing is missing: the last state of a block is one less the others.

    So it need not be counted: with k states only (k - 1)² / k² of the product is left. Counts are
    whole numbers, so that what is put together from them is exact.
    """
    sizes = layout.states(panel)
    spans = layout.spans[panel]
    width, kept = layout.width(panel), layout.width(panel) - len(spans) + 1
    n = len(leaves[0])
    step = max(512, LEAN_CELLS // kept)
    marks, F = np.ones((kept, min(step, n)), dtype=bool), np.empty((kept, min(step, n)), np.float32)
    total = np.zeros((kept, kept))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        here = some_rows(leaves, part)
        now, row = part.stop - part.start, 1  # the first row is one
        for block, span in spans.items():
            codes, after = block_codes(here, sizes, block), row + span.stop - span.start - 1
            states = np.arange(after - row).astype(codes.dtype)  # in one call: threads take turns
            np.equal(codes, states[:, None], out=marks[row:after, :now])
            row = after
        np.copyto(F[:, :now], marks[:, :now])
        total += F[:, :now] @ F[:, :now].T
    E = np.zeros((width, kept))  # from what was counted to all states
    row = 1
    for span in spans.values():
        states = span.stop - span.start - 1
        E[span.start : span.stop - 1, row : row + states] = np.eye(states)
        E[span.stop - 1, row : row + states] = -1.0
        E[span.stop - 1, 0] = 1.0
        row += states
    return np.asarray(E @ total @ E.T, dtype=float)


def one_hot(
    layout: PairLayout,
    panel: int,
    leaves: Sequence[Codes],
    dtype: type[np.floating] = np.float64,
    out: Array | None = None,
) -> Array:
    """Indicators of the blocks of a panel: (states of all blocks, n); zero where missing."""
    sizes = layout.states(panel)
    marks = np.empty((layout.width(panel), len(leaves[0])), dtype=bool)
    for block, span in layout.spans[panel].items():
        codes = block_codes(leaves, sizes, block)
        for state, row in enumerate(range(span.start, span.stop)):
            np.equal(codes, state, out=marks[row])
    if out is None:
        return marks.astype(dtype)
    np.copyto(out, marks)
    return out


def some_rows(leaves: Sequence[Codes], part: slice) -> Sequence[Codes]:
    """The codes of some rows; of all rows, they are what they are: there may be many leaves."""
    whole = part.start == 0 and part.stop >= len(leaves[0])
    return leaves if whole else [c[part] for c in leaves]


def leaf_codes(plan: Plan, rows: Rows) -> list[Codes]:
    """Joint code of the columns of each leaf, -1 where one of them is missing."""
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    states = [plan.graph.states[v] or 1 for v in plan.graph.observed]
    members = [tuple(place[v] for v in plan.nodes[k].columns) for k in plan.leaves]
    return [block_codes(rows.codes, states, group) for group in members]

"""Rows in several blocks, none of them in memory as far as learners can tell."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.row_sketch import sketch_rows


@dataclass(frozen=True)
class FoldOnly:
    """A source that can fold, and draws a sample by folding."""

    blocks: list[Rows]

    @classmethod
    def of(cls, rows: Rows, count: int) -> "FoldOnly":
        """So many blocks, as equal as can be."""
        edges = [len(rows) * k // count for k in range(count + 1)]
        return cls([rows[a:b] for a, b in itertools.pairwise(edges)])

    def fold(self, summary: Callable[[Rows], Any]) -> Any:
        return reduce(add, (summary(block) for block in self.blocks))

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        return self.fold(partial(sketch_rows, size, int(rng.integers(2**31)))).draw()

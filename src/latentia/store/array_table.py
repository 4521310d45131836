"""Arrays of a file by name: what is written is a row of arrays, what is read has shapes to check.

A name is a kind and a number, ("leaf", 3); the order of a table is the order in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from latentia.errors import StoreError
from latentia.structure.plan import Plan
from latentia.typing import Array

Shape: TypeAlias = tuple[int, ...]
Name: TypeAlias = tuple[str, int]
Written: TypeAlias = tuple[dict[str, object], list[Array]]  # a record, and its arrays
Fetch: TypeAlias = Callable[[list[Shape]], Sequence[Array]]
Value = TypeVar("Value")

LARGEST_NUMBER = 1e100  # messages are scaled at every step, so that answers cannot overflow


def fetch_named(fetch: Fetch, shapes: Mapping[Name, Shape]) -> dict[Name, Array]:
    """All arrays of a file at once, by their names."""
    return dict(zip(shapes, fetch(list(shapes.values())), strict=True))


def numbered(kind: str, values: Mapping[int, Value] | Sequence[Value]) -> dict[Name, Value]:
    """A part of a table: values of one kind, by number.

    >>> numbered("leaf", "ab")
    {('leaf', 0): 'a', ('leaf', 1): 'b'}
    """
    pairs = sorted(values.items()) if isinstance(values, Mapping) else enumerate(values)
    return {(kind, number): value for number, value in pairs}


def of_kind(table: Mapping[Name, Value], kind: str) -> dict[int, Value]:
    """All values of one kind, by their numbers.

    >>> of_kind({("leaf", 0): "a", ("tensor", 2): "b"}, "tensor")
    {2: 'b'}
    """
    return {number: value for (own, number), value in table.items() if own == kind}


def tree_shapes(plan: Plan, ranks: Sequence[int]) -> dict[Name, Shape]:
    """Of leaf tables, of marginals, and of the tensors of inner nodes and roots."""
    states = plan.leaf_states()
    shapes: dict[Name, Shape] = numbered(
        "leaf", [(states[x], ranks[k]) for x, k in enumerate(plan.leaves)]
    )
    shapes |= numbered("marginal", [(count,) for count in states])
    for k in sorted({*plan.inner, *plan.roots}):
        below = tuple(ranks[c] for c in plan.nodes[k].children)
        shapes["tensor", k] = below if plan.nodes[k].parent == k else (*below, ranks[k])
    return shapes


def check_sizes(arrays: Iterable[Array], what: str) -> None:
    """Finite numbers, none so large that an answer could overflow."""
    for array in arrays:
        if not (array.min() >= -LARGEST_NUMBER and array.max() <= LARGEST_NUMBER):
            raise StoreError(f"expected finite numbers up to {LARGEST_NUMBER:g} in {what}.")


def check_shares(marginals: Iterable[Array]) -> None:
    """Probabilities of columns, along the last axis."""
    for mu in marginals:
        if mu.min() < 0 or not np.allclose(mu.sum(axis=-1), 1.0, rtol=0, atol=1e-6):
            raise StoreError("expected the probabilities of a column to be positive with sum 1.")

"""Families: the tables of a slice, P(variable | parents), of first steps, of later ones, of all.

A variable with parents in the step before has two tables: without these parents for the first step
of a sequence, with them for all later ones. Every other variable has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from latentia.sequences.slices import Parent, Slice
from latentia.typing import Label

When: TypeAlias = Literal["first", "later", "always"]


@final
@dataclass(frozen=True, slots=True)
class StepFamily:
    """A variable and its parents at some steps."""

    variable: int
    when: When
    parents: tuple[Parent, ...]

    @property
    def starts(self) -> bool:
        """Does it speak of first steps?"""
        return self.when != "later"

    @property
    def goes_on(self) -> bool:
        """Does it speak of later steps?"""
        return self.when != "first"


def families_of(slice_: Slice) -> tuple[StepFamily, ...]:
    """All tables of a slice; inputs have none.

    >>> from latentia.sequences.slices import read_slice
    >>> [(f.variable, f.when) for f in families_of(read_slice("z -> z'; z -> a", {"z": 2}))]
    [(0, 'first'), (0, 'later'), (1, 'always')]
    """
    found: list[StepFamily] = []
    for v, above in enumerate(slice_.parents):
        if v in slice_.given:
            continue
        within = tuple(p for p in above if p[1] == 0)
        if len(within) == len(above):
            found.append(StepFamily(v, "always", above))
        else:
            found += [StepFamily(v, "first", within), StepFamily(v, "later", above)]
    return tuple(found)


def family_name(slice_: Slice, family: StepFamily) -> Label:
    """The name of a table: primed where it speaks of later steps only."""
    name = slice_.names[family.variable]
    return f"{name}'" if family.when == "later" else name

"""Where in a table the numbers of a chain's joint states lie."""

from __future__ import annotations

import math

import numpy as np

from latentia.sequences.families import StepFamily
from latentia.sequences.hidden_states import ChainLayout
from latentia.typing import CellArray


def cell_places(layout: ChainLayout, number: int) -> CellArray:
    """Where P(cell | joint state) lies in the table: (states, configurations, cells)."""
    if ("cells", number) not in layout.kept:
        family = layout.families[number]
        shape, index = layout.shape(family), _parent_places(layout, family)
        index = [np.asarray(i)[..., None] for i in index]
        index.append(np.arange(shape[-1])[None, None, :])
        found = np.ravel_multi_index(np.broadcast_arrays(*index), shape)
        whole = (layout.width, _config_count(layout, family), shape[-1])
        layout.kept["cells", number] = np.ascontiguousarray(np.broadcast_to(found, whole))
    return layout.kept["cells", number]


def _parent_places(layout: ChainLayout, family: StepFamily) -> list[CellArray]:
    """The state of each parent: (states, configurations), where one of them may be 1."""
    config = layout.configurations(layout.seen_parents((family,)))
    return [
        config[p][None, :] if p in config else layout.values[p][:, None] for p in family.parents
    ]


def _config_count(layout: ChainLayout, family: StepFamily) -> int:
    return math.prod(layout.sizes[v] for v, _ in layout.seen_parents((family,)))


def bell_places(layout: ChainLayout, number: int) -> CellArray:
    """Where the Gaussian of a joint state lies in the table: (states, configurations)."""
    if ("bells", number) not in layout.kept:
        family = layout.families[number]
        index, above = _parent_places(layout, family), layout.shape(family)[:-2]
        found = np.ravel_multi_index(np.broadcast_arrays(*index), above) if index else 0
        whole = (layout.width, _config_count(layout, family))
        layout.kept["bells", number] = np.ascontiguousarray(np.broadcast_to(found, whole))
    return layout.kept["bells", number]

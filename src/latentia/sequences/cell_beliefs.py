"""What is believed of the cells of steps: masses of states, or of the grid of a column."""

from __future__ import annotations

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.exact.gaussian_leaves import grid_masses
from latentia.sequences.hidden_states import ChainLayout, Tables
from latentia.sequences.packing import Indices
from latentia.sequences.table_places import bell_places, cell_places
from latentia.typing import Array


def latent_beliefs(layout: ChainLayout, v: int, gamma: Array) -> Array:
    """P(variable), (its states, n), of beliefs of joint states (states, n)."""
    if layout.sizes[v] == layout.width:
        return gamma
    found = np.zeros((layout.sizes[v], gamma.shape[1]))
    np.add.at(found, layout.values[v, 0], gamma)
    return found


def cell_beliefs(
    layout: ChainLayout, tables: Tables, column: Column, v: int, gamma: Array, choice: Indices
) -> Array:
    """P(cell) of steps where it is missing, (cells, n).

    `choice` tells the configuration of the told parents, among all tables of the column.
    """
    if (v, 0) in layout.hidden:
        return latent_beliefs(layout, v, gamma)
    blocks = [n for n, f in enumerate(layout.families) if f.variable == v]
    if isinstance(column, ContinuousColumn):
        return _grid_beliefs(layout, tables, column, blocks, gamma, choice)
    parts = [tables[n].ravel()[cell_places(layout, n)] for n in blocks]
    whole = np.concatenate(parts, axis=1)  # (states, configurations, cells)
    found = np.empty((layout.sizes[v], gamma.shape[1]))
    for c in np.unique(choice):
        own = choice == c
        found[:, own] = whole[:, c].T @ gamma[:, own]
    return found


def _grid_beliefs(
    layout: ChainLayout,
    tables: Tables,
    column: ContinuousColumn,
    blocks: list[int],
    gamma: Array,
    choice: Indices,
) -> Array:
    parts = [tables[n].reshape(-1, 1, 3)[bell_places(layout, n)] for n in blocks]
    whole = np.concatenate(parts, axis=1)[:, :, 0]  # (states, configurations, 3)
    leaf = in_grid_steps(whole, column)
    masses = grid_masses(leaf[:, :, None, :], column.points)  # (states, configurations, points)
    found = np.empty((column.cells, gamma.shape[1]))
    for c in np.unique(choice):
        own = choice == c
        found[: column.points, own] = masses[:, c].T @ gamma[:, own]
    return found


def in_grid_steps(leaf: Array, column: ContinuousColumn) -> Array:
    """Gaussians of z (weight, mean, variance last), in steps of the column's grid."""
    found = leaf.copy()
    found[..., 1] = (leaf[..., 1] - column.low) / column.step - 0.5
    found[..., 2] = leaf[..., 2] / column.step**2
    return found

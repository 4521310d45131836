"""What is known of the tables of a chain before any row: cells, zeros, pseudo-counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latentia.errors import DataError, UnknownNameError
from latentia.networks.accelerate import Prior
from latentia.networks.knowledge import Knowledge
from latentia.sequences.families import StepFamily, family_name
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, ByName, Cell, Given, Label, TableLike

NEAR_ONE = 1e-6  # rows of known tables


def read_known(layout: ChainLayout, known: ByName[Cell] | None) -> Knowledge:
    """Known cells by number of the family; NaN where they are to be learned."""
    if known is None:
        return Knowledge()
    if not isinstance(known, Mapping):
        raise DataError(f"expected known tables as {{name: array}}, got {known!r:.80}.")
    cells = {}
    for name, table in known.items():
        n = _family_of(layout, name, "known")
        own = _numbers(layout, n, table, f"the known table of {name!r}")
        whole, sums = ~np.isnan(own).any(axis=-1), np.nansum(own, axis=-1)
        off = np.where(whole, np.abs(sums - 1.0), sums - 1.0)
        if (off > NEAR_ONE).any():
            raise DataError(
                f"expected rows of the known table of {name!r} to sum to 1, or to at most 1 where "
                f"cells are left to be learned (NaN), got {float(sums.ravel()[off.argmax()]):.6g}. "
                f"Its axes are {_axes(layout, n)}, and rows go along the last."
            )
        cells[n] = own / np.where(whole, sums, 1.0)[..., None]
    families = [layout.families[n] for n in cells]
    told = {f.variable for f in families} | {u for f in families for u, _ in f.parents}
    return Knowledge(cells, pinned=frozenset(told & layout.slice.latent))


def pseudo_counts_of(
    layout: ChainLayout, sequences: Sequences, given: object
) -> dict[int, float | Array]:
    """Of discrete tables arrays, of Gaussians numbers of rows; by number of the family.

    A number is spread like the column's marginal, of latents over all states alike.
    """
    found: dict[int, float | Array] = {}
    if isinstance(given, Mapping):
        named = {_family_of(layout, name, "pseudo_counts", True): x for name, x in given.items()}
    else:
        named = dict.fromkeys(range(len(layout.families)), given)
    for n, family in enumerate(layout.families):
        own = named.get(n, 0.0)
        bell = not layout.sizes[family.variable]
        if np.ndim(own) == 0:
            strength = _strength(own)
            found[n] = strength if bell else strength * _shares(layout, sequences, family)
        elif bell:
            name = layout.slice.names[family.variable]
            raise DataError(f"{name!r} is continuous: its pseudo-counts are one number of rows.")
        else:
            name = family_name(layout.slice, family)
            found[n] = _numbers(layout, n, own, f"the pseudo-counts of {name!r}", missing=False)
    return found


def as_prior(pseudo: Mapping[int, float | Array]) -> tuple[Prior, dict[int, float]]:
    """Pseudo-counts of discrete tables, and pseudo-rows of Gaussians."""
    counts = {n: x for n, x in pseudo.items() if isinstance(x, np.ndarray)}
    return Prior(counts), {n: x for n, x in pseudo.items() if not isinstance(x, np.ndarray)}


def _strength(given: Given) -> float:
    number = isinstance(given, int | float | np.integer | np.floating)
    if not number or isinstance(given, bool) or not 0 <= given < np.inf:
        raise DataError(f"expected pseudo_counts to be numbers from 0 on, got {given!r:.80}.")
    return float(given)


def _shares(layout: ChainLayout, sequences: Sequences, family: StepFamily) -> Array:
    size = layout.sizes[family.variable]
    if family.variable in layout.slice.latent:
        return np.full(size, 1.0 / size)
    x = sequences.cells[family.variable]
    counts = np.bincount(x[x >= 0], minlength=size) + 0.5 / size
    return np.asarray(counts / counts.sum())


def _family_of(layout: ChainLayout, name: Label, what: str, bells: bool = False) -> int:
    names = [family_name(layout.slice, family) for family in layout.families]
    if name not in names:
        raise UnknownNameError(
            f"table (in {what})", name, names, "A prime is the table of all steps but the first."
        )
    n = names.index(name)
    if not layout.sizes[layout.families[n].variable] and not bells:
        raise DataError(f"{name!r} is continuous; only cells of discrete tables can be known.")
    return n


def _numbers(
    layout: ChainLayout, n: int, table: TableLike, what: str, missing: bool = True
) -> Array:
    shape = layout.shape(layout.families[n])
    try:
        found = np.array(table, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"expected {what} as an array of numbers, got {table!r:.80}.") from None
    if found.shape != shape:
        raise DataError(
            f"expected {what} to have shape {shape}, axes {_axes(layout, n)}, got {found.shape}."
        )
    bad = np.isinf(found).any() or (found < 0).any() or (not missing and np.isnan(found).any())
    if bad:
        raise DataError(f"expected numbers from 0 on in {what}, got others.")
    return found


def _axes(layout: ChainLayout, n: int) -> str:
    family, names = layout.families[n], layout.slice.names
    above = [f"{names[u]} before" if lag else str(names[u]) for u, lag in family.parents]
    return f"({', '.join([*above, str(names[family.variable])])})"

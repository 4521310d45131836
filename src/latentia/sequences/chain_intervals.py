"""Intervals of the tables of a chain, and of what it answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.assess.intervals import intervals
from latentia.data.columns.column import Column
from latentia.errors import EvidenceError
from latentia.inference.posterior import Posterior
from latentia.sequences.chain_errors import ChainReplicates, plain_intervals, share_intervals
from latentia.sequences.chain_questions import Chain, believed_cells, smooth_states
from latentia.sequences.families import families_of, family_name
from latentia.sequences.hidden_states import Tables
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, Label


def table_intervals(
    chain: Chain, replicates: ChainReplicates, confidence: float
) -> dict[Label, tuple[Array, Array]]:
    """Lower and upper ends of every table; of continuous columns of (mean, deviation).

    Tables of first steps are left out where groups are stretches of sequences.
    """
    found = {}
    for n, family in enumerate(families_of(chain.slice)):
        if replicates.stretches and family.when == "first":
            continue
        column = chain.columns.get(family.variable)
        if column is not None and column.continuous:
            own = [_means(column, r.tables[n]) for r in (replicates.whole, *replicates.without)]
            x = _means(column, chain.tables[n])
            ends = plain_intervals(x, own[0], own[1:], confidence)
        else:
            every = [r.tables[n] for r in (replicates.whole, *replicates.without)]
            ends = intervals(chain.tables[n], every[0], every[1:], confidence)
        found[family_name(chain.slice, family)] = ends
    return found


def _means(column: Column, table: Array) -> Array:
    """(…, 2): mean and deviation in the column's own units; of a curved scale median and spread."""
    mean, sd = table[..., 0, 1], np.sqrt(table[..., 0, 2])
    spread = (column.of_measures(mean + sd) - column.of_measures(mean - sd)) / 2
    return np.stack([column.of_measures(mean), spread], axis=-1)


def with_intervals(
    answer: object,
    chain: Chain,
    replicates: ChainReplicates,
    sequences: Sequences,
    v: int,
    at: int,
    confidence: float,
) -> Posterior:
    """An answer about one cell with the ends of its intervals."""
    if not isinstance(answer, Posterior):
        raise EvidenceError(
            "a confidence is told of shares of states; this column is continuous. Ask without "
            "one, or for the errors of its means: profile()."
        )

    def ask(tables: Tables) -> Array:
        own = replace(chain, tables=tables)
        found = smooth_states(own, sequences)
        if v in chain.slice.latent:
            p = found.of(v)[:, at]
        else:
            p = believed_cells(own, found, sequences, v, np.array([at]))[:, 0]
        return np.asarray(p / p.sum())

    p = ask(chain.tables)
    lower, upper = share_intervals(p, replicates, lambda r: ask(r.tables), confidence)
    return replace(answer, lower=lower, upper=upper, confidence=confidence)

"""What covariates do to latents, beside a model that turned these arrows round (design 13).

The default takes continuous columns as told by latents, whatever way arrows go. Arrows learned
beside it have the coefficients; their states are matched with those of the model by rows that they
draw. Arrows know no holes of covariates; a latent class has a logit of its own that does, and is
matched by what its classes say of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.optimize

from latentia.data.columns.column import Column
from latentia.data.sources.table import read_table
from latentia.exact.arrow_answers import draw_arrows
from latentia.exact.arrows import ArrowNetwork
from latentia.exact.latent_rows import AskingLatent
from latentia.model.arrow_learning import dense_parents
from latentia.model.links import is_linked_class
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes, Label

MATCHED = 1000  # rows drawn, by which states of two models are matched


def has_covariates(graph: LatentGraph, columns: Sequence[Column]) -> bool:
    """Are continuous columns parents of latents?"""
    lines = dense_parents(graph, columns)
    return any(a in lines and b in graph.latent for a, b in graph.edges)


def holed_class(
    graph: LatentGraph, columns: Sequence[Column], gaps: Mapping[Label, float]
) -> int | None:
    """The latent class with covariates that some rows lack; None where there is none."""
    told = {b for a, b in graph.edges if graph.names[a] in gaps and gaps[graph.names[a]] > 0}
    found = [v for v in sorted(told & graph.latent) if is_linked_class(graph, v, columns)]
    return found[0] if found else None


def classes_as_told(own: Mapping[Label, Array], told: Mapping[Label, Array]) -> Codes:
    """Which class of `told` is each of `own`: P(state | class) of columns, (classes, states)."""
    near = sum(np.sqrt(own[name]) @ np.sqrt(table).T for name, table in told.items())
    ours, theirs = scipy.optimize.linear_sum_assignment(near, maximize=True)
    order = np.arange(len(ours))
    order[ours] = theirs
    return order


def states_as_told(
    asking: AskingLatent,
    known: Sequence[Label],
    network: ArrowNetwork,
    variables: Sequence[Column],
    h: int,
) -> Codes:
    """Which state of latent `h` of the arrows is each state that `asking` tells from `known`."""
    cells = draw_arrows(network, MATCHED, np.random.default_rng(0))
    drawn = {c.name: c.of_measures(cells[:, v]) for v, c in enumerate(variables) if c.name in known}
    told = np.stack(list(asking.memberships(read_table(drawn)).values()), axis=1)
    states = network.graph.states[h] or 1
    both = np.stack([told[cells[:, h] == k].sum(axis=0) for k in range(states)])
    theirs, ours = scipy.optimize.linear_sum_assignment(both, maximize=True)
    order = np.arange(states)
    order[ours] = theirs
    return order

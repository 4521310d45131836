"""What steps of islands cost, counted: seconds of one core with the compiled kernel, about.

Work is counted, not timed, so that the same rows give the same model on every machine. Prices were
fitted to epochs of binary and mixed tables of 200 to 16,000 rows (between .6 and 1.5 of what they
took; a core that is shared takes longer). numpy alone takes two to ten times as long.
"""

from __future__ import annotations

from latentia.discovery.compiled_islands import in_eights
from latentia.discovery.island_network import IslandLayout

ROW = 5.2e-8  # seconds: a row of an island …
ROW_STATE = 4.4e-9  # … and state of its latent …
ROW_LINK = 1.25e-10  # … and state of the latent above
CELL = 6.2e-9  # of the columns' tables, in an M-step
BATCH = 2.8e-5  # beside
EPOCH = 1.2e-4  # to deal the rows
WATCHED = 0.6  # of the price of a row: one that is looked at only


def row_price(layout: IslandLayout) -> float:
    """Seconds for each row that is learned from."""
    total = 0.0
    for i, k in enumerate(layout.states):
        above = layout.islands.tree.above[i]
        linked = 0 if above < 0 else ROW_LINK * in_eights(layout.states[above])
        total += ROW + in_eights(k) * (ROW_STATE + linked)
    return total


def batch_price(layout: IslandLayout) -> float:
    """Seconds for each batch, besides its rows."""
    cells = 0
    for k, own in zip(layout.states, layout.features, strict=True):
        for group in own.groups:
            rows = in_eights(k) * max(group.parent_states, 1)
            cells += len(group.columns) * rows * group.states
    return BATCH + CELL * cells

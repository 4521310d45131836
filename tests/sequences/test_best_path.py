"""The best path equals enumeration for every slice; pieces choose as whole sequences do."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sequences.brute_force import cut_cells, log_joint, random_tables, worlds
from tests.sequences.test_messages_of_chains import SLICES, made

from latentia.sequences.best_path import best_path
from latentia.sequences.chain_wiring import wire_steps
from latentia.sequences.hidden_states import make_layout
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("kind", SLICES)
def test_equals_enumeration(kind: str, holes: float) -> None:
    slice_, sizes, sequences, layout, tables = made(kind, holes, [3, 1, 2])
    wired = wire_steps(layout, sequences)
    path, gain = best_path(wired, tables)
    path, gain = (x[np.argsort(wired.packing.order)] for x in (path, gain))
    hidden = [v for v, lag in layout.hidden if lag == 0]
    for s, steps in enumerate(sequences):
        every = list(worlds(slice_, sizes, cut_cells(sequences, s)))
        # a missing cell of a leaf is summed over, not chosen: group by what is hidden
        best: dict = {}
        for world in every:
            key = tuple(world[t][v] for t in range(len(world)) for v in hidden)
            best.setdefault(key, []).append(log_joint(slice_, tables, world))
        totals = {key: np.logaddexp.reduce(logs) for key, logs in best.items()}
        own = path[steps]
        key = tuple(int(layout.values[v, 0][j]) for j in own for v in hidden)
        assert totals[key] == pytest.approx(max(totals.values()), abs=1e-12)
        assert gain[steps].sum() == pytest.approx(max(totals.values()), abs=1e-12)


def test_pieces_choose_as_whole_sequences() -> None:
    slice_ = read_slice("z -> z', z -> a", {"z": 4})
    layout = make_layout(slice_, (4, 6), frozenset())
    rng = np.random.default_rng(3)
    cells = {1: rng.integers(6, size=5000)}
    sequences = Sequences(cells, np.array([0, 3000, 3010, 5000]))
    tables = random_tables(layout, 5, sharp=0.5)
    whole = wire_steps(layout, sequences, longest=10_000)
    cut = wire_steps(layout, sequences, longest=100)
    assert cut.packing.cut
    found = [best_path(w, tables)[0][np.argsort(w.packing.order)] for w in (whole, cut)]
    first = sequences.first_steps()

    def level(z: np.ndarray) -> float:  # paths may tie
        later = np.log(tables[1][z[:-1], z[1:]])[~first[1:]].sum()
        return float(
            np.log(tables[0][z[first]]).sum() + later + np.log(tables[2][z, cells[1]]).sum()
        )

    assert level(found[0]) == pytest.approx(level(found[1]), rel=1e-14)
    assert (found[0] == found[1]).mean() > 0.99

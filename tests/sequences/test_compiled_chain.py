"""The compiled kernel gives what numpy gives, for every kind of slice, number of states and length.

The tolerance of 1e-12 is that of sums of a thousand steps in doubles; both ways round differently.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.sequences.brute_force import layout_for, random_cells, random_tables
from tests.sequences.test_messages_of_chains import SLICES, made

from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError
from latentia.sequences.chain_questions import (
    Chain,
    decode_states,
    filter_states,
    smooth_states,
)
from latentia.sequences.chain_wiring import uncut, wire_groups
from latentia.sequences.expectation import chain_estep, filtered, smoothed
from latentia.sequences.packing import InRow
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences
from latentia.sequences.window_starts import counts_of_beliefs

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def in_row(layout, sequences, level: str):
    groups = wire_groups(layout, sequences)
    assert all(isinstance(w.packing, InRow) == (level != "off") for w in groups)
    return groups


def same_everything(layout, sequences, tables, level: str) -> None:
    """Beliefs, scores and counts of `level` are those of numpy with whole sequences."""
    for wired in in_row(layout, sequences, level):
        whole = uncut(wired)
        place = whole.lockstep.place
        for ask in (filtered, smoothed):
            told, used = ask(wired, tables)
            kept = [np.array(x)[..., used.packing.place] for x in vars_of(told)]
            plain = [x[..., place] for x in vars_of(ask(whole, tables)[0])]
            for a, b in zip(kept, plain, strict=True):
                np.testing.assert_allclose(a, b, **CLOSE)
        counts, fit, _ = chain_estep([wired], tables)
        others, other, _ = chain_estep([whole], tables)
        assert fit == pytest.approx(other, rel=1e-12)
        for n, x in others.items():
            np.testing.assert_allclose(counts[n], x, rtol=1e-10, atol=1e-11)


def vars_of(told) -> list[np.ndarray]:
    return [getattr(told, name) for name in type(told).__dataclass_fields__]


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("kind", SLICES)
def test_every_slice(kind: str, holes: float, kernel_level: str) -> None:
    *_, sequences, layout, tables = made(kind, holes, [40, 1, 2, 300, 33])
    same_everything(layout, sequences, tables, kernel_level)


@pytest.mark.parametrize("states", [1, 3, 4, 5, 8, 12, 16, 17, 33, 64])
def test_every_number_of_states(states: int, kernel_level: str) -> None:
    slice_ = read_slice("z -> z', z -> a, b", {"z": states})
    sizes = tuple({"z": states, "a": 3, "b": 5}[name] for name in slice_.names)
    sequences = random_cells(slice_, sizes, [70, 9, 1, 32, 64], 0.1)
    layout = layout_for(slice_, sizes, sequences)
    same_everything(layout, sequences, random_tables(layout), kernel_level)


def chain_of(tables: list[np.ndarray]) -> Chain:
    states, symbols = tables[2].shape
    column = DiscreteColumn("a", tuple(range(symbols)))
    return Chain(read_slice("z -> z', z -> a", {"z": states}), {1: column}, dict(enumerate(tables)))


def random_chain(states: int, symbols: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = ((states,), (states, states), (states, symbols))
    return [rng.dirichlet(np.full(s[-1], 0.5), s[:-1]) for s in sizes]


@pytest.mark.parametrize("states", [2, 4, 7, 16, 40])
def test_best_paths(states: int, kernel_level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of(random_chain(states, 6))
    x = np.random.default_rng(1).integers(-1, 6, size=500)
    sequences = Sequences({1: x}, np.array([0, 1, 8, 9, 200, 500]))
    _, path = decode_states(chain, sequences)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    _, other = decode_states(chain, sequences)
    np.testing.assert_array_equal(path, other)


def test_impossible_cells_are_told(kernel_level: str) -> None:
    """Zeros in tables: the careful passes take over, and best paths are refused."""
    tables = random_chain(3, 2)
    tables[1], tables[2] = np.eye(3), np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    chain = chain_of(tables)
    sequences = Sequences({1: np.array([0, 0, 1, 0, 0])}, np.array([0, 4, 5]))
    scores = filter_states(chain, sequences).log_scale
    assert np.isneginf(scores).tolist() == [False, False, True, False, False]
    assert np.isfinite(smooth_states(chain, sequences).belief).all()
    with pytest.raises(DataError, match="no path explains"):
        decode_states(chain, sequences)


def test_tiny_probabilities_are_held(kernel_level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Symbols of probability 1e-120 one after the other: past what floats hold in eight steps."""
    tables = random_chain(3, 2)
    tables[2] = np.array([[1.0, 1e-120], [1.0, 3e-120], [1.0, 2e-120]])
    chain = chain_of(tables)
    sequences = Sequences({1: np.ones(100, dtype=int)}, np.array([0, 60, 100]))
    found = [filter_states(chain, sequences), smooth_states(chain, sequences)]
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    plain = [filter_states(chain, sequences), smooth_states(chain, sequences)]
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a.log_scale, b.log_scale, rtol=1e-12)
        np.testing.assert_allclose(a.belief, b.belief, **CLOSE)
        assert a.log_scale.max() < -250


def test_no_steps_and_empty_sequences(kernel_level: str) -> None:
    chain = chain_of(random_chain(5, 3))
    sequences = Sequences({1: np.array([0, 2, 1])}, np.array([0, 0, 2, 2, 3]))
    belief = smooth_states(chain, sequences).belief
    assert belief.shape == (5, 3)
    np.testing.assert_allclose(belief.sum(axis=0), 1.0, rtol=1e-12)
    assert decode_states(chain, sequences)[1].shape == (3,)


def test_counts_of_beliefs_do_not_mind_the_layout(kernel_level: str) -> None:
    """Starts are counted on steps in a row as on steps side by side."""
    *_, sequences, layout, _ = made("own memory", 0.3, [5, 1, 30])
    belief = np.random.default_rng(0).dirichlet(np.ones(2), sequences.steps).T
    (wired,) = in_row(layout, sequences, kernel_level)
    found, plain = (counts_of_beliefs(w, belief) for w in (wired, uncut(wired)))
    for n, x in plain.items():
        np.testing.assert_allclose(found[n], x, **CLOSE)


def test_codes_outside_the_tables_are_an_error(kernel_level: str) -> None:
    """Told once, when steps are laid out: passes look up rows without asking."""
    for kind, wrong in (("chain", 3), ("own memory", 2), ("inputs", 2), ("no latent", 7)):
        *_, sequences, layout, _ = made(kind, 0.0, [5, 4])
        for v, x in sequences.cells.items():
            if layout.sizes[v]:
                worse = {**sequences.cells, v: np.where(np.arange(9) == 6, wrong, x)}
                with pytest.raises(IndexError, match="outside its tables"):
                    wire_groups(layout, Sequences(worse, sequences.offsets))

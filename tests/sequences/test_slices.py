"""Reading slices: what people write is read as they mean it, and what cannot be is told."""

from __future__ import annotations

import pytest

import latentia as lt
from latentia.errors import GraphError, UnknownNameError
from latentia.sequences.hidden_states import make_layout
from latentia.sequences.slices import read_slice


def ties(text: object, latents: dict, given=()) -> set[str]:
    s = read_slice(text, latents, given)
    return {
        f"{s.names[u]}>{s.names[v]}" + "'" * lag
        for v, above in enumerate(s.parents)
        for u, lag in above
    }


@pytest.mark.parametrize(
    "text",
    [
        "z -> z', z -> word, pitch",
        "z -> z'; z -> word; z -> pitch",
        "z -> z'\nz -> word, pitch",
        "z' <- z; word, pitch <- z",
        "z' -> word', pitch'; z -> z′",
        [("z", "z'"), ("z", "word"), ("z", "pitch")],
        {"z'": ["z"], "word": ["z"], "pitch": ["z"]},
    ],
)
def test_one_slice_in_many_words(text: object) -> None:
    assert ties(text, {"z": 2}) == {"z>z'", "z>word", "z>pitch"}


def test_counts_may_stand_in_the_text() -> None:
    assert read_slice("z[3] -> z', z -> a", ["z"]).states == (3, None)


def test_parents_stay_in_order() -> None:
    s = read_slice("a -> a'; z -> a; z -> z'", {"z": 2})
    assert s.parents[s.index("a")] == ((s.index("a"), 1), (s.index("z"), 0))


@pytest.mark.parametrize(
    ("text", "latents", "given", "message"),
    [
        ("z -> z', z -> a", ["z"], (), "number of states"),
        ("z -> z', z -> a", {"z": 0}, (), "from 1 on"),
        ("z -> z', z' -> a", {"z": 2}, (), "leads back in time"),
        ("z -> z'', z -> a", {"z": 2}, (), "two steps ahead"),
        ("a -> b; b' -> a'", {}, (), "one step has a cycle"),
        ("z -- z', z -- a", {"z": 2}, (), "arrows"),
        ("z -> z'", {"z": 2}, (), "at least one must be a column"),
        ("z -> z', z -> a, z -> d", {"z": 2}, ["d"], "cannot have parents"),
        ("z -> z', z -> a", {"z": 2}, ["z"], "both latent and given"),
    ],
)
def test_what_cannot_be_is_told(text: str, latents: object, given: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read_slice(text, latents, given)


def test_unknown_names_are_told() -> None:
    with pytest.raises(UnknownNameError, match="latent 'y'"):
        read_slice("z -> z', z -> a", {"y": 2})
    with pytest.raises(UnknownNameError, match="given column 'd'"):
        read_slice("z -> z', z -> a", {"z": 2}, ["d"])


def test_too_many_joint_states_are_told() -> None:
    text = "x -> x'; y -> y'; z -> z'; x, y, z -> a"
    slice_ = read_slice(text, dict.fromkeys("xyz", 20))
    with pytest.raises(GraphError, match="8000 states"):
        make_layout(slice_, tuple(20 if n in "xyz" else 3 for n in slice_.names), frozenset())


def test_continuous_columns_have_no_children() -> None:
    rows = {"x": [0.123 * k % 1.7 for k in range(200)], "a": ["p", "q"] * 100}
    with pytest.raises(GraphError, match="'x' is continuous"):
        lt.SequenceModel("z -> z', z -> x, x -> a", {"z": 2}).fit(rows)

"""Slices by name: hidden Markov model, factorial, left-right, input-output, autoregressive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.errors import DataError, GraphError, UnknownNameError
from latentia.typing import Array, Cell, Given, Label

Edges = list[tuple[Label, Label]]


@final
@dataclass(frozen=True, slots=True)
class Template:
    """What `SequenceModel` needs: edges of a slice, latents, inputs, and what is known."""

    edges: Edges
    latents: dict[Label, int] = field(default_factory=dict)
    given: tuple[Label, ...] = ()
    known: dict[Label, Cell] | None = None


def _hidden(columns: Sequence[Label], states: int) -> Template:
    edges: Edges = [("z", "z'"), *(("z", column) for column in columns)]
    return Template(edges, {"z": states})


def _left_right(columns: Sequence[Label], states: int, jump: int = 1) -> Template:
    plain = _hidden(columns, states)
    first = np.zeros(states)
    first[0] = 1.0
    return Template(plain.edges, plain.latents, (), {"z": first, "z'": left_right(states, jump)})


def _factorial(columns: Sequence[Label], states: int, chains: int = 2) -> Template:
    latents = [f"z{k + 1}" for k in range(chains)]
    edges: Edges = [(z, f"{z}'") for z in latents]
    edges += [(z, column) for column in columns for z in latents]
    return Template(edges, dict.fromkeys(latents, states))


def _input_output(columns: Sequence[Label], states: int, inputs: Sequence[Label]) -> Template:
    plain = _hidden(columns, states)
    edges: Edges = [*plain.edges, *((x, "z") for x in inputs)]
    return Template(edges, plain.latents, tuple(inputs))


def _autoregressive(columns: Sequence[Label], states: int) -> Template:
    plain = _hidden(columns, states)
    return Template([*plain.edges, *((c, f"{c}'") for c in columns)], plain.latents)


TEMPLATES: dict[str, Callable[..., Template]] = {
    "hmm": _hidden,
    "left-right": _left_right,
    "factorial": _factorial,
    "input-output": _input_output,
    "autoregressive": _autoregressive,
}


def left_right(states: int, jump: int = 1) -> Array:
    """Known cells of moves that go on, by at most `jump` states, and never back; NaN: learned.

    >>> left_right(3).tolist()
    [[nan, nan, 0.0], [0.0, nan, nan], [0.0, 0.0, 1.0]]
    """
    ahead = np.arange(states)[None, :] - np.arange(states)[:, None]
    found = np.where((ahead >= 0) & (ahead <= jump), np.nan, 0.0)
    found[-1, -1] = 1.0
    return found


def template(name: str, columns: Given, states: Given, **more: Given) -> Template:
    """A template by its name."""
    if name not in TEMPLATES:
        raise UnknownNameError("template", name, TEMPLATES)
    listed = [columns] if isinstance(columns, str) else list(columns)
    if not listed:
        raise GraphError("a template needs one column at the least.")
    if isinstance(states, bool) or not isinstance(states, int) or states < 1:
        raise GraphError(f"expected states as a whole number from 1 on, got {states!r}.")
    latents = {"z", *(f"z{k + 1}" for k in range(int(more.get("chains", 0))))}
    taken = [c for c in listed if c in latents]
    if taken:
        raise GraphError(f"the latent of a template is called {taken[0]!r}; rename the column.")
    try:
        return TEMPLATES[name](listed, states, **more)
    except TypeError:
        raise DataError(
            f"template {name!r} does not take {', '.join(more) or 'this'}: 'left-right' takes "
            "jump=, 'factorial' chains=, 'input-output' needs inputs=[…]."
        ) from None

"""UAI: numbers alone, of a directed (BAYES) or undirected network (MARKOV).

The variable itself stands last in a scope; the last axis changes fastest. Names of variables and
states and the latents are kept in a file beside it, `net.uai.names`, as JSON:
``{"variables": [{"name": …, "states": […], "latent": true}, …]}``; without it variables are called
"0", "1", …, and so are their states. pyAgrum 3 writes the parents in the reverse order, and the
variable's name as a comment behind each scope: files with such comments are read so.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np

from latentia.formats.file_text import FileText, complaint, read_numbers
from latentia.formats.plain_network import MOST_CELLS, Draft, PlainNetwork, Scope, filled
from latentia.typing import Array, Cell

_HEAD = re.compile(r"\s*+(?:c\b[^\n]*+\n\s*+)*+(\w+)")
_AGRUM = re.compile(r"^[\d ]+# ", re.MULTILINE)


class _Numbers:
    """The numbers of a file, taken one after the other."""

    def __init__(self, source: FileText, text: str, first: int) -> None:
        self.source, self.text, self.first = source, text, first
        self.all = read_numbers(source, text, first)
        self.next = 0

    def line(self) -> int:
        """The line of the number taken last."""
        words = re.finditer(r"\S+", self.text)
        place = next((w.start() for k, w in enumerate(words) if k + 1 == self.next), len(self.text))
        return self.source.line_at(place, self.text, self.first)

    def count(self, what: str, most: int, least: int = 0) -> int:
        """A whole number from `least` to `most`."""
        value = self.take(1, what)[0]
        if not (least <= value <= most and value == int(value)):
            self.fail(f"expected {what} from {least} to {most:,}, got {value:g}.")
        return int(value)

    def take(self, count: int, what: str) -> Array:
        found = self.all[self.next : self.next + count]
        self.next += count
        if found.size < count:
            self.fail(f"expected {what}, got the end of the file. Is it cut off?")
        return found

    def fail(self, message: str) -> None:
        self.source.fail(self.line(), message)


def read_uai(
    source: FileText, names: tuple[str, str] | None = None, normalize: bool = False
) -> PlainNetwork:
    """The network in a text of the format UAI; `names`: path and text of the file of names."""
    head = _HEAD.match(source.text)
    kind = "" if head is None else head[1]
    if head is None or kind not in ("BAYES", "MARKOV"):
        source.fail(1, f"expected BAYES or MARKOV at the start, got {source.text[:40]!r}.")
    reverse = kind == "BAYES" and _AGRUM.search(source.text) is not None
    text = re.sub(r"#[^\n]*+", "", source.text[head.end() :])
    numbers = _Numbers(source, text, source.line_at(head.end()))
    sizes = _read_sizes(numbers)
    scopes = _read_scopes(numbers, len(sizes))
    tables = [_read_table(numbers, [sizes[v] for v in scope]) for scope in scopes]
    if numbers.next < numbers.all.size:
        numbers.next += 1
        numbers.fail("expected the end of the file after the last table, got more numbers.")
    called, states, latents = _names(sizes, names)
    build = _directed if kind == "BAYES" else _undirected
    draft = Draft(source, normalize=normalize)
    for name, listed in zip(called, states, strict=True):
        draft.add_variable(name, listed, 1)
    draft.latents |= latents
    named = [tuple(called[v] for v in scope) for scope in scopes]
    if reverse:
        named = [(*scope[-2::-1], scope[-1]) for scope in named]
    return build(draft, named, tables)


def _read_sizes(numbers: _Numbers) -> list[int]:
    count = numbers.count("a number of variables", numbers.all.size, 1)
    sizes = [numbers.count("a number of states", MOST_CELLS, 1) for _ in range(count)]
    if sum(sizes) > MOST_CELLS:
        numbers.fail(
            f"expected at most {MOST_CELLS:,} states of all variables, got {sum(sizes):,}."
        )
    return sizes


def _read_scopes(numbers: _Numbers, variables: int) -> list[list[int]]:
    scopes = []
    for _ in range(numbers.count("a number of tables", numbers.all.size)):
        size = numbers.count("a number of variables of a table", variables)
        scopes.append([numbers.count("a variable", variables - 1) for _ in range(size)])
        if len(set(scopes[-1])) < size:
            numbers.fail(f"expected different variables in a table, got {scopes[-1][:20]}.")
    return scopes


def _read_table(numbers: _Numbers, shape: list[int]) -> Array:
    cells = math.prod(shape)
    told = numbers.count("a number of cells", numbers.all.size)
    if told != cells:
        numbers.fail(f"expected {cells:,} cells in this table, by its variables, got {told:,}.")
    return numbers.take(cells, f"{cells:,} cells").reshape(shape)


def _directed(draft: Draft, scopes: list[Scope], tables: list[Array]) -> PlainNetwork:
    for scope, table in zip(scopes, tables, strict=True):
        if not scope:
            draft.source.fail(None, "expected variables in every table of BAYES, got none in one.")
        draft.add_table(scope, filled(draft.source, table.ravel(), 1), 1)
    return draft.finish()


def _undirected(draft: Draft, scopes: list[Scope], tables: list[Array]) -> PlainNetwork:
    found: dict[Scope, Array] = {}
    for scope, table in zip(scopes, tables, strict=True):
        if not np.isfinite(table).all() or (table < 0).any() or not table.any():
            draft.source.fail(
                None, f"expected finite potentials of 0 or more, not all 0, for {list(scope)}."
            )
        if scope:  # a constant changes nothing
            found[scope] = found[scope] * table if scope in found else table
    if len(draft.latents) == len(draft.states):
        draft.source.fail(None, "every variable is marked as latent; at least one must not be.")
    return PlainNetwork(draft.states, found, frozenset(draft.latents), directed=False)


# --- the file of names ----------------------------------------------------------------------------


def _names(
    sizes: list[int], names: tuple[str, str] | None
) -> tuple[list[str], list[tuple[str, ...]], set[str]]:
    if names is None:
        states = [tuple(map(str, range(size))) for size in sizes]
        return list(map(str, range(len(sizes)))), states, set()
    path, text = names
    variables = _json_variables(path, text)
    called = [told["name"] for told in variables]
    listed = [tuple(told["states"]) for told in variables]
    if [len(states) for states in listed] != sizes:
        raise complaint(
            path,
            None,
            f"expected {len(sizes)} variables with as many states as in the network, got others. "
            "Does it belong to this network? Without this file, names are numbers.",
        )
    return called, listed, {told["name"] for told in variables if told.get("latent", False)}


def _json_variables(path: str, text: str) -> list[dict[str, Cell]]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise complaint(path, None, "expected names, got lists within lists.") from None
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise complaint(path, line, f"this is no JSON: {error}. Is it cut off?") from None
    variables = found.get("variables") if isinstance(found, dict) else None
    if not isinstance(variables, list) or not all(map(_is_variable, variables)):
        raise complaint(
            path,
            None,
            'expected {"variables": [{"name": text, "states": [text, …], "latent": true or '
            "false}, …]}, got something else.",
        )
    return variables


def _is_variable(told: object) -> bool:
    return (
        isinstance(told, dict)
        and isinstance(told.get("name"), str)
        and isinstance(told.get("states"), list)
        and all(isinstance(state, str) for state in told["states"])
        and isinstance(told.get("latent", False), bool)
    )


# --- writing --------------------------------------------------------------------------------------


def uai_text(network: PlainNetwork) -> str:
    """The network as a text of the format UAI, without names."""
    number = {name: v for v, name in enumerate(network.states)}
    sizes = " ".join(str(len(states)) for states in network.states.values())
    parts = ["BAYES" if network.directed else "MARKOV", str(len(number)), sizes]
    parts.append(str(len(network.tables)))
    for scope in network.tables:
        parts.append(" ".join([str(len(scope)), *(str(number[name]) for name in scope)]))
    for table in network.tables.values():
        parts += ["", str(table.size), " ".join(map(repr, table.ravel().tolist()))]
    return "\n".join([*parts, ""])


def uai_names(network: PlainNetwork) -> str:
    """The text of the file of names."""
    told = [
        {"name": name, "states": list(states), "latent": name in network.latents}
        for name, states in network.states.items()
    ]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in told)
    return f'{{"variables": [\n{lines}\n]}}\n'

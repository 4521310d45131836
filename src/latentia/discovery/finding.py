"""From columns and rows to a structure with names: what `lt.learn_structure` and `fit` call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Rows, Source
from latentia.data.sources.changed_rows import ChangedRows
from latentia.data.sources.progress import as_progress, show_progress
from latentia.data.sources.table_rows import discover_columns, open_rows
from latentia.discovery.column_bins import ALL_CELLS, binned_rows, choose_bins
from latentia.discovery.content_order import content_order
from latentia.discovery.found_structure import FoundStructure
from latentia.discovery.id_columns import id_columns, names_without, note_ids
from latentia.discovery.island_graph import NamedIslands, name_islands
from latentia.discovery.island_race import IslandCandidate
from latentia.discovery.pair_information import states_to_pair
from latentia.discovery.relearning import Relearning, on_grids_again, ordered_rows
from latentia.discovery.structure_search import (
    LearnedIslands,
    SearchResult,
    StructureSettings,
    polish_islands,
    rows_in_time,
    search_structure,
)
from latentia.errors import GraphError, UnknownNameError
from latentia.linear_algebra import one_thread
from latentia.time_left import FOREVER, TimeLeft
from latentia.typing import ByName, Cell, Given, Label, TableLike, WeightLike

BIN_SAMPLE = 20_000
SEARCHED = 0.8  # of a time budget, where all rows of a large table are still to be learned from
PAIRED = 0.2  # of a time budget, at most, to count pairs of states
LEAST_SEARCH = 0.01  # seconds
SEARCHING = "looking for a structure"


@final
@dataclass(frozen=True, slots=True)
class Structure:
    """How to find a graph, in its place: ``LatentModel(lt.Structure("tree", max_states=3))``.

    `require` and `forbid` are pairs of columns; `members` above 1 mixes so many structures at most,
    for densities; `time_budget` are seconds by the clock, for all that `fit` does. See
    `lt.learn_structure`.
    """

    method: str = "auto"
    max_states: int | None = None
    max_latents: int | None = None
    require: tuple[tuple[Label, Label], ...] = ()
    forbid: tuple[tuple[Label, Label], ...] = ()
    members: int = 1
    time_budget: float | None = None
    seed: int = 0

    def named(self, state_names: ByName[Cell] | None) -> set[Label]:
        """Columns that the user wants in the graph, whatever they look like."""
        return {*(state_names or {})}.union(*self.require)

    def settings(self, columns: Sequence[Label]) -> StructureSettings:
        """With columns by number."""
        _check_ties(self)
        return StructureSettings(
            self.method,
            self.max_states,
            self.max_latents,
            self.members,
            self.time_budget,
            None,
            _numbered(self.require, columns),
            _numbered(self.forbid, columns),
            self.seed,
        )


def learn_structure(
    table: TableLike,
    method: str = "auto",
    *,
    max_states: int | None = None,
    max_latents: int | None = None,
    require: Iterable[tuple[Label, Label]] = (),
    forbid: Iterable[tuple[Label, Label]] = (),
    kinds: ByName[str] | None = None,
    state_names: ByName[Sequence[Cell]] | None = None,
    sample_weight: WeightLike | None = None,
    held_out: object = None,
    time_budget: float | None = None,
    random_state: int = 0,
    progress: Given = None,
) -> FoundStructure:
    """Find a graph for a table: which columns hang together, and the latents that tie them.

    Parameters
    ----------
    table
        Any table that `LatentModel.fit` takes.
    method : "auto", "islands", "tree", "grouping", "class" or "chow-liu"
        "tree": latents of few states that people can understand. "grouping": the same by
        recursive grouping (Choi et al. 2011), where some latents tell latents only. "class": one
        latent tells every column. "chow-liu": a tree of columns without latents; where cells are
        missing, or columns are continuous, a tree of latents that tell one column each. "auto" and
        "islands": whatever tells rows held out best.
    max_states, max_latents
        Bounds.
    require, forbid : pairs of columns
        Edges that the tree of columns must have, or must not have. A required one is an edge of
        the graph, or, where an end is continuous or has missing cells, two columns of one latent.
    kinds, state_names, sample_weight
        As in `LatentModel`.
    held_out : a table, optional
        Rows to choose by; default: some of the table's.
    time_budget : seconds, optional
        How long it may take in all. Without it the work is counted, so that runs repeat on any
        machine.
    progress
        True, or a function that hears how far the search has come.

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> h = rng.integers(2, size=2000)
    >>> data = {c: np.where(rng.random(2000) < 0.9, h, 1 - h) for c in "abcd"}
    >>> found = lt.learn_structure(data, "tree", max_states=2)
    >>> found.latents
    {'latent(c, b, d, …)': 2}
    """
    wish = Structure(
        method,
        max_states,
        max_latents,
        tuple((a, b) for a, b in require),
        tuple((a, b) for a, b in forbid),
        1,
        time_budget,
        random_state,
    )
    left = TimeLeft.of(time_budget)
    with show_progress(progress):
        rows = open_rows(table, None, sample_weight)
        names = list(rows.names)
        seen = rows.look(names)
        ids = id_columns(seen.columns, names, kinds or {}, wish.named(state_names))
        note_ids(ids)
        own = names_without(names, ids)
        columns = discover_columns(seen, own, kinds or {}, state_names or {})
        apart = None
        if held_out is not None:
            others = open_rows(held_out, None, None, known=columns).source(columns)
            apart = others.sample(10**6, np.random.default_rng(0))
        say = as_progress(None).sharing(SEARCHING)
        source = rows.source(columns, seen)
        return find_structure(columns, source, seen.weight, wish, apart, say, ids, left)


def find_structure(
    columns: Sequence[Column],
    source: Source,
    weight: float,
    wish: Structure,
    held_out: Rows | None = None,
    say: Callable[[float], None] = lambda _: None,
    left_out: Mapping[Label, str] | None = None,
    left: TimeLeft = FOREVER,
) -> FoundStructure:
    """The best structure over columns; `left_out` are others of the table, with the reason."""
    with one_thread():
        sample = source.sample(BIN_SAMPLE, np.random.default_rng(wish.seed))
        bins = choose_bins(columns, sample, _cells_in_time(left, len(sample), len(columns)))
        plain = [c.cells if b is None else 0 for c, b in zip(columns, bins, strict=True)]
        order = content_order(binned_rows(bins, sample), plain, weight)
        own_bins, own = order.of(bins), order.of(columns)
        cells = ChangedRows(source, partial(ordered_rows, bins, order))
        sizes = [c.cells if b is None else b.cells for c, b in zip(own, own_bins, strict=True)]
        names = [c.name for c in own]
        apart = None if held_out is None else ordered_rows(bins, order, held_out)
        ordered = [0 if b is None else len(b.first) for b in own_bins]
        settings = wish.settings(names)
        if left.ends:
            large = weight > 1.5 * rows_in_time(left.seconds, len(columns))
            for_search = left.part(SEARCHED if large else 1.0).seconds
            settings = replace(settings, time_budget=max(for_search, LEAST_SEARCH))
        result = search_structure(sizes, cells, settings, apart, ordered, say)
        found, hurried = [], list(result.hurried)
        for each in result.members:
            if held_out is None and weight > 1.5 * float(each.counts.features[0][0].sum()):
                each, whole = polish_islands(each, cells, left, weight)
                if not whole:
                    hurried.append(f"learning from all {weight:,.0f} rows")
            found.append(order.restored(on_grids_again(_named(each, names), own_bins)))
        best, named = result.members[0], found[0]
    return FoundStructure(
        named.graph,
        named.tables,
        tuple((m.graph, m.tables) for m in found),
        result.weights,
        _shown(best.candidate),
        _told_losses(result),
        named.telling,
        tuple(c.name for c in columns),
        order.pairs(result.information),
        left_out or {},
        weight,
        result.held_out,
        result.seconds,
        Relearning(
            best.layout,
            bins,
            order,
            tuple(names),
            best.candidate.pseudo_count,
            best.rounds,
            wish.seed,
        ),
        tuple(dict.fromkeys(hurried)),
    )


def _cells_in_time(left: TimeLeft, rows: int, columns: int) -> float:
    """Cells of all columns together, whose pairs can be counted in time."""
    if not left.ends:
        return ALL_CELLS
    rows = min(rows, rows_in_time(left.seconds, columns))
    return min(ALL_CELLS, states_to_pair(PAIRED * left.seconds, rows))


def _named(best: LearnedIslands, names: Sequence[Label]) -> NamedIslands:
    return name_islands(best.layout, best.counts, best.candidate.pseudo_count, names)


def _told_losses(result: SearchResult) -> dict[str, float]:
    """The best of every way to put it, the best first."""
    found: dict[str, float] = {}
    for candidate, level in result.levels.items():
        found.setdefault(_shown(candidate), -level)
    return found


def _shown(candidate: IslandCandidate) -> str:
    return str(replace(candidate, pseudo_count=2.0, resampled=0, start=0))


def _numbered(
    edges: Iterable[tuple[Label, Label]], columns: Sequence[Label]
) -> tuple[tuple[int, int], ...]:
    """Edges by numbers of columns."""
    number = {name: i for i, name in enumerate(columns)}
    for a, b in edges:
        for name in (a, b):
            if name not in number:
                raise UnknownNameError("column (in require or forbid)", name, columns)
        if a == b:
            raise GraphError(f"column {a!r} is tied to itself. Name two columns.")
    return tuple((number[a], number[b]) for a, b in edges)


def _check_ties(wish: Structure) -> None:
    """Required edges are no forbidden ones, and make no cycle."""
    home: dict[Label, Label] = {}

    def root(name: Label) -> Label:
        while name in home:
            name = home[name]
        return name

    forbidden, seen = set(map(frozenset, wish.forbid)), set()
    for edge in wish.require:
        if frozenset(edge) in forbidden:
            raise GraphError(f"{edge[0]!r} and {edge[1]!r} are both required and forbidden.")
        if frozenset(edge) in seen:
            continue
        seen.add(frozenset(edge))
        first, second = map(root, edge)
        if first == second:
            raise GraphError(
                f"the required edges have a cycle through {edge[0]!r} and {edge[1]!r}, and a tree "
                "has none. Require fewer of them."
            )
        home[first] = second

"""Plan: everything that is decided before any data are seen (design 2, 3).

For each separator its inside and outside, its rank, the core group α(S) and instruments β(S) and
their features. It prints as a table with tensor sizes and cost.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from numbers import Integral
from typing import TYPE_CHECKING, final

from latentia import doors
from latentia.errors import GraphError, PlanError
from latentia.garbage import uncollected
from latentia.linear_algebra import one_thread
from latentia.structure.graph import LatentGraph, relevant, spell
from latentia.structure.junction import (
    JunctionTree,
    clique_tree,
    grow_leaves,
    leaf_counts,
    split_branches,
)
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.structure.sides import LARGEST_GROUP, Block, Side
from latentia.typing import Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing
    from latentia.structure.separators import Separators

LARGEST_TENSOR = 2**26
SHORTFALL = "the features"  # how notes on features that miss their rank begin


@final
@dataclass(frozen=True, slots=True)
class Node:
    """A branch of the tree and the separator S above it; leaves are numbered from left to right."""

    parent: int  # its own number at a root
    children: tuple[int, ...]
    separator: frozenset[int]  # variables; empty at a root
    columns: tuple[int, ...]  # of a leaf; none inside
    first: int  # In(S): leaves first, …, last - 1
    last: int
    rank: int  # r(S), the constant included
    inside: Side  # α(S)
    outside: Side  # β(S)

    @property
    def is_leaf(self) -> bool:
        return not self.children


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """The tree over which messages pass. Nodes come parents first; `leaves[k]` is leaf k's node."""

    graph: LatentGraph  # relevant part, with states
    tree: JunctionTree
    nodes: tuple[Node, ...]
    leaves: tuple[int, ...]
    notes: tuple[str, ...] = ()  # latents whose states cannot be told apart
    # the graph whose tables answer in place of messages; the plan is that of its columns then
    tables_of: LatentGraph | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for number, node in enumerate(self.nodes):
            if node.parent > number or any(c <= number for c in node.children):
                raise PlanError("nodes must be numbered parents first.")
            if node.is_leaf != bool(node.columns):
                raise PlanError("leaves, and leaves only, hold columns.")
        covered = sorted(c for k in self.leaves for c in self.nodes[k].columns)
        if covered != sorted(self.graph.observed):
            raise PlanError("every column must be in one leaf.")

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(k for k, node in enumerate(self.nodes) if node.parent == k)

    @property
    def inner(self) -> tuple[int, ...]:
        """Nodes that have both children and a separator above them."""
        return tuple(k for k, n in enumerate(self.nodes) if n.children and n.parent != k)

    @property
    def columns(self) -> tuple[Label, ...]:
        """Names of the columns in graph order."""
        return tuple(self.graph.names[v] for v in self.graph.observed)

    def leaf_states(self) -> tuple[int, ...]:
        """Joint states of the columns of each leaf."""
        return tuple(self.block_states((x,)) for x in range(len(self.leaves)))

    def block_states(self, block: Block) -> int:
        """Joint states of the columns of some leaves."""
        states = self.graph.states
        return math.prod(states[v] or 1 for x in block for v in self.nodes[self.leaves[x]].columns)

    def tensor_shape(self, k: int) -> tuple[int, ...]:
        """Ranks of the children and, below the root, of the separator above."""
        node = self.nodes[k]
        below = tuple(self.nodes[c].rank for c in node.children)
        return below if node.parent == k else (*below, node.rank)

    @property
    def cost(self) -> int:
        """Multiplications per row of one upward pass, or of the last pass of learning."""
        return sum(math.prod(self.tensor_shape(k)) for k in {*self.inner, *self.roots})

    @property
    def fingerprint(self) -> str:
        """Moments belong together only if they were gathered for the same plan."""
        return _fingerprint(self)

    def __str__(self) -> str:
        from latentia.structure.plan_table import plan_table

        return plan_table(self)

    def draw(self) -> Drawing:
        """The graph and its junction tree, each separator with its rank, α(S) and β(S)."""
        return doors.draw_plan(self)

    def _repr_html_(self) -> str:
        from html import escape

        text = f"<pre>{escape(str(self))}</pre>"
        try:
            return self.draw()._repr_html_() + text
        except GraphError:  # too large for a picture
            return text


def make_plan(
    graph: GraphLike,
    latents: Latents = None,
    states: object = None,
    *,
    groups: Iterable[Iterable[Label]] = (),
    order: str = "min_fill",
    root: int | None = None,
    width: int = 12,
) -> Plan:
    """From a graph with known numbers of states to a Plan.

    `groups` are columns that share a leaf; `root` picks another inner clique than the centre;
    `width` is how many near columns stand for each side of a separator (ties included).

    >>> plan = make_plan("H->X; H->Y; H->Z", {"H": 2}, {"X": 3, "Y": 3, "Z": 3})
    >>> plan.roots, [node.rank for node in plan.nodes]
    ((0,), [1, 2, 2, 2])
    """
    from latentia.structure.generic_rank import (
        check_clique,
        check_cliques,
        check_families,
        check_width,
    )
    from latentia.structure.separators import Separators
    from latentia.structure.skeleton import contract
    from latentia.structure.triangulate import eliminate, log_states, moralise

    if isinstance(width, bool) or not isinstance(width, Integral) or int(width) < 1:
        raise PlanError(f"expected width to be a whole number of 1 or more, got {width!r}.")
    if root is not None and (isinstance(root, bool) or not isinstance(root, Integral)):
        raise PlanError(f"expected root to be the number of an inner clique or None, got {root!r}.")
    known = relevant(as_graph(graph, latents, states))
    _check_states(known)
    weight = log_states(known)
    leaves = _leaf_groups(known, groups)
    check_families(known)
    near = moralise(known, leaves)
    check_width(known, near)
    with one_thread(), uncollected():
        made = eliminate(near, weight, order, partial(check_clique, known))
        tree = grow_leaves(clique_tree(made), leaves, weight)
        check_cliques(known, tree)
        skeleton = contract(split_branches(tree, weight), weight, root)
        separators = Separators(known, skeleton, near, width)
        nodes = _nodes(separators)
        notes = (*_notes(separators, nodes), *_shortfalls(known, nodes))
    numbers = tuple(k for k, node in enumerate(nodes) if node.is_leaf)
    plan = Plan(known, skeleton.tree, tuple(nodes), numbers, notes)
    _check_cost(plan)
    return plan


def _check_states(graph: LatentGraph) -> None:
    for v, (name, count) in enumerate(zip(graph.names, graph.states, strict=True)):
        if count is None:
            what, verb = ("latent", "latents") if v in graph.latent else ("column", "states")
            raise PlanError(
                f"the number of states of {what} {name!r} is not known. "
                f"Pass {verb}={{{name!r}: …}} or write {name}[k] in the graph."
            )


def checked_groups(groups: object) -> list[list[Label]]:
    """Columns that share a leaf, as lists."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise GraphError(f"expected groups as a list of lists of columns, got {groups!r}.")
    found = list(groups)
    for group in found:
        if isinstance(group, str) or not isinstance(group, Iterable):
            raise GraphError(f"expected groups as lists of columns, got {group!r} for a list.")
    return [list(group) for group in found]


def _leaf_groups(graph: LatentGraph, groups: Iterable[Iterable[Label]]) -> list[tuple[int, ...]]:
    """Every column in one leaf, in input order."""
    chosen: dict[int, tuple[int, ...]] = {}
    for group in checked_groups(groups):
        members = tuple(sorted(graph.index(name) for name in group))
        for v in members:
            if v in graph.latent:
                raise GraphError(f"{graph.names[v]!r} is latent; leaves hold columns only.")
            if v in chosen:
                raise GraphError(f"column {graph.names[v]!r} is in two groups; keep one.")
            chosen[v] = members
    return list(dict.fromkeys(chosen.get(v, (v,)) for v in graph.observed))


def _nodes(separators: Separators) -> list[Node]:
    empty = Side((), 1, (), 1)
    tree = separators.tree
    nodes = []
    for number, b in enumerate(separators.skeleton.branches):
        separator, rank, inside, outside = frozenset[int](), 1, empty, empty
        if b.parent != number:
            separator = tree.shared[b.edge]
            rank, inside, outside = separators.sides(b.edge)
        nodes.append(
            Node(b.parent, b.children, separator, b.columns, b.first, b.last, rank, inside, outside)
        )
    return nodes


def _notes(separators: Separators, nodes: Sequence[Node]) -> list[str]:
    """Latents whose states no separator can tell apart, and what would help."""
    graph, tree = separators.graph, separators.tree
    doubtful = set(graph.latent)
    for node in nodes:
        for v in node.separator & doubtful:
            if node.rank >= math.prod(graph.states[u] or 1 for u in node.separator):
                doubtful.remove(v)
    best: dict[int, tuple[int, frozenset[int], int]] = {}
    for i, cut in _cuts(tree, doubtful):
        rank = separators.rank(i)
        for v in cut & doubtful:
            told = rank // math.prod(graph.states[u] or 1 for u in cut if u != v)
            if v not in best or told > best[v][0]:
                best[v] = (told, cut, rank)
    notes = []
    for v in sorted(best):
        told, separator, rank = best[v]
        wanted = graph.states[v] or 1
        if told < wanted:
            names = ", ".join(str(graph.names[u]) for u in sorted(separator))
            full = math.prod(graph.states[u] or 1 for u in separator)
            notes.append(
                f"the {wanted} states of latent {graph.names[v]!r} cannot be told apart by what is "
                f"observed: separator {{{names}}} wants rank {full}, at most {rank} is to be had. "
                f"Give it fewer states, or columns with more states below it."
            )
    return notes


def _cuts(tree: JunctionTree, doubtful: set[int]) -> list[tuple[int, frozenset[int]]]:
    """Edges, each by the clique below it, and sets with doubtful variables that cut them as well.

    What ties either end to its other branches cuts the two sides apart as the separator does.
    """
    if not doubtful:
        return []
    near, behind = tree.neighbours(), leaf_counts(tree)
    found = []
    for i, up in enumerate(tree.parent):
        if up == i or doubtful.isdisjoint(tree.cliques[i] | tree.cliques[up]):
            continue
        cuts = [tree.shared[i]]
        for here, there in ((i, up), (up, i)):
            others = [k for k in near[here] if k != there and behind[here, k]]
            cuts.append(frozenset().union(*(tree.separator(here, k) for k in others)))
        found += [(i, cut) for cut in cuts if not doubtful.isdisjoint(cut)]
    return found


def _shortfalls(graph: LatentGraph, nodes: Sequence[Node]) -> list[str]:
    """Sides of separators whose features miss the rank, because joint ones would be too large."""
    notes = []
    for node in nodes:
        for where, side in (("inside", node.inside), ("outside", node.outside)):
            reached = max(side.core_rank, side.wide_rank)
            if reached < node.rank:
                names = ", ".join(str(graph.names[v]) for v in sorted(node.separator))
                notes.append(
                    f"{SHORTFALL} {where} separator {{{names}}} reach rank {reached} of "
                    f"{node.rank}: it takes joint ones of columns with more than {LARGEST_GROUP:,} "
                    f"joint states. Give these columns fewer states."
                )
    return notes


def _check_cost(plan: Plan) -> None:
    for k in {*plan.inner, *plan.roots}:
        cells = math.prod(plan.tensor_shape(k))
        if cells > LARGEST_TENSOR:
            raise PlanError(
                f"an operator would have {'×'.join(map(str, plan.tensor_shape(k)))} = {cells:.1e} "
                f"cells (at most {LARGEST_TENSOR:.1e}). Use fewer latent states or drop edges."
            )


@lru_cache(maxsize=8)
def _fingerprint(plan: Plan) -> str:
    graph = plan.graph  # sets are sorted: equal ones may print in different orders
    facts = (
        [spell(name) for name in graph.names],
        (sorted(graph.edges), sorted(graph.latent), graph.states, graph.directed),
        [(n.parent, n.columns, n.rank, n.inside, n.outside) for n in plan.nodes],
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]

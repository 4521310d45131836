"""JunctionTree: the cliques of a triangulated graph, each pointing at its parent (design 2.1-2.3).

The tree comes straight from the elimination: a clique hangs on the clique of the next variable to
go among its own. That is a maximum spanning tree over separators, as every junction tree is, and
it takes linear time. Then every group of columns gets a leaf of its own, and cliques with more than
three branches are split.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import final

from latentia.errors import StructureError

Clique = frozenset[int]


@final
@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Cliques, each pointing at its parent; a root points at itself, so a forest is welcome.

    `holds[i]` are the columns whose leaf clique i is (none for inner cliques).
    """

    cliques: tuple[Clique, ...]
    parent: tuple[int, ...]
    holds: tuple[tuple[int, ...], ...]
    walk: tuple[int, ...] = field(init=False, repr=False, compare=False)  # parents before children
    shared: tuple[Clique, ...] = field(init=False, repr=False, compare=False)  # with the parent

    def __post_init__(self) -> None:
        if not len(self.cliques) == len(self.parent) == len(self.holds):
            raise StructureError("cliques, parents and columns held must be equally many.")
        if self.parent and not 0 <= min(self.parent) <= max(self.parent) < len(self.cliques):
            raise StructureError(f"parents must be numbers of cliques, got {self.parent}.")
        if any(held and frozenset(held) != self.cliques[i] for i, held in enumerate(self.holds)):
            raise StructureError("a leaf clique is the columns that it holds, and nothing else.")
        homes = Counter(chain.from_iterable(self.cliques))
        pairs = zip(self.cliques, self.parent, strict=True)
        shared = tuple(clique & self.cliques[up] for clique, up in pairs)
        object.__setattr__(self, "shared", shared)
        edges = (own for i, own in enumerate(shared) if self.parent[i] != i)
        links = Counter(chain.from_iterable(edges))
        broken = [v for v, count in homes.items() if count - links[v] != 1]
        if broken:  # a subtree has one edge fewer than nodes
            v = min(broken)
            raise StructureError.broken_intersection(v, homes[v], links[v])
        object.__setattr__(self, "walk", tuple(self._ordered()))

    def order(self) -> tuple[int, ...]:
        """Cliques, parents before children."""
        return self.walk

    def _ordered(self) -> list[int]:
        children: list[list[int]] = [[] for _ in self.cliques]
        found: list[int] = []
        for i, up in enumerate(self.parent):
            (found if up == i else children[up]).append(i)
        for i in found:
            found.extend(children[i])
        if len(found) != len(self.cliques):
            raise StructureError("the parents of the cliques run in a circle.")
        return found

    def neighbours(self) -> list[list[int]]:
        """Cliques next to each clique: its parent and its children, in order."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for i, up in enumerate(self.parent):
            if up != i:
                near[i].append(up)
                near[up].append(i)
        return [sorted(n) for n in near]

    def separator(self, i: int, j: int) -> Clique:
        """What two neighbouring cliques share."""
        return self.cliques[i] & self.cliques[j]

    def rooted_at(self, roots: Sequence[int]) -> JunctionTree:
        """The same tree with one given root per component."""
        return _rooted(self.cliques, self.neighbours(), self.holds, roots)


def clique_tree(elimination: Sequence[tuple[int, Clique]]) -> JunctionTree:
    """Maximal cliques of an elimination and the tree that it ties between them.

    >>> tree = clique_tree([(0, frozenset({0, 1})), (1, frozenset({1, 2})), (2, frozenset({2}))])
    >>> [sorted(c) for c in tree.cliques], tree.parent
    ([[0, 1], [1, 2]], (1, 1))
    """
    position = {v: i for i, (v, _) in enumerate(elimination)}
    cliques = [clique for _, clique in elimination]
    onward: list[int | None] = [
        min((position[u] for u in clique if u != v), default=None) for v, clique in elimination
    ]
    # clique j lies inside the first i that points at it and brings all of it along
    stands_for = list(range(len(cliques)))
    for i, j in enumerate(onward):
        if j is not None and stands_for[j] == j and len(cliques[j]) == len(cliques[i]) - 1:
            stands_for[j] = stands_for[i]
    maximal = [i for i in range(len(cliques)) if stands_for[i] == i]
    number = {i: k for k, i in enumerate(maximal)}
    parent = []
    for i in maximal:
        j = onward[i]
        while j is not None and stands_for[j] == i:
            j = onward[j]
        parent.append(number[i] if j is None else number[stands_for[j]])
    return JunctionTree(
        cliques=tuple(cliques[i] for i in maximal),
        parent=tuple(parent),
        holds=((),) * len(maximal),
    )


def grow_leaves(
    tree: JunctionTree, groups: Iterable[tuple[int, ...]], weight: Sequence[float]
) -> JunctionTree:
    """Hang a leaf clique for each group of columns on a smallest clique that contains it."""
    homes: dict[int, list[int]] = {}
    for i, clique in enumerate(tree.cliques):
        for v in clique:
            homes.setdefault(v, []).append(i)
    size = [math.fsum(weight[v] for v in clique) for clique in tree.cliques]
    cliques, parent, holds = list(tree.cliques), list(tree.parent), list(tree.holds)
    for group in groups:
        members = frozenset(group)
        fitting = [i for i in homes[group[0]] if members <= tree.cliques[i]]
        parent.append(min(fitting, key=lambda i: (round(size[i], 9), i)))
        cliques.append(members)
        holds.append(tuple(group))
    return JunctionTree(tuple(cliques), tuple(parent), tuple(holds))


def split_branches(tree: JunctionTree, weight: Sequence[float]) -> JunctionTree:
    """Split cliques with more than three branches that lead to columns.

    Two branches are set apart by a new clique: the union of the separators on the cheaper side (and
    not what both sides share: the clique ties the rest together). Branches with small unions pair
    first, in rotation, so that a star becomes a balanced tree.
    """
    near = tree.neighbours()
    behind = leaf_counts(tree)
    useful = {edge: behind[edge] > 0 for edge in behind}
    cliques, holds = list(tree.cliques), list(tree.holds)
    links = [list(n) for n in near]
    for start in range(len(tree.cliques)):
        hub = start
        branches = [j for j in links[hub] if useful[hub, j]]
        if len(branches) <= 3:
            continue
        fan = Fan({j: cliques[hub] & cliques[j] for j in branches})
        beside = dict.fromkeys(links[hub])  # in order, and quick to take from
        while len(fan) > 3:
            pair, pair_leaves = fan.cheapest_pair(weight)
            new = len(cliques)
            cliques.append(
                fan.shared[pair[0]]
                if len(fan.kinds) == 1
                else split_separator(cliques, hub, pair, fan.rest(pair), weight)
            )
            moving = pair if pair_leaves else fan.all_but(pair)
            holds.append(())
            links.append([hub, *moving])
            for j in moving:
                links[j][links[j].index(hub)] = new
                useful[j, new], useful[new, j] = useful[j, hub], useful[hub, j]
                del beside[j]
            useful[hub, new] = useful[new, hub] = True
            beside[new] = None
            if pair_leaves:
                fan.swap(pair, new, cliques[hub] & cliques[new])
            else:
                links[hub] = list(beside)
                beside = dict.fromkeys(links[new])
                fan = Fan({j: cliques[new] & cliques[j] for j in [*moving, hub]})
                hub = new
        links[hub] = list(beside)
    roots = [i for i, up in enumerate(tree.parent) if up == i]
    return _rooted(tuple(cliques), links, tuple(holds), roots)


def split_separator(
    cliques: Sequence[Clique],
    hub: int,
    pair: Sequence[int],
    rest: Sequence[int],
    weight: Sequence[float],
) -> Clique:
    """What must be known to cut `pair` off from `rest` at the clique `hub`."""
    one, other = _union(cliques, hub, pair), _union(cliques, hub, rest)
    return one if _size(one, weight) <= _size(other, weight) else other


@final
class Fan:
    """Branches of a clique in order, by their separators: those that share one cost the same.

    To take two away and put one behind the others does not touch the rest.
    """

    def __init__(self, shared: Mapping[int, Clique]) -> None:
        self.shared = dict(shared)
        self.stamp: dict[int, int] = {}  # when each branch came
        self.stamps: list[int] = []  # of the branches that are left, rising
        self.kinds: dict[Clique, deque[int]] = {}
        self.sizes: dict[Clique, float] = {}
        self.next = 0
        for j, separator in shared.items():
            self._put(j, separator)

    def __len__(self) -> int:
        return len(self.stamps)

    def _put(self, j: int, separator: Clique) -> None:
        self.shared[j] = separator
        self.stamp[j] = self.next
        self.stamps.append(self.next)
        self.kinds.setdefault(separator, deque()).append(j)
        self.next += 1

    def swap(self, pair: Sequence[int], new: int, separator: Clique) -> None:
        """Take a pair away, the first ones with their separators, and put a branch behind."""
        for j in pair:
            del self.stamps[bisect_left(self.stamps, self.stamp[j])]
            kind = self.kinds[self.shared[j]]
            kind.popleft()
            if not kind:
                del self.kinds[self.shared[j]]
        self._put(new, separator)

    def all_but(self, pair: Sequence[int]) -> list[int]:
        left = [j for kind in self.kinds.values() for j in kind if j not in pair]
        return sorted(left, key=lambda j: self.stamp[j])

    def rest(self, pair: Sequence[int]) -> list[int]:
        """One branch for each separator that others than the pair have."""
        mine = [self.shared[j] for j in pair]
        return [kind[-1] for s, kind in self.kinds.items() if len(kind) > mine.count(s)]

    def _union_size(self, branches: Sequence[int], weight: Sequence[float]) -> float:
        """Of what these branches share with the clique; asked again and again for few unions."""
        shared = self.shared
        union = (
            shared[branches[0]]
            if len(branches) == 1
            else Clique().union(*[shared[j] for j in branches])
        )
        if union not in self.sizes:
            self.sizes[union] = _size(union, weight)
        return self.sizes[union]

    def cheapest_pair(self, weight: Sequence[float]) -> tuple[list[int], bool]:
        """The two branches whose cut is the smallest, and whether they move away or the others."""
        if len(self.kinds) == 1:  # all share the same: no pair is cheaper than the first
            (kind,) = self.kinds.values()
            return [kind[0], kind[1]], True
        alike = sorted(self.kinds.values(), key=lambda kind: self.stamp[kind[0]])
        pairs = [[kind[0], kind[1]] for kind in alike if len(kind) > 1]
        pairs += [[a[0], b[0]] for i, a in enumerate(alike) for b in alike[:i]]

        best: tuple[float, float, int] | None = None
        found = pairs[0], True
        for pair in pairs:
            one = self._union_size(pair, weight)
            other = self._union_size(self.rest(pair), weight)
            cost = min(one, other), one, sum(self._place(j) for j in pair)
            if best is None or cost < best:
                best, found = cost, (pair, one <= other)
        return found

    def _place(self, j: int) -> int:
        """Of a branch among those that are left."""
        return bisect_left(self.stamps, self.stamp[j])


def leaf_intervals(tree: JunctionTree) -> tuple[dict[int, int], list[int], list[int]]:
    """Leaves numbered from left to right; below clique i are first[i], …, last[i] - 1."""
    order, parent = tree.order(), tree.parent
    own = [1 if held else 0 for held in tree.holds]
    below = list(own)
    for i in reversed(order):
        if parent[i] != i:
            below[parent[i]] += below[i]
    first, free, start = [0] * len(own), own, 0  # free: where the next child begins, from first
    for i in order:
        up = parent[i]
        if up == i:
            first[i], start = start, start + below[i]
        else:
            first[i] = first[up] + free[up]
            free[up] += below[i]
    number = {i: first[i] for i, held in enumerate(tree.holds) if held}
    return number, first, [one + count for one, count in zip(first, below, strict=True)]


def leaf_counts(tree: JunctionTree) -> dict[tuple[int, int], int]:
    """(i, j) -> how many leaves lie behind j, seen from i."""
    _, first, last = leaf_intervals(tree)
    whole = [last[i] - first[i] for i in range(len(first))]
    for i in tree.order():
        whole[i] = whole[tree.parent[i]]
    counts = {}
    for i, up in enumerate(tree.parent):
        if up != i:
            counts[up, i] = last[i] - first[i]
            counts[i, up] = whole[i] - counts[up, i]
    return counts


def _union(cliques: Sequence[Clique], hub: int, branches: Iterable[int]) -> Clique:
    return frozenset().union(*(cliques[hub] & cliques[j] for j in branches))


def _size(variables: Iterable[int], weight: Sequence[float]) -> float:
    return round(math.fsum(weight[v] for v in variables), 9)


def _rooted(
    cliques: Sequence[Clique],
    near: Sequence[Sequence[int]],
    holds: Sequence[tuple[int, ...]],
    roots: Sequence[int],
) -> JunctionTree:
    parent = [-1] * len(cliques)
    for root in roots:
        parent[root] = root
        todo = [root]
        for i in todo:
            for j in near[i]:
                if j != parent[i] and parent[j] < 0:
                    parent[j] = i
                    todo.append(j)
    if -1 in parent:
        raise StructureError(f"{len(roots)} roots do not reach every clique.")
    return JunctionTree(tuple(cliques), tuple(parent), tuple(holds))

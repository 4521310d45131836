"""Wiring of the exact E-step: what is decided once for a directed graph, before any number.

A *family* is a variable with its parents. Variables that may be unknown in a row are *active*:
latents, and columns with holes that have children. A family with members that are always known is
a *witness*: a factor over its active members, picked in each row by the code of the known ones. A
family of active members only is part of the table ψ of a clique. So the junction tree spans the
active variables and nothing else, and a column costs a look-up, whatever its number of states.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, final

from latentia.errors import GraphError, PlanError
from latentia.exact.active_tree import ActiveTree, active_tree
from latentia.structure.graph import LatentGraph, spell

Scope: TypeAlias = tuple[int, ...]

PACK_CODES = 256  # joint codes of witnesses that are looked up together


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """A family seen through its known members: factor (states of the active ones, codes)."""

    variable: int  # whose table it is
    known: Scope  # members whose joint code picks a factor; the variable itself comes last
    codes: int  # the last one stands for a missing cell, where `holes`
    holes: bool
    seen: bool  # not the table but the column itself: active, and observed in most rows
    order: Scope  # axes of the table (parents …, variable) as (active, known) members; () as is
    shape: tuple[int, ...]  # in that order


@final
@dataclass(frozen=True, slots=True)
class Pack:
    """Witnesses with the same active members, looked up by one joint code, the last fastest."""

    scope: Scope  # ascending
    witnesses: tuple[Witness, ...]

    @property
    def codes(self) -> int:
        return math.prod(w.codes for w in self.witnesses)


@final
@dataclass(frozen=True, slots=True)
class Dense:
    """Continuous columns with the same parents: their densities are factors of every row."""

    scope: Scope  # the parents, in the order given
    variables: Scope


@final
@dataclass(frozen=True, slots=True)
class Placing:
    """How a scope lies on the axes of the product that it goes into."""

    same: bool  # the very same axes
    sizes: tuple[int, ...]  # of the scope, in its own order
    order: tuple[int, ...]  # its axes as the product has them; then rows
    spread: tuple[int, ...]  # its sizes on the axes of the product, 1 elsewhere
    product: tuple[int, ...]  # sizes of the product
    gone: tuple[int, ...]  # axes of the product that the scope has not
    back: tuple[int, ...]  # from the product's order to its own; then rows


@final
@dataclass(frozen=True, slots=True)
class Input:
    """What comes into a clique from packs and continuous columns of one scope, or from a child."""

    packs: tuple[int, ...]
    dense: int  # -1: no continuous columns
    child: int  # -1: none
    placing: Placing


@final
@dataclass(frozen=True, slots=True)
class Family:
    """A variable and its parents, all within a clique."""

    variable: int
    order: tuple[int, ...]  # axes of its table (parents …, variable), variables ascending
    spread: tuple[int, ...]  # its sizes on the axes of the clique, 1 elsewhere
    gone: tuple[int, ...]  # axes of the clique that it has not
    back: tuple[int, ...]  # from ascending to (parents …, variable)


@final
@dataclass(frozen=True, slots=True)
class Clique:
    """A clique of active variables. What comes in lies on U, what goes up on S.

    Messages up have the axes (shared, upper), the product of what comes in (shared, lower).
    """

    variables: Scope  # ascending: the axes of ψ
    parent: int  # its own number at a root
    shared: Scope  # S ∩ U
    upper: Scope  # S ∖ U
    lower: Scope  # U ∖ S
    sizes: tuple[int, int, int]  # joint states of these three
    families: tuple[Family, ...]  # whose tables are multiplied into ψ
    inputs: tuple[Input, ...]  # small ones first
    alike: bool  # all that comes in has the axes of the product
    sums: Placing  # (shared, upper, lower) on the axes of ψ


@final
@dataclass(frozen=True, slots=True)
class EStep:
    """Static wiring; cliques come parents first."""

    graph: LatentGraph
    states: tuple[int, ...]
    parents: tuple[Scope, ...]
    cliques: tuple[Clique, ...]
    packs: tuple[Pack, ...]
    free: tuple[int, ...]  # packs without active members
    dense: tuple[Dense, ...]
    complete: frozenset[int]  # columns taken to have no holes
    width: int  # numbers per row that an up and a down pass keep
    widest: int  # … and of the largest product
    fingerprint: str  # expected counts add only if they are of the same graph
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # made from it

    def size(self, scope: Scope) -> int:
        """Joint states."""
        return math.prod(self.states[v] for v in scope)


def compile_estep(
    graph: LatentGraph,
    holes: Iterable[int] | None = None,
    asked: Iterable[int] = (),
    continuous: Iterable[int] = (),
    given: Iterable[int] = (),
) -> EStep:
    """Wire the E-step of a directed graph with known states.

    `holes` are the columns that may have missing cells; default: all of them. Columns without holes
    that have children are cheaper: they are conditioned on instead of summed over. `asked` are
    columns with holes whose posteriors are wanted, so that they must be variables of a clique.
    `continuous` columns have densities in place of tables, and no children. `given` columns are
    conditioned on: they have no holes, and their own tables are not asked for.
    """
    check_graph(graph)
    columns, told = frozenset(graph.observed), frozenset(given)
    may_miss = columns - told if holes is None else columns.intersection(holes)
    if not told <= columns - may_miss:
        names = sorted(str(graph.names[v]) for v in told - (columns - may_miss))
        raise PlanError(f"only columns without holes can be given, got {', '.join(names)}.")
    return _compiled(graph, may_miss, frozenset(asked), frozenset(continuous), told)


@lru_cache(maxsize=32)
def _compiled(
    graph: LatentGraph,
    may_miss: frozenset[int],
    asked: frozenset[int],
    smooth: frozenset[int],
    given: frozenset[int],
) -> EStep:
    _check_childless(graph, smooth)
    parents = graph.parents()
    with_children = {a for a, _ in graph.edges}
    active = graph.latent | (may_miss & with_children.union(asked))
    active = active.union(*(parents[v] for v in smooth)) - smooth
    families = [(*above, v) for v, above in enumerate(parents)]
    scopes = [tuple(sorted(active.intersection(f))) for f in families]
    tree = active_tree(graph, sorted(active), scopes)
    witnesses: list[tuple[Scope, Witness]] = []
    inside: list[int] = []
    groups: dict[Scope, list[int]] = {}
    for v, family in enumerate(families):
        if v in given:
            continue
        if v in smooth:
            groups.setdefault(parents[v], []).append(v)  # their order is that of a leaf's axes
            continue
        known = tuple(u for u in family if u not in active)
        if known:
            holed = v in may_miss and v not in active
            witnesses.append((scopes[v], _witness(graph, family, scopes[v], known, holed)))
        else:
            inside.append(v)
        if v in active and v not in graph.latent:
            own = (graph.states[v] or 1) + 1
            witnesses.append(((v,), Witness(v, (v,), own, True, True, (), ())))
    packs = _packed(witnesses)
    dense = tuple(Dense(scope, tuple(members)) for scope, members in groups.items())
    cliques = _assemble(tree, packs, dense, [families[v] for v in inside])
    return EStep(
        graph=graph,
        states=tuple(count or 1 for count in graph.states),
        parents=parents,
        cliques=cliques,
        packs=packs,
        free=tuple(k for k, pack in enumerate(packs) if not pack.scope),
        dense=dense,
        complete=frozenset(graph.observed) - may_miss - smooth,
        width=1 + sum(a * (b + 2 * c) for a, b, c in (clique.sizes for clique in cliques)),
        widest=max((c.sizes[0] * max(c.sizes[1:]) for c in cliques), default=1),
        fingerprint=_fingerprint(graph),
    )


def _fingerprint(graph: LatentGraph) -> str:
    facts = ([spell(name) for name in graph.names], list(graph.edges), sorted(graph.latent))
    return hashlib.sha256(repr((facts, graph.states)).encode()).hexdigest()[:16]


def check_graph(graph: LatentGraph) -> None:
    """Directed, with the number of states of every variable."""
    if not graph.directed:
        raise GraphError(
            "expectation maximisation needs a directed graph, whose tables are P(variable | its "
            "parents); got undirected edges (--). Give them a direction (->), or use "
            "learner='pbp', which learns undirected graphs, too."
        )
    for v, count in enumerate(graph.states):
        if count is None:
            what = "latent" if v in graph.latent else "column"
            raise PlanError(
                f"the number of states of {what} {graph.names[v]!r} is not known. "
                f"Pass latents={{{graph.names[v]!r}: …}} or write {graph.names[v]}[k] in the graph."
            )


def _check_childless(graph: LatentGraph, continuous: frozenset[int]) -> None:
    for a, b in graph.edges:
        if a in continuous:
            raise GraphError(
                f"expectation maximisation needs continuous columns without children, got "
                f"{graph.names[a]!r} -> {graph.names[b]!r}. Turn the edge round, put a latent "
                f"above both, bin {graph.names[a]!r} (kinds={{{graph.names[a]!r}: 'discrete'}}), "
                "or use learner='pbp'."
            )


def _witness(graph: LatentGraph, family: Scope, scope: Scope, known: Scope, holes: bool) -> Witness:
    order = tuple(family.index(u) for u in (*scope, *known))
    shape = tuple(graph.states[u] or 1 for u in (*scope, *known))
    codes = math.prod(shape[len(scope) :]) + holes
    as_is = order == tuple(range(len(family)))
    return Witness(family[-1], known, codes, holes, False, () if as_is else order, shape)


def _packed(witnesses: Sequence[tuple[Scope, Witness]]) -> tuple[Pack, ...]:
    """Witnesses of one scope, as many together as PACK_CODES allows."""
    by_scope: dict[Scope, list[Witness]] = {}
    for scope, witness in witnesses:
        by_scope.setdefault(scope, []).append(witness)
    packs = []
    for scope, members in by_scope.items():
        group: list[Witness] = []
        for w in sorted(members, key=lambda w: w.codes):
            if group and math.prod(g.codes for g in group) * w.codes > PACK_CODES:
                packs.append(Pack(scope, tuple(group)))
                group = []
            group.append(w)
        packs.append(Pack(scope, tuple(group)))
    return tuple(packs)


# --- assembling ---------------------------------------------------------------------------------


def _assemble(
    tree: ActiveTree, packs: Sequence[Pack], dense: Sequence[Dense], inside: Sequence[Scope]
) -> tuple[Clique, ...]:
    """Cliques with all that comes in, numbered parents first."""
    coming: list[dict[Scope, list[int]]] = [{} for _ in tree.cliques]  # packs by scope
    for k, pack in enumerate(packs):
        if pack.scope:
            coming[tree.top(pack.scope)].setdefault(pack.scope, []).append(k)
    smooth = {d.scope: k for k, d in enumerate(dense)}
    for scope in filter(None, smooth):
        coming[tree.top(scope)].setdefault(scope, [])
    for root in [i for i, above in enumerate(tree.up) if above == i]:
        _split_root(tree, coming, root)
    order, children = _parents_first(tree.up)
    number = {i: k for k, i in enumerate(order)}
    at_home: list[list[Scope]] = [[] for _ in tree.cliques]
    for family in inside:
        at_home[tree.top(family)].append(family)
    below = [
        frozenset().union(*coming[i], *(tree.separator(j) for j in children[i]))
        for i in range(len(tree.cliques))
    ]
    upward = [_shared_first(tree.separator(i), below[i]) for i in range(len(tree.cliques))]
    built = []
    for i in order:
        above, product = tree.separator(i), _shared_first(below[i], tree.separator(i))
        inputs = [
            Input(tuple(k), smooth.get(s, -1), -1, _place(tree, s, product))
            for s, k in coming[i].items()
        ]
        inputs += [Input((), -1, number[j], _place(tree, upward[j], product)) for j in children[i]]
        parts = (above & below[i], above - below[i], below[i] - above)
        shared, upper, lower = (tuple(sorted(part)) for part in parts)
        a, b, c = map(tree.size, parts)
        variables = tuple(sorted(tree.cliques[i]))
        built.append(
            Clique(
                variables=variables,
                parent=number[tree.up[i]],
                shared=shared,
                upper=upper,
                lower=lower,
                sizes=(a, b, c),
                families=tuple(_family(tree, f, variables) for f in at_home[i]),
                inputs=tuple(sorted(inputs, key=lambda x: math.prod(x.placing.sizes))),
                alike=all(x.placing.same for x in inputs),
                sums=_place(tree, (*shared, *upper, *lower), variables),
            )
        )
    return tuple(built)


def _family(tree: ActiveTree, family: Scope, variables: Scope) -> Family:
    return Family(
        variable=family[-1],
        order=tuple(sorted(range(len(family)), key=family.__getitem__)),
        spread=tuple(tree.size((v,)) if v in family else 1 for v in variables),
        gone=tuple(k for k, v in enumerate(variables) if v not in family),
        back=tuple(sorted(family).index(v) for v in family),
    )


def _shared_first(scope: frozenset[int], other: frozenset[int]) -> Scope:
    return (*sorted(scope & other), *sorted(scope - other))


def _place(tree: ActiveTree, scope: Scope, product: Scope) -> Placing:
    sizes, whole = ([tree.size((v,)) for v in axes] for axes in (scope, product))
    order = sorted(range(len(scope)), key=lambda k: product.index(scope[k]))
    return Placing(
        same=scope == product,
        sizes=tuple(sizes),
        order=(*order, len(scope)),
        spread=tuple(n if v in scope else 1 for v, n in zip(product, whole, strict=True)),
        product=tuple(whole),
        gone=tuple(k for k, v in enumerate(product) if v not in scope),
        back=(*sorted(range(len(scope)), key=order.__getitem__), len(scope)),
    )


def _split_root(tree: ActiveTree, coming: list[dict[Scope, list[int]]], root: int) -> None:
    """Put one of the scopes that come in above the root, where that makes products smaller.

    At the end of a chain, messages on either variable of the last clique come in: their product on
    both would be larger than any message.
    """
    below = [j for j in range(len(tree.up)) if tree.up[j] == root and j != root]
    scopes = {frozenset(s) for s in coming[root]} | {tree.separator(j) for j in below}
    best, least = None, tree.size(frozenset().union(*scopes))
    for top in sorted(scopes, key=sorted):
        rest = frozenset().union(*(s for s in scopes if not s <= top))
        if rest and tree.size(top) + tree.size(rest) < least:
            best, least = top, tree.size(top) + tree.size(rest)
    if best is None:
        return
    moving = [j for j in below if tree.separator(j) <= best]
    new = len(tree.cliques)
    tree.cliques.append(best)
    tree.up.append(new)
    for j in (root, *moving):
        tree.up[j] = new
    coming.append({s: coming[root].pop(s) for s in list(coming[root]) if best.issuperset(s)})


def _parents_first(up: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    children: list[list[int]] = [[] for _ in up]
    order: list[int] = []
    for i, above in enumerate(up):
        (order if above == i else children[above]).append(i)
    for i in order:
        order.extend(children[i])
    return order, children

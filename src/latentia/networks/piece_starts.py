"""Where the climb of a piece starts: closed form, local latent classes, and at random (design 13).

The first two say P(state of a latent | row) for a sample of rows; products of these memberships,
summed over the rows, are the first tables. No kind is best everywhere, so that they race.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.closed_form.solving import gather_statistics
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import LatentiaError
from latentia.exact.estep_wiring import Scope, compile_estep
from latentia.exact.pieces import Piece
from latentia.exact.row_posteriors import latent_posteriors
from latentia.networks.accelerate import LaterTables, Prior, Tables, normalised
from latentia.networks.class_rows import SurveyRows
from latentia.networks.class_starts import changed_tables, seeded_tables
from latentia.networks.discrete_network import started
from latentia.networks.local_classes import class_memberships
from latentia.networks.pair_start import pair_tables
from latentia.networks.race import CHANGED, Runner
from latentia.structure.graph import LatentGraph
from latentia.structure.kept_plans import plan_again
from latentia.structure.plan import Plan
from latentia.structure.state_network import PositiveNetwork
from latentia.structure.triangulate import moralise
from latentia.typing import Array, Codes, Label

FEWEST_COLUMNS, MOST_COLUMNS = 3, 12  # that tell of a latent
BLUR = 1e-3  # rows added to every cell of the first counts
MOST_LATENTS, MOST_LEAVES = 12, 40  # of a piece that the closed form is asked for …
MOST_RANK = 16  # … and joint states of its separators: it would cost more than all other starts
LEAST_SEEDS = 6
MOST_CODES = 300  # states of all columns whose pairs are looked at
OF_PAIRS = "pairs"  # the kind of start that pairs of columns tell
PAIRS = 3  # of so many redrawn starts one has two latents redrawn
MOST_STATES = 64  # of a latent that local classes are asked for


@final
@dataclass(frozen=True, slots=True)
class StartMaker:
    """A piece, a sample of rows of its columns, and the prior that goes with so many rows."""

    piece: Piece
    rows: Rows
    prior: Prior  # by the piece's own numbers
    classes: SurveyRows | None = None  # of a latent class alone

    def at_random(self, count: int, rng: np.random.Generator) -> Iterator[Runner]:
        """Every row of every table from a flat Dirichlet."""
        for tables in drawn_tables(self.piece, rng, count):
            yield Runner("random", tables)

    def local_classes(self, count: int, rng: np.random.Generator) -> Iterator[Runner]:
        """Each latent by the columns around it; the best of each together, then at random.

        A latent class alone is all there is to climb: it starts from seeds, twice as many.
        """
        if not count:
            return
        if self.classes is not None:
            seeds = seeded_tables(self.classes, max(LEAST_SEEDS, 2 * count), rng)
            yield from (Runner("seeds", tables) for tables in seeds)
            return
        found = {h: self._classes(h, count, rng) for h in sorted(self.piece.graph.latent)}
        for k in range(count):
            drawn = {h: k if k == 0 else int(rng.integers(len(x))) for h, x in found.items()}
            yield self.from_memberships("local", {h: found[h][i] for h, i in drawn.items()})

    def of_pairs(self) -> Iterator[Runner]:
        """What pairs of columns tell, of a latent class alone."""
        if self.classes is not None and self.classes.codes <= MOST_CODES:
            yield Runner(OF_PAIRS, pair_tables(self.classes))

    def changed(self, best: Tables, count: int, rng: np.random.Generator) -> Iterator[Runner]:
        """The best tables so far with one class elsewhere; of a latent class alone."""
        if self.classes is not None:
            for tables in changed_tables(self.classes, best, count, rng):
                yield Runner(CHANGED, tables)

    def redrawn(self, best: Tables, count: int, rng: np.random.Generator) -> Iterator[Runner]:
        """The best tables so far, those around one latent at random, or around two that are tied.

        A start at random has all latents of a large piece right only by luck, and most of the best
        so far may be right.
        """
        graph = self.piece.graph
        parents, order = graph.parents(), rng.permutation(sorted(graph.latent))
        families = {v: (*parents[v], v) for v in best}
        for k, drawn in enumerate(drawn_tables(self.piece, rng, count)):
            h = int(order[k % len(order)])
            own, tied = {h}, _tied_to(h, graph.latent, families.values())
            if tied and k % PAIRS == PAIRS - 1:
                own.add(int(rng.choice(tied)))
            anew = {v for v, family in families.items() if not own.isdisjoint(family)}
            yield Runner(CHANGED, {v: drawn[v] if v in anew else t for v, t in best.items()})

    def _classes(self, h: int, count: int, rng: np.random.Generator) -> list[Array]:
        graph = self.piece.graph
        states = graph.states[h] or 1
        near = columns_near(graph, h)
        if not near or not 1 < states <= MOST_STATES:
            return [rng.dirichlet(np.ones(states), len(self.rows)).T for _ in range(count)]
        place = {v: i for i, v in enumerate(graph.observed)}
        codes = [self.rows.codes[place[v]] for v in near]
        sizes = [graph.states[v] or 1 for v in near]
        return class_memberships(codes, sizes, self.rows.weights, states, count, rng)

    def closed_form(self, rng: np.random.Generator) -> Iterator[Runner]:
        """From statistics of latents and the columns around them; none where there is no plan."""
        try:
            soft = closed_form_memberships(self.piece.graph, self.rows, rng)
        except (LatentiaError, np.linalg.LinAlgError):
            return  # a graph that the closed form has no plan for, or rows that tell too little
        if soft:
            yield self.from_memberships("closed form", soft)

    def from_memberships(self, kind: str, soft: Mapping[int, Array]) -> Runner:
        """Tables from P(state | row) of the latents, (states, n) each."""
        counts = membership_counts(self.piece, soft, self.rows)
        return Runner(kind, normalised({v: n + BLUR for v, n in counts.items()}, self.prior))


def _tied_to(h: int, latent: AbstractSet[int], families: Iterable[Scope]) -> list[int]:
    """Other latents that share a family with one."""
    return sorted({u for family in families if h in family for u in family if u in latent} - {h})


def drawn_tables(piece: Piece, rng: np.random.Generator, count: int = 1) -> list[Tables]:
    """Every row of every table of a piece from a flat Dirichlet, by its own numbers, `count` times.

    Shares of exponentials: what `rng.dirichlet` gives, without what it checks; all at once, for
    most tables are small.
    """
    states, parents = [n or 1 for n in piece.graph.states], piece.graph.parents()
    families = piece.inside(dict.fromkeys(piece.families))
    shapes = {k: tuple(states[u] for u in (*parents[k], k)) for k in families}
    rows = [math.prod(shape[:-1]) for shape in shapes.values()]
    lengths = np.repeat([shape[-1] for shape in shapes.values()], rows)
    drawn = rng.standard_exponential((count, int(lengths.sum())))
    sums = np.add.reduceat(drawn, np.cumsum(lengths) - lengths, axis=1)
    drawn /= sums.repeat(lengths, axis=1)
    return [LaterTables(shapes, own) for own in drawn]


def columns_near(graph: LatentGraph, h: int) -> list[int]:
    """Columns next to a latent; where they are few, those next to its latent neighbours, too."""
    parents, children = graph.parents(), graph.children()
    seen, found, ring = {h}, list[int](), [h]
    while ring and len(found) < FEWEST_COLUMNS:
        further: list[int] = []
        for u in ring:
            for w in (*children[u], *parents[u]):
                if w not in seen:
                    seen.add(w)
                    (further if w in graph.latent else found).append(w)
        ring = further
    if len(found) < FEWEST_COLUMNS:  # what has a child in common with it
        others = [u for c in children[h] for u in parents[c] if u not in graph.latent]
        found += [u for u in dict.fromkeys(others) if u not in found]
    return found[:MOST_COLUMNS]


def membership_counts(piece: Piece, soft: Mapping[int, Array], rows: Rows) -> dict[int, Array]:
    """Σ w ⊗ memberships of every family: own number -> (parents …, variable).

    A column is where it is seen; where it has a hole, it is like its own marginal.
    """
    graph = piece.graph
    states, parents = [n or 1 for n in graph.states], graph.parents()
    place = {v: i for i, v in enumerate(graph.observed)}
    marks, weights = dict(soft), rows.weights
    for v, i in place.items():
        if rows.codes[i].min(initial=0) < 0:
            marks[v] = _filled_marks(rows.codes[i], states[v], weights)
    found = {}
    for k in sorted(piece.inside(dict.fromkeys(piece.families))):
        family = (*parents[k], k)
        open_ = [u for u in family if u in marks]
        known = [u for u in family if u not in marks]
        flat = np.zeros(len(rows), dtype=np.intp)
        for u in known:
            flat = flat * states[u] + rows.codes[place[u]]
        left = weights[None]
        for u in open_:
            left = (left[:, None, :] * marks[u]).reshape(-1, len(rows))
        cells = math.prod([states[u] for u in known])
        total = np.stack([np.bincount(flat, own, cells) for own in left]).astype(float)
        order = [*open_, *known]
        shaped = total.reshape([states[u] for u in order])
        found[k] = np.ascontiguousarray(shaped.transpose([order.index(u) for u in family]))
    return found


def _filled_marks(codes: Codes, states: int, weight: Array) -> Array:
    marks = (codes == np.arange(states)[:, None]).astype(float)  # (states, n)
    marginal = marks @ weight + 0.5
    filled = np.where(codes >= 0, marks, (marginal / marginal.sum())[:, None])
    return np.asarray(filled, dtype=float)


# --- closed form ----------------------------------------------------------------------------------


def closed_form_memberships(
    graph: LatentGraph, rows: Rows, rng: np.random.Generator
) -> dict[int, Array]:
    """P(state | row) of every latent, (states, n), by PBP's statistics; {} where it costs too much.

    Columns next to a latent become its children, whichever way the edge runs: what they say of it
    is the same to first order.
    """
    small, number = _leaves_below(graph)
    too_large = len(small.latent) > MOST_LATENTS or len(small.observed) > MOST_LEAVES
    if too_large or not _connected(small):
        return {}
    plan = plan_again(small, ())
    nodes = _nodes_of_latents(plan)
    too_wide = any(node.rank > MOST_RANK for node in plan.nodes)
    if too_wide or len(nodes) < len(plan.graph.latent):
        return {}
    network = PositiveNetwork(plan.graph, nodes)
    place = {graph.names[v]: i for i, v in enumerate(graph.observed)}
    codes = tuple(rows.codes[place[plan.graph.names[v]]] for v in plan.graph.observed)
    source = LocalRows(Rows(codes, rows.weight), threads=1)
    first = started(gather_statistics(plan, source), source, rng, network=network)
    latents = sorted(plan.graph.latent)
    found = latent_posteriors(compile_estep(plan.graph), first.tables, source.rows, latents)
    soft = {number[plan.graph.names[v]]: x for v, x in found.items()}
    return soft if soft.keys() == graph.latent else {}


def _leaves_below(graph: LatentGraph) -> tuple[LatentGraph, dict[Label, int]]:
    """The latents as they hang together, and every column next to one as a child of those."""
    parents = graph.parents()
    above: dict[int, list[int]] = {
        v: [u for u in parents[v] if u in graph.latent] for v in sorted(graph.latent)
    }
    for a, b in graph.edges:
        for column, latent in ((a, b), (b, a)):
            if latent in graph.latent and column not in graph.latent:
                above.setdefault(column, []).append(latent)
    kept = sorted(above)
    number = {v: k for k, v in enumerate(kept)}
    small = LatentGraph(
        names=tuple(graph.names[v] for v in kept),
        edges=tuple((number[u], number[v]) for v in kept for u in above[v]),
        latent=frozenset(number[v] for v in graph.latent),
        states=tuple(graph.states[v] for v in kept),
    )
    return small, {graph.names[v]: v for v in kept}


def _connected(graph: LatentGraph) -> bool:
    near = moralise(graph)
    seen, ring = {0}, [0]
    for v in ring:
        fresh = near[v] - seen
        seen |= fresh
        ring += sorted(fresh)
    return len(seen) == len(graph.names)


def _nodes_of_latents(plan: Plan) -> dict[Label, int]:
    """The node of the plan whose coordinates tell most of each latent.

    Best the separator of the latent alone, if it tells all its states; else one that holds it; else
    any. Of several the one that cuts the columns most evenly.
    """
    nodes = plan.nodes
    below = [k for k, node in enumerate(nodes) if node.parent != k]

    def cost(k: int) -> tuple[int, int, int]:
        inside = nodes[k].last - nodes[k].first
        return len(nodes[k].separator), abs(len(plan.leaves) - 2 * inside), k

    found: dict[Label, int] = {}
    for v in sorted(plan.graph.latent):
        holding = [k for k in below if v in nodes[k].separator] or below
        telling = [k for k in holding if nodes[k].rank >= (plan.graph.states[v] or 1)]
        if holding:
            found[plan.graph.names[v]] = min(telling or holding, key=cost)
    return found

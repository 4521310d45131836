"""Exact first: every joint state goes in, weighted by its probability; brute force must come out.

With `regularize=False` (or zero ridges) and exact moments, algebra is all that is left. Models are
redrawn until the smallest canonical correlation kept is at least 1e-3: conditioning is another
matter than correctness (design 3), and rounding grows with its inverse.
"""

from dataclasses import replace

import numpy as np
import pytest

from latentia import PBP, Spectral
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows, compress
from latentia.errors import PlanError
from latentia.inference.answering import answer, log_evidence
from latentia.inference.evidence import read_evidence
from latentia.structure import junction
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.sides import Side
from latentia.testing.random_models import (
    KINDS,
    all_rows,
    brute_force,
    posterior_from_joint,
    random_graph,
    random_model,
)

SCALE = 1e12
EXACT = 1e-8
LEARNERS = {
    "closed form": PBP(regularize=False),
    "as published": PBP.paper(ridge=(0, 0)),
    "spectral": Spectral(repair=False),
}


def exact_source(table):
    codes, weight = all_rows(table)
    return LocalRows(Rows(tuple(codes.T), weight * SCALE), block_rows=3000)


def weakest(operators):
    return min(
        (d for r in operators.provenance.reports.values() for d in r.correlations), default=1.0
    )


def draw(kind, seed):
    """A random model whose canonical correlations can be told from rounding."""
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    while True:
        graph = random_graph(rng, kind, observed_limit=4000)
        plan = make_plan(graph)
        for _ in range(5):
            table = brute_force(random_model(plan.graph, rng))
            if weakest(LEARNERS["closed form"].learn(plan, exact_source(table))) >= 1e-3:
                return plan, table, rng


def random_evidence(table, rng, rows=8):
    """Rows drawn from the joint with random cells hidden; first none, then all observed."""
    flat = rng.choice(table.size, size=rows, p=table.ravel())
    codes = np.array(np.unravel_index(flat, table.shape))
    hidden = rng.random(codes.shape) < rng.random(rows)
    hidden[:, 0], hidden[:, 1] = True, False
    return np.where(hidden, -1, codes)


def worst_error(operators, table, evidence):
    """Largest error of any posterior and relative error of P(evidence)."""
    found = answer(operators, read_evidence(operators.plan, list(evidence)))
    worst = 0.0
    for row in range(evidence.shape[1]):
        seen = {i: int(c) for i, c in enumerate(evidence[:, row]) if c >= 0}
        for i, v in enumerate(operators.plan.graph.observed):
            others = {k: c for k, c in seen.items() if k != i}
            truth = posterior_from_joint(table, i, others)
            worst = max(worst, np.abs(found.probabilities[v][:, row] - truth).max())
        cell = table[tuple(seen.get(i, slice(None)) for i in range(table.ndim))].sum()
        worst = max(worst, abs(np.exp(found.log_evidence[row]) / cell - 1.0))
    return worst


@pytest.mark.parametrize("kind", KINDS)
def test_exact_moments_give_exact_answers(kind):
    """25 models of each kind, all learners, random evidence; 250 models in all."""
    for seed in range(25):
        plan, table, rng = draw(kind, seed)
        evidence = random_evidence(table, rng)
        for name, learner in LEARNERS.items():
            error = worst_error(learner.learn(plan, exact_source(table)), table, evidence)
            assert error < EXACT, f"{name}, {kind}, seed {seed}: {error:.1e}\n{plan}"


CHAIN_8 = ("; ".join(f"H{t}->H{t + 1}" for t in range(5)) + "; ") + "; ".join(
    f"H{t}->X{t}" for t in range(6)
)
GRID_3 = "; ".join(
    [f"a{t}->b{t}->c{t}" for t in range(3)]
    + [f"{c}{t}->{c}{t + 1}" for c in "abc" for t in range(2)]
    + [f"{c}{t}->X{c}{t}" for c in "abc" for t in range(3)]
)
FOUR_CHAINS = "; ".join(f"{c}0->{c}1; {c}0->X{c}0; {c}1->X{c}1" for c in "abcd") + (
    "; a0->b0; b0->c0; c0->d0"
)


@pytest.mark.parametrize(
    ("text", "latents", "states"),
    [
        (CHAIN_8, {f"H{t}": 8 for t in range(6)}, {f"X{t}": 2 for t in range(6)}),
        (
            GRID_3,
            {f"{c}{t}": 2 for c in "abc" for t in range(3)},
            {f"X{c}{t}": 2 for c in "abc" for t in range(3)},
        ),
        (
            FOUR_CHAINS,
            {f"{c}{t}": 2 for c in "abcd" for t in range(2)},
            {f"X{c}{t}": 2 for c in "abcd" for t in range(2)},
        ),
    ],
    ids=["8 states through 2 symbols", "3 × 3 latents", "four coupled chains"],
)
def test_hard_structures_are_exact(text, latents, states):
    """Badly conditioned by nature: the joint itself stays exact in L1 (design 4.2: 1e-10)."""
    plan = make_plan(text, latents, states)
    for seed in range(5):
        table = brute_force(random_model(plan.graph, np.random.default_rng(seed)))
        operators = LEARNERS["closed form"].learn(plan, exact_source(table))
        codes, weight = all_rows(table)
        log, _ = log_evidence(operators, read_evidence(plan, list(codes.T)))
        assert np.abs(np.exp(log) - weight).sum() < EXACT


@pytest.mark.parametrize("kind", ["tree", "loop", "clique4", "undirected", "inside"])
def test_moving_the_root_changes_nothing(kind):
    plan, table, rng = draw(kind, 101)
    evidence = random_evidence(table, rng)
    answers = []
    for root in range(4):
        moved = make_plan(plan.graph, root=root)
        operators = LEARNERS["closed form"].learn(moved, exact_source(table))
        answers.append(answer(operators, read_evidence(moved, list(evidence))))
    for v in plan.graph.observed:
        for other in answers[1:]:
            np.testing.assert_allclose(
                other.probabilities[v], answers[0].probabilities[v], atol=1e-9
            )


@pytest.mark.parametrize("kind", ["tree", "loop", "diamond", "undirected"])
def test_relabelling_changes_nothing(kind):
    """Variables renamed and listed in another order, states permuted: the same answers."""
    plan, table, rng = draw(kind, 102)
    graph, observed = plan.graph, plan.graph.observed
    order = rng.permutation(len(graph.edges))
    edges = [(f"new {graph.names[a]}", f"new {graph.names[b]}") for a, b in graph.edges]
    latents = {f"new {graph.names[v]}": graph.states[v] for v in graph.latent}
    states = {f"new {graph.names[v]}": graph.states[v] for v in observed}
    arrow = "->" if graph.directed else "--"
    text = "; ".join(arrow.join(edges[i]) for i in order)
    other = make_plan(as_graph(text, latents, states))
    place = [observed.index(graph.index(n.removeprefix("new "))) for n in other.columns]
    flips = [rng.permutation(m) for m in table.shape]  # new code of each old code
    shuffled = table[np.ix_(*(np.argsort(f) for f in flips))].transpose(place)
    evidence = random_evidence(table, rng)
    mapped = np.array([np.where(e < 0, -1, f[e]) for e, f in zip(evidence, flips, strict=True)])
    one = answer(
        LEARNERS["closed form"].learn(plan, exact_source(table)),
        read_evidence(plan, list(evidence)),
    )
    two = answer(
        LEARNERS["closed form"].learn(other, exact_source(shuffled)),
        read_evidence(other, list(mapped[place])),
    )
    for new, old in enumerate(place):
        a = one.probabilities[observed[old]]
        b = two.probabilities[other.graph.observed[new]][flips[old]]
        np.testing.assert_allclose(a, b, atol=1e-9)


class TestWhatMustFail:
    """The exactness test has teeth: each slip that design 3 names makes it fail."""

    @staticmethod
    def error_with(plan, table, rng, learner="closed form"):
        operators = LEARNERS[learner].learn(plan, exact_source(table))
        codes, weight = all_rows(table)
        log, _ = log_evidence(operators, read_evidence(plan, list(codes.T)))
        return np.abs(np.exp(log) - weight).sum()

    @staticmethod
    def changed(plan, change):
        """The plan with one side of every inner separator changed."""
        nodes = [
            replace(n, **change(n)) if n.children and n.parent != k else n
            for k, n in enumerate(plan.nodes)
        ]
        return replace(plan, nodes=tuple(nodes))

    @pytest.fixture
    def diamond(self):
        return draw("diamond", 7)

    @pytest.mark.parametrize("learner", LEARNERS)
    def test_deficient_alpha(self, diamond, learner):
        plan, table, rng = diamond
        none = Side((), 3, (), 3)  # it claims the rank, but has no column
        poor = self.changed(plan, lambda n: {"inside": none})
        assert self.error_with(plan, table, rng, learner) < EXACT
        assert self.error_with(poor, table, rng, learner) > 1e-3

    @pytest.mark.parametrize("learner", LEARNERS)
    def test_deficient_beta(self, learner):
        """A binary instrument for a three-state separator."""
        plan = make_plan("A->B; A->p,q; B->r,s", {"A": 3, "B": 3}, {"p": 2, "q": 4, "r": 4, "s": 4})
        rng = np.random.default_rng(5)
        table = brute_force(random_model(plan.graph, rng))
        binary = next(x for x, k in enumerate(plan.leaves) if plan.nodes[k].columns == (2,))
        poor = self.changed(
            plan,
            lambda n: {
                "outside" if binary not in range(n.first, n.last) else "inside": Side(
                    (binary,), 3, ((binary,),), 3
                )
            },
        )
        assert self.error_with(plan, table, rng, learner) < EXACT
        assert self.error_with(poor, table, rng, learner) > 1e-4

    @pytest.mark.parametrize("kind", ["clique4"])
    def test_singles_where_joints_are_needed(self, kind):
        plan, table, rng = draw(kind, 3)

        def singles(n):
            return {
                side: replace(s, wide=tuple(b for b in s.wide if len(b) == 1))
                for side, s in (("inside", n.inside), ("outside", n.outside))
            }

        assert self.error_with(plan, table, rng) < EXACT
        assert self.error_with(self.changed(plan, singles), table, rng) > 1e-5

    def test_wrong_split(self, monkeypatch):
        """What both sides share is empty for four latents that are all tied: independence."""
        plan, _, _ = draw("clique4", 3)

        def shared(cliques, hub, pair, rest, weight):
            sides = [[cliques[hub] & cliques[j] for j in side] for side in (pair, rest)]
            return frozenset().union(*sides[0]) & frozenset().union(*sides[1])

        monkeypatch.setattr(junction, "split_separator", shared)
        with pytest.raises(junction.StructureError, match="running intersection"):
            make_plan(plan.graph)

    def test_a_core_group_that_is_known_to_fall_short_is_refused(self, diamond):
        plan, table, _ = diamond
        poor = self.changed(plan, lambda n: {"outside": replace(n.outside, core_rank=2)})
        with pytest.raises(PlanError, match="no core group small enough"):
            PBP.paper().learn(poor, exact_source(table))

    def test_rank_below_the_truth(self, diamond):
        plan, table, rng = diamond
        nodes = [replace(n, rank=2) if n.parent != k else n for k, n in enumerate(plan.nodes)]
        assert self.error_with(replace(plan, nodes=tuple(nodes)), table, rng) > 1e-3


def test_groups_of_columns_share_a_leaf():
    rng = np.random.default_rng(0)
    plan = make_plan(
        "H->K; H->a,b,c; K->d,e",
        {"H": 3, "K": 3},
        {"a": 2, "b": 3, "c": 4, "d": 3, "e": 3},
        groups=[("a", "b"), ("d", "e")],
    )
    table = brute_force(random_model(plan.graph, rng))
    operators = LEARNERS["closed form"].learn(plan, exact_source(table))
    assert worst_error(operators, table, random_evidence(table, rng)) < EXACT


def test_soft_evidence_is_exact():
    plan, table, rng = draw("tree", 11)
    operators = LEARNERS["closed form"].learn(plan, exact_source(table))
    likelihood = rng.random((table.shape[1], 3))
    evidence = read_evidence(plan, [None] * table.ndim, {1: likelihood})
    found = answer(operators, evidence)
    for row in range(3):
        truth = posterior_from_joint(table, 0, {1: likelihood[:, row]})
        v = plan.graph.observed[0]
        np.testing.assert_allclose(found.probabilities[v][:, row], truth, atol=EXACT)
        total = (table.sum(axis=tuple(i for i in range(table.ndim) if i != 1)) @ likelihood)[row]
        np.testing.assert_allclose(found.log_evidence[row], np.log(total), atol=EXACT)


def test_equal_rows_are_counted_once():
    plan, table, rng = draw("chain", 5)
    flat = rng.choice(table.size, size=40_000, p=table.ravel())
    rows = Rows(tuple(c.astype(np.int8) for c in np.unravel_index(flat, table.shape)))
    small = compress(rows, table.shape)
    assert len(small) <= table.size
    assert small.total == rows.total
    one, two = (PBP(refine=False).learn(plan, LocalRows(r)) for r in (rows, small))
    for k in one.tensors:
        np.testing.assert_allclose(one.tensors[k], two.tensors[k], atol=1e-12)

"""A chain of 1,000 variables: exact population moments in, exact answers out, nothing underflows.

The joint cannot be enumerated, but its moments can be had: features are sums over single columns,
and any two or three columns of a hidden Markov chain have a joint in closed form.
"""

import itertools

import numpy as np
import pytest

from latentia import TabularModel
from latentia.closed_form.basis import canonical_basis
from latentia.closed_form.pairs import pair_layout
from latentia.closed_form.solving import solve_operators
from latentia.data.moments import Moments
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.structure.plan import make_plan
from latentia.structure.templates import hidden_markov

LENGTH, HIDDEN, SYMBOLS = 1000, 3, 4


@pytest.fixture(scope="module")
def chain():
    """Sticky transitions and clear emissions, so that every separator is well told."""
    rng = np.random.default_rng(0)
    step = 0.6 * np.eye(HIDDEN) + 0.4 * rng.dirichlet(np.ones(HIDDEN), size=(LENGTH - 1, HIDDEN))
    told = 0.7 * np.eye(HIDDEN, SYMBOLS) + 0.3 * rng.dirichlet(
        np.ones(SYMBOLS), size=(LENGTH, HIDDEN)
    )
    told[:, :, -1] += 1 - told.sum(axis=2)
    start = rng.dirichlet(np.ones(HIDDEN) * 5)
    graph = hidden_markov(LENGTH, HIDDEN).with_states({f"X{t}": SYMBOLS for t in range(LENGTH)})
    cpts = {"H0": start, **{f"H{t + 1}": step[t] for t in range(LENGTH - 1)}}
    cpts |= {f"X{t}": told[t] for t in range(LENGTH)}
    return TabularModel(graph, cpts), Chain(start, step, told)


class Chain:
    """Expectations of products of functions of single columns."""

    def __init__(self, start, step, told):
        self.step, self.told = step, told
        self.prior = [start]
        for T in step:
            self.prior.append(self.prior[-1] @ T)

    def between(self, i, j):
        """P(h_j | h_i)."""
        out = np.eye(HIDDEN)
        for t in range(i, j):
            out = out @ self.step[t]
        return out

    def expectation(self, functions):
        """E[⊗ f_i(x_i)] for {column: (symbols, r)}, axes in the order given."""
        order = sorted(functions)
        told = {i: self.told[i] @ functions[i] for i in order}  # (hidden, r)
        out = self.prior[order[0]][:, None] * told[order[0]]  # (hidden, r)
        for i, j in itertools.pairwise(order):
            out = np.einsum("hr,hk->kr", out, self.between(i, j))
            out = np.einsum("kr,ks->krs", out, told[j]).reshape(HIDDEN, -1)
        shape = [functions[i].shape[1] for i in order]
        table = out.sum(axis=0).reshape(shape)
        return table.transpose([order.index(i) for i in functions])


def population_pairs(layout, chain):
    sums = {}
    for p, panel in enumerate(layout.spans):
        total = np.zeros((layout.width(p),) * 2)
        times = {block: column_of(layout.plan, block) for block in panel}
        for a, b in itertools.combinations_with_replacement(panel, 2):
            table = (
                np.diag(chain.prior[times[a]] @ chain.told[times[a]])
                if a == b
                else chain.expectation({times[a]: np.eye(SYMBOLS), times[b]: np.eye(SYMBOLS)})
            )
            total[layout.span(p, a), layout.span(p, b)] = table
            total[layout.span(p, b), layout.span(p, a)] = table.T
        sums[f"pairs/{p}"] = total
    return Moments("population", 1.0, 0, sums)


def population_products(layout, basis, chain):
    plan, sums = layout.plan, {}
    for k in sorted({*plan.inner, *plan.roots}):
        sides = [basis.inside[c] for c in plan.nodes[k].children]
        sides += [] if plan.nodes[k].parent == k else [basis.outside[k]]
        M = np.zeros([1 + s.size for s in sides])
        M[(0,) * M.ndim] = 1.0
        for size in (2, 3):
            for chosen in itertools.combinations(range(len(sides)), size):
                place = tuple(slice(1, None) if i in chosen else 0 for i in range(len(sides)))
                options = [zip(sides[i].blocks, sides[i].tables, strict=True) for i in chosen]
                for picked in itertools.product(*options):
                    functions = {column_of(plan, block): table for block, table in picked}
                    M[place] += chain.expectation(functions)
        sums[f"products/{k}"] = M
    return Moments("population", 1.0, 0, sums)


def column_of(plan, block):
    """Which step of the chain a block of one leaf is."""
    (v,) = plan.nodes[plan.leaves[block[0]]].columns
    return int(plan.graph.names[v][1:])


def test_a_chain_of_1000_is_right_against_exact_inference(chain, monkeypatch):
    model, moments = chain
    monkeypatch.setattr("latentia.closed_form.pairs.PANEL_STATES", 64)  # few pairs per panel
    plan = make_plan(model.graph, width=2)
    layout = pair_layout(plan)
    pairs = population_pairs(layout, moments)
    basis = canonical_basis(layout, pairs, regularize=False)
    products = population_products(layout, basis, moments)
    operators = solve_operators(layout, basis, pairs, products, regularize=False)

    rng = np.random.default_rng(1)
    rows = model.sample(12, rng)
    rows[rng.random(rows.shape) < 0.3] = -1
    rows[0] = -1
    found = answer(operators, read_evidence(plan, list(rows.T)))
    truth = model.log_evidence(model.evidence(rows))
    assert truth.min() < -700  # a product of probabilities would underflow
    np.testing.assert_allclose(found.log_evidence, truth, rtol=1e-8, atol=1e-8)
    hidden = rows.copy()
    for t in (0, 1, 37, 499, 500, 998, 999):
        hidden[:, t], kept = -1, hidden[:, t].copy()
        exact = model.posteriors(model.evidence(hidden), [f"X{t}"])[f"X{t}"]
        hidden[:, t] = kept
        v = plan.graph.index(f"X{t}")
        np.testing.assert_allclose(found.probabilities[v].T, exact, atol=1e-8)


def test_a_chain_of_1000_learned_from_rows(chain):
    """The default on 5,000 rows: finite everywhere, and closer to the truth than the marginal."""
    from latentia import PBP
    from latentia.data.rows import Rows
    from latentia.data.sources.memory import LocalRows

    model, moments = chain
    rng = np.random.default_rng(2)
    plan = make_plan(model.graph)
    rows = model.sample(5000, rng).astype(np.int8)
    operators = PBP(refine=False).learn(plan, LocalRows(Rows(tuple(rows.T))))
    test = model.sample(200, rng)
    found = answer(operators, read_evidence(plan, list(test.T)))
    assert np.isfinite(found.log_evidence).all()
    gains = []
    for t in range(0, LENGTH, 50):
        p = found.probabilities[plan.graph.index(f"X{t}")][test[:, t], np.arange(200)]
        alone = (moments.prior[t] @ moments.told[t])[test[:, t]]
        gains.append(np.log(p / alone).mean())
    assert np.median(gains) > 0.05

"""Networks of arrows over mixed variables: against enumeration, integrals and plain regressions."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from latentia.errors import LatentiaError, PlanError
from latentia.exact.arrow_answers import best_joint, draw_arrows, log_joint, posterior_shares
from latentia.exact.arrows import (
    ArrowNetwork,
    LineArrow,
    LogitArrow,
    TableArrow,
    blank_arrow,
    shape_of,
)
from latentia.exact.buckets import elimination_order
from latentia.networks.arrow_blocks import pose_rows
from latentia.networks.arrow_climb import LEAST_VARIANCE, _Sums, block_beliefs, fitted_lines
from latentia.networks.arrow_errors import _scores, _spans
from latentia.networks.arrow_order import renumbered_arrows
from latentia.structure.graph import LatentGraph

# age -> H -> K; H, K -> q; H, age -> x; x, K -> b
NAMES = ("age", "H", "K", "q", "x", "b")
EDGES = ((0, 1), (1, 2), (1, 3), (2, 3), (1, 4), (0, 4), (4, 5), (2, 5))
STATES = (None, 2, 3, 2, None, 2)
DENSE = frozenset({0, 4})


def network(seed=0) -> ArrowNetwork:
    rng = np.random.default_rng(seed)
    graph = LatentGraph(NAMES, EDGES, frozenset({1, 2}), STATES)
    arrows = {}
    for v in range(1, 6):
        shape, blank = shape_of(graph, DENSE, v), blank_arrow(graph, DENSE, v)
        if isinstance(blank, LineArrow):
            arrows[v] = LineArrow(rng.normal(size=shape), rng.uniform(0.5, 1.5, shape[:-1]))
        elif isinstance(blank, LogitArrow):
            B = rng.normal(size=shape)
            B[0] = 0.0
            arrows[v] = LogitArrow(B)
        else:
            arrows[v] = TableArrow(rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]))
    grids = {0: (-6.0, 0.05, 241), 4: (-9.0, 0.05, 361)}
    return ArrowNetwork(graph, DENSE, (0,), arrows, grids, rng.normal(size=(50, 1)))


def softmax(score):
    p = np.exp(score - score.max())
    return p / p.sum()


def density(net: ArrowNetwork, age, h, k, q, x, b) -> float:
    """P(h, k, q, x, b | age), factor by factor."""
    B = net.arrows[1].B
    p = softmax(B @ [1.0, age])[h] * net.arrows[2].table[h, k] * net.arrows[3].table[h, k, q]
    level, slope = net.arrows[4].lines[h]
    p *= stats.norm.pdf(x, level + slope * age, np.sqrt(net.arrows[4].variances[h]))
    marks = [k == 1, k == 2]
    order = net.graph.parents()[5]
    features = np.array([1.0, *itertools.chain(*([x] if u == 4 else marks for u in order))])
    return float(p * softmax(net.arrows[5].B @ features)[b])


def test_latents_given_a_row_are_those_of_enumeration():
    net = network()
    row = np.array([[0.7, np.nan, np.nan, 1, -0.4, 0]])
    p, log = posterior_shares(log_joint(net, row, (1, 2)))
    truth = np.array([[density(net, 0.7, h, k, 1, -0.4, 0) for k in range(3)] for h in range(2)])
    np.testing.assert_allclose(p[0], truth / truth.sum(), atol=1e-12)
    assert log[0] == pytest.approx(np.log(truth.sum()), abs=1e-12)


def test_a_missing_continuous_parent_is_an_integral():
    net = network(1)
    row = np.array([[0.2, np.nan, np.nan, 0, np.nan, 1]])
    p = posterior_shares(log_joint(net, row, (2,)))[0][0]
    truth = [
        sum(quad(lambda x, h=h, k=k: density(net, 0.2, h, k, 0, x, 1), -12, 12)[0] for h in (0, 1))
        for k in range(3)
    ]
    np.testing.assert_allclose(p, np.array(truth) / sum(truth), atol=1e-3)  # a grid of steps .05


def test_without_covariates_answers_are_means_over_their_rows():
    net = network(2)
    row = np.array([[np.nan, np.nan, np.nan, 1, 0.3, 1]])
    found = np.exp(log_joint(net, row, (1,))[0])
    each = np.repeat(row, 50, axis=0)
    each[:, 0] = net.sample[:, 0]
    np.testing.assert_allclose(found, np.exp(log_joint(net, each, (1,))).mean(axis=0), atol=1e-14)
    asked = np.exp(log_joint(net, row, (0, 1))[0])  # the covariate itself, on its grid
    np.testing.assert_allclose(asked.sum(axis=0), found, atol=1e-14)


def test_the_most_probable_states_are_those_of_the_joint_table():
    net = network(3)
    row = np.array([0.1, np.nan, np.nan, np.nan, 0.5, 1])
    at, log, whole = best_joint(net, row, (1, 2, 3), {})
    joint = log_joint(net, row[None], (1, 2, 3))[0]
    assert tuple(at) == np.unravel_index(joint.argmax(), joint.shape)
    assert log == joint.max()
    assert whole == pytest.approx(np.log(np.exp(joint).sum()))


def test_scores_are_derivatives_of_the_likelihood():
    net = network(4)
    rng = np.random.default_rng(0)
    cells = draw_arrows(net, 40, rng)
    cells[:, [1, 2]] = np.nan
    cells[:10, 3] = np.nan  # holes come in a block of their own
    rows = pose_rows(net, cells, np.ones(40), 0.0)
    spans, size = _spans(net)
    for block in rows.blocks:
        found = _scores(net, block, spans, size, net)
        B = net.arrows[1].B.copy()
        for j in range(2):
            logs = []
            for step in (1e-5, -1e-5):
                moved = B.copy()
                moved[1, j] += step
                arrows = {**net.arrows, 1: LogitArrow(moved)}
                other = ArrowNetwork(net.graph, DENSE, (0,), arrows, net.grids, net.sample)
                logs.append(block_beliefs(other, block)[1])
            numeric = (logs[0] - logs[1]) / 2e-5
            np.testing.assert_allclose(found[:, spans[1]][:, j], numeric, atol=1e-6)


@pytest.mark.parametrize("known", [(), (1,), (2,)])
def test_sums_of_the_m_step_equal_enumeration(known):
    """Latents open, or one of them seen: tables of all members, and lines of every state."""
    net = network(3)
    cells = draw_arrows(net, 15, np.random.default_rng(2))
    cells[:, [v for v in (1, 2) if v not in known]] = np.nan
    cells[::3, 3] = np.nan
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 15)
    sums = _Sums()
    for block in pose_rows(net, cells, weight, 1.0).blocks:
        sums.add(net, block, block_beliefs(net, block)[0])
    both, three, gram = np.zeros((2, 3)), np.zeros((2, 3, 2)), np.zeros((2, 3, 3))
    for row, w in zip(cells, weight, strict=True):
        joint = np.zeros((2, 3, 2))
        for h, k, q in np.ndindex(joint.shape):
            if all(np.isnan(row[v]) or row[v] == own for v, own in ((1, h), (2, k), (3, q))):
                joint[h, k, q] = density(net, row[0], h, k, q, row[4], int(row[5]))
        joint *= w / joint.sum()
        z = np.array([1.0, row[0], row[4]])
        gram += joint.sum(axis=(1, 2))[:, None, None] * np.outer(z, z)
        both += joint.sum(axis=2)
        three += joint * (not np.isnan(row[3]))  # nothing below a missing cell tells of it
    np.testing.assert_allclose(sums.tables[2], both, atol=1e-12)
    np.testing.assert_allclose(sums.tables[3], three, atol=1e-12)
    np.testing.assert_allclose(sums.grams[4], gram, atol=1e-12)


def test_lines_are_those_of_ridge_regressions():
    rng = np.random.default_rng(0)
    before = LineArrow(rng.normal(size=(3, 2)), rng.uniform(1, 2, 3))
    Z, share = rng.normal(size=(40, 3)), rng.uniform(size=(3, 40))
    Z[:, 0] = 1.0
    share[2] = 0.0  # of a state that no row has
    gram = np.einsum("cn,ni,nj->cij", share, Z, Z)
    for smoothing in (0.0, 0.7):
        found = fitted_lines(gram, before, smoothing)
        for c in range(3):
            if c == 2 and not smoothing:
                np.testing.assert_array_equal(found.lines[c], before.lines[c])
                assert found.variances[c] == before.variances[c]
                continue
            X = np.concatenate(
                [Z[:, :2] * np.sqrt(share[c])[:, None], np.sqrt(smoothing) * np.eye(2)]
            )
            y = np.concatenate([Z[:, 2] * np.sqrt(share[c]), np.zeros(2)])
            b = np.linalg.lstsq(X, y, rcond=None)[0]
            np.testing.assert_allclose(found.lines[c], b, atol=1e-7)  # a ridge of 1e-9 a row
            rest = ((y - X @ b) ** 2).sum() + smoothing
            variance = max(rest / (share[c].sum() + smoothing), LEAST_VARIANCE)
            assert found.variances[c] == pytest.approx(variance, rel=1e-7)


def test_renumbered_states_tell_the_same():
    net = network(5)
    order = np.array([2, 0, 1])
    other = renumbered_arrows(renumbered_arrows(net, 2, order), 1, np.array([1, 0]))
    cells = draw_arrows(net, 20, np.random.default_rng(1))
    cells[:, [1, 2]] = np.nan
    ours, theirs = log_joint(net, cells, (1, 2)), log_joint(other, cells, (1, 2))
    np.testing.assert_allclose(theirs, ours[:, ::-1][:, :, order], atol=1e-12)


def test_draws_follow_the_network():
    net = network(6)
    drawn = draw_arrows(net, 40_000, np.random.default_rng(0))
    blank = np.full((1, 6), np.nan)
    for v in (1, 2, 3, 5):
        share = posterior_shares(log_joint(net, blank, (v,)))[0][0]
        seen = np.bincount(drawn[:, v].astype(int), minlength=len(share)) / len(drawn)
        np.testing.assert_allclose(seen, share, atol=0.012)  # four deviations of a share


def test_what_is_no_network_is_refused():
    net = network()
    with pytest.raises(LatentiaError, match="not given"):
        ArrowNetwork(net.graph, DENSE, (), net.arrows, net.grids)
    wrong = {**net.arrows, 1: LogitArrow(np.zeros((2, 5)))}
    with pytest.raises(LatentiaError, match="shape"):
        ArrowNetwork(net.graph, DENSE, (0,), wrong, net.grids, net.sample)
    with pytest.raises(PlanError, match="cells"):
        elimination_order([(0, 1, 2, 3)], dict.fromkeys(range(4), 200))

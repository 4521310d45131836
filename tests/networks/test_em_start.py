"""EM(init="pbp"): one start from the closed form's statistics instead of ten random ones."""

import numpy as np
import pytest

from latentia import EM, LatentModel
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import PlanError
from latentia.structure import templates
from latentia.structure.plan import make_plan
from latentia.testing.random_models import random_model

GRAPHS = {
    "class": (templates.latent_class(6, 3), 4),
    "chain": (templates.hidden_markov(5, 2), 4),
    "tree": (templates.latent_tree([["a", "b", "u"], ["c", "d"], ["e", "f"]], 2), 4),
}


def drawn(name, seed, n=4000):
    graph, states = GRAPHS[name]
    known = graph.with_states({graph.names[v]: states for v in graph.observed})
    rng = np.random.default_rng(seed)
    codes = random_model(known, rng, 0.4).sample(n, rng).astype(np.int8)
    return make_plan(known), LocalRows(Rows(tuple(codes.T)))


@pytest.mark.parametrize("name", GRAPHS)
def test_reaches_the_best_of_ten_restarts(name):
    """The level of ten random starts, within noise: a thousandth of a nat per row."""
    gaps = []
    for seed in range(3):
        plan, source = drawn(name, seed)
        one = EM(init="pbp", random_state=0).learn(plan, source)
        ten = EM(restarts=10, random_state=0).learn(plan, source)
        assert len(one.provenance.ascent.paths) == 1
        gaps.append(
            one.provenance.ascent.paths[0][-1]
            - max(path[-1] for path in ten.provenance.ascent.paths)
        )
    assert np.median(gaps) > -1e-3
    assert min(gaps) > -1e-2


def test_latents_without_a_separator_of_their_own_are_named():
    graph = templates.factorial_markov(3, 2, 2)
    known = graph.with_states({f"X{t}": 5 for t in range(3)})
    rng = np.random.default_rng(0)
    rows = random_model(known, rng).sample(500, rng)
    with pytest.raises(PlanError, match=r"separator of its own for every latent.*H0_1"):
        LatentModel(graph, learner=EM(init="pbp")).fit(rows)

"""Graphs in several parts, some of them one column: every learner learns each part by itself."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import latentia as lt

LEARNERS = {
    "default": lambda: "pbp",
    "closed form": lambda: lt.PBP(refine=False),
    "refined": lambda: lt.PBP(refine=True),
    "paper": lambda: "paper",
    "spectral": lambda: "spectral",
    "em": lambda: lt.EM(2, max_iter=15, random_state=0),
    "stepwise": lambda: lt.StepwiseEM(epochs=2, random_state=0),
}


def random_forest(rng):
    """{column: parents}: trees and lone columns, and a latent above some of the roots."""
    names = [f"x{i}" for i in range(rng.integers(2, 7))]
    parents = {
        name: [names[rng.integers(i)]] if i and rng.random() < 0.5 else []
        for i, name in enumerate(names)
    }
    roots = [name for name in names if not parents[name]]
    below = [name for name in roots if rng.random() < 0.5] if rng.random() < 0.5 else []
    parents |= {name: ["H"] for name in below}
    return parents, ({"H": 2} if below else None)


def parts(parents):
    graph = nx.Graph([(a, b) for b, above in parents.items() for a in above])
    graph.add_nodes_from(parents)
    return [sorted(part - {"H"}) for part in nx.connected_components(graph)]


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_report_of_four_columns(learner):
    """Two, four, two and three states, 200 rows, the last column alone: no array to concatenate."""
    rng = np.random.default_rng(0)
    states = {"a": 2, "b": 4, "c": 2, "d": 3}
    rows = pd.DataFrame({name: rng.integers(n, size=200) for name, n in states.items()})
    model = lt.LatentModel("a->b; b->c; d", learner=LEARNERS[learner]()).fit(rows)
    share = np.bincount(rows.d) / 200
    # stepwise EM weighs late rows more: within the sampling error of a share, .033
    np.testing.assert_allclose(np.asarray(model.query("d", {"a": 1})), share, rtol=0, atol=0.033)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("learner", LEARNERS)
def test_parts_say_nothing_of_each_other(learner):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        parents, latents = random_forest(rng)
        columns = [name for name in parents if name != "H"]
        size = int(rng.choice([30, 200]))
        rows = pd.DataFrame({c: rng.integers(rng.integers(2, 5), size=size) for c in columns})
        model = lt.LatentModel(parents, latents, LEARNERS[learner]()).fit(rows)
        assert np.isfinite(model.score(rows))
        for part in parts(parents):
            others = {c: int(rows[c].iloc[0]) for c in columns if c not in part}
            for name in part:
                alone, given = (np.asarray(model.query(name, e)) for e in ({}, others))
                np.testing.assert_allclose(given, alone, rtol=0, atol=1e-9, err_msg=str(seed))

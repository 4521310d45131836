"""EM piece by piece: the same path as on the whole graph, and graphs that are too wide for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources import table_rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError
from latentia.networks.em_pieces import pose_pieces
from latentia.networks.knowledge import Knowledge
from latentia.networks.learner import OnPieces
from latentia.networks.starts import random_tables
from latentia.structure.plan import make_plan
from latentia.testing import random_model

GRAPH = lt.as_graph(
    "a->H; H->b,c; b->d; c->d; a->d; d->G; G->e,f; c->e; e->g", {"H": 2, "G": 2}
).with_states(dict.fromkeys("abcdefg", 3))


def drawn(n: int = 400, holes: float = 0.0, weights: bool = False, seed: int = 0) -> LocalRows:
    rng = np.random.default_rng(seed)
    cells = np.array(random_model(GRAPH, rng, 0.5).sample(n, rng))
    cells[rng.random(cells.shape) < holes] = -1
    weight = rng.integers(1, 4, size=n).astype(float) if weights else None
    return LocalRows(Rows(tuple(cells.T), weight))


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "smoothed": {"smoothing": 1.5},
    "by variable": {"smoothing": {"b": 2.0, "H": 1.0}},
    "known": {"known": {"b": [[0.5, np.nan, np.nan], [np.nan] * 3]}, "smoothing": 1.0},
    "tied": {"tied": [["b", "c"]], "smoothing": 0.5},
}


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("holes", [0.0, 0.15])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_path_is_that_of_the_whole_graph(setting: str, holes: float, weights: bool) -> None:
    source = drawn(holes=holes, weights=weights)
    learner = lt.EM(restarts=2, max_iter=12, random_state=3, **SETTINGS[setting])
    whole = learner.learn(make_plan(GRAPH), source)
    pieces = learner.learn_graph(GRAPH, source)
    old, new = whole.provenance.ascent, pieces.provenance.ascent
    assert old is not None
    assert new is not None
    assert (old.best, old.converged) == (new.best, new.converged)
    for one, other in zip(old.paths, new.paths, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)
    # observed joint distributions agree, however states are numbered
    ours = lt.TabularModel(GRAPH, {GRAPH.names[v]: t for v, t in pieces.model_tables.items()})
    theirs = lt.TabularModel(GRAPH, {GRAPH.names[v]: t for v, t in whole.tables.items()})
    for pair in (["b", "e"], ["d", "g"], ["a", "f"]):
        np.testing.assert_allclose(ours.query(pair), theirs.query(pair), atol=1e-9)


def test_tables_without_latents_are_counted_beside_a_piece() -> None:
    source = drawn()
    found = lt.EM(restarts=1, max_iter=5, random_state=0).learn_graph(GRAPH, source)
    a, c = (source.rows.codes[GRAPH.observed.index(GRAPH.index(x))] for x in "ac")
    np.testing.assert_allclose(found.model_tables[GRAPH.index("a")], np.bincount(a) / len(a))
    e, g = (source.rows.codes[GRAPH.observed.index(GRAPH.index(x))] for x in "eg")
    counts = np.zeros((3, 3))
    np.add.at(counts, (e, g), 1)
    np.testing.assert_allclose(
        found.model_tables[GRAPH.index("g")], counts / counts.sum(axis=1, keepdims=True)
    )
    assert len(c) == 400
    assert found.provenance.pieces[0].startswith("counted 3 of 9")


def wide(columns: int = 22) -> tuple[str, pd.DataFrame]:
    """Every two of the columns have a child: no junction tree is narrow; one hidden class aside."""
    rng = np.random.default_rng(0)
    n = 500
    data = {f"r{i}": rng.integers(4, size=n) for i in range(columns)}
    edges = []
    for i in range(columns):
        for j in range(i):
            name = f"p{i}_{j}"
            flip = rng.random(n) < 0.1
            data[name] = np.where(flip, rng.integers(2, size=n), (data[f"r{i}"] > data[f"r{j}"]))
            edges.append(f"r{i}->{name}; r{j}->{name}")
    h = rng.integers(2, size=n)
    for name in ("x", "y", "z"):
        data[name] = np.where(rng.random(n) < 0.85, h, 1 - h)
        edges.append(f"H->{name}")
    edges.append("r0->z")
    return "; ".join(edges), pd.DataFrame(data).astype(int)


@pytest.mark.parametrize(
    "learner",
    [
        lt.EM(restarts=2, max_iter=20, random_state=0, smoothing=1.0),
        lt.StepwiseEM(restarts=2, epochs=2, random_state=0, smoothing=1.0),
    ],
)
@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_what_is_too_wide_for_a_plan_is_learned(learner: Any) -> None:
    graph, frame = wide()
    model = lt.LatentModel(graph, {"H": 2}, learner=learner).fit(frame)
    assert model.n_iter_ >= 1
    assert model.history_[0][-1] > model.history_[0][0]
    assert model.predict_latent(frame, "H").shape == (500, 2)
    np.testing.assert_allclose(model.predict_latent(frame, "H").to_numpy().sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_proba(frame[:20], "r0").to_numpy().sum(axis=1), 1.0)


def test_stepwise_sums_of_all_rows_are_those_of_an_e_step() -> None:
    for holes in (0.0, 0.15):
        source = drawn(holes=holes)
        problem = pose_pieces(GRAPH, source, 0.0, Knowledge(), blocks=True)
        tables = random_tables(GRAPH, np.random.SeedSequence(0))
        whole, block = problem.sum(tables), problem.block(tables, source.rows)
        assert whole.sums.keys() == block.sums.keys()
        for name, total in whole.sums.items():
            np.testing.assert_allclose(block.sums[name], total, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::latentia.errors.ConvergenceWarning")
def test_every_table_gives_the_same_path(tmp_path: Any) -> None:
    """All pieces in one pass where rows are read again and again."""
    source = drawn(600)
    names = [GRAPH.names[v] for v in GRAPH.observed]
    frame = pd.DataFrame(dict(zip(names, source.rows.codes, strict=True)))
    learner = lt.EM(restarts=1, max_iter=6, random_state=1, smoothing=1.0)
    model = lt.LatentModel(GRAPH, learner=learner).fit(frame)
    assert model.operators_.network is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_rows, "KEPT_CELLS", 0)
        patch.setattr(table_rows, "KEPT_BYTES", 0)
        blocks = lt.LatentModel(GRAPH, learner=learner).fit([frame[:250], frame[250:]])
    np.testing.assert_allclose(blocks.history_, model.history_, rtol=0, atol=1e-9)
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    assert again.history_ == model.history_
    assert again.converged_ == model.converged_


def test_rows_that_known_cells_forbid_are_told() -> None:
    source = drawn()
    known = {"a": [0.5, 0.5, 0.0]}
    with pytest.raises(DataError, match="impossible"):
        lt.EM(restarts=1, known=known).learn_graph(GRAPH, source)


def test_a_learner_on_pieces_is_the_learner() -> None:
    learner = OnPieces(lt.EM(restarts=1, max_iter=3, random_state=0))
    assert not learner.abilities.plans
    one = learner.learn_graph(GRAPH, drawn())
    two = lt.EM(restarts=1, max_iter=3, random_state=0).learn_graph(GRAPH, drawn())
    assert one.provenance.ascent == two.provenance.ascent

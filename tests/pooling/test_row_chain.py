"""Rows drawn by a chain: its parts against plain ones, what it keeps, that it hands out no row."""

import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.rows import Rows
from latentia.pooling import learning_chain
from latentia.pooling.learned_rows import LearnedRows
from latentia.pooling.learning_chain import learn_row_chain, nearer_by, rows_by_weight
from latentia.pooling.lines_and_heaps import PULLS, find_heaps, fit_line
from latentia.pooling.node_rows import grow_nodes

N = 400


def tied_table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """A near-linear tie, a column that another tells exactly, heaped prices, a logarithm."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    month = rng.integers(1, 31, size=n)
    price = np.round(1500 + 300 * x + 100 * rng.normal(size=n), 2)
    heaped = rng.random(n) < 0.8
    return pd.DataFrame(
        {
            "x": x,
            "near": 2.0 * x + 0.05 * rng.normal(size=n),
            "month": month,
            "advert": 100 + 7 * (month % 5) + month * 0.5,
            "price": np.where(heaped, 100 * np.rint(price / 100) - 1, price),
            "log": np.log(1.0 + month // 2),
            "dose": np.where(heaped, 10 * rng.integers(60, size=n), rng.integers(600, size=n)),
            "kind": np.where(x + 0.3 * rng.normal(size=n) > 0, "up", "down"),
        }
    )


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latentia.discovery.structure_search.EFFORT", (0.1, 1.0))
        return lt.LatentModel().fit(tied_table())


@pytest.mark.parametrize("kernel", ["on", "off"])
@pytest.mark.parametrize("classes", [False, True])
def test_nodes_hold_the_rows_that_go_through_them(classes, kernel, monkeypatch):
    """Against walking down for every row; larger nodes are those above."""
    monkeypatch.setenv("LATENTIA_KERNEL", kernel)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(150, 3))
    held = (features[:, 0] > 0).astype(float) if classes else features[:, 0] + features[:, 1]
    forest, unseen = grow_nodes(features, held, np.arange(150.0), 3, 1.0, classes, 0.7, rng)
    assert unseen.sum(axis=1).tolist() == [45] * 3
    for t in range(3):
        seen = np.flatnonzero(~unseen[t])
        for least in (1, 10, 60, 1000):
            node = forest.nodes(features[seen], np.full(len(seen), t), least)
            for k in np.unique(node):
                below = forest.held[forest.first[k] : forest.first[k] + forest.size[k]]
                assert len(below) >= min(least, len(seen))
                assert {*seen[node == k]} <= {*below.astype(int)} <= {*seen}
            if least == 1:
                assert (forest.size[node] == np.unique(node, return_counts=True)[1][
                    np.searchsorted(np.unique(node), node)]).all()  # fmt: skip


def test_states_of_one_row_each_are_no_numbers_to_warn_of():
    rng = np.random.default_rng(0)
    codes = np.arange(12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grow_nodes(rng.normal(size=(12, 2)), codes, codes, 2, 1.0, True, 1.0, rng)


def test_lines_leave_over_what_a_row_left_out_would():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(30, 4)), rng.normal(size=30)
    found = fit_line(x, z)
    losses = {}
    for pull in PULLS:
        left = np.empty(30)
        for i in range(30):
            rest = np.arange(30) != i
            # the same pull and the same centre, that of all rows
            apart, above = (x - x.mean(axis=0))[rest], (z - z.mean())[rest]
            grown = np.column_stack([apart, np.ones(29)])
            ridge = np.diag([pull] * 4 + [0.0])
            slopes = np.linalg.solve(grown.T @ grown + ridge, grown.T @ above)
            left[i] = z[i] - z.mean() - np.append(x[i] - x.mean(axis=0), 1.0) @ slopes
        losses[pull] = left
    best = min(losses, key=lambda pull: float(losses[pull] @ losses[pull]))
    np.testing.assert_allclose(found.left, losses[best], rtol=1e-9)


def test_heaps_are_met_as_often_as_in_rows_and_the_rest_is_as_round():
    values = np.array([10.0] * 6 + [12.0, 14.0] + [20.0] * 3 + [21.5])
    heaps = find_heaps(values)
    assert heaps.values.tolist() == [10.0, 20.0]
    assert (heaps.low.tolist(), heaps.high.tolist()) == ([5.0, 15.0], [15.0, 25.0])
    assert heaps.chance.tolist() == [6 / 8, 3 / 4]
    assert (heaps.step, heaps.share) == (1.0, pytest.approx(2 / 3))
    drawn = heaps.settled(np.repeat([11.3, 30.2], 400), np.random.default_rng(0)).reshape(2, 400)
    assert {*drawn[0]} == {10.0, 11.0, 11.3}
    assert {*drawn[1]} == {30.0, 30.2}
    # within four standard errors
    assert (drawn[0] == 10.0).mean() == pytest.approx(6 / 8, abs=0.09)
    assert (drawn[1] == 30.0).mean() == pytest.approx(2 / 3, abs=0.1)
    bare = find_heaps(np.array([1.5, 2.25]))
    assert not len(bare.values)
    assert np.isnan(bare.found(np.array([1.5]), 1.0)).all()


def test_one_odd_value_does_not_make_numbers_round():
    """Of 1 to 9, each several times, and one 10, all were rounded to tens once: to 0, mostly."""
    whole = np.append(np.repeat(np.arange(1.0, 10.0), 4), 10.0)
    drawn = find_heaps(whole).settled(np.arange(1.0, 11.0), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, np.arange(1.0, 11.0))
    whole = np.append(whole, 20.0)  # tens by chance: what comes again is not rounded
    drawn = find_heaps(whole).settled(np.arange(1.0, 10.0), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, np.arange(1.0, 10.0))
    cents = np.append(np.repeat([0.25, 0.5], 9), [0.35, 0.71])
    assert find_heaps(cents).step == 0.01
    tens = np.append(np.arange(10.0, 90.0, 10.0), [33.0, 47.0])
    assert (find_heaps(tens).step, find_heaps(tens).share) == (10.0, 0.8)


def test_rows_come_as_often_as_they_weigh():
    rows = Rows((np.arange(4),), np.array([1.0, 2.0, 0.0, 3.0]))
    found = rows_by_weight(rows, np.random.default_rng(0))
    assert found.codes[0].tolist() == [0, 1, 1, 3, 3, 3]
    small = rows_by_weight(
        Rows((np.arange(4),), np.array([0.1, 0.2, 0.0, 0.3])), np.random.default_rng(0)
    )
    assert len(small) == 4
    assert 2 not in small.codes[0]


def test_distances_are_gowers(model):
    """Against two loops; cells that are missing do not count."""
    columns = model.columns_
    frame = tied_table(12, seed=3)
    frame.loc[2, "near"] = np.nan
    frame.loc[3, "kind"] = None
    rows = Rows(tuple(_places(c, frame) for c in columns))
    learned = LearnedRows.of(columns, rows)
    found = learned.between(np.arange(12))
    for i in range(12):
        far = []
        for j in set(range(12)) - {i}:
            parts = []
            for c in columns:
                a, b = frame[c.name][i], frame[c.name][j]
                if pd.isna(a) or pd.isna(b):
                    continue
                if isinstance(c, ContinuousColumn):
                    width = frame[c.name].max() - frame[c.name].min()
                    parts.append(abs(a - b) / width)
                else:
                    parts.append(float(a != b))
            far.append(np.mean(parts))
        # values beyond the grid of the model's own rows lie at its ends
        assert found[i] == pytest.approx(min(far), abs=0.02)
    whole = LearnedRows.of(columns, rows.where(np.arange(4, 12)))
    asked = [np.append(x, np.nan) for x in whole.measures]  # a row that is missing is far from all
    np.testing.assert_allclose(
        whole.nearest([x + 0.1 for x in asked])[:-1], whole.nearest([x[:-1] + 0.1 for x in asked])
    )


def _places(column, frame):
    from latentia.data.columns.values import Values

    x = frame[column.name].to_numpy()
    return column.place(Values(x, pd.isna(x)))


def test_draws_keep_ties_that_latents_blur(model):
    drawn = pd.DataFrame(model.sample(2000, random_state=0))
    blurred = pd.DataFrame(model.sample(2000, random_state=0, joint=True))
    truth = tied_table(2000, seed=9)
    left = {k: (f["near"] - 2 * f["x"]).std() for k, f in
            {"truth": truth, "drawn": drawn, "blurred": blurred}.items()}  # fmt: skip
    assert left["drawn"] < 2 * left["truth"] < left["blurred"] / 2
    pairs = {*zip(truth["month"], truth["advert"], strict=True)}
    kept = np.mean([p in pairs for p in zip(drawn["month"], drawn["advert"], strict=True)])
    lost = np.mean([p in pairs for p in zip(blurred["month"], blurred["advert"], strict=True)])
    assert kept > 0.6 > lost  # a node has rows of neighbouring months too


def test_draws_are_heaped_and_on_the_lattice_and_words_are_words(model):
    drawn = pd.DataFrame(model.sample(2000, random_state=1))
    on = lambda f: (f["price"] % 100 == 99).mean()  # noqa: E731
    assert on(drawn) == pytest.approx(on(tied_table(2000, seed=9)), abs=0.15)
    assert np.abs(drawn["price"] * 100 - np.rint(drawn["price"] * 100)).max() < 1e-6
    assert drawn["month"].dtype.kind == "i"
    assert {*drawn["kind"]} == {"up", "down"}
    logs = {*tied_table()["log"]}  # to the last bit, although they lie on no lattice
    assert np.mean([x in logs for x in drawn["log"]]) > 0.95
    again = pd.DataFrame(model.sample(2000, random_state=1))
    pd.testing.assert_frame_equal(drawn, again)


def test_what_a_line_draws_beyond_an_end_is_no_heap_there(short_search):
    """Shares that end at 0: a line leads below, and rows drawn there once were all of the least."""
    rng = np.random.default_rng(3)
    far = rng.normal(size=1200)
    share = 0.3 + 0.3 * far + 0.2 * rng.normal(size=1200)
    frame = pd.DataFrame({"far": far, "share": share})[share > 0]
    model = lt.LatentModel().fit(frame)
    first, second = model.columns_
    features = np.column_stack([np.zeros(len(frame)), first.coordinates(_places(first, frame))])
    link, _ = learning_chain._link(second, _places(second, frame), features, 400, rng)
    assert link.line is not None
    tree = rng.integers(link.forest.trees, size=len(frame))
    drawn = link.draw(second, model.pool_.chain.heaps[1], features, tree, 3, rng)
    assert drawn.min() >= 0.0
    assert np.unique(drawn, return_counts=True)[1].max() <= 3  # 19 before


def test_draws_are_no_nearer_to_rows_than_rows_are(model):
    columns, learned = model.columns_, tied_table()
    rows = Rows(tuple(_places(c, learned) for c in columns))
    own = LearnedRows.of(columns, rows)
    drawn = pd.DataFrame(model.sample(1000, random_state=2))
    measures = [
        drawn[c.name].to_numpy(dtype=float)
        if isinstance(c, ContinuousColumn)
        else np.asarray(c.place(_values(drawn, c.name)), dtype=float)
        for c in columns
    ]
    real = float(np.median(own.between(np.arange(N))))
    assert float(np.median(own.nearest(measures))) >= 0.93 * real  # medians of 400 and 1000 rows


def test_a_column_that_none_tells_is_drawn_from_large_nodes(short_search):
    """Small ones held the rows next to one in other columns: drawn rows came near it in all.

    The chain was given up for that, and a near-linear tie with it.
    """
    frame = tied_table(N, seed=1)[["x", "near", "kind", "month"]]
    model = lt.LatentModel().fit(frame)
    chain, columns = model.pool_.chain, model.columns_
    sizes = dict(zip([c.name for c in columns], [k.least for k in chain.links], strict=True))
    assert sizes["month"] >= 50
    rows = LearnedRows.of(columns, Rows(tuple(_places(c, frame) for c in columns)))
    drawn = chain.measures(columns, model.pool_.scores, 4000, np.random.default_rng(9))
    near, far = rows.nearest(drawn), rows.between(np.arange(N))
    assert nearer_by(near, far) < 0.02  # .10 before


def test_what_is_given_up_for_distance_is_no_exact_tie(model):
    """Nodes of all columns were raised alike: a logarithm of another column was none any more."""
    chain = model.pool_.chain
    exact, loose = [0.01, 0.04, 0.1, 0.2, 0.3, 0.4, 0.5], [1.0, 0.99, 1.0, 1.0, 1.01, 1.02, 1.04]
    losses = [exact, loose, *([[]] * (len(chain.links) - 2))]
    for share, sizes in ((0.0, [3, 6]), (0.02, [3, 50]), (0.1, [6, 200]), (2.0, [200, 200])):
        eased = learning_chain._eased(chain, losses, share)
        assert [link.least for link in eased.links[:2]] == sizes
        assert eased.links[2:] == chain.links[2:]


@pytest.mark.parametrize("seed", [0, 1])
def test_chances_to_be_nearer_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    near, far = rng.integers(5, size=30) / 4.0, rng.integers(5, size=20) / 4.0
    below, alike = (near[:, None] < far).mean(), (near[:, None] == far).mean()
    assert nearer_by(near, far) == pytest.approx(below + alike / 2 - 0.5)
    assert nearer_by(far, far) == pytest.approx(0.0)


def _values(frame, name):
    from latentia.data.columns.values import Values

    return Values(frame[name].to_numpy())


def test_where_a_chain_would_copy_the_joint_model_draws_numbers_that_are_as_round(model):
    without = copy(model)
    without.pool_ = replace(model.pool_, chain=replace(model.pool_.chain, links=()))
    drawn = pd.DataFrame(without.sample(500, random_state=0))
    joint = pd.DataFrame(model.sample(500, random_state=0, joint=True))
    assert (drawn["kind"] == joint["kind"]).all()
    real, told, blurred = (_round_ones(f) for f in (tied_table(), drawn, joint))
    assert abs(told - real) < 0.15 < abs(blurred - real) - 0.15


def _round_ones(frame):
    return (frame["dose"] % 10 == 0).mean()


def test_tables_with_holes_keep_their_ties(model):
    frame = tied_table(300, seed=4)
    rng = np.random.default_rng(4)
    rows = Rows(
        tuple(_places(c, frame.mask(rng.random(frame.shape) < 0.15)) for c in model.columns_)
    )
    chain = learn_row_chain(
        model.columns_, model.pool_.scores, rows, [np.empty(0)] * len(model.columns_), rng
    )
    drawn = pd.DataFrame(
        dict(
            zip(
                tied_table(1), chain.draw(model.columns_, model.pool_.scores, 500, rng), strict=True
            )
        )
    )
    assert (drawn["near"] - 2 * drawn["x"]).std() < 0.3  # of columns of spread 2 and 1


def test_columns_that_few_rows_know_are_drawn_from_what_those_hold(short_search, monkeypatch):
    """A part of the table may know none of a column: rows that do are added to it."""
    frame = tied_table(700)[["x", "near", "kind"]]
    frame["word"] = None
    frame.loc[[5, 70, 600, 601], "word"] = ["a", "b", "a", "b"]
    frame["number"] = np.where(np.arange(700) % 28 == 3, frame["x"] ** 2, np.nan)
    monkeypatch.setattr(learning_chain, "CELLS", 300)
    monkeypatch.setattr(learning_chain, "FEWEST", 60)
    model = lt.LatentModel().fit(frame)
    rng = np.random.default_rng(1)
    assert model.pool_.chain.links
    drawn = pd.DataFrame(model.sample(200, random_state=0))
    assert set(drawn["word"]) == {"a", "b"}
    assert np.isfinite(drawn["number"]).all()
    rows = Rows(tuple(_places(c, frame) for c in model.columns_), weight=np.ones(700))
    rows.weight[frame["word"].notna()] = 1e-9  # … and rows of hardly any weight may be left out
    seen = [np.empty(0)] * len(model.columns_)
    chain = learn_row_chain(model.columns_, model.pool_.scores, rows, seen, rng)
    assert not chain.links


def test_files_keep_the_chain(model, tmp_path):
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    one, other = (pd.DataFrame(m.sample(100, random_state=0)) for m in (model, again))
    pd.testing.assert_frame_equal(one, other)

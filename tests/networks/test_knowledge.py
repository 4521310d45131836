"""Known cells, ties and pseudo-counts: constrained EM by enumeration, and another library."""

import numpy as np
import pytest
from sklearn.base import clone

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, LatentiaError, PlanError, UnknownNameError
from latentia.networks.em_climb import climb
from latentia.networks.em_problem import pose
from latentia.networks.knowledge import read_knowledge
from latentia.networks.starts import random_tables
from latentia.networks.tied import matched
from latentia.structure.plan import make_plan
from latentia.structure.templates import hidden_markov, homogeneous
from latentia.testing.random_models import expected_counts, random_model

NAN = np.nan
NET = lt.as_graph(
    "A->B; A->x; B->y; B->z; A,B->w; x->u",
    {"A": 2, "B": 3},
    {"x": 3, "y": 2, "z": 2, "w": 2, "u": 2},
)
KNOWN = {
    "y": [[0.9, 0.1], [NAN, NAN], [0.2, 0.8]],  # two rows of three
    "B": [[NAN, 0.0, NAN], [0.25, NAN, NAN]],  # a zero, and one cell of a row
    "u": [[0.5, 0.5], [NAN, NAN], [NAN, NAN]],
}
TIED = [["y", "z"]]
CHAIN = hidden_markov(4, 3)
TIES = homogeneous(CHAIN)


def named(graph, tables):
    return {graph.names[v]: table for v, table in tables.items()}


def rows_of(model, rng, n, holes=0.0):
    codes = model.sample(n, rng)
    codes = np.where(rng.random(codes.shape) < holes, -1, codes)
    return Rows(tuple(codes.T.astype(np.int8)))


def constrained_row(counts, cells, pooled):
    """max Σ n log t with known cells, by Lagrange: free cells in proportion to their counts."""
    free = np.isnan(cells)
    row = np.where(free, 0.0, cells)
    counts = counts if counts.any() else pooled
    if free.any():
        row[free] = (1 - row.sum()) * counts[free] / counts[free].sum()
    return row


def enumerated_em(graph, start, rows, iterations, cells, groups, prior=None):
    """EM by enumeration of all joint states; each row of each table maximised on its own."""
    tables, path = dict(start), []
    for _ in range(iterations + 1):
        model = lt.TabularModel(graph, named(graph, tables))
        counts, level = expected_counts(graph, model, rows.codes)
        for group in groups:
            total = sum(counts[v] for v in group)
            counts |= {v: total.copy() for v in group}
        for v, a in (prior or {}).items():
            first = next((g[0] for g in groups if v in g), v)
            free = np.isnan(cells[v]) if v in cells else np.ones(a.shape, bool)
            counts[v] += a
            if v == first:  # a tied table has its prior once
                level += (a * np.log(np.where(free, tables[v], 1.0))).sum()
        path.append(level / len(rows))
        for v, n in counts.items():
            known = cells.get(v, np.full(n.shape, NAN))
            tables[v] = np.array(
                [
                    constrained_row(a, b, n.reshape(-1, n.shape[-1]).sum(axis=0))
                    for a, b in zip(
                        n.reshape(-1, n.shape[-1]), known.reshape(-1, n.shape[-1]), strict=True
                    )
                ]
            ).reshape(n.shape)
    return path, tables


class TestExact:
    @pytest.mark.parametrize("holes", [0.0, 0.3])
    @pytest.mark.parametrize("known", [None, KNOWN], ids=["", "known"])
    @pytest.mark.parametrize("tied", [None, TIED], ids=["", "tied"])
    def test_equals_enumeration(self, known, tied, holes):
        rng = np.random.default_rng(3)
        rows = rows_of(random_model(NET, rng, 2.0), rng, 60, holes)
        knowledge = read_knowledge(NET, known, tied)
        start = knowledge.imposed(random_tables(NET, np.random.SeedSequence(1)))
        problem = pose(make_plan(NET), LocalRows(rows), knowledge=knowledge)
        found = climb(problem, start, 12, -1.0)
        path, _ = enumerated_em(NET, start, rows, 12, knowledge.cells, knowledge.tied)
        np.testing.assert_allclose(found.path, path, atol=1e-10)
        one = climb(problem, start, 1, -1.0).tables
        after = enumerated_em(NET, start, rows, 0, knowledge.cells, knowledge.tied)[1]
        for v in one:
            np.testing.assert_allclose(one[v], after[v], atol=1e-12)
        assert np.diff(found.path).min() > -1e-12

    def test_pseudo_counts_of_single_variables(self):
        rng = np.random.default_rng(4)
        rows = rows_of(random_model(NET, rng, 2.0), rng, 50)
        smoothing = {"y": 4.0, "z": 4.0, "B": np.array([[3.0, 1, 0.5], [0, 2, 2]])}
        knowledge = read_knowledge(NET, KNOWN, TIED, smoothing)
        start = knowledge.imposed(random_tables(NET, np.random.SeedSequence(1)))
        problem = pose(make_plan(NET), LocalRows(rows), smoothing, knowledge=knowledge)
        y, z, B = (NET.index(n) for n in "yzB")
        both = np.concatenate([rows.codes[NET.observed.index(v)] for v in (y, z)])
        share = np.bincount(both) / len(both)
        prior = {y: np.tile(4 * share, (3, 1)), B: smoothing["B"].copy()}
        prior[z] = prior[y]
        prior = {v: np.where(np.isnan(knowledge.cells[v]), a, 0.0) for v, a in prior.items()}
        path, _ = enumerated_em(NET, start, rows, 8, knowledge.cells, knowledge.tied, prior)
        np.testing.assert_allclose(climb(problem, start, 8, -1.0).path, path, atol=1e-10)

    def test_tied_gaussians_are_those_of_the_stacked_column(self):
        """One class each: the tied leaf has the mean and deviation of both columns together."""
        rng = np.random.default_rng(0)
        frame = {"x": rng.normal(3.0, 2.0, 400), "y": rng.normal(-1.0, 0.5, 400)}
        learner = lt.EM(restarts=1, tied=[["x", "y"]], random_state=0)
        model = lt.LatentModel("H->x; H->y", {"H": 1}, learner).fit(frame)
        both = np.concatenate([frame["x"], frame["y"]])
        for name in "xy":
            leaf = model.cpts_[name]
            assert leaf.means.item() == pytest.approx(both.mean(), abs=1e-6)
            assert leaf.deviations.item() == pytest.approx(both.std(), rel=1e-6)


class TestHmmlearn:
    """Sequences of equal length: EM with ties climbs as hmmlearn does from the same start."""

    def start(self, rng, symbols):
        p, A, B = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3), None
        B = rng.dirichlet(np.ones(symbols), 3)
        return p, A, B

    def test_categorical(self):
        hmm = pytest.importorskip("hmmlearn.hmm")
        rng = np.random.default_rng(0)
        steps, rows, symbols = 6, 80, 4
        truth = hmm.CategoricalHMM(3, random_state=1)
        truth.startprob_, truth.transmat_, truth.emissionprob_ = self.start(rng, symbols)
        X = np.array([truth.sample(steps, random_state=i)[0][:, 0] for i in range(rows)])
        p, A, B = self.start(np.random.default_rng(7), symbols)
        other = hmm.CategoricalHMM(3, n_iter=25, tol=-1.0, init_params="", implementation="scaling")
        other.startprob_, other.transmat_, other.emissionprob_ = p, A, B
        other.fit(X.reshape(-1, 1), [steps] * rows)
        graph = hidden_markov(steps, 3)
        first = {"H0": p} | {f"H{t}": A for t in range(1, steps)}
        first |= {f"X{t}": B for t in range(steps)}
        learner = lt.EM(init=first, max_iter=25, tol=0.0, tied=homogeneous(graph))
        frame = {f"X{t}": X[:, t] for t in range(steps)}
        with pytest.warns(lt.errors.ConvergenceWarning):
            model = lt.LatentModel(graph, learner=learner).fit(frame)
        theirs = np.array(other.monitor_.history) / rows
        np.testing.assert_allclose(model.history_[0][: len(theirs)], theirs, atol=1e-6)
        ours, own = model.cpts_["X3"], np.asarray(other.emissionprob_)
        np.testing.assert_allclose(ours[ours[:, 0].argsort()], own[own[:, 0].argsort()], atol=1e-3)

    def test_gaussian(self):
        hmm = pytest.importorskip("hmmlearn.hmm")
        rng = np.random.default_rng(1)
        steps, rows = 5, 100
        h = rng.integers(2, size=(rows, 1)).repeat(steps, 1)
        X = rng.normal(2.5 * h, 1.0)
        graph = hidden_markov(steps, 2)
        learner = lt.EM(3, 400, 1e-10, tied=homogeneous(graph), variance_floor=0, random_state=0)
        frame = {f"X{t}": X[:, t] for t in range(steps)}
        model = lt.LatentModel(graph, learner=learner).fit(frame)
        other = hmm.GaussianHMM(
            2, n_iter=400, tol=1e-8, random_state=0, covars_prior=0, covars_weight=0,
            means_weight=0, min_covar=1e-9,
        )  # fmt: skip
        other.fit(X.reshape(-1, 1), [steps] * rows)
        best = max(path[-1] for path in model.history_)
        assert best == pytest.approx(other.score(X.reshape(-1, 1), [steps] * rows) / rows, abs=1e-4)


def chain_model(seed):
    """A homogeneous chain of three states seen through four symbols."""
    rng = np.random.default_rng(seed)
    A = 0.75 * np.eye(3)[[1, 2, 0]] + 0.25 * rng.dirichlet(np.ones(3), 3)
    B = rng.dirichlet(np.full(4, 0.3), 3)
    tables = {"H0": rng.dirichlet(np.full(3, 4.0))}
    tables |= {f"H{t}": A for t in range(1, 4)} | {f"X{t}": B for t in range(4)}
    graph = CHAIN.with_states({f"X{t}": 4 for t in range(4)})
    return lt.TabularModel(graph, tables)


def frame_of(model, n, seed):
    codes = model.sample(n, seed)
    return {model.names[v]: codes[:, i] for i, v in enumerate(model.graph.observed)}


LEARNERS = {
    "em": lt.EM(3, 60, smoothing=0.5, random_state=0),
    "em from pbp": lt.EM(init="pbp", max_iter=60, smoothing=0.5),
    "stepwise": lt.StepwiseEM(restarts=2, epochs=30, smoothing=0.5, random_state=0),
    "pbp": lt.PBP(),
}
STATES = {f"X{t}": range(4) for t in range(4)}


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
class TestEveryLearner:
    def test_known_and_tied_tables_stay_so(self, learner):
        truth = chain_model(0)
        B = {truth.names[s[-1]]: t for s, t in truth.tables.items()}["X0"]
        known = {"X0": B, "H1": [[NAN, NAN, 0.0], [NAN] * 3, [NAN] * 3]}
        own = clone(learner).set_params(known=known, tied=TIES)
        model = lt.LatentModel(CHAIN, learner=own, state_names=STATES).fit(frame_of(truth, 500, 1))
        tables = model.cpts_
        for t in range(4):
            np.testing.assert_array_equal(tables[f"X{t}"], B)
        for t in range(1, 4):
            np.testing.assert_array_equal(tables[f"H{t}"], tables["H1"])
            assert tables[f"H{t}"][0, 2] == 0.0
            np.testing.assert_allclose(tables[f"H{t}"].sum(axis=1), 1.0)

    def test_states_of_latents_are_numbered_by_what_is_known(self, learner):
        """With the emissions known, the other tables are found in their numbering."""
        truth = chain_model(2)
        tables = {truth.names[s[-1]]: t for s, t in truth.tables.items()}
        own = clone(learner).set_params(known={"X0": tables["X0"]}, tied=TIES)
        model = lt.LatentModel(CHAIN, learner=own, state_names=STATES).fit(frame_of(truth, 4000, 5))
        assert (model.cpts_["H2"].argmax(axis=1) == tables["H2"].argmax(axis=1)).all()
        assert np.abs(model.cpts_["H2"] - tables["H2"]).max() < 0.25
        assert np.abs(model.cpts_["H0"] - tables["H0"]).max() < 0.15

    def test_ties_help_at_few_rows(self, learner):
        gain = []
        for seed in range(4):
            truth = chain_model(seed + 10)
            frame, held = frame_of(truth, 100, seed), frame_of(truth, 2000, seed + 99)
            alone = lt.LatentModel(CHAIN, learner=learner, state_names=STATES).fit(frame)
            own = clone(learner).set_params(tied=TIES)
            tied = lt.LatentModel(CHAIN, learner=own, state_names=STATES).fit(frame)
            gain.append(loss(tied, held) < loss(alone, held))
        assert sum(gain) >= 3

    def test_parameters_files_and_repr(self, learner, tmp_path):
        B = np.array([[0.7, 0.1, 0.1, 0.1], [NAN] * 4, [0.1, 0.1, 0.1, 0.7]])
        own = clone(learner).set_params(known={"X0": B}, tied=TIES, smoothing={"X0": 1.0})
        assert clone(own).get_params()["tied"] == TIES
        assert "tied" in repr(own)
        assert "array" not in repr(own)
        model = lt.LatentModel(CHAIN, learner=own, state_names=STATES).fit(
            frame_of(chain_model(1), 300, 0)
        )
        model.save(tmp_path / "m.latentia")
        again = lt.load(tmp_path / "m.latentia")
        assert type(again.learner) is type(own)
        np.testing.assert_array_equal(np.array(again.learner.known["X0"], float), B)
        assert again.learner.tied == TIES
        np.testing.assert_array_equal(again.cpts_["X1"], model.cpts_["X1"])
        assert again.fit(frame_of(chain_model(1), 300, 0)).cpts_["X2"][0, 0] == 0.7


def loss(model, frame):
    return np.mean([-np.log(as_matrix(model, frame, x)).mean() for x in STATES])


def as_matrix(model, frame, name):
    p = model.predict_proba(frame, name)
    matrix = np.column_stack([p[k] for k in p])
    return np.maximum(matrix[np.arange(len(matrix)), frame[name]], 1e-9)


TWO = {"x": [0, 1, 0, 1] * 5, "y": [0, 1, 1, 0] * 5, "z": [1, 1, 0, 0] * 5}
HALF = [[0.5, 0.5], [0.5, 0.5]]


def fit_two(learner, frame=None):
    return lt.LatentModel("H->x; H->y; H->z", {"H": 2}, learner).fit(frame or TWO)


class TestErrors:
    @pytest.mark.parametrize(
        ("known", "error", "words"),
        [
            ({"q": HALF}, UnknownNameError, "in known"),
            ({"x": [0.5, 0.5]}, DataError, r"shape \(2, 2\), axes \(H, x\)"),
            ({"x": [[0.5, 0.6], [0.5, 0.5]]}, DataError, r"1\.1 in the row of H=0"),
            ({"x": [[1.5, NAN], [0.5, 0.5]]}, DataError, "at most 1"),
            ({"x": [[-0.5, 1.5], [0.5, 0.5]]}, DataError, "0 or more"),
            ({"x": [["a", "b"], [0.5, 0.5]]}, DataError, "numbers"),
            ([HALF], DataError, "{variable: array}"),
        ],
    )
    def test_known(self, known, error, words):
        for learner in (lt.EM(), lt.StepwiseEM(), lt.PBP(refine=True)):
            with pytest.raises(error, match=words):
                fit_two(learner.set_params(known=known))

    @pytest.mark.parametrize(
        ("tied", "error", "words"),
        [
            ([["x", "q"]], UnknownNameError, "in tied"),
            ([["x", "H"]], DataError, "differ in shape"),
            ([["x", "y"], ["y", "z"]], DataError, "two groups"),
            (["x", "y"], DataError, "as a list"),
            ("xy", DataError, "groups of variables"),
            (5, DataError, "groups of variables"),
        ],
    )
    def test_tied(self, tied, error, words):
        for learner in (lt.EM(), lt.StepwiseEM(), lt.PBP(refine=True)):
            with pytest.raises(error, match=words):
                fit_two(learner.set_params(tied=tied))

    @pytest.mark.parametrize(
        ("smoothing", "words"),
        [
            (-1.0, "at least 0"),
            ({"x": -1}, "at least 0"),
            ({"x": [1.0]}, "shape"),
            (True, "number"),
        ],
    )
    def test_smoothing(self, smoothing, words):
        with pytest.raises(DataError, match=words):
            fit_two(lt.EM(smoothing=smoothing))

    def test_tied_tables_that_are_known_to_differ(self):
        known = {"x": HALF, "y": [[0.1, 0.9], [0.9, 0.1]]}
        with pytest.raises(DataError, match="tied, but different"):
            fit_two(lt.EM(known=known, tied=[["x", "y"]]))

    def test_rows_that_contradict_what_is_known(self):
        for learner in (lt.EM(), lt.PBP()):
            with pytest.raises(LatentiaError, match="probability zero"):
                fit_two(learner.set_params(known={"x": [[1.0, 0.0], [1.0, 0.0]]}))

    def test_the_closed_form_has_no_tables(self):
        with pytest.raises(DataError, match="closed form has no tables"):
            fit_two(lt.PBP(refine=False, known={"x": HALF}))
        model = fit_two(lt.PBP(tied=[["x", "y"]]))
        with pytest.raises(DataError, match="reads the rows several times"):
            model.freeze(TWO)

    def test_separators_of_several_latents_have_no_tables_of_the_graph(self):
        graph = "A->x; B->x; A->y; B->y; A->z; B->z; A->u; B->u"
        rng = np.random.default_rng(0)
        frame = {n: rng.integers(3, size=300) for n in "xyzu"}
        with pytest.raises(PlanError, match=r"lt\.EM"):
            lt.LatentModel(graph, {"A": 2, "B": 2}, lt.PBP(tied=[["x", "y"]])).fit(frame)

    def test_continuous_columns(self):
        rng = np.random.default_rng(0)
        frame = {"x": rng.normal(size=60), "y": rng.normal(size=60), "z": rng.integers(2, size=60)}
        with pytest.raises(DataError, match="continuous"):
            fit_two(lt.EM(known={"x": np.full((2, 128), 1 / 128)}), frame)
        with pytest.raises(DataError, match="some are not"):
            fit_two(lt.EM(tied=[["x", "z"]]), frame)
        with pytest.raises(DataError, match=r"lt\.EM"):
            fit_two(lt.PBP(tied=[["x", "y"]]), frame)
        with pytest.raises(DataError, match="one number"):
            fit_two(lt.EM(smoothing={"x": np.ones((2, 128))}), frame)
        heavy = {**frame, "x": np.exp(4 * rng.normal(size=60))}
        with pytest.raises(DataError, match="long tails"):
            fit_two(lt.EM(tied=[["x", "y"]]), heavy)


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
class TestStates:
    def test_tied_columns_share_their_states(self):
        """One column lacks a state that the other has: codes must mean the same."""
        frame = {"x": ["a", "c"] * 20, "y": ["a", "b"] * 20, "z": ["u", "v"] * 20}
        for learner in (lt.EM(1, 5, tied=[["x", "y"]], random_state=0), lt.PBP(tied=[["x", "y"]])):
            model = fit_two(learner, frame)
            assert [c.states for c in model.columns_][:2] == [("a", "b", "c")] * 2
            np.testing.assert_array_equal(model.cpts_["x"], model.cpts_["y"])
            both = model.cpts_["H"] @ model.cpts_["x"]
            assert both == pytest.approx([0.5, 0.25, 0.25], abs=0.02)

    def test_states_that_no_row_has(self):
        states = {"x": [0, 1, 2], "y": [0, 1, 2]}
        for learner in (lt.EM(1, 5, random_state=0), lt.PBP()):
            learner.set_params(tied=[["x", "y"]])
            model = lt.LatentModel("H->x; H->y; H->z", {"H": 2}, learner, state_names=states)
            tables = model.fit(TWO).cpts_
            np.testing.assert_array_equal(tables["x"], tables["y"])
            assert (tables["x"][:, 2] > 1e-6).all()
        held = [[0.7, 0.3, 0.0], [0.2, 0.8, 0.0]]
        learner = lt.EM(1, 5, random_state=0, known={"x": held})
        model = lt.LatentModel("H->x; H->y; H->z", {"H": 2}, learner, state_names=states)
        np.testing.assert_array_equal(model.fit(TWO).cpts_["x"], held)

    def test_starts_are_matched(self):
        """Tables with permuted states are brought back by known cells alone, or by ties."""
        truth = chain_model(5)
        tables = {s[-1]: t for s, t in truth.tables.items()}
        graph, rng = truth.graph, np.random.default_rng(0)
        order = {h: rng.permutation(3) for h in graph.latent}
        mixed_up = {}
        for v, above in enumerate(graph.parents()):
            table = tables[v]
            for axis, u in enumerate((*above, v)):
                table = table.take(order[u], axis=axis) if u in order else table
            mixed_up[v] = table
        known = {"X0": tables[graph.index("X0")]}
        for knowledge in (read_knowledge(graph, known, TIES), read_knowledge(graph, known, None)):
            if not knowledge.tied:
                knowledge = read_knowledge(
                    graph, {f"X{t}": tables[graph.index("X0")] for t in range(4)}, None
                )
            found = matched(graph, mixed_up, knowledge)
            for v, table in tables.items():
                np.testing.assert_allclose(found[v], table, atol=1e-12)

    def test_partial_fit_goes_on_with_ties(self):
        truth = chain_model(3)
        learner = lt.StepwiseEM(restarts=2, tied=TIES, random_state=0)
        model = lt.LatentModel(CHAIN, learner=learner, state_names=STATES)
        for k in range(3):
            model.partial_fit(frame_of(truth, 400, k))
        np.testing.assert_array_equal(model.cpts_["X0"], model.cpts_["X3"])
        np.testing.assert_array_equal(model.cpts_["H1"], model.cpts_["H3"])

    def test_homogeneous_chains(self):
        several = lt.as_graph("A->B; A->x; A->y; B->u; B->v", {"A": 2, "B": 2})
        assert homogeneous(several) == [["x", "u"], ["y", "v"]]
        both = homogeneous(lt.templates.factorial_markov(3, 2, 2))
        assert both == [["H0_1", "H0_2"], ["H1_1", "H1_2"], ["X0", "X1", "X2"]]


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_settings_on_the_command_line(tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    import json

    import pandas as pd
    from typer.testing import CliRunner

    from latentia.cli.application import application as app

    pd.DataFrame(TWO).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "known.json").write_text(json.dumps({"z": [[0.9, 0.1], [None, None]]}))
    out = tmp_path / "m.latentia"
    fit = ["fit", str(tmp_path / "rows.csv"), "--graph", "H->x; H->y; H->z", "--latents", "H=2"]
    fit += ["--learner", "em", "--set", 'tied=[["x","y"]]', "--out", str(out)]
    done = CliRunner().invoke(app, [*fit, "--set", f"known=@{tmp_path}/known.json"])
    assert done.exit_code == 0, done.output
    tables = lt.load(out).cpts_
    np.testing.assert_array_equal(tables["x"], tables["y"])
    assert tables["z"][0].tolist() == [0.9, 0.1]
    assert CliRunner().invoke(app, [*fit, "--set", 'known={"z":']).exit_code == 2
    assert CliRunner().invoke(app, [*fit, "--set", "known=@no.json"]).exit_code == 3

"""refine="auto": the choice, its evidence, where it is kept; numbers of states from the data."""

import warnings

import numpy as np
import pytest
from tests.blocks import FoldOnly

import latentia as lt
from latentia.closed_form.basis import canonical_basis
from latentia.closed_form.pairs import leaf_codes, pair_layout, sum_pairs
from latentia.closed_form.solving import gather_statistics
from latentia.closed_form.state_counts import latent_states, sum_squares
from latentia.data.moments import Moments
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows, counted_once
from latentia.data.sources.row_sample import deal_rows, split_rows
from latentia.errors import (
    IdentifiabilityWarning,
    IndependenceWarning,
    LeftOutWarning,
    NotLearnedError,
    PlanError,
    StatesWarning,
    UnknownNameError,
)
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.model.trials import left_out_loss, prefer_refined
from latentia.networks.branch_classes import class_shares
from latentia.networks.discrete_network import plan_refinement
from latentia.networks.stepwise_passes import shuffled
from latentia.structure.plan import make_plan
from latentia.testing.random_models import random_model

COLUMNS = [f"X{i}" for i in range(6)]
CLASS = lt.templates.latent_class(6, 3).with_states(dict.fromkeys(COLUMNS, 3))
CHAIN = lt.templates.hidden_markov(6, 2).with_states(dict.fromkeys(COLUMNS, 3))


def drawn(graph, n, seed=0, concentration=0.4):
    rng = np.random.default_rng(seed)
    return random_model(graph, rng, concentration).sample(n, rng).astype(np.int8)


def strong(states, n, seed=0):
    """Every column shows the state of the class, but for one row in three."""
    graph = lt.templates.latent_class(6, states).with_states(dict.fromkeys(COLUMNS, states))
    shown = 0.6 * np.eye(states) + 0.4 / states
    cpts = {"H": np.full(states, 1 / states)} | {
        x: np.roll(shown, i, axis=1) for i, x in enumerate(COLUMNS)
    }
    return lt.TabularModel(graph, cpts).sample(n, np.random.default_rng(seed)).astype(np.int8)


def frame(codes):
    return {f"X{i}": c for i, c in enumerate(codes.T)}


class TestHowOftenStatisticsAreGathered:
    """Each time is a pass over the rows, and most of the wait for a table of many columns."""

    def gathered(self, monkeypatch, enough):
        calls = []

        def watched(plan, source):
            calls.append(len(source.rows))
            return gather_statistics(plan, source)

        monkeypatch.setattr("latentia.model.choice.gather_statistics", watched)
        monkeypatch.setattr("latentia.model.choice.ENOUGH_COLUMNS", enough)
        model = lt.LatentModel(CLASS).fit(frame(strong(3, 100)))
        assert model.diagnostics_.choice.chosen == "refined"
        return calls

    def test_by_folds_where_rows_and_columns_are_few(self, monkeypatch):
        assert len(self.gathered(monkeypatch, 7)) == 6  # five folds, and all rows

    def test_once_where_columns_are_many(self, monkeypatch):
        assert len(self.gathered(monkeypatch, 6)) == 1

    def test_the_graph_itself_is_not_planned_again(self):
        plan = make_plan(CLASS)
        plan_refinement.cache_clear()  # an equal plan would be given back
        assert plan_refinement(plan)[1] is plan
        grouped = make_plan(CLASS, groups=[["X0", "X1"]])
        assert all(len(n.columns) <= 1 for n in plan_refinement(grouped)[1].nodes)


class TestTheChoice:
    def test_a_clear_signal_is_refined(self):
        compared = lt.PBP(smoothing=1.0)  # by default such a class would be settled at once
        model = lt.LatentModel(CLASS, learner=compared).fit(frame(drawn(CLASS, 3000)))
        choice = model.diagnostics_.choice
        assert choice.chosen == "refined"
        assert set(choice.losses) == {"marginal", "closed", "refined"} == set(choice.errors)
        assert choice.losses["refined"] < choice.losses["marginal"]
        assert choice.errors["refined"] == 0 < choice.errors["marginal"]
        assert choice.held_out + choice.learned_from >= 2000
        assert "chose the refined model" in repr(model.diagnostics_)
        assert model.operators_.tables

    def test_columns_that_tell_nothing_get_their_marginals(self):
        rng = np.random.default_rng(1)
        data = {f"X{i}": rng.choice(3, 2000, p=[0.5, 0.3, 0.2]) for i in range(6)}
        with pytest.warns(IndependenceWarning, match="tell nothing of each other"):
            model = lt.LatentModel(CLASS).fit(data)
        one = np.asarray(model.query("X0", {"X1": 0, "X2": 1}))
        share = np.bincount(data["X0"]) / 2000
        np.testing.assert_allclose(one, share, atol=1e-9)
        k = 6 * 2
        log = model.score_samples(data).sum()
        assert model.aic(data) == pytest.approx(2 * k - 2 * log)

    def test_of_few_rows_each_is_held_out_once(self):
        model = lt.LatentModel(CLASS).fit(frame(drawn(CLASS, 60)))
        choice = model.diagnostics_.choice
        assert set(choice.losses) == {"marginal", "closed", "refined"}
        assert (choice.held_out, choice.learned_from) == (60, 48)

    @pytest.mark.parametrize("noise", [-1e-13, 0.0, 1e-13])
    def test_a_network_that_answers_as_the_marginals_do_is_called_so(self, noise):
        """Whether columns are independent must not hang on rounding."""
        rng = np.random.default_rng(0)
        loss = rng.random(500) + 1.0
        other = loss + noise * rng.random(500)
        losses = {"marginal": loss, "closed": loss.copy(), "refined": other}
        assert prefer_refined(losses, np.ones(500), 2000).chosen == "marginal"
        far = {"marginal": loss, "refined": loss + 0.1 * rng.normal(size=500) + 0.02}
        assert prefer_refined(far, np.ones(500), 2000).chosen == "marginal"

    def test_a_handful_of_rows_is_not_compared(self):
        choice = lt.LatentModel(CLASS).fit(frame(drawn(CLASS, 15))).diagnostics_.choice
        assert (choice.chosen, dict(choice.losses), choice.held_out) == ("closed", {}, 0)
        assert "too few rows to compare (15, at least 20)" in str(choice)

    @pytest.mark.parametrize("count", [60, 400])
    @pytest.mark.filterwarnings("ignore::latentia.errors.ConstantColumnWarning")
    def test_a_column_that_only_one_row_has(self, count):
        """Held out, it would leave nothing to learn of the column."""
        data = {name: x.astype(float) for name, x in frame(drawn(CLASS, count)).items()}
        data["X0"][1:] = np.nan
        for seed in range(6):
            model = lt.LatentModel(CLASS, learner=lt.PBP(random_state=seed)).fit(data)
            assert np.isfinite(np.asarray(model.query("X1", {"X2": 1}))).all()

    def test_the_loss_is_that_of_each_column_given_the_others(self):
        plan = make_plan(CHAIN)
        codes = drawn(CHAIN, 50)
        operators = lt.PBP(refine=False).learn(plan, LocalRows(Rows(tuple(codes.T))))
        codes[0, 2] = -1
        loss = left_out_loss(operators, Rows(tuple(codes.T)))
        for n in (0, 7):
            expected = 0.0
            for i, v in enumerate(plan.graph.observed):
                if codes[n, i] < 0:
                    continue
                seen = [np.array([-1 if j == i else codes[n, j]]) for j in range(6)]
                p = answer(operators, read_evidence(plan, seen), [v]).probabilities[v]
                expected -= np.log(max(p[codes[n, i], 0], 1e-4))
            assert loss[n] == pytest.approx(expected)

    def test_an_unknown_setting_is_named(self):
        with pytest.raises(UnknownNameError, match="refine 'always' is unknown"):
            lt.LatentModel(CLASS, learner=lt.PBP(refine="always")).fit(frame(drawn(CLASS, 50)))

    def test_no_regularisation_leaves_no_choice(self):
        model = lt.LatentModel(CLASS, learner=lt.PBP(regularize=False))
        assert model.fit(frame(drawn(CLASS, 2000))).diagnostics_.choice is None

    def test_missing_cells_and_weights(self):
        codes = drawn(CHAIN, 2000)
        rng = np.random.default_rng(0)
        holes = np.where(rng.random(codes.shape) < 0.2, -1, codes)
        source = LocalRows(Rows(tuple(holes.T), rng.integers(1, 4, size=2000).astype(float)))
        choice = lt.PBP().learn(make_plan(CHAIN), source).provenance.choice
        assert choice.chosen in choice.losses
        source = LocalRows(Rows(tuple(holes.T), rng.random(2000) * 2))
        assert lt.PBP().learn(make_plan(CHAIN), source).provenance.choice.chosen in choice.losses

    @pytest.mark.parametrize("count", [60, 400])
    def test_a_network_that_is_too_large_says_so(self, count, monkeypatch, tmp_path):
        """The closed form then answers, and why is told, in files too."""

        def refuse(plan):
            raise PlanError("a clique of 1.0e+09 cells is too large.")

        monkeypatch.setattr("latentia.model.choice.plan_refinement", refuse)
        monkeypatch.setattr("latentia.model.choice.race_to_settle", lambda *given: None)
        with pytest.warns(LeftOutWarning, match="no refined model .* 1.0e[+]09 cells"):
            model = lt.LatentModel(CLASS).fit(frame(drawn(CLASS, count)))
        choice = model.diagnostics_.choice
        assert set(choice.losses) == {"marginal", "closed"}
        assert choice.left_out == {"refined": "a clique of 1.0e+09 cells is too large."}
        assert "no refined model: a clique of" in repr(model.diagnostics_)
        model.save(tmp_path / "m")
        assert lt.load(tmp_path / "m").diagnostics_.choice == choice

    def test_a_mixed_network_that_is_too_large_says_so(self, monkeypatch):
        def refuse(*given):
            raise PlanError("a clique of 1.0e+09 cells is too large.")

        monkeypatch.setattr("latentia.model.choice_mixed.refine_mixed", refuse)
        rng = np.random.default_rng(0)
        h = rng.integers(2, size=300)
        data = {x: h + rng.normal(size=300) for x in "xyz"}
        with pytest.warns(LeftOutWarning, match="no refined model"):
            choice = lt.LatentModel("H->x,y,z", {"H": 2}).fit(data).operators_.provenance.choice
        assert choice.left_out == {"refined": "a clique of 1.0e+09 cells is too large."}

    def test_files_keep_the_choice(self, tmp_path):
        model = lt.LatentModel(CHAIN).fit(frame(drawn(CHAIN, 2000)))
        model.save(tmp_path / "m")
        again = lt.load(tmp_path / "m")
        assert again.diagnostics_.choice == model.diagnostics_.choice
        assert repr(again.diagnostics_) == repr(model.diagnostics_)


class TestSamples:
    @pytest.mark.parametrize("refine", ["auto", True])
    def test_sources_that_only_fold(self, refine):
        rows = Rows(tuple(drawn(CHAIN, 3000).T))
        source = FoldOnly([rows[i : i + 700] for i in range(0, 3000, 700)])
        one = lt.PBP(refine=refine).learn(make_plan(CHAIN), source)
        two = lt.PBP(refine=refine).learn(make_plan(CHAIN), LocalRows(rows))
        losses = [left_out_loss(o, rows).mean() for o in (one, two)]
        assert losses[0] == pytest.approx(losses[1], abs=0.02)

    def test_a_fold_draws_rows_without_repeats(self):
        rows = Rows((np.arange(1000), np.arange(1000) % 7))
        source = FoldOnly([rows[i : i + 100] for i in range(0, 1000, 100)])
        some = source.sample(50, np.random.default_rng(0))
        assert len(some) == 50 == len(set(some.codes[0].tolist()))
        assert (some.codes[1] == some.codes[0] % 7).all()
        assert np.array_equal(source.sample(5000, np.random.default_rng(0)).codes[0].sum(), 499500)
        assert isinstance(source.fold(lambda r: Moments("n", r.total, len(r), {})), Moments)

    @pytest.mark.parametrize("weight", [None, "whole", "broken", "tiny"])
    def test_hands_add_up(self, weight):
        rng = np.random.default_rng(0)
        given = {"whole": rng.integers(0, 5, 400).astype(float), "broken": rng.random(400)}
        given["tiny"] = given["broken"] * 1e-12  # as whole numbers they would be none
        rows = Rows((np.arange(400),), given.get(weight))
        large, small = split_rows(rows, 0.2, rng)
        assert large.total + small.total == pytest.approx(rows.total)
        assert len(shuffled(rows, rng)) == (rows.total if weight == "whole" else 400)
        assert small.total / rows.total == pytest.approx(0.2, abs=0.06)

    @pytest.mark.parametrize("weight", [None, "whole", "broken", "tiny"])
    def test_every_row_falls_to_one_fold(self, weight):
        rng = np.random.default_rng(0)
        given = {"whole": rng.integers(0, 5, 40).astype(float), "broken": rng.random(40)}
        given["tiny"] = given["broken"] * 1e-12
        rows = Rows((np.arange(40),), given.get(weight))
        deals = deal_rows(rows, 5, rng)
        for large, small in deals:
            both = np.bincount(large.codes[0], large.weights, 40)
            both += np.bincount(small.codes[0], small.weights, 40)
            np.testing.assert_allclose(both, rows.weights)
        held = sum(np.bincount(small.codes[0], small.weights, 40) for _, small in deals)
        np.testing.assert_allclose(held, rows.weights)


class TestLikelihood:
    def test_bic_prefers_the_true_number_of_states(self):
        data = frame(strong(3, 3000))
        found = {}
        for states in (2, 3, 4):
            graph = lt.templates.latent_class(6, states)
            model = lt.LatentModel(graph, learner=lt.EM(restarts=3, random_state=0))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[states] = model.fit(data).bic(data)
        assert min(found, key=found.get) == 3

    def test_bic_and_aic_of_a_refined_model(self):
        data = frame(drawn(CLASS, 2000))
        model = lt.LatentModel(CLASS, learner=lt.PBP(refine=True)).fit(data)
        k, log = 2 + 6 * 3 * 2, model.score_samples(data).sum()
        assert model.bic(data) == pytest.approx(k * np.log(2000) - 2 * log)
        assert model.aic(data) == pytest.approx(2 * k - 2 * log)

    def test_a_signed_model_has_none(self):
        data = frame(drawn(CLASS, 500))
        model = lt.LatentModel(CLASS, learner=lt.PBP(refine=False)).fit(data)
        with pytest.raises(NotLearnedError, match="bic needs the likelihood of a valid"):
            model.bic(data)


class TestNumbersOfStates:
    @pytest.mark.parametrize("latents", [["H"], {"H": None}])
    def test_left_out_they_come_from_the_data(self, latents):
        edges = "; ".join(f"H->X{i}" for i in range(6))
        model = lt.LatentModel(edges, latents).fit(frame(strong(3, 5000)))
        assert model.states_ == {"H": 3}

    def test_a_state_that_only_products_show(self):
        """b and c see A = 0, 1, 2 along one line: its third state shows in b · c alone."""
        rng = np.random.default_rng(0)
        h = rng.integers(3, size=20_000)
        a = np.where(rng.random(len(h)) < 0.8, h, rng.integers(3, size=len(h)))
        b, c = ((rng.random(len(h)) < np.array([0.1, 0.5, 0.9])[h]).astype(int) for _ in "bc")
        source = LocalRows(Rows((a, b, c)))
        graph = lt.as_graph("A->a; A->H; H->b; H->c", ["A", "H"], {"a": 3, "b": 2, "c": 2})
        found = latent_states(graph, source)
        assert found.states[found.index("A")] == 3

    def test_rare_rows_are_no_state(self):
        """Two states, and rows of one rare state that go together by chance."""
        graph = lt.templates.latent_class(8).with_states({f"X{i}": 3 for i in range(8)})
        for seed in range(4):
            rng = np.random.default_rng(seed)
            h = rng.integers(2, size=10_000)
            codes = [
                np.where(rng.random(len(h)) < 0.97, h, 2 - 2 * (rng.random(len(h)) < 0.9))
                for _ in range(8)
            ]
            found = latent_states(graph, LocalRows(Rows(tuple(codes))))
            assert found.states[found.index("H")] == 2

    def test_squares_are_those_of_the_rows(self):
        """Σ w (θη)² by direct evaluation, and the same from two halves."""
        plan = make_plan(CHAIN)
        layout = pair_layout(plan)
        rows = Rows(tuple(drawn(CHAIN, 3000).T), np.random.default_rng(0).random(3000))
        basis = canonical_basis(layout, sum_pairs(layout, rows), regularize=False)
        nodes, leaves = plan.inner, leaf_codes(plan, rows)
        whole = sum_squares(layout, basis, nodes, rows)
        halves = sum_squares(layout, basis, nodes, rows[:999]) + sum_squares(
            layout, basis, nodes, rows[999:]
        )
        for k in nodes:
            inside, outside = (
                sum(t[leaves[b[0]]] for b, t in zip(side.blocks, side.tables, strict=True))
                for side in (basis.inside[k], basis.outside[k])
            )
            expected = rows.weight @ (inside * outside) ** 2
            np.testing.assert_allclose(whole.sums[f"squares/{k}"], expected)
            np.testing.assert_allclose(halves.sums[f"squares/{k}"], expected)

    def test_stable_under_resampling(self):
        graph = lt.templates.hidden_markov(6).with_states(dict.fromkeys(COLUMNS, 3))
        codes = drawn(CHAIN, 20_000, seed=3)
        rng = np.random.default_rng(0)
        counts = []
        for _ in range(5):
            some = codes[rng.permutation(len(codes))[:10_000]]
            found = latent_states(graph, LocalRows(Rows(tuple(some.T))))
            counts.append([found.states[v] for v in sorted(found.latent)])
        assert (np.array(counts).max(axis=0) - np.array(counts).min(axis=0)).max() <= 1

    @pytest.mark.parametrize(("states", "words"), [(9, "the data show 3"), (2, "is left over")])
    def test_numbers_far_off_are_told(self, states, words):
        graph = lt.templates.latent_class(6, states)
        data = frame(strong(3, 5000))
        model = lt.LatentModel(graph, learner=lt.PBP(refine=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            with pytest.warns(StatesWarning, match=words):
                model.fit(data)

    def test_right_numbers_are_not(self):
        for seed in range(3):
            for graph in (CLASS, CHAIN):
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    lt.LatentModel(graph).fit(frame(drawn(graph, 5000, seed)))
                assert [str(w.message) for w in told] == []


class TestEqualRows:
    def test_counted_once_they_are_the_same_rows(self):
        codes = drawn(CLASS, 20_000)[:, :4]
        codes[::7, 1] = -1
        rows = Rows(tuple(codes.T))
        once = counted_once(rows, [3, 3, 3, 3])
        assert len(once) < 4**4 + 1
        assert once.total == 20_000
        for i in range(4):
            counts = np.bincount(once.codes[i] + 1, once.weight, 4)
            np.testing.assert_array_equal(counts, np.bincount(codes[:, i] + 1, minlength=4))

    def test_different_rows_stay_as_they_are(self):
        rng = np.random.default_rng(0)
        rows = Rows(tuple(rng.integers(50, size=(6, 8000))))
        assert counted_once(rows, [50] * 6) is rows
        few = Rows(tuple(np.zeros((2, 100), dtype=np.int8)))
        assert counted_once(few, [2, 2]) is few


class TestLocalClasses:
    def test_branches_tell_the_states(self):
        """Three noisy copies of a hidden state: its shares come back, up to names."""
        rng = np.random.default_rng(0)
        h = rng.integers(3, size=4000)
        codes = [np.where(rng.random(4000) < 0.8, h, rng.integers(3, size=4000)) for _ in "abc"]
        blind = rng.dirichlet(np.ones(3), size=4000).T
        shares = class_shares(codes, np.ones(4000), blind, rng)
        np.testing.assert_allclose(shares.sum(axis=0), 1.0)
        table = np.eye(3)[h].T @ np.eye(3)[shares.argmax(axis=0)]
        assert table.max(axis=1).sum() / 4000 > 0.9

    def test_weights_of_any_size(self):
        """Single precision must hold the products of five tables, whatever rows weigh."""
        rng = np.random.default_rng(0)
        rare = np.arange(500) < 3  # and with codes that no other row has
        codes = [np.where(rare, 8, rng.integers(8, size=500)) for _ in range(5)]
        soft = rng.dirichlet(np.ones(4), size=500).T
        weight = np.where(rare, 1.0, 1e14)
        for scale in (1e-9, 1.0, 1e9):
            shares = class_shares(codes, weight * scale, soft, np.random.default_rng(0))
            np.testing.assert_allclose(shares.sum(axis=0), 1.0)


class TestFewMixedRows:
    @staticmethod
    def table(count: int, tied: float) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(4)
        h = rng.integers(2, size=count)
        return {
            "x": tied * h + rng.normal(size=count),
            "y": tied * h + rng.normal(size=count),
            "a": np.where(rng.random(count) < 0.5 + 0.1 * tied, h, 1 - h),
            "b": rng.integers(4, size=count),
        }

    def test_each_row_is_held_out_once(self):
        model = lt.LatentModel("H->x,y,a,b", {"H": 2}).fit(self.table(60, 4.0))
        choice = model.diagnostics_.choice
        assert choice.held_out == 60
        assert choice.chosen != "marginal"
        assert choice.losses[choice.chosen] < choice.losses["marginal"]

    def test_columns_that_tell_nothing_are_not_answered_worse_than_by_marginals(self):
        """The closed form, which used to be taken without a look, loses here."""
        choice = lt.LatentModel("H->x,y,a,b", {"H": 2}).fit(self.table(60, 0.0)).diagnostics_.choice
        assert choice.losses[choice.chosen] <= choice.losses["marginal"]
        assert choice.losses["closed"] > choice.losses["marginal"]

    def test_fewer_than_twenty_are_not_compared(self):
        model = lt.LatentModel("H->x,y,a,b", {"H": 2}).fit(self.table(18, 4.0))
        assert "too few rows to compare (18, at least 20)" in str(model.diagnostics_.choice)

    def test_fifty_rows_without_a_graph_have_structure_and_a_pool(self):
        model = lt.LatentModel().fit(self.table(50, 4.0))
        assert set(model.diagnostics_.pooled) == {"x", "y", "a", "b"}

"""The closed form of a chain: exact on exact moments, and near the truth on samples."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from tests.sequences.brute_force import random_tables

import latentia as lt
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError, EvidenceError, GraphError
from latentia.sequences.chain_questions import Chain
from latentia.sequences.fitting_chains import FittedChain
from latentia.sequences.hidden_states import make_layout
from latentia.sequences.learn_chain import LearnedChain
from latentia.sequences.long_rows import Naming
from latentia.sequences.potentials import moves_of
from latentia.sequences.signed_chain import SignedChain, run_forward
from latentia.sequences.signed_learning import SymbolWindows, solve_windows, state_bound
from latentia.sequences.slices import read_slice
from latentia.sequences.table_places import cell_places

CHAINS = {  # slice, latents, columns, width of windows on each side
    "chain": ("z -> z', z -> a", {"z": 3}, {"a": 4}, 1),
    "more states than symbols": ("z -> z', z -> a", {"z": 4}, {"a": 3}, 2),
    "two columns": ("z -> z', z -> a, b", {"z": 3}, {"a": 2, "b": 2}, 1),
    "columns in a step": ("z -> z', z -> a, a -> b", {"z": 2}, {"a": 2, "b": 2}, 1),
    "factorial": ("y -> y'; z -> z'; y -> a; z -> b", {"y": 2, "z": 2}, {"a": 2, "b": 3}, 1),
    "fed back": ("z -> z', z -> a, a -> z'", {"z": 2}, {"a": 3}, 1),
    "tells the next": ("z -> z', z -> a'", {"z": 2}, {"a": 3}, 1),
    "remembers itself": ("z -> z', z -> a, a -> a'", {"z": 2}, {"a": 2}, 2),
    "no latent": ("a -> a'", {}, {"a": 3}, 1),
}


def stationary(kind: str, seed: int = 0):
    """A chain that starts at rest: a valid model with the same answers, its layout and width."""
    text, latents, columns, width = CHAINS[kind]
    slice_ = read_slice(text, latents)
    sizes = tuple({**latents, **columns}[n] for n in slice_.names)
    layout = make_layout(slice_, sizes, frozenset(slice_.columns))
    return slice_, sizes, layout, random_tables(layout, seed, sharp=0.7), width


def window_probabilities(slice_, sizes, layout, tables, width):
    """P(symbols of 2 w + 1 steps) of a chain at rest, by forward passes over all of them."""
    move = moves_of(layout, tables)[0]
    w, F = np.linalg.eig(move.T)
    rest = np.real(F[:, np.argmax(w.real)])
    rest /= rest.sum()
    told = [sizes[v] for v in slice_.columns]
    symbols = np.array(list(itertools.product(range(int(np.prod(told))), repeat=2 * width + 1)))
    like = likelihoods(slice_, sizes, layout, tables)
    alpha = np.repeat(rest[None], len(symbols), axis=0)
    for t, x in enumerate(symbols.T):
        alpha = (alpha @ move if t else alpha) * like[:, x].T
    return symbols, alpha.sum(axis=1), rest, like, move


def likelihoods(slice_, sizes, layout, tables):
    """P(symbol | joint hidden state), (states, symbols): columns that are hidden are masks."""
    told = [sizes[v] for v in slice_.columns]
    codes = np.unravel_index(np.arange(int(np.prod(told))), told)
    found = np.ones((layout.width, len(codes[0])))
    for v, x in zip(slice_.columns, codes, strict=True):
        if (v, 0) in layout.hidden:
            found *= layout.values[v, 0][:, None] == x
            continue
        (n,) = [n for n, f in enumerate(layout.families) if f.variable == v and f.goes_on]
        found *= tables[n].ravel()[cell_places(layout, n)][:, 0][:, x]
    return found


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_moments_give_exact_answers(kind: str, seed: int) -> None:
    """Scores of any sequence equal the forward algorithm of the chain that made the moments."""
    slice_, sizes, layout, tables, width = stationary(kind, seed)
    symbols, p, rest, like, move = window_probabilities(slice_, sizes, layout, tables, width)
    told = tuple(sizes[v] for v in slice_.columns)
    windows = SymbolWindows(symbols, p, like.shape[1])
    chain = solve_windows([windows], told, state_bound(layout), regularize=False)
    rng = np.random.default_rng(seed)
    lengths = [1, 30, 7]
    x = rng.choice(like.shape[1], size=sum(lengths), p=chain.marginal)
    cells = np.stack(np.unravel_index(x, told), axis=1)
    holes = rng.random(cells.shape) < 0.15
    cells[holes] = -1
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    level, _ = run_forward(chain, cells, offsets)
    states = np.stack(np.unravel_index(np.arange(like.shape[1]), told), axis=1)
    for a, b in itertools.pairwise(offsets):
        belief = rest
        for t in range(a, b):
            can = ((cells[t] < 0) | (cells[t] == states)).all(axis=1)
            own = belief * (like @ can)
            # 1e-8: coordinates of correlation .01 are divided by it, thirty times over
            assert level[t] == pytest.approx(np.log(own.sum()), abs=1e-8)
            belief = own / own.sum() @ move


def chain_of(kind: str, seed: int = 0) -> tuple[SignedChain, Chain]:
    """Closed form of exact moments, and the chain at rest with tables that made them."""
    slice_, sizes, layout, tables, width = stationary(kind, seed)
    symbols, p, rest, like, _ = window_probabilities(slice_, sizes, layout, tables, width)
    told = tuple(sizes[v] for v in slice_.columns)
    signed = solve_windows(
        [SymbolWindows(symbols, p, like.shape[1])], told, state_bound(layout), False
    )
    columns = {v: DiscreteColumn(slice_.names[v], tuple(range(sizes[v]))) for v in slice_.columns}
    return signed, Chain(slice_, columns, {**tables, 0: rest})


def both_models(kind: str) -> tuple[lt.SequenceModel, lt.SequenceModel]:
    """As users have them: in closed form, and with tables. The latent must be the first family."""
    signed, chain = chain_of(kind)
    found = []
    for own in (signed, None):
        model = lt.SequenceModel(chain.slice, {})
        learned = LearnedChain({}, "", True, (), 0.0)
        model.fitted_ = FittedChain(chain, learned, Naming(), None, None, own)
        found.append(model)
    return found[0], found[1]


ROWS = {"a": [0, 2, None, 1, 3, 3, 0, 1], "b": [1, 0, 1, None, 0, 0, 1, 1]}


@pytest.mark.parametrize("kind", ["chain", "more states than symbols", "two columns"])
def test_every_question_as_the_chain_with_tables(kind: str) -> None:
    """1e-8: rounding of coordinates with correlations of about .01."""
    closed, tables = both_models(kind)
    cut = {
        str(c.name): [x if x is None else x % c.cells for x in ROWS[str(c.name)]]
        for c in closed.fitted_.chain.columns.values()
    }
    np.testing.assert_allclose(closed.score_samples(cut), tables.score_samples(cut), atol=1e-8)
    for ask in (lambda m: m.forecast(cut, 4), lambda m: m.predict_next(cut)):
        told, right = ask(closed), ask(tables)
        assert [name for name in right if not str(name).startswith("z=")] == list(told)
        for name, x in told.items():
            np.testing.assert_allclose(x, right[name], atol=1e-8)
    for at in (2, 9):
        one, other = closed.query("a", at=at, given=cut), tables.query("a", at=at, given=cut)
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-8)
    state, known = closed.start(), tables.start()
    for k in range(8):
        row = {name: x[k] for name, x in cut.items()}
        assert state.observe(row) == pytest.approx(known.observe(row), abs=1e-8)
    np.testing.assert_allclose(
        np.asarray(state.forecast("a", 3)), np.asarray(known.forecast("a", 3)), atol=1e-8
    )


def test_one_step_ahead_is_what_a_forecast_tells() -> None:
    """Of every slice kind: P(columns of row t | rows before) = forecast of the rows before."""
    rng = np.random.default_rng(0)
    rows = {
        "dose": rng.integers(2, size=60),
        "a": rng.integers(3, size=60),
        "x": rng.normal(size=60),
    }
    slice_ = "z -> z', dose -> z, z -> a, x; a -> a'; a -> z'"
    model = lt.SequenceModel(slice_, {"z": 2}, given=["dose"], max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows)
    told = model.predict_next(rows)
    for t in (1, 30):
        before = {name: x[:t] for name, x in rows.items()}
        right = model.forecast(before, 1, given={"dose": rows["dose"][t : t + 1]})
        for name in ("a=0", "a=2", "x=mean", "x=0.05", "z=1"):
            assert told[name][t] == pytest.approx(right[name][0], abs=1e-9)
    first = model.query("a", at=0, given={"dose": rows["dose"][:1]})
    assert told["a=1"][0] == pytest.approx(first[1], abs=1e-9)


def drawn(count: int = 200, length: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    z = np.zeros((count, length), dtype=int)
    for t in range(1, length):
        z[:, t] = np.where(rng.random(count) < 0.9, z[:, t - 1], rng.integers(3, size=count))
    word = np.where(rng.random(z.shape) < 0.7, z, rng.integers(5, size=z.shape)).ravel()
    ids = np.repeat(np.arange(count), length)
    return {"id": ids, "word": np.array(["p", "q", "r", "s", "t"], dtype=object)[word]}


def test_samples_come_near(tmp_path) -> None:
    """Within a hundredth of a nat of the valid model, where the marginal is a tenth away."""
    rows, new = drawn(), drawn(20)
    new["word"] = new["word"].copy()
    new["word"][::9] = None
    slice_, latents = "z -> z', z -> word", {"z": 3}
    closed = lt.SequenceModel(slice_, latents, learner="closed-form").fit(rows, sequence="id")
    valid = lt.SequenceModel(slice_, latents).fit(rows, sequence="id")
    assert valid.score(new) - 0.01 < closed.score(new) < valid.score(new) + 0.01
    share = np.unique(rows["word"], return_counts=True)[1] / len(rows["word"])
    assert closed.score(new) > 8 / 9 * share @ np.log(share) + 0.1
    same = lt.SequenceModel(slice_, latents, learner=lt.PBP(refine=False)).fit(rows, sequence="id")
    np.testing.assert_array_equal(same.score_samples(new), closed.score_samples(new))
    told = np.array(list(closed.predict_next(new).values()))
    assert (told >= 0).all()
    np.testing.assert_allclose(told.sum(axis=0), 1.0, atol=1e-12)
    drew = closed.sample(50, 40, random_state=0)
    assert closed.score({"word": drew["word"]}, lengths=[40] * 50) > closed.score(rows) - 0.1
    same.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    np.testing.assert_array_equal(again.score_samples(new), closed.score_samples(new))
    assert repr(again.learner) == repr(same.learner)


@pytest.mark.parametrize("ask", ["filter", "smooth", "decode", "bic", "plot_decoded"])
def test_states_are_an_error_that_says_what_to_do(ask: str) -> None:
    rows = drawn(20)
    model = lt.SequenceModel("z -> z', z -> word", {"z": 3}, learner="closed-form")
    model.fit(rows, sequence="id")
    with pytest.raises(EvidenceError, match=r"no named states.*learner=None"):
        getattr(model, ask)(rows)


def test_other_questions_about_states() -> None:
    rows = drawn(20)
    model = lt.SequenceModel("z -> z', z -> word", {"z": 3}, learner="closed-form")
    model.fit(rows, sequence="id")
    asks = (
        lambda: model.profile(),
        lambda: model.cpts_,
        lambda: model.align(model),
        lambda: model.query("z", at=3),
        lambda: model.start().forecast("z"),
        lambda: model.explore(rows, to="page.html"),
        lambda: lt.to_hmmlearn(model),
    )
    for ask in asks:
        with pytest.raises(EvidenceError, match="no named states"):
            ask()
    assert model.converged_
    assert model.states_ == {"z": 3}


@pytest.mark.parametrize(
    ("slice_", "settings", "message"),
    [
        ("z -> z', z -> x", {}, "'x' is continuous"),
        ("z -> z', dose -> z, z -> word", {"given": ["dose"]}, "no inputs"),
        ("z -> z', z -> word", {"name_states": {"z": ["a", "b"]}}, "name_states= has nothing"),
        ("z -> z', z -> word", {"learner": lt.PBP(refine=False, known={})}, "without known="),
        ("z -> z', z -> word, many", {}, "at most 512 joint states"),
    ],
)
def test_what_the_closed_form_cannot_do(slice_: str, settings: dict, message: str) -> None:
    rng = np.random.default_rng(0)
    rows = {
        "x": rng.normal(size=300),
        "dose": rng.integers(2, size=300),
        "word": rng.choice(["a", "b", "c"], 300),
        "many": rng.permutation(300).astype(str),
    }
    own = {k: v for k, v in rows.items() if k in slice_}
    model = lt.SequenceModel(slice_, {"z": 2}, **{"learner": "closed-form", **settings})
    with pytest.raises((DataError, GraphError), match=message):
        model.fit(own)


def test_few_steps() -> None:
    model = lt.SequenceModel("z -> z', z -> a", {"z": 2}, learner="closed-form")
    with pytest.raises(DataError, match="at least 3 steps"):
        model.fit({"a": [0, 1, 0, 1]}, lengths=[2, 2])
    model.fit({"a": [0, 1, 0, 1, 1, 0, 1, 1]})  # windows of one step: little, but an answer
    assert np.isfinite(model.score_samples({"a": [0, 1, 1]})).all()

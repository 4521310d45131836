"""The kernel trick against the discrete algorithm, finite coordinates, and messages by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, Matern

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, LatentiaError, StoreError, UnknownNameError
from latentia.inference.answering import answer, log_evidence
from latentia.inference.evidence import read_evidence
from latentia.kernels.feature_maps import KERNELS, as_kernel, make_map
from latentia.kernels.gram import LARGEST_GRAM, PublishedKernel
from latentia.testing.random_models import random_graph, random_model

pytestmark = [
    pytest.mark.usefixtures("nameless"),
    pytest.mark.filterwarnings("ignore::latentia.errors.EvidenceWarning"),
]

TREE = "A->H; A->B; H->x; H->y; B->z; B->d; B->u"
LATENTS = {"A": 3, "H": 3, "B": 3}


def mixed_rows(n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    h = rng.integers(3, size=n)
    b = np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n))
    return {
        "x": rng.normal(2.0 * h, 1),
        "y": rng.gamma(2.0 + h),
        "z": rng.normal(-b, 1.0),
        "d": (b + (rng.random(n) < 0.2)) % 3,
        "u": rng.normal(b * b, 1),
    }


def fitted(rows: Any, form: str = "gram", weight: Any = None, **settings: Any) -> lt.LatentModel:
    learner = lt.PBP.paper(kernel=settings, form=form)
    return lt.LatentModel(TREE, LATENTS, learner).fit(rows, sample_weight=weight)


def answers(model: lt.LatentModel, rows: Any) -> list[Any]:
    """Scores with all and with some cells, a mean, a density given two, probabilities of states."""
    return [
        model.score_samples(rows),
        model.score_samples({c: rows[c] for c in "xd"}),
        model.predict(rows, target="y"),
        np.asarray(model.query("z", {"x": 1.0, "d": 1})),
        np.asarray(model.query("d", {"x": 1.0, "u": (0.0, 2.0)})),
    ]


# --- the three forms are one ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["gram", "finite"])
@pytest.mark.parametrize("kind", ["tree", "chain", "latent_class", "diamond", "loop"])
@pytest.mark.parametrize("seed", range(2))
def test_delta_kernel_is_the_discrete_algorithm(kind: str, seed: int, form: str) -> None:
    rng = np.random.default_rng([seed, len(kind)])
    graph = random_graph(rng, kind)
    X = random_model(graph, rng).sample(120, rng)
    rows = {graph.names[v]: X[:, i] for i, v in enumerate(graph.observed)}
    ridge = (2e-3, 1e-2)
    one = lt.LatentModel(graph, learner=lt.PBP.paper(ridge)).fit(rows)
    kernel = PublishedKernel("delta", features=400)
    two = lt.LatentModel(graph, learner=lt.PBP.paper(ridge, kernel=kernel, form=form)).fit(rows)
    some = {name: values for i, (name, values) in enumerate(rows.items()) if i % 2}
    for given in (rows, some):
        np.testing.assert_allclose(two.score_samples(given), one.score_samples(given), atol=1e-10)
    for name in rows:
        p, q = (np.asarray(m.query(name, {n: v[0] for n, v in rows.items() if n != name}))
                for m in (one, two))  # fmt: skip
        np.testing.assert_allclose(q, p, atol=1e-10)


@pytest.mark.parametrize("sides", [{}, {"inside": 2, "outside": 3}])
@pytest.mark.parametrize(
    "kernel", ["rbf", "laplace", "matern", Matern(nu=1.5), lambda x, y: np.exp(-np.abs(x - y))]
)
def test_all_rows_as_landmarks_is_the_gram_form(kernel: Any, sides: dict[str, int]) -> None:
    rows, test = mixed_rows(70), mixed_rows(50, 1)
    gram = fitted(rows, kernel=kernel, **sides)
    finite = fitted(rows, "finite", kernel=kernel, features=70, **sides)
    for one, two in zip(answers(gram, test), answers(finite, test), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-6)


def test_scikit_learn_kernels_are_those_by_name() -> None:
    rows, test = mixed_rows(60), mixed_rows(20, 1)
    for name, kernel in (("rbf", RBF()), ("matern", Matern(nu=1.5)), ("laplace", Matern(nu=0.5))):
        one, two = (answers(fitted(rows, kernel=k), test) for k in (name, kernel))
        for a, b in zip(one, two, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9)


def test_messages_by_hand() -> None:
    """The formulas of design 7 with plain matrices: E[f(X) | e] = Σ w_d f(x_d) / Σ w_d."""
    rows = mixed_rows(60)
    model = lt.LatentModel(
        "H->x; H->y; H->z; H->u", {"H": 3}, lt.PBP.paper(kernel={"inside": 2, "outside": 2},
        form="gram"), kinds={}).fit({c: rows[c] for c in "xyzu"})  # fmt: skip
    plan, columns = model.plan_, model.columns_
    (root,), (k,) = plan.roots, plan.inner
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    own = [columns[place[plan.nodes[leaf].columns[0]]] for leaf in plan.leaves]
    z = [c.at(c.positions(np.asarray(rows[str(c.name)]))) / c.spread for c in own]
    gram = [np.exp(-0.5 * ((x[:, None] - x) / 0.5) ** 2) for x in z]
    inside = [b[0] for b in plan.nodes[k].inside.wide][:2]
    outside = [b[0] for b in plan.nodes[k].outside.wide][:2]
    L, G = (np.prod([gram[x] for x in side], axis=0) for side in (inside, outside))
    eye = np.eye(60)
    Gamma = np.linalg.solve(G + 0.1 * eye, G)
    B = Gamma @ np.linalg.inv(Gamma.T @ L @ Gamma + 1.0 * eye) @ Gamma.T
    # evidence at grid points of all leaves but one below k, which is asked for
    asked, *others = [plan.leaves.index(c) for c in plan.nodes[k].children]
    others += [plan.leaves.index(c) for c in plan.nodes[root].children if c != k]
    h, codes = {}, [None] * 4
    for x in others:
        kernel = np.exp(-0.5 * ((own[x].grid[:, None] / own[x].spread - z[x]) / 0.5) ** 2)
        h[x] = (kernel / kernel.sum(axis=0))[60]
        codes[place[plan.nodes[plan.leaves[x]].columns[0]]] = np.array([60.0])
    sibling, *rest = others
    w = np.prod([h[x] for x in rest], axis=0) / 60
    w = (B @ (L @ w)) * h[sibling]
    v = plan.nodes[plan.leaves[asked]].columns[0]
    bare = replace(model.operators_, mix=0.0)
    found = answer(bare, read_evidence(plan, codes), [v]).probabilities[v][:, 0]
    kernel = np.exp(-0.5 * ((own[asked].grid[:, None] / own[asked].spread - z[asked]) / 0.5) ** 2)
    wanted = np.maximum(kernel / kernel.sum(axis=0) @ w, 0.0)
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=1e-12)


# --- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["gram", "finite"])
def test_weights_are_repeated_rows(form: str) -> None:
    rows, test = mixed_rows(40), mixed_rows(20, 1)
    weight = np.arange(40) % 3 + 1
    again = {c: np.repeat(v, weight) for c, v in rows.items()}
    kinds = {"kernel": "laplace", "features": 200}
    # the scale of a column follows the rows: give σ in own units, with equal grids
    one = fitted(again, form, **kinds)
    columns = [replace(c, spread=1.0) if isinstance(c, ContinuousColumn) else c
               for c in one.columns_]  # fmt: skip
    learner = lt.PBP.paper(kernel=kinds, form=form)
    found = []

    def place(table: Any) -> tuple[Any, ...]:
        return tuple(c.place(Values(np.asarray(table[c.name]))) for c in columns)

    for table, w in ((again, None), (rows, weight.astype(float))):
        operators = learner.learn_mixed(one.plan_, columns, LocalRows(Rows(place(table), w)))
        found.append(log_evidence(operators, read_evidence(one.plan_, place(test)))[0])
    np.testing.assert_allclose(found[1], found[0], atol=1e-8)


def test_sigma_in_own_units_and_in_standard_deviations() -> None:
    rows = mixed_rows(60)
    sd = fitted(rows, sigma=0.4)
    spread = {c.name: c.scale * c.spread for c in sd.columns_ if isinstance(c, ContinuousColumn)}
    scaled = {c: v / spread[c] if c in spread else v for c, v in rows.items()}
    own = fitted(scaled, sigma=0.4, units="own")
    test = mixed_rows(20, 1)
    moved = {c: v / spread[c] if c in spread else v for c, v in test.items()}
    shift = sum(np.log(s) for s in spread.values())
    np.testing.assert_allclose(own.score_samples(moved) - shift, sd.score_samples(test), atol=1e-9)


def test_gram_form_learns() -> None:
    """Better than the marginals on new rows, and its answers are densities."""
    rows, test = mixed_rows(400), mixed_rows(200, 1)
    model = fitted(rows, inside=2, outside=4)
    alone = sum(
        fitted_alone(rows[c]).score_samples({"x": test[c]}).mean() for c in ("x", "y", "z", "u")
    )
    share = np.bincount(rows["d"], minlength=3) / 400
    assert model.score(test) > alone + np.log(share[test["d"]]).mean() + 0.3
    p = model.query("x", {"z": -2.0, "d": 2})
    assert p.pdf(p.grid()[0]).min() >= 0
    assert abs(p.cdf(1e9) - 1) < 1e-12
    assert p.mean > model.query("x", {"z": 0.0, "d": 0}).mean + 1


def fitted_alone(x: Any) -> lt.LatentModel:
    return lt.LatentModel(["x"], learner=lt.PBP.paper(kernel="rbf", form="gram")).fit({"x": x})


def test_pairs_of_columns_in_one_leaf() -> None:
    rows = mixed_rows(80)
    data = {c: rows[c] for c in "xyzu"}
    models = [
        lt.LatentModel("A->B; A->x; A->y; B->z; B->u", ["A", "B"], lt.PBP.paper(
            kernel={"kernel": "laplace", "features": 80}, form=f)).fit(data)
        for f in ("gram", "finite")
    ]  # fmt: skip
    test = mixed_rows(30, 1)
    scores = [m.score_samples({c: test[c] for c in "xyzu"}) for m in models]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-8)


def test_samples_and_joint_queries() -> None:
    model = fitted(mixed_rows(200), inside=2, outside=4)
    drawn = model.sample(500, random_state=0)
    assert {*drawn} == {*"xyzdu"}
    assert all(np.isfinite(v).all() for v in drawn.values())
    assert abs(drawn["x"].mean() - mixed_rows(200)["x"].mean()) < 0.4
    joint = model.query(["d", "x"], {"z": 0.0})
    assert abs(np.asarray(joint).sum() - 1) < 1e-9


# --- errors ---------------------------------------------------------------------------------------


def test_clear_errors(tmp_path: Any) -> None:
    rows = mixed_rows(60)
    holes = {**rows, "x": np.where(np.arange(60) < 3, np.nan, rows["x"])}
    with pytest.raises(DataError, match=r"3 of 60 rows miss a cell.*form='finite'"):
        fitted(holes)
    assert np.isfinite(fitted(holes, "finite").score_samples(holes)).all()
    with pytest.raises(DataError, match=f"at most {LARGEST_GRAM:,} rows"):
        fitted(mixed_rows(LARGEST_GRAM + 1))
    with pytest.raises(DataError, match=r"'[xy]' is continuous"):
        fitted(rows, kernel="delta")
    with pytest.raises(DataError, match="needs a kernel"):
        lt.LatentModel(TREE, LATENTS, "paper").fit(rows)
    with pytest.raises(StoreError, match="Gram form"):
        fitted(rows).save(tmp_path / "m")
    wild = {**rows, "x": np.random.default_rng(0).standard_cauchy(60)}
    with pytest.raises(DataError, match="long tails"):
        fitted(wild, units="own")
    for given, error in (
        ({"kernel": "rfb"}, UnknownNameError),
        ({"units": "metres"}, UnknownNameError),
        ({"bandwidth": 1}, UnknownNameError),
        ({"sigma": 0.0}, DataError),
        ({"ridge": (-1.0, 1.0)}, DataError),
        ({"inside": 0}, DataError),
        (3, DataError),
    ):
        with pytest.raises(error):
            lt.LatentModel(TREE, LATENTS, lt.PBP.paper(kernel=given, form="gram")).fit(rows)
    with pytest.raises(LatentiaError, match="form"):
        lt.LatentModel(TREE, LATENTS, lt.PBP.paper(kernel="rbf", form="dual")).fit(rows)


# --- feature maps ---------------------------------------------------------------------------------

COLUMNS = (
    ContinuousColumn("a", 0.0, 1.0, False, -4.0, 4.0, 1.0),
    ContinuousColumn("b", 0.0, 1.0, False, -4.0, 4.0, 1.0),
    DiscreteColumn("c", (0, 1, 2)),
)


def coordinates_of(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return np.stack([rng.normal(size=n), rng.normal(size=n), rng.integers(3, size=n)])


def kernel_by_hand(name: str, z: Any, y: Any, width: float) -> Any:
    k = KERNELS[name]
    same = np.where(z[2][:, None] == y[2], 1.0, 0.3)
    return k(z[0][:, None] / width, y[0] / width) * k(z[1][:, None] / width, y[1] / width) * same


@pytest.mark.parametrize("kernel", ["rbf", "laplace", "matern"])
def test_nystroem_reproduces_the_kernel_on_landmarks(kernel: str) -> None:
    z = coordinates_of(40)
    block = make_map(COLUMNS, (0, 1, 2), z, 0.8, kernel, features=40)
    wanted = kernel_by_hand(kernel, z, z, 0.8 * 2**0.5)
    phi = block(z)
    np.testing.assert_allclose(phi.T @ phi, wanted, atol=2e-6)
    assert len(phi) <= 40
    fresh = coordinates_of(30, 1)  # between a landmark and any other point it is exact, too
    np.testing.assert_allclose(
        phi.T @ block(fresh), kernel_by_hand(kernel, z, fresh, 0.8 * 2**0.5), atol=2e-3
    )


@pytest.mark.parametrize("kernel", ["rbf", "laplace", "matern"])
def test_fourier_features_converge_to_the_kernel(kernel: str) -> None:
    z = coordinates_of(60)
    wanted = kernel_by_hand(kernel, z, z, 0.8 * 2**0.5)
    errors = []
    for count in (400, 6400):
        phi = make_map(COLUMNS, (0, 1, 2), z, 0.8, kernel, "fourier", count)(z)
        errors.append(float(np.sqrt(np.mean((phi.T @ phi - wanted) ** 2))))
    assert errors[0] < 2 / 20
    assert errors[1] < 2 / 80
    assert errors[1] < errors[0] / 2.5


def test_an_rbf_object_is_the_distance_kernel() -> None:
    x = np.random.default_rng(0).normal(size=20)
    wanted = np.exp(-0.5 * cdist(x[:, None], x[:, None], "sqeuclidean"))
    np.testing.assert_allclose(as_kernel(RBF())(x[:, None], x), wanted, atol=1e-12)


@pytest.mark.parametrize("kernel", ["laplace", Matern(nu=2.5), lambda x, y: np.exp(-abs(x - y))])
@pytest.mark.parametrize("chosen", ["nystroem", "fourier"])
def test_kernels_of_the_default_learner(kernel: Any, chosen: str) -> None:
    rows, test = mixed_rows(400), mixed_rows(200, 1)
    settings = lt.KernelSettings(kernel=kernel, map=chosen, rank=2)
    learner = lt.PBP(kernel=settings, refine=False)
    if chosen == "fourier" and not isinstance(kernel, str):
        with pytest.raises(DataError, match="Fourier"):
            lt.LatentModel(TREE, LATENTS, learner).fit(rows)
        return
    model = lt.LatentModel(TREE, LATENTS, learner).fit(rows)
    plain = lt.PBP(kernel=lt.KernelSettings(rank=2), refine=False)
    wanted = lt.LatentModel(TREE, LATENTS, plain).fit(rows).score(test)
    assert model.score(test) > wanted - 0.15

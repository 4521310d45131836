"""Scales, walls, atoms and lattices of continuous columns, against rows and against scipy."""

import warnings

import numpy as np
import pytest
from scipy import integrate, stats

import latentia as lt
from latentia.data.columns import masses
from latentia.data.columns.continuous import ContinuousColumn, straightened
from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.grids import find_lattice
from latentia.data.columns.scales import bend, spread_out, steepness, straighten
from latentia.data.columns.values import Values
from latentia.errors import StoreError
from latentia.inference.posterior_density import Density
from latentia.store.column_record import read_column, write_column

pytestmark = pytest.mark.usefixtures("nameless")

N = 2000


def zero_inflated(rng, share, cells):
    return np.where(rng.random(N) < share, 0.0, cells)


def clusters(rng, apart, width=1.0):
    first = rng.random(N) < 0.4
    return np.where(first, rng.normal(size=N), apart + width * rng.normal(size=N))


CELLS = {
    "normal": lambda rng: rng.normal(3, 2, N),
    "lognormal .5": lambda rng: rng.lognormal(0, 0.5, N),
    "lognormal 1": lambda rng: rng.lognormal(0, 1, N),
    "lognormal 2": lambda rng: rng.lognormal(3, 2, N),
    "lognormal 4": lambda rng: rng.lognormal(0, 4, N),
    "minus lognormal": lambda rng: -rng.lognormal(0, 3, N),
    "far from zero": lambda rng: 1000 + rng.lognormal(0, 2, N),
    "5 % zeros": lambda rng: zero_inflated(rng, 0.05, rng.lognormal(0, 1, N)),
    "30 % zeros": lambda rng: zero_inflated(rng, 0.3, rng.lognormal(0, 2, N)),
    "zeros, negatives": lambda rng: zero_inflated(rng, 0.05, rng.normal(1, 2, N)),
    "many zeros, negatives": lambda rng: zero_inflated(rng, 0.3, rng.normal(1, 2, N)),
    "two clusters": lambda rng: clusters(rng, 8.0),
    "two far clusters": lambda rng: clusters(rng, 1000.0),
    "a narrow and a wide one": lambda rng: clusters(rng, 1000.0, 50.0),
    "Cauchy": lambda rng: rng.standard_cauchy(N),
    "uniform": lambda rng: rng.random(N),
    "beta": lambda rng: rng.beta(0.5, 0.5, N),
    "sine": lambda rng: 5.0 * np.sin(2.0 * np.pi * rng.random(N)),
    "mass at both ends": lambda rng: np.clip(rng.normal(0.5, 0.5, N), 0, 1),
    "exponential": lambda rng: rng.exponential(5, N),
    "integers": lambda rng: rng.poisson(200, N),
    "skewed integers": lambda rng: rng.geometric(0.01, N),
    "counts, many of them zero": lambda rng: rng.negative_binomial(0.3, 0.01, N),
    "counts, 5 % more zeros": lambda rng: zero_inflated(rng, 0.05, rng.poisson(60, N)),
    "counts up to a most": lambda rng: np.minimum(rng.poisson(600, N), 620),
    "ties": lambda rng: (4 * rng.normal(0, 2, N)).round() / 4,
}
FEW = lt.StepwiseEM(restarts=2, random_state=0)


def column_of(cells):
    return discover_from_values("x", Values(np.asarray(cells)))


def with_others(rng, x):
    """Three columns that go with the rank of x."""
    rank = np.argsort(np.argsort(x, kind="stable")) / N
    return {"x": x} | {f"b{j}": (rng.random(N) < 0.2 + 0.6 * rank).astype(int) for j in range(3)}


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        *((x, y) for x in CELLS for y in ("pbp", "em", "tables")),
        *((x, "stepwise") for x in list(CELLS)[::3]),
    ],
)
def test_marginals_have_the_levels_of_the_rows(name, learner):
    """Within three standard errors of what N rows tell; nothing below the smallest value."""
    rng = np.random.default_rng(len(name))
    x = CELLS[name](rng)
    learner = {"em": lt.EM(2, random_state=0), "stepwise": FEW}.get(learner, learner)
    model = lt.LatentModel("h->x; h->b0; h->b1; h->b2", {"h": 2}, learner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lt.errors.ConvergenceWarning)
        density = model.fit(with_others(rng, x)).query("x")
    below = float(density.cdf(x.min() - 0.01 * np.ptp(x)))
    above = 1.0 - float(density.cdf(x.max() + 0.01 * np.ptp(x)))
    assert max(below, above) < 0.005
    assert_levels(x, density)


def assert_levels(x, density):
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = np.quantile(x, level, method="inverted_cdf")
        share = (x <= at).mean()
        error = np.sqrt(max(share * (1 - share), 1 / N) / N)
        assert float(density.cdf(at)) == pytest.approx(share, abs=3 * error), level


@pytest.mark.parametrize(
    "name", ["two clusters", "two far clusters", "30 % zeros", "Cauchy", "counts up to a most"]
)
def test_shapes_that_no_latent_tells(name):
    """Other columns say which state it is, and x has nothing to do with it."""
    rng = np.random.default_rng(101)
    x, h = CELLS[name](rng), rng.integers(2, size=N)
    others = {f"b{j}": np.where(rng.random(N) < 0.9, h, 1 - h) for j in range(5)}
    graph = "h->x; " + "; ".join(f"h->b{j}" for j in range(5))
    model = lt.LatentModel(graph, {"h": 2}, lt.EM(4, random_state=0)).fit({"x": x} | others)
    assert_levels(x, model.query("x"))


@pytest.mark.parametrize("spread", [1e-12, 1e-7, 1e-5])
def test_hardly_any_spread_is_no_rounding(spread):
    """Values close to 10 are not all of them 10."""
    x = 10.0 + spread * np.random.default_rng(0).normal(size=N)
    column = column_of(x)
    masses_ = np.full(column.cells, 1.0 / column.cells)
    assert column.lattice == (0, 1)
    middle = (x.min() + x.max()) / 2
    found = float(masses.cdf(column, masses_, np.array([middle]))[0])
    assert found == pytest.approx(0.5, abs=0.02)  # a level grid, but for the room at its ends


@pytest.mark.parametrize("name", CELLS)
def test_scales_are_there_and_back(name):
    x = np.sort(CELLS[name](np.random.default_rng(1)).astype(float))
    column = column_of(x)
    z = column.scaled(x)
    assert (np.diff(z) >= 0).all()
    size = np.abs(x).max() if not column.warped else np.abs(x) + column.scale
    assert (np.abs(column.unscaled(z) - x) <= 1e-9 * size).all()
    probe = np.linspace(column.low, column.high, 301)
    there = column.unscaled(probe)
    step = 1e-6 / column.slope(there)  # a small step in z
    rise = (column.scaled(there + step) - column.scaled(there - step)) / (2 * step)
    np.testing.assert_allclose(rise, column.slope(there), rtol=1e-3)


@pytest.mark.parametrize("name", CELLS)
def test_files_keep_every_scale(name):
    column = column_of(CELLS[name](np.random.default_rng(2)))
    assert read_column(write_column(column), "x", column.cells) == column


def test_files_from_before_have_no_curve_no_walls_and_no_lattice():
    old = {"centre": 0.5, "scale": 2.0, "warped": True, "ends": [-3.0, 3.0], "spread": 1.0}
    column = read_column({**old, "points": 9, "atoms": [0.0]}, "x", 10)
    expected = ContinuousColumn("x", 0.5, 2.0, True, -3.0, 3.0, 1.0, 9, (0.0,))
    assert column == expected
    assert set(write_column(column)) == {*old, "points", "atoms"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"knots": [[0.0, 0.0]]},
        {"knots": [[0.0, 0.0], [1.0, 0.0]]},
        {"knots": [[0.0, 1.0], [1.0, 0.0]]},
        {"knots": [[0.0, 0.0], [float("nan"), 1.0]]},
        {"knots": [[0.0, 0.0], [1e300, 1.0]]},
        {"knots": [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]},
        {"knots": [[float(k), float(k)] for k in range(300)]},
        {"knots": {}},
        {"walls": [1, 0]},
        {"walls": [True]},
        {"lattice": [-1, 1]},
        {"lattice": [1, 0]},
        {"lattice": [0.5, 1]},
        {"other": 1},
    ],
    ids=str,
)
def test_wrong_scales_in_files_are_refused(wrong):
    record = write_column(ContinuousColumn("x", 0.0, 1.0, False, -3.0, 3.0, 1.0, 9))
    count = 9 + len(wrong.get("atoms", ()))
    with pytest.raises(StoreError):
        read_column({**record, **wrong}, "x", count)


def test_rows_of_two_percent_at_a_value_are_an_atom():
    rng = np.random.default_rng(3)
    x = rng.normal(size=5000)
    x[:150] = 1.5
    assert column_of(x).atoms == (1.5,)
    x[75:150] = rng.normal(size=75)
    assert column_of(x).atoms == ()


def test_positive_columns_have_no_values_below_zero():
    for sigma in (0.5, 1, 2, 4):
        column = column_of(np.random.default_rng(4).lognormal(0, sigma, N))
        assert column.unscaled(np.array([column.low]))[0] >= -0.05
        if sigma >= 1:
            assert column.unscaled(np.array([column.low]))[0] >= 0


def test_ends_that_are_steep_are_walls():
    rng = np.random.default_rng(5)
    assert column_of(rng.random(N)).walls == (True, True)
    assert column_of(rng.exponential(size=N)).walls == (True, False)
    assert column_of(rng.normal(size=N)).walls == (False, False)
    assert column_of(rng.normal(size=30)).walls == (False, False)


# --- curves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_curves_rise_through_their_knots_and_back(seed):
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.lognormal(0, 2, 8))
    z = np.cumsum(rng.lognormal(0, 2, 8))
    knots = tuple(zip(y.tolist(), z.tolist(), strict=True))
    np.testing.assert_allclose(bend(knots, y), z, rtol=1e-9)
    probe = np.linspace(y[0] - 3, y[-1] + 3, 4001)
    there = bend(knots, probe)
    assert (np.diff(there) > 0).all()
    np.testing.assert_allclose(straighten(knots, there), probe, atol=1e-7 * np.ptp(y))
    area = integrate.quad(lambda t: steepness(knots, np.array(t)), y[0], y[1])[0]
    assert area == pytest.approx(z[1] - z[0], rel=1e-6)
    assert np.isnan(bend(knots, np.array([np.nan]))).all()


def test_knots_that_do_not_rise_are_left_out():
    assert spread_out([(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]) == ((0, 0), (1, 1), (2, 2))


# --- lattices -------------------------------------------------------------------------------------


def test_lattices_are_found():
    assert find_lattice(np.array([3.0, 6.0, 12.0])) == (3, 1)
    assert find_lattice(np.array([0.25, 1.0, 7.75])) == (1, 4)
    assert find_lattice(np.array([0.1, 0.2, 0.3], dtype=np.float32).astype(float)) == (1, 10)
    assert find_lattice(np.array([1.0, 2.0, 1e-10])) == (0, 1)
    assert find_lattice(np.array([1234567.4, 1.0 / 3.0])) == (0, 1)


def test_a_lattice_is_counted_up_to_its_values():
    """P(X ≤ k) of a fine binomial, as scipy has it; quantiles are values of the lattice."""
    truth = stats.binom(200, 0.3)
    column = column_of(truth.rvs(20_000, random_state=0))
    assert column.lattice == (1, 1)
    p = np.zeros(column.cells)
    cells, weights = column.corners(column.positions(np.arange(201.0)))
    for cell, weight in zip(cells, weights, strict=True):
        np.add.at(p, cell, weight * truth.pmf(np.arange(201)))
    density = Density(column, p)
    for k in (45, 55, 60, 62, 70):
        # a hat is spread over more than its own value: a second difference of the levels
        assert float(density.cdf(k)) == pytest.approx(truth.cdf(k), abs=0.004)
        assert float(density.cdf(k + 0.6)) == float(density.cdf(k))
    for level in (0.05, 0.5, 0.95):
        assert density.quantile(level) == truth.ppf(level)
    drawn = density.sample(500, random_state=0)
    assert (drawn == np.rint(drawn)).all()


def test_decimals_with_frequent_values_stay_on_their_lattice():
    """Two values of many rows stand alone; draws and quantiles between them have two decimals."""
    rng = np.random.default_rng(3)
    x = np.round(rng.gamma(4.0, 300.0, 1500), 2)
    x[:60], x[60:110] = 199.95, 1500.5
    column = column_of(x)
    assert column.atoms == (199.95, 1500.5)
    assert column.lattice == (1, 100)
    p = np.full(column.cells, 1.0 / column.cells)
    drawn = masses.draw(column, rng.integers(column.cells, size=500), rng)
    found = masses.quantiles(column, p[:, None], np.linspace(0.02, 0.98, 49).tolist())
    for values in (drawn, found):
        assert np.abs(values * 100 - np.rint(values * 100)).max() < 1e-6


def test_zeros_stand_alone_though_other_values_come_again():
    """Two rows in three are zero, the others have some seventy values: zero is not smeared."""
    rng = np.random.default_rng(5)
    others = rng.lognormal(0.0, 1.0, 70)
    x = np.where(rng.random(3000) < 0.66, 0.0, rng.choice(others, 3000))
    column = column_of(x)
    assert column.atoms == (0.0,)
    even = column_of(rng.choice(others[:40], 3000))  # none is more frequent than others
    assert even.atoms == ()


def test_quantiles_between_several_atoms_are_the_smallest_values_that_reach_the_level():
    """Against a search along P(X ≤ x); of several atoms below, one only was taken off."""
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=900), np.repeat([-1.0, 0.25, 0.5, 1.5], 60)])
    column = column_of(x)
    assert column.atoms == (-1.0, 0.25, 0.5, 1.5)
    p = rng.dirichlet(np.full(column.cells, 0.3), size=6).T
    levels = [0.01, 0.2, 0.4, 0.5, 0.6, 0.8, 0.97]
    found = masses.quantiles(column, p, levels)
    for own, each in zip(p.T, found.T, strict=True):
        reached = masses.cdf(column, own, each)
        before = masses.cdf(column, own, each - 1e-9)
        # cdf and its inverse are exact up to rounding; 1e-9 of x moves levels by less than 1e-6
        assert (reached >= np.array(levels) - 1e-9).all()
        assert (before <= np.array(levels) + 1e-6).all()


def test_draws_from_the_outer_cells_are_even_up_to_the_end():
    """They were heaped at the end itself."""
    column = ContinuousColumn("x", 0.0, 1.0, False, 0.0, 4.0, 1.0, points=4)
    rng = np.random.default_rng(0)
    drawn = masses.draw(column, np.zeros(40_000, dtype=int), rng)
    p = np.zeros(4)
    p[0] = 1.0
    found = stats.kstest(drawn, lambda x: masses.cdf(column, p, x))
    assert found.pvalue > 0.001
    drawn = masses.draw(column, np.full(40_000, 3), rng)
    assert stats.kstest(drawn, lambda x: masses.cdf(column, p[::-1], x)).pvalue > 0.001


def test_the_mode_is_that_of_the_density_per_unit():
    """On a curved scale the highest point of z is another one."""
    truth = stats.lognorm(1.0)
    column = column_of(truth.rvs(20_000, random_state=1))
    ends = np.concatenate([[column.low], (column.grid[1:] + column.grid[:-1]) / 2, [column.high]])
    level = truth.cdf(column.unscaled(ends))
    density = Density(column, np.diff(level) / (level[-1] - level[0]))
    step = column.step / column.slope(np.array([np.exp(-1.0)]))[0]
    assert density.mode == pytest.approx(np.exp(-1.0), abs=2 * step)


@pytest.mark.parametrize(("cells", "version"), [("normal", 3), ("lognormal 2", 5), ("uniform", 5)])
def test_files_have_the_oldest_version_that_can_say_it(cells, version, tmp_path):
    rng = np.random.default_rng(0)
    data = with_others(rng, CELLS[cells](rng))
    model = lt.LatentModel("h->x; h->b0; h->b1; h->b2", {"h": 2}, "em").fit(data)
    path = tmp_path / "model.lt"
    lt.save(model, path)
    assert int.from_bytes(path.read_bytes()[8:12], "little") == version
    loaded = lt.load(path)
    assert loaded.columns_ == model.columns_
    assert loaded.query("x").quantile(0.9) == pytest.approx(model.query("x").quantile(0.9))


SHAPES = [
    lambda rng, k: rng.integers(-5, 5, k).astype(float),
    lambda rng, k: rng.normal(size=k) * 10.0 ** rng.integers(-30, 30, k),
    lambda rng, k: 10.0 ** rng.integers(-90, 90, k),
    lambda rng, k: np.cumsum(rng.lognormal(0, 5, k)),
    lambda rng, k: rng.standard_cauchy(k) ** 5,
]


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_any_few_numbers_can_be_laid_on_a_grid(shape):
    """Two values, single values between gaps, a hundred decades: all numbers stay finite."""
    rng = np.random.default_rng(shape)
    for _ in range(60):
        cells = rng.choice(SHAPES[shape](rng, rng.integers(2, 12)), rng.integers(2, 60))
        if len(np.unique(cells)) < 2:
            continue
        weight = rng.random(len(cells)) if rng.random() < 0.5 else None
        column = discover_from_values("x", Values(cells), "continuous", weight=weight)
        assert np.isfinite(column.place(Values(cells))).all()
        assert np.isfinite(column.log_factor(Values(cells))).all()
        x = np.array(column.labels[: column.points])
        assert np.isfinite(x).all()
        assert (np.diff(x) >= 0).all()
        p = rng.dirichlet(np.ones(column.cells), 2).T
        assert np.isfinite(column.summary(p)).all()
        assert read_column(write_column(column), "x", column.cells) == column


@pytest.mark.parametrize("seed", range(6))
def test_columns_that_are_steep_at_both_ends_are_laid_on_a_curve(seed):
    """Half of these tables missed the outer levels by up to 4.5 standard errors."""
    assert column_of(np.random.default_rng(seed + 2).beta(0.5, 0.5, 2000)).knots


def test_columns_that_need_their_own_units_go_straight():
    """What two clusters bend; long tails cannot be straightened, and say so where it matters."""
    rng = np.random.default_rng(0)
    x = clusters(rng, 12.0)
    bent = column_of(x)
    straight = straightened(bent)
    assert bent.knots
    assert not straight.curved
    ends = np.array([bent.low, bent.high])
    np.testing.assert_allclose(straight.unscaled(np.array([-2.0, 2.0])), bent.unscaled(ends))
    np.testing.assert_allclose(straight.unscaled(straight.scaled(x)), x, atol=1e-9)
    tails = column_of(rng.standard_cauchy(N))
    assert straightened(tails) is tails
    tail = column_of(rng.lognormal(0, 3, N))
    assert straightened(tail) is tail


def test_tied_columns_with_clusters_are_learned():
    rng = np.random.default_rng(1)
    h = rng.integers(2, size=N)
    data = {name: 12.0 * h + rng.normal(size=N) for name in "ab"} | {"c": h}
    assert column_of(data["a"]).knots
    learner = lt.EM(tied=[["a", "b"]])
    model = lt.LatentModel("h->a; h->b; h->c", {"h": 2}, learner).fit(data)
    means = [sorted(model.cpts_[name].means.ravel()) for name in "ab"]
    np.testing.assert_allclose(means[0], means[1])
    np.testing.assert_allclose(means[0], [0.0, 12.0], atol=0.15)  # five standard errors


def test_heaps_of_whole_numbers_stand_alone() -> None:
    """What is seen far more than its neighbours is no wave of a density; ages of all are."""
    rng = np.random.default_rng(0)
    tax = np.concatenate([rng.integers(180, 480, size=700), np.full(300, 666)])
    assert column_of(tax.astype(float)).atoms == (666.0,)
    ages = rng.integers(20, 90, size=2000).astype(float)  # a seventieth of the rows each
    assert column_of(np.append(ages, 20.5)).atoms == ()


def test_decimals_that_come_again_stand_alone() -> None:
    """Of decimals on no lattice a value with a fiftieth of the rows is one of its own."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=12)
    rows = np.concatenate([few.repeat(50), rng.normal(size=40).repeat(3)])
    assert column_of(rows).atoms == tuple(sorted(few))


def test_logarithms_of_small_counts_keep_their_values() -> None:
    """Nearly all rows have one of a few values, on no lattice: each keeps its own probability."""
    rng = np.random.default_rng(0)
    family = np.minimum(1 + rng.poisson(3.0, 2000), 14)
    column = column_of(np.log(family))
    often = [k for k in range(1, 15) if (family == k).mean() >= 0.02]
    np.testing.assert_allclose(column.atoms, np.log(often))

"""Kernel factors by one matrix product, against member by member; settings tried in single."""

from dataclasses import replace

import numpy as np
import pytest

from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.kernels import feature_maps
from latentia.kernels.choose_settings import RoughModels, learn_rough
from latentia.kernels.embedding import (
    choose_sides,
    embed,
    in_single,
    look_once,
    sum_embedded,
    sum_sides,
)
from latentia.kernels.feature_maps import coordinates, make_map
from latentia.kernels.settings import KernelSettings
from latentia.model.mixed_plans import plan_mixed
from latentia.structure.templates import latent_class

pytestmark = pytest.mark.usefixtures("nameless")


def table(holes, n=120):
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=n)
    values = {
        "x": h + rng.normal(size=n),
        "y": rng.normal(size=n) - h,
        "c": np.array(list("abc"))[(h + rng.integers(2, size=n)) % 3],
        "d": np.array(list("uv"))[h],
    }
    columns = [discover_from_values(name, Values(v)) for name, v in values.items()]
    codes = [c.place(Values(v)) for c, v in zip(columns, values.values(), strict=True)]
    if holes:
        for i, own in enumerate(codes):
            lost = rng.random(n) < 0.2
            codes[i] = np.where(lost, np.nan if own.dtype.kind == "f" else -1, own)
    return columns, codes


@pytest.mark.parametrize("members", [(0, 1), (0, 2), (0, 1, 2, 3), (2, 3)])
@pytest.mark.parametrize("holes", [False, True])
def test_one_product_finds_what_members_do_one_by_one(members, holes, monkeypatch):
    columns, codes = table(holes)
    z = coordinates(columns, codes)
    block = make_map(columns, members, z, 0.5, features=20)
    own = z[list(members)]
    found = block.factors(own)
    single = replace(block, single=True).factors(own)
    monkeypatch.setattr(feature_maps, "MOST_MARKS", -1)
    slow = block.factors(own)
    np.testing.assert_allclose(found, slow, rtol=1e-11)  # exponents to 1e2, rounded
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, slow, rtol=1e-4, atol=1e-30)


def test_sums_in_single_precision_are_near():
    columns, codes = table(False)
    plan = plan_mixed(latent_class(["x", "y", "c", "d"], None), columns)
    rows = Rows(tuple(codes))
    sides = choose_sides(plan, columns, coordinates(columns, codes), KernelSettings(features=30))
    exact, near = (sum_sides(columns, s, rows).sums for s in (sides, in_single(sides)))
    for name, total in exact.items():
        assert near[name].dtype == float
        # features of a root with pivots down to 1e-3, in single precision
        np.testing.assert_allclose(near[name], total, atol=1e-3 * abs(total).max())


def test_a_triangular_root_of_the_kernel_is_a_root():
    columns, codes = table(False)
    z = coordinates(columns, codes)
    block = make_map(columns, (0, 1, 2), z, 0.3, features=25)
    K = block.factors(block.landmarks)
    phi = block.mixing @ K
    assert np.array_equal(block.mixing, np.tril(block.mixing))  # it was well-posed
    np.testing.assert_allclose(phi.T @ phi, K, atol=1e-9)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_may_be_mixed_instead_of_rows(holes, weighted, monkeypatch):
    columns, codes = table(holes)
    plan = plan_mixed(latent_class(["x", "y", "c", "d"], None), columns)
    weight = np.random.default_rng(1).random(len(codes[0])) if weighted else None
    rows = Rows(tuple(codes), weight)
    sides = choose_sides(plan, columns, coordinates(columns, codes), KernelSettings(features=30))
    assert any(m.mixes_last for m in sides.maps)
    last = sum_sides(columns, sides, rows).sums
    monkeypatch.setattr(feature_maps.BlockMap, "mixes_last", property(lambda _: False))
    first = sum_sides(columns, sides, rows).sums
    assert last.keys() == first.keys()
    for name, total in first.items():
        # roots of matrices with eigenvalues down to 1e-6: errors of 1e-16 grow by as much
        np.testing.assert_allclose(last[name], total, atol=1e-9 * abs(total).max())


def test_equal_points_are_taken_once_in_the_order_in_which_they_are_met():
    rng = np.random.default_rng(0)
    for width in (1, 3):
        points = rng.integers(-1, 2, size=(width, 40)) * 1.0
        points[points == 0] = np.where(rng.random((points == 0).sum()) < 0.5, -0.0, 0.0)
        first = np.unique(points, axis=1, return_index=True)[1]
        np.testing.assert_array_equal(feature_maps._once(points), points[:, np.sort(first)])


def test_features_stand_on_the_landmarks_that_tell_the_others():
    """One column needs few; products of features are the kernel, at landmarks left out, too."""
    columns, codes = table(False)
    z = coordinates(columns, codes)
    block = make_map(columns, (0,), z, 0.5, features=100)
    assert len(block.mixing) == block.landmarks.shape[1] < 40
    phi, own = block(z), z[0] / block.bandwidth
    kernel = np.exp(-0.5 * (own[:, None] - own) ** 2)
    np.testing.assert_allclose(phi.T @ phi, kernel, atol=2e-3)  # √ of the cut at 1e-6


def test_features_that_are_kept_make_the_same_model():
    columns, codes = table(True)
    plan = plan_mixed(latent_class(["x", "y", "c", "d"], None), columns)
    rows, settings = Rows(tuple(codes)), KernelSettings(features=30, rank=6)
    source = LocalRows(rows, block_rows=len(rows))
    sides = choose_sides(plan, columns, coordinates(columns, codes), settings)
    kept = look_once(columns, sides, source)
    assert kept is not None
    assert look_once(columns, sides, LocalRows(rows, block_rows=len(rows) - 1)) is None
    pairs = [sum_sides(columns, sides, rows, looked) for looked in (None, kept)]
    found = embed(plan, sides, pairs[0], settings)
    products = [sum_embedded(plan, columns, found, rows, looked) for looked in (None, kept)]
    for one, other in (pairs, products):
        for name, total in one.sums.items():
            np.testing.assert_array_equal(total, other.sums[name])


def test_another_ridge_only_stretches_a_model():
    columns, codes = table(False)
    plan = plan_mixed(latent_class(["x", "y", "c", "d"], None), columns)
    rows, settings = Rows(tuple(codes)), KernelSettings(features=30, rank=6)
    other = replace(settings, ridge=(settings.ridge[0], 7.0))
    shared = RoughModels()
    learn_rough(plan, columns, rows, settings, shared)
    stretched = learn_rough(plan, columns, rows, other, shared)
    slow = learn_rough(plan, columns, rows, other, RoughModels())
    for one, two in zip(stretched.leaves, slow.leaves, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)  # learned in single precision
    for k, tensor in slow.tensors.items():
        np.testing.assert_allclose(stretched.tensors[k], tensor, rtol=1e-4, atol=1e-5)

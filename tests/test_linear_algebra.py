"""Decompositions that fail to converge on finite numbers try other drivers, or say why."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

import latentia as lt
from latentia import linear_algebra
from latentia.errors import DataError
from latentia.linear_algebra import (
    Truncated,
    canonical,
    canonical_whitened,
    eigh,
    pseudo_inverse,
    ridge_solver,
    singular_values,
    svd,
    symmetric_inverse,
    whitener,
)

SOURCE = Path(linear_algebra.__file__).parent


def matrix(p=7, q=4, seed=0):
    return np.random.default_rng(seed).normal(size=(p, q))


def fail(*args, **kwargs):
    raise np.linalg.LinAlgError("did not converge")


@pytest.fixture(params=["first driver", "second driver"])
def driver(request, monkeypatch):
    """All is as it should be; or the fast drivers fail, as they do on some finite matrices."""
    if request.param == "second driver":
        monkeypatch.setattr(np.linalg, "svd", fail)
        monkeypatch.setattr(np.linalg, "eigh", fail)
        slow = scipy.linalg.eigh

        def only_slow(*args, driver=None, **kwargs):
            return (
                fail() if driver in (None, "evr", "evd") else slow(*args, driver=driver, **kwargs)
            )

        monkeypatch.setattr(scipy.linalg, "eigh", only_slow)


@pytest.mark.usefixtures("driver")
class TestDecompositions:
    @pytest.mark.parametrize("shape", [(7, 4), (4, 7), (3, 3), (1, 5)])
    def test_singular_vectors(self, shape):
        X = matrix(*shape)
        u, s, vt = svd(X)
        k = min(shape)
        assert (u.shape, s.shape, vt.shape) == ((shape[0], k), (k,), (k, shape[1]))
        np.testing.assert_allclose((u * s) @ vt, X, atol=1e-12)
        np.testing.assert_allclose(u.T @ u, np.eye(k), atol=1e-12)
        assert (np.diff(s) <= 0).all()
        np.testing.assert_allclose(singular_values(X), s, atol=1e-12)

    @pytest.mark.parametrize("largest", [None, 6, 2, 0])
    def test_eigenvectors(self, largest):
        S = matrix(9, 6).T @ matrix(9, 6)
        values, Q = eigh(S, largest)
        count = 6 if largest is None else largest
        assert (values.shape, Q.shape) == ((count,), (6, count))
        np.testing.assert_allclose(S @ Q, Q * values, atol=1e-11)
        np.testing.assert_allclose(Q.T @ Q, np.eye(count), atol=1e-12)
        assert (np.diff(values) >= 0).all()
        np.testing.assert_allclose(values, scipy.linalg.eigvalsh(S)[6 - count :], atol=1e-11)

    def test_inverses_of_a_matrix_without_full_rank(self):
        X = matrix(6, 3) @ matrix(3, 5, seed=1)  # rank 3
        S = X.T @ X
        for A, inverse in ((X, pseudo_inverse(X, 1e-10)), (S, symmetric_inverse(S, 1e-10))):
            for left, right in ((A @ inverse @ A, A), (inverse @ A @ inverse, inverse)):
                np.testing.assert_allclose(left, right, atol=1e-9)
            np.testing.assert_allclose(A @ inverse, (A @ inverse).T, atol=1e-9)
            np.testing.assert_allclose(inverse @ A, (inverse @ A).T, atol=1e-9)

    @pytest.mark.parametrize("ridge", [1.0, 1e-3, 1e-13, 0.0])
    def test_ridges_below_the_rounding_of_the_matrix(self, ridge):
        """Rank 2 of 5, and of size 1e3: to Cholesky, rounding makes it indefinite."""
        U = np.eye(5)[:, :2] + np.ones((5, 2))
        C = 1e3 * U @ U.T
        x = C @ np.arange(5.0)  # in the span: the answer is tame, whatever the ridge
        found = ridge_solver(C, ridge, 1e-12)(x)
        D = U.T @ U  # by hand: (C + λ)⁻¹ C = U (UᵀU + λ/1e3)⁻¹ Uᵀ
        expected = U @ np.linalg.solve(D + ridge / 1e3 * np.eye(2), U.T @ np.arange(5.0))
        # 1e-13 is below an ulp of C: of x, 1e-16 · 1e5 may lie across it, and counts 1e13-fold
        inside = U @ np.linalg.solve(D, U.T @ found)
        np.testing.assert_allclose(inside, expected, rtol=1e-9)
        assert np.isfinite(found).all()

    def test_what_stands_on_them(self):
        X = matrix(4, 9)
        S = X @ X.T
        R = whitener(S - S[:, :1] @ S[:1] / S[0, 0])  # one direction without variance
        assert R.shape == (4, 3)
        assert Truncated()(X, np.eye(4) @ X).rank == 4
        found = canonical(np.eye(2), np.diag([0.5, 0.25]), np.eye(2), 2)
        np.testing.assert_allclose(found.d, [0.5, 0.25], atol=1e-14)

    def test_numbers_that_are_not_finite_are_named(self):
        for odd in (np.nan, np.inf):
            X = matrix(3, 3)
            X[1, 2] = X[2, 1] = odd
            for decompose in (svd, singular_values, eigh, pseudo_inverse, symmetric_inverse):
                with pytest.raises(DataError, match="expected finite numbers in a matrix of 3×3"):
                    decompose(X)


def test_nothing_converges(monkeypatch):
    for module in (np.linalg, scipy.linalg):
        for name in ("svd", "eigh"):
            monkeypatch.setattr(module, name, fail)
    for decompose, what in ((svd, "singular values"), (eigh, "eigenvalues")):
        with pytest.raises(DataError, match=f"the {what} of a matrix of 3×3 do not converge"):
            decompose(matrix(3, 3))


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("learner", ["pbp", "paper", "spectral"])
def test_models_are_the_same_by_either_driver(learner, monkeypatch):
    """Learned where the fast drivers always fail: the same answers."""
    graph = lt.as_graph("H->a; H->b; H->c; H->d", {"H": 2}, dict.fromkeys("abcd", 3))
    rng = np.random.default_rng(1)
    rows = dict(zip("abcd", lt.testing.random_model(graph, rng).sample(400, rng).T, strict=True))
    answers = []
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(np.linalg, "svd", fail)
            monkeypatch.setattr(np.linalg, "eigh", fail)
        model = lt.LatentModel("H->a; H->b; H->c; H->d", {"H": 2}, learner).fit(rows)
        answers.append(np.asarray(model.query("a", {"b": 1, "c": 0})))
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-7)


def test_every_decomposition_goes_this_way():
    """numpy's and scipy's own, which may not converge, are called in one module only."""
    shy = {"svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv", "pinvh", "lstsq"}
    shy |= {"matrix_rank", "cond"}
    for path in SOURCE.rglob("*.py"):
        if path.name == "linear_algebra.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            direct = isinstance(node, ast.Attribute) and node.attr in shy
            if direct and "linalg" in ast.unparse(node.value):
                pytest.fail(f"{path.name}:{node.lineno} calls {ast.unparse(node)}")
            if isinstance(node, ast.ImportFrom) and "linalg" in (node.module or ""):
                assert not shy & {name.name for name in node.names}, path.name


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-9, 1.0, 1e200])
def test_one_row_is_decomposed_like_many(scale):
    """Directions of one coordinate against several: the same up to a sign."""
    row = np.random.default_rng(0).normal(size=(1, 5)) * scale
    one, other = np.eye(1), np.eye(5)
    found = canonical_whitened(one, row, other, 3)
    u, d, vt = svd(row)
    assert len(found.d) == int((d > 1e-12).sum())
    for own, right in zip(found.d, np.minimum(d, 1.0), strict=False):
        assert own == pytest.approx(right, rel=1e-12)
    if len(found.d):
        np.testing.assert_allclose(found.U @ found.V.T, u[:, :1] @ vt[:1], atol=1e-12)


def test_libraries_that_come_later_are_limited_too() -> None:
    """scipy brings products of its own: loaded between two limits, it is found by the second."""
    told = """
import latentia, sys
from latentia.linear_algebra import LATER, one_thread
from threadpoolctl import threadpool_info
with one_thread():
    pass
assert LATER not in sys.modules
import scipy.linalg
with one_thread():
    print({p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"})
"""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    done = subprocess.run(
        [sys.executable, "-c", told], env={**os.environ, **threads}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "{1}", done.stderr

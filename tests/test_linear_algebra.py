"""Decompositions that fail to converge on finite numbers try other drivers, or say why."""

import ast
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
    eigh,
    pseudo_inverse,
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

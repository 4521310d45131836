"""The embedding of continuous columns: sums over rows, weights, missing cells."""

from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import answer, log_evidence
from latentia.inference.evidence import read_evidence
from latentia.inference.operators import Operators
from latentia.kernels.embedding import learn_embedded
from latentia.kernels.settings import KernelSettings
from latentia.testing.random_models import mixed_tree

pytestmark = pytest.mark.usefixtures("nameless")

SETTINGS = KernelSettings(rank=2, features=60)
TREE = mixed_tree(3)


def frame(n: int, seed: int = 0) -> dict[str, Any]:
    return TREE.sample(n, np.random.default_rng(seed))


def with_holes(rows: dict[str, Any], share: float, seed: int = 9) -> dict[str, Any]:
    """Every cell of its own missing with this probability."""
    rng = np.random.default_rng(seed)
    return {c: np.where(rng.random(len(v)) < share, np.nan, v) for c, v in rows.items()}


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    """Its plan and grids serve all tests."""
    learner = lt.PBP(kernel=SETTINGS, refine=False)
    return lt.LatentModel(TREE.graph, TREE.latents, learner).fit(frame(1500))


def place(model: lt.LatentModel, rows: dict[str, Any], weight: Any = None) -> Rows:
    codes = []
    for c in model.columns_:
        x = np.asarray(rows[str(c.name)], dtype=float)
        gone = np.isnan(x)
        cells = np.where(gone, 0, x).astype(int) if c.name == "d4" else x
        codes.append(c.place(Values(cells, gone)))
    return Rows(tuple(codes), weight)


def learned(model: lt.LatentModel, rows: Rows, sample: Rows, block: int = 2**15) -> Operators:
    source = LocalRows(rows, block_rows=block)
    return learn_embedded(model.plan_, model.columns_, source, sample, SETTINGS)


def answers(model: lt.LatentModel, operators: Operators, rows: dict[str, Any]) -> list[Any]:
    """Scores and all posteriors, which do not depend on the signs of directions."""
    evidence = read_evidence(operators.plan, place(model, rows).codes)
    found = answer(operators, evidence).probabilities
    return [log_evidence(operators, evidence)[0], *(found[v] for v in sorted(found))]


def assert_same(model: lt.LatentModel, one: Operators, two: Operators, tolerance: float) -> None:
    for rows in (frame(100, 7), with_holes(frame(100, 7), 0.4)):
        for a, b in zip(answers(model, one, rows), answers(model, two, rows), strict=True):
            np.testing.assert_allclose(b, a, atol=tolerance)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_folds_add_up(model: lt.LatentModel, share: float) -> None:
    rows = place(model, with_holes(frame(1000), share))
    sample = place(model, frame(200, 4))
    assert_same(model, learned(model, rows, sample), learned(model, rows, sample, 97), 1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_weights_are_repeated_rows(model: lt.LatentModel, share: float) -> None:
    rows = with_holes(frame(400), share)
    weight = np.arange(400) % 4
    again = {c: np.repeat(v, weight) for c, v in rows.items()}
    sample = place(model, frame(200, 4))
    one = learned(model, place(model, again), sample)
    two = learned(model, place(model, rows, weight.astype(float)), sample)
    assert one.weight == two.weight == weight.sum()
    assert_same(model, one, two, 1e-8)


def mean_kl(model: lt.LatentModel, operators: Operators, test: dict[str, Any]) -> float:
    """KL of p(x0 | all others) to the truth, on the cells of the grid."""
    column = next(c for c in model.columns_ if c.name == "x0")
    v = operators.plan.graph.index("x0")
    evidence = read_evidence(operators.plan, place(model, test).codes)
    q = answer(operators, evidence, [v]).probabilities[v].T  # (n, cells)
    others = {c: x for c, x in test.items() if c != "x0"}
    p = TREE.posterior("x0", others, column.unscaled(column.grid))
    p = p / p.sum(axis=1, keepdims=True)
    return float((p * np.log((p + 1e-12) / (q + 1e-12))).sum(axis=1).mean())


@pytest.mark.filterwarnings("ignore::latentia.errors.EvidenceWarning")
def test_a_third_of_the_cells_missing_converges_to_complete_data(model: lt.LatentModel) -> None:
    test, sample = frame(200, 8), place(model, frame(200, 4))
    gaps, errors = [], []
    for n in (1000, 16_000):
        rows = frame(n, 5)
        full = learned(model, place(model, rows), sample)
        hollow = learned(model, place(model, with_holes(rows, 0.3)), sample)
        for array in (*hollow.leaves, *hollow.tensors.values(), *hollow.marginals):
            assert np.isfinite(array).all()
        pairs = zip(answers(model, full, test)[1:], answers(model, hollow, test)[1:], strict=True)
        gaps.append(float(np.mean([np.abs(a - b).sum(axis=0).mean() for a, b in pairs])))
        errors.append((mean_kl(model, full, test), mean_kl(model, hollow, test)))
    assert gaps[1] < 0.5 * gaps[0]  # it goes on so: .13, .083, .054, .028, .020 at 10³ · 4^k rows
    assert errors[1][1] < 1.3 * errors[1][0]

"""Estimators are plain before scikit-learn is loaded, and its own from then on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import latentia as lt
from latentia.model.learners import LEARNERS
from latentia.parameters import Parameters, Plain, _short_line, offered_if, unfitted
from latentia.store.model_record import LEARNER_NAMES

# Each runs in a new process that has not loaded scikit-learn; `path` is that of a model.
ASKED = """
import sys, pickle, copy
import latentia as lt
model = lt.load(path)
model.query("a", {"b": 1})
copy.deepcopy(pickle.loads(pickle.dumps(model))).get_params()
assert not hasattr(model, "no_such_thing")
brought = {n for n in sys.modules if n.split(".")[0] in HEAVY or n in PARTS}
assert not brought, brought
"""

FITTED = """
import sys
import numpy as np
import latentia as lt
rows = {c: np.arange(60) % m for c, m in zip("abc", (2, 3, 4))}
lt.LatentModel("H->a; H->b; H->c", {"H": 2}).fit(rows).save(path)
assert "sklearn" not in sys.modules
"""

BECOMES = """
import os, pickle
import latentia as lt
before = lt.load(path)
copied = pickle.dumps(before)
plain = before.get_params()
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
sklearn.set_config(enable_metadata_routing=True)

def check(first):
    exec(first)
    assert isinstance(before, BaseEstimator)
    assert before.get_params() == plain
    assert isinstance(pickle.loads(copied), BaseEstimator)
    assert get_tags(before).input_tags.allow_nan
    assert not hasattr(clone(before), "operators_")
    before.set_fit_request(sample_weight=True)
    assert before.get_metadata_routing().fit.requests["sample_weight"] is True
    assert repr(before).startswith("LatentModel(")

for first in FIRST:
    assert not isinstance(before, BaseEstimator)
    child = os.fork()  # what comes first comes first in a process of its own
    if not child:
        check(first)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, first
"""

FIRST = (  # what may be the first that scikit-learn, a notebook or a user asks of a model
    "clone(before)",
    "get_tags(before)",
    "repr(before)",
    "dir(before)",
    "before.set_params(learner='em'); before.set_params(learner='pbp')",
    "before.set_fit_request",
    "before.get_metadata_routing()",
    "before._repr_html_",
    "lt.LatentModel()",
    "lt.EM()",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = {c: np.arange(60) % m for c, m in zip("abc", (2, 3, 4), strict=True)}
    found = tmp_path_factory.mktemp("models") / "m.latentia"
    lt.LatentModel("H->a; H->b; H->c", {"H": 2}).fit(rows).save(found)
    return found


def run(code: str, path: Path) -> None:
    heavy = "HEAVY = 'sklearn pandas pyarrow polars narwhals joblib'.split()\n"
    parts = "PARTS = ['scipy.' + p for p in 'stats optimize sparse special linalg'.split()]\n"
    told = f"path = {str(path)!r}\n{heavy}{parts}"
    done = subprocess.run([sys.executable, "-c", told + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_model_is_read_and_asked_without_scikit_learn(path: Path) -> None:
    run(ASKED, path)


def test_a_model_is_fitted_and_saved_without_scikit_learn(path: Path) -> None:
    run(FITTED, path.with_name("fitted.latentia"))


def test_a_plain_model_becomes_an_estimator_by_whatever_comes_first(path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs os.fork")
    run(f"FIRST = {FIRST!r}\n{BECOMES}", path)


def test_a_class_that_is_made_later_is_an_estimator_at_once() -> None:
    made = type("Later", (Parameters,), {"fit": lambda self, X, sample_weight=None: self})
    assert issubclass(made, BaseEstimator)
    assert hasattr(made, "set_fit_request")
    assert issubclass(lt.LatentModel, BaseEstimator)
    assert issubclass(lt.EM, BaseEstimator)
    assert Plain not in Parameters.__mro__


@pytest.mark.parametrize("made", [*LEARNERS.values(), lt.LatentModel, lt.LatentClassifier])
def test_plain_parameters_are_those_of_scikit_learn(made: type) -> None:
    estimator = made()
    for deep in (True, False):
        assert Plain.get_params(estimator, deep) == BaseEstimator.get_params(estimator, deep)
    model = lt.LatentModel(learner=lt.EM(restarts=3))
    assert Plain.get_params(model) == BaseEstimator.get_params(model)


@pytest.mark.parametrize("kind", [lt.EM, lt.LatentModel, lt.PBP])
def test_a_short_line_is_that_of_scikit_learn(kind: type) -> None:
    usual = kind().get_params(deep=False)
    some: list[dict[str, object]] = [dict.fromkeys(list(usual)[:k], "any") for k in range(4)]
    some += [dict.fromkeys(list(usual)[1:3], value) for value in (0.25, 3, True, None, "it's")]
    for changed in some:
        shown = usual | changed
        assert _short_line(kind, shown) == BaseEstimator.__repr__(kind(**shown))
    assert _short_line(kind, usual | {next(iter(usual)): "any" * 30}) == ""
    assert _short_line(kind, usual | {next(iter(usual)): {2, 1}}) == ""


class Counted(Parameters):
    """Takes a list, which a copy must not share, and another of its kind."""

    def __init__(self, many: list[int] | None = None, other: Counted | None = None) -> None:
        self.many = many
        self.other = other


def test_unfitted_is_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Counted([1])
    outer = Counted([2, 3], inner)
    inner.found_ = outer.found_ = 1  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "sklearn.base")
        found = unfitted(outer)
    for copied in (found, clone(outer)):
        assert copied.many == [2, 3]
        assert copied.many is not outer.many
        assert copied.other is not inner
        assert copied.other.many == [1]
        assert "found_" not in vars(copied)
        assert "found_" not in vars(copied.other)


class Offers:
    """A method for some, and one whose check says why not."""

    def __init__(self, has: bool) -> None:
        self.has = has

    @offered_if(lambda self: self.has)
    def some(self) -> int:
        """One."""
        return 1

    @offered_if(lambda self: 1 / self.has > 0)
    def told(self) -> int:
        return 2


def test_a_method_is_offered_if_its_check_holds() -> None:
    yes, no = Offers(True), Offers(False)
    assert (yes.some(), yes.told()) == (1, 2)
    assert not hasattr(no, "some")
    with pytest.raises(AttributeError, match="no attribute 'told'") as caught:
        no.told()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert Offers.some.__doc__ == "One."  # of the class: the function, for documentation


def test_names_of_learners_in_files_are_those_that_are_there() -> None:
    assert tuple(LEARNERS) == LEARNER_NAMES

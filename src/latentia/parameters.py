"""Parameters of estimators, after scikit-learn's contract, without loading it before it is used.

Loading scikit-learn takes longer than reading a model and asking it. Estimators here start out
plain; they become scikit-learn's own (`BaseEstimator` takes the place of `Plain` among their bases)
as soon as it is loaded and one of them is made, or asked for what only it can answer. Nobody who
hands an estimator to scikit-learn meets the plain form.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from threading import RLock
from types import MethodType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from latentia.typing import Cell, Foreign, Given


Made = TypeVar("Made")
Answered = TypeVar("Answered")

LOCK = RLock()
SCIKIT_LEARN = "sklearn.base"
SHORT = 60  # characters of a line that scikit-learn would not break


class Plain:
    """What parameters can do while scikit-learn is not loaded; the rest loads it."""

    def get_params(self, deep: bool = True) -> dict[str, Given]:
        """Parameters by name; with `deep` those of parameters too, as ``learner__smoothing``."""
        found: dict[str, Given] = {}
        for name in sorted(inspect.signature(type(self)).parameters):
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{of}": x for of, x in value.get_params().items()}
        return found

    def set_params(self, **params: object) -> Self:
        """Change parameters by name: ``learner="em"``, or ``learner__restarts=3``."""
        found: Self = as_estimator(self).set_params(**params)
        return found

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return shown_with(self, self.get_params(deep=False), N_CHAR_MAX)

    def __dir__(self) -> Iterable[str]:
        return dir(as_estimator(self))

    def __sklearn_tags__(self) -> Foreign:  # this and the next two: heirs extend them
        return become_estimators().__sklearn_tags__(self)

    def _repr_html_inner(self) -> Foreign:
        return become_estimators()._repr_html_inner(self)

    def _repr_mimebundle_(self, **kwargs: object) -> Foreign:
        return become_estimators()._repr_mimebundle_(self, **kwargs)

    def __getattr__(self, name: str) -> Foreign:
        if hasattr(type(self), name):  # a property, or a method that is not offered: say why
            return object.__getattribute__(self, name)
        if SCIKIT_LEARN in sys.modules or name.endswith(("_request", "_routing", "_repr_html_")):
            return getattr(as_estimator(self), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Parameters(Plain):
    """The root of all estimators: what `__init__` takes is kept under the same names."""

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        _become_if_loaded()

    def __new__(cls, *_: object, **__: object) -> Self:
        _become_if_loaded()
        return object.__new__(cls)


def as_estimator(parameters: Parameters | Plain) -> Foreign:
    """The same object, which is an estimator of scikit-learn from now on."""
    become_estimators()
    return parameters


def become_estimators() -> Foreign:
    """`BaseEstimator`, in place of `Plain` among the bases: once, and for good."""
    from sklearn.base import BaseEstimator

    with LOCK:
        if Plain in Parameters.__bases__:
            Parameters.__bases__ = (BaseEstimator,)
            for each in _subclasses(Parameters):  # what it does with every class that inherits it
                BaseEstimator.__init_subclass__.__func__(each)
    return BaseEstimator


def _become_if_loaded() -> None:
    if SCIKIT_LEARN in sys.modules:
        become_estimators()


def _subclasses(kind: type) -> Iterator[type]:
    """A class and all that inherit it, heirs after those they inherit from."""
    yield kind
    heirs: list[type] = kind.__subclasses__()
    for heir in heirs:
        yield from _subclasses(heir)


def shown_with(estimator: object, shown: Mapping[str, object], most: int) -> str:
    """scikit-learn's line for an estimator, as if its parameters were these shorter ones."""
    if _shows_changes() and (short := _short_line(type(estimator), shown)):
        return short
    return str(become_estimators().__repr__(type(estimator)(**shown), most))


def _shows_changes() -> bool:
    """Whether the line is of what was changed only, as it is unless scikit-learn was told else."""
    loaded = sys.modules.get(SCIKIT_LEARN)
    return loaded is None or bool(loaded.get_config()["print_changed_only"])


@cache
def _defaults(kind: type) -> dict[str, Given]:
    return {name: x.default for name, x in inspect.signature(kind).parameters.items()}


def _short_line(kind: type, shown: Mapping[str, object]) -> str:
    """The same line, if it is a short one of plain values; else nothing."""
    usual = _defaults(kind)
    changed = {n: x for n, x in sorted(shown.items()) if repr(x) != repr(usual[n])}
    plain = all(x is None or isinstance(x, str | int | float) for x in changed.values())
    line = f"{kind.__name__}({', '.join(f'{n}={x!r}' for n, x in changed.items())})"
    return line if plain and len(line) <= SHORT else ""


def unfitted(estimator: Made) -> Made:
    """A new estimator of the same parameters: scikit-learn's `clone`, before it is loaded too."""
    if SCIKIT_LEARN in sys.modules:
        from sklearn.base import clone

        found: Made = clone(estimator)
        return found
    assert isinstance(estimator, Parameters)  # nobody has made another kind
    params = estimator.get_params(deep=False)
    return type(estimator)(
        **{
            name: unfitted(x) if isinstance(x, Parameters) else copy.deepcopy(x)
            for name, x in params.items()
        }
    )


class offered_if:  # noqa: N801
    """A method that an object has only if `check(object)` holds; what `check` raises tells why."""

    def __init__(self, check: Callable[[Cell], bool]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Answered]) -> _Offered[Answered]:
        return _Offered(method, self.check)


class _Offered(Generic[Answered]):
    def __init__(self, method: Callable[..., Answered], check: Callable[[Cell], bool]) -> None:
        self.method = method
        self.check = check
        self.__doc__ = method.__doc__

    def __get__(self, owner: object, kind: type | None = None) -> Callable[..., Answered]:
        if owner is None:
            return self.method
        told = f"This {type(owner).__name__!r} has no attribute {self.method.__name__!r}"
        try:
            offered = self.check(owner)
        except Exception as error:
            raise AttributeError(told) from error
        if not offered:
            raise AttributeError(told)
        return MethodType(self.method, owner)


_become_if_loaded()

"""What is asked: variables, states and likelihoods from words of the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from latentia.data.columns.column import KINDS, Column
from latentia.data.sources.cell_spelling import as_number, find_state
from latentia.errors import EvidenceError
from latentia.model.latent_model import LatentModel
from latentia.typing import Cell, Facts, Given, Label

if TYPE_CHECKING:
    from latentia.networks.learner import TunedLearner

WORDS = {"true": True, "false": False, "none": None}


def read_counts(text: str, option: str) -> dict[str, int | None]:
    """`A=3,B=2`; a name alone has no count yet, a number alone is the count of all the others.

    >>> read_counts("A=3, B", "--latents"), read_counts("2, D=5", "--states")
    ({'A': 3, 'B': None}, {'': 2, 'D': 5})
    """
    counts: dict[str, int | None] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, tie, number = (piece.strip() for piece in item.rpartition("="))
        if not tie:
            name, number = ("", item) if item.isdigit() and option == "--states" else (item, "")
        if tie and not (name and number.isdecimal()):
            raise typer.BadParameter(f"expected NAME=NUMBER, got {item!r}.", param_hint=option)
        if name in counts:
            raise typer.BadParameter(f"{name or item!r} is given twice.", param_hint=option)
        counts[name] = int(number) if number else None
    return counts


def read_kinds(text: str) -> dict[str, str]:
    """`x=continuous,y=discrete`.

    >>> read_kinds("x=continuous, y=discrete")
    {'x': 'continuous', 'y': 'discrete'}
    """
    kinds: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, tie, kind = (piece.strip() for piece in item.rpartition("="))
        if not tie or not name or kind not in KINDS or name in kinds:
            raise typer.BadParameter(
                f"expected NAME={' or NAME='.join(KINDS)}, each name once, got {item!r}.",
                param_hint="--kinds",
            )
        kinds[name] = kind
    return kinds


def read_order(text: str) -> str | dict[str, str] | None:
    """`income` for all latents, `class=income,mood=score` for some.

    >>> read_order("income"), read_order("class=income, mood=score"), read_order("")
    ('income', {'class': 'income', 'mood': 'score'}, None)
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) == 1 and "=" not in parts[0]:
        return parts[0]
    return dict(_split(part, "--order-by", "CLASS=COLUMN") for part in parts) or None


def read_latent_names(given: Sequence[str]) -> dict[str, list[str]] | None:
    """`class=low,high` for each latent.

    >>> read_latent_names(["class=low, high"])
    {'class': ['low', 'high']}
    """
    found = dict(_split(text, "--name-states", "CLASS=LOW,HIGH") for text in given)
    return {name: [s.strip() for s in names.split(",")] for name, names in found.items()} or None


def asked_levels(text: str) -> list[float]:
    """`.05,.5,.95`: quantiles between 0 and 1.

    >>> asked_levels(".05,.5")
    [0.05, 0.5]
    """
    found = [as_number(part.strip()) for part in text.split(",") if part.strip()]
    levels = [float(q) for q in found if q is not None and 0 < q < 1]
    if not found or len(levels) != len(found):
        raise typer.BadParameter(
            f"expected numbers between 0 and 1 such as .05,.5,.95, got {text!r}.",
            param_hint="--quantiles",
        )
    return levels


def _split(text: str, option: str, example: str) -> tuple[str, str]:
    name, tie, value = text.partition("=")
    if not tie or not name.strip() or not value.strip():
        raise typer.BadParameter(f"expected {example}, got {text!r}.", param_hint=option)
    return name.strip(), value.strip()


def read_learner(name: str, settings: Sequence[str]) -> TunedLearner:
    """A learner with `restarts=20` and the like.

    >>> read_learner("em", ["restarts=20", "tol=1e-8"])
    EM(restarts=20, tol=1e-08)
    """
    from latentia.model.learners import LEARNERS

    if name not in LEARNERS:
        raise typer.BadParameter(f"the learner {name} has no settings.", param_hint="--set")
    learner = LEARNERS[name]()
    known = learner.get_params(deep=False)
    found: Facts = {}
    for text in settings:
        key, value = _split(text, "--set", "NAME=VALUE")
        if key not in known or key in found:
            raise typer.BadParameter(
                f"{key!r} is given twice."
                if key in found
                else f"the learner {name} has no setting {key!r}; it has {', '.join(known)}.",
                param_hint="--set",
            )
        found[key] = _setting(value)
    return learner.set_params(**found)


def _setting(text: str) -> Given:
    """JSON for what is nested, in place or in a file (@tied.json); else a plain value.

    >>> _setting('[["x", "y"]]'), _setting("20")
    ([['x', 'y']], 20)
    """
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            text = file.read().strip()
    elif not text.startswith(("{", "[[")):
        return _value(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{text[:60]!r} is no JSON: {error}.", param_hint="--set"
        ) from None


def _value(text: str) -> Cell:
    """A number, true, false, none, several of these with commas between, or a word."""
    if "," in text:
        return tuple(_value(part.strip()) for part in text.strip("()[]").split(","))
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def asked_evidence(
    model: LatentModel, given: Sequence[str], option: str = "--given"
) -> dict[Label, Cell]:
    """`G=2` for each variable that is known, `x=0..3` for an interval."""
    evidence: dict[Label, Cell] = {}
    for text in given:
        word, value = _split(text, option, "NAME=STATE")
        name = find_label(model, word)
        if name in evidence:
            raise EvidenceError(f"{name!r} is given twice. Keep one of them.")
        evidence[name] = find_state_of(model, name, value)
    return evidence


def read_soft(model: LatentModel, soft: Sequence[str]) -> dict[Label, dict[Label, float]]:
    """`G=0:.2,1:.8` for each variable with likelihoods of its states."""
    example = "NAME=STATE:LIKELIHOOD,…"
    found: dict[Label, dict[Label, float]] = {}
    for text in soft:
        word, value = _split(text, "--soft", example)
        name = find_label(model, word)
        if any(c.name == name and c.continuous for c in model.columns_):
            raise EvidenceError(
                f"{name!r} is continuous: --soft is for states. Pass an interval, such as "
                f"--given {name}=0..3, or ask in Python."
            )
        if name in found:
            raise EvidenceError(f"{name!r} has soft evidence twice. Keep one of them.")
        found[name] = {}
        for part in value.split(","):
            state, _, likelihood = (piece.strip() for piece in part.rpartition(":"))
            try:
                found[name][find_state_of(model, name, state)] = float(likelihood if state else "")
            except ValueError:
                raise typer.BadParameter(
                    f"expected {example}, got {text!r}.", param_hint="--soft"
                ) from None
    return found


def find_label(model: LatentModel, text: str) -> Label:
    """The variable that prints as `text`; text that names none is left for the model to refuse."""
    return next((name for name in model._graph.names if str(name) == text), text)


def find_variable(model: LatentModel, name: Label) -> Column | None:
    """A column, or a latent that the model has a table of; None for what is neither."""
    own = model._own_tables()
    latents = () if own is None else tuple(own.latent(h) for h in own.hidden)
    return next((c for c in (*model.columns_, *latents) if c.name == name), None)


def find_state_of(model: LatentModel, name: Label, text: str) -> Cell:
    """The state that a word means: of a column as it was learned, of a latent its number."""
    column = find_variable(model, name)
    if column is None:
        return int(text) if text.isdecimal() else text
    return find_value(text) if column.continuous else find_state(column, text)


def find_value(text: str) -> Cell:
    """A number, or an interval `low..high`; other text is left for the model to read or refuse.

    >>> find_value("3.2"), find_value("0..3"), find_value("..-1.5"), find_value("red")
    (3.2, (0.0, 3.0), (None, -1.5), 'red')
    >>> find_value("2024-01-05..2024-02-01")
    ('2024-01-05', '2024-02-01')
    """
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not dots:
        number = as_number(text)
        return text if number is None else float(number)
    return tuple(map(_end, (low, high))) if low or high else text


def _end(text: str) -> Cell:
    number = as_number(text) if text else None
    return (text or None) if number is None else float(number)

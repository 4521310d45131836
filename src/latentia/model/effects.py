"""Effects: what becomes of one variable when another is set by hand, by the graph's own tables."""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, final

import numpy as np
import scipy

from latentia import doors
from latentia.announcing import warn
from latentia.assess.intervals import intervals
from latentia.errors import EffectWarning, EvidenceError, UnknownNameError
from latentia.exact.reading_evidence import labels_of, read_codes
from latentia.exact.surgery import check_apart, check_can_be_set, cut_tables, read_do
from latentia.exact.table_answers import TableAnswers
from latentia.inference.posterior import Posterior
from latentia.inference.questions import read_evidence_given, without_missing
from latentia.spelling import printable, printable_evidence
from latentia.structure.graph import LatentGraph
from latentia.structure.identification import Identification, identify
from latentia.typing import Array, ByName, Cell, Given, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing


@final
@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """P(outcome | do treatment, evidence): a row for each state that the treatment is set to.

    >>> table = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> told = Identification(("drug",), ("cured",), (), True, (), None)
    >>> effect = Effect("drug", "cured", ("no", "yes"), (0, 1), table, None, told)
    >>> {state: round(change, 3) for state, change in effect.average.items()}
    {'no': 0.0, 'yes': 0.5}
    """

    treatment: Label
    outcome: Label
    treatment_states: tuple[Hashable, ...]
    outcome_states: tuple[Hashable, ...]
    table: Array  # (states of the treatment, states of the outcome)
    seen: Array | None  # P(outcome | treatment, evidence) without setting it; None: some impossible
    identification: Identification
    evidence: ByName[Cell] | None = None
    baseline: int = 0  # the state of the treatment that others are compared with
    confidence: float | None = None
    replicates: Array | None = None  # (1 + groups, …) tables of all rows and without each group

    @property
    def numeric(self) -> bool:
        """Whether the outcome has a mean: its states are numbers."""
        return all(isinstance(s, Real) for s in self.outcome_states)

    @property
    def means(self) -> dict[Label, float]:
        """E[outcome | do treatment] by state of the treatment."""
        return dict(zip(self.treatment_states, (self.table @ self._values()).tolist(), strict=True))

    @property
    def average(self) -> dict[Label, Cell]:
        """The change against the baseline, by state of the treatment.

        Of an outcome of numbers the change of its mean, of another that of each probability.
        """
        return self._by_state(self._changes(self.table))

    @property
    def average_intervals(self) -> dict[Label, Cell] | None:
        """(lower, upper) of every change; None unless a confidence was asked for."""
        if self.replicates is None or self.confidence is None:
            return None
        changes = [self._changes(each) for each in self.replicates]
        half = _half_width(changes[0], np.stack(changes[1:]), self.confidence)
        centre = self._changes(self.table)
        ends = np.stack([centre - half, centre + half], axis=-1)
        return self._by_state(ends, tuple)

    @property
    def intervals(self) -> tuple[Array, Array] | None:
        """Ends of intervals of the table's cells; None unless a confidence was asked for."""
        if self.replicates is None or self.confidence is None:
            return None
        return intervals(self.table, self.replicates[0], self.replicates[1:], self.confidence)

    def frame(self) -> dict[str, list[Cell]]:
        """A row for each cell, as columns for any data frame: ``pandas.DataFrame(e.frame())``."""
        size = self.table.shape
        found: dict[str, list[Cell]] = {
            str(self.treatment): [s for s in self.treatment_states for _ in range(size[1])],
            str(self.outcome): list(self.outcome_states) * size[0],
            "set": self.table.ravel().tolist(),
        }
        if self.seen is not None:
            found["seen"] = self.seen.ravel().tolist()
        ends = self.intervals
        if ends is not None:
            found |= {"lower": ends[0].ravel().tolist(), "upper": ends[1].ravel().tolist()}
        return found

    @property
    def title(self) -> str:
        known = printable_evidence(self.evidence)
        hand = f"do({printable(self.treatment)})"
        return f"P({printable(self.outcome)} | {', '.join(filter(None, (hand, known)))})"

    def words(self) -> list[str]:
        """What it comes to, in sentences."""
        base, ends = self.treatment_states[self.baseline], self.average_intervals
        said = [
            f"{printable(self.treatment)} -> {printable(self.outcome)}: {self.identification.words}"
        ]
        for state, change in self.average.items():
            if state == base:
                continue
            start = f"set to {printable(state)} instead of {printable(base)}, "
            own = None if ends is None else ends[state]
            if self.numeric:
                said.append(f"{start}the mean changes by {change:+.4f}{_told(own)}.")
            else:
                parts = (
                    f"{printable(s)} {d:+.4f}{_told(None if own is None else own[s])}"
                    for s, d in change.items()
                )
                said.append(f"{start}probabilities change: {', '.join(parts)}.")
        return said

    def plot(self) -> Drawing:
        """Bars for each state of the treatment: set by hand, and as it was seen."""
        return doors.plot_effect(self)

    def __repr__(self) -> str:
        head = ["", *map(printable, self.outcome_states)]
        rows = [
            [printable(state), *(f"{p:.4f}" for p in row)]
            for state, row in zip(self.treatment_states, self.table.tolist(), strict=True)
        ]
        widths = [max(len(r[k]) for r in (head, *rows)) for k in range(len(head))]
        lines = [
            "  " + "  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True))
            for r in (head, *rows)
        ]
        return "\n".join([self.title, *lines, *self.words()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(printable(s))}</th>" for s in self.outcome_states)
        rows = "".join(
            f"<tr><th>{html.escape(printable(state))}</th>"
            + "".join(f"<td>{p:.4f}</td>" for p in row)
            + "</tr>"
            for state, row in zip(self.treatment_states, self.table.tolist(), strict=True)
        )
        said = "<br>".join(html.escape(line) for line in self.words())
        return (
            f"<table><caption style='text-align:left'>{html.escape(self.title)}</caption>"
            f"<tr><th></th>{head}</tr>{rows}</table><small>{said}</small>"
        )

    def _values(self) -> Array:
        if not self.numeric:
            raise EvidenceError(
                f"the states of {self.outcome!r} are no numbers, so that it has no mean: "
                f"{list(self.outcome_states)!r:.80}. Use table, or average."
            )
        return np.array([float(s) for s in self.outcome_states])  # type: ignore[arg-type]

    def _changes(self, table: Array) -> Array:
        """Against the baseline: (states,) of means, (states, outcomes) of probabilities."""
        own = table @ self._values() if self.numeric else table
        return np.asarray(own - own[self.baseline])

    def _by_state(self, found: Array, leaf: Callable[[Cell], Cell] = float) -> dict[Label, Cell]:
        if self.numeric:
            cells = (leaf(x.tolist()) for x in found)
            return dict(zip(self.treatment_states, cells, strict=True))
        rows = (
            dict(zip(self.outcome_states, (leaf(x.tolist()) for x in row), strict=True))
            for row in found
        )
        return dict(zip(self.treatment_states, rows, strict=True))


def _told(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:+.4f}, {ends[1]:+.4f}]"


def _half_width(whole: Array, without: Array, confidence: float) -> Array:
    """t √(se² + bias²) of a delete-a-group jackknife, on the plain scale: changes have a sign."""
    count = len(without)
    centre = without.mean(axis=0)
    variance = (count - 1) / count * ((without - centre) ** 2).sum(axis=0)
    bias = (count - 1) * (centre - whole)
    return np.asarray(
        float(scipy.special.stdtrit(count - 1, 0.5 + confidence / 2)) * np.sqrt(variance + bias**2)
    )


# --- asking ---------------------------------------------------------------------------------------


def intervened(answers: TableAnswers, do: ByName[Cell]) -> TableAnswers:
    """The same network after variables were set by hand."""
    graph, cpts = cut_tables(answers.graph, answers.tables, read_do(answers, do))
    return TableAnswers(graph, cpts, state_names=answers.state_names)


def query_tables(
    answers: TableAnswers,
    names: Sequence[Label],
    evidence: ByName[Cell],
    soft: ByName[Cell],
) -> Posterior:
    """P(names | evidence) by tables; likelihoods of states that soft evidence leaves out are 0."""
    places = [answers.graph.index(name) for name in names]
    twice = [name for name in (*evidence, *soft) if name in names]
    if twice:
        raise EvidenceError(
            f"{twice[0]!r} is asked for and observed at once. Leave it out of the evidence."
        )
    whole = {}
    for name, given in soft.items():
        labels = labels_of(answers, answers.graph.index(name))
        partly = isinstance(given, Mapping) and set(given) <= set(labels)
        whole[name] = [given.get(s, 0.0) for s in labels] if partly else given
    table = np.asarray(answers.joint(list(names), evidence, whole)[0])
    log = float(answers.log_evidence(evidence, whole)[0])
    states = tuple(labels_of(answers, v) for v in places)
    return Posterior(tuple(names), states, table, log, 0.0, {**evidence, **soft})


def effect_of(
    model: Given,
    treatment: Label,
    outcome: Label,
    evidence: ByName[Cell] | None = None,
    baseline: Label = None,
) -> Effect:
    """The effect in a model whose tables are given: a TabularModel, or TableAnswers."""
    check_can_be_set(model.graph)
    answers = model
    if not isinstance(model, TableAnswers):
        answers = TableAnswers(model.graph, model.cpts, state_names=model.state_names)
    x, y = (answers.graph.index(name) for name in (treatment, outcome))
    if x == y:
        raise EvidenceError(f"expected two variables, got {treatment!r} twice.")
    given = without_missing(read_evidence_given(evidence, answers.names))
    check_apart([treatment], [], given, None)
    if outcome in given:
        raise EvidenceError(f"{outcome!r} is asked for and observed at once. Leave it out.")
    states = labels_of(answers, x)
    if baseline is not None and baseline not in states:
        raise UnknownNameError(f"state of {treatment!r}", baseline, states)
    table, seen = effect_tables(answers, x, y, given)
    known = [answers.graph.index(name) for name in given]
    return Effect(
        treatment,
        outcome,
        states,
        labels_of(answers, y),
        table,
        seen,
        identify(answers.graph, [x], [y], known),
        given or None,
        0 if baseline is None else states.index(baseline),
    )


def effect_tables(
    answers: TableAnswers, x: int, y: int, given: ByName[Cell]
) -> tuple[Array, Array | None]:
    """P(y | do x, given) and, where every state of x is possible, P(y | x, given).

    With its arrows cut, x seen is x set; a uniform table makes every state possible.
    """
    count = answers.states[x]
    codes = np.repeat(read_codes(answers, given, None)[0], count, axis=0)
    codes[:, x] = np.arange(count)
    name = answers.names[y]
    graph, cpts = cut_tables(answers.graph, answers.tables, {x: 0})
    cpts[answers.names[x]] = np.full(count, 1.0 / count)
    cut = TableAnswers(graph, cpts, state_names=answers.state_names)
    lost = np.flatnonzero(np.isneginf(cut.log_evidence(codes)))
    if lost.size:
        raise EvidenceError(
            f"the evidence is impossible where {answers.names[x]!r} is set to "
            f"{labels_of(answers, x)[int(lost[0])]!r}. Leave out what it rules out."
        )
    table = cut.posteriors(codes, [name])[name]
    possible = np.isfinite(answers.log_evidence(codes)).all()
    return table, answers.posteriors(codes, [name])[name] if possible else None


def with_confidence(
    effect: Effect, without: Sequence[TableAnswers], whole: TableAnswers, confidence: float
) -> Effect:
    """The same with the tables that the replicates give."""
    x, y = (whole.graph.index(name) for name in (effect.treatment, effect.outcome))
    tables = [effect_tables(each, x, y, effect.evidence or {})[0] for each in (whole, *without)]
    return replace(effect, confidence=confidence, replicates=np.stack(tables))


def note_unidentified(
    graph: LatentGraph, do: Sequence[Label], asked: Sequence[Label], given: Sequence[Label]
) -> None:
    """A warning where the columns alone, however many rows, would not tell the effect."""
    known = tuple(name for name in given if name not in asked and name not in do)
    found = identify(graph, *([graph.index(name) for name in each] for each in (do, asked, known)))
    if found.identified:
        return
    counts = {name: graph.states[graph.index(name)] for name in found.latents}
    what = ", ".join(f"{printable(name)} ({count} states)" for name, count in counts.items())
    warn(
        f"the effect of {', '.join(map(printable, do))} on {', '.join(map(printable, asked))} "
        f"does not follow from the columns alone, because of the latent {what}: it rests on "
        "the tables learned for latents, so on the graph and their numbers of states, which "
        "intervals do not cover. Observe what they stand for, or a column through which alone "
        "the treatment acts.",
        EffectWarning,
    )

"""Questions about latents by name, alone or together with columns, to a model with tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from latentia.data.columns.column import Column
from latentia.errors import EvidenceError
from latentia.exact.reading_evidence import labels_of
from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators
from latentia.inference.posterior import Assignment, Posterior
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Label

MOST_STATES = 10**6  # joint states that are looked at for the most probable one


def own_answers(plan: Plan, operators: Operators, columns: Sequence[Column]) -> TableAnswers | None:
    """Exact answers of the user's own graph; None for models without tables of it.

    A refined network has tables, too, but of states of separators, which have no names.
    """
    graph = operators.model_graph
    own = operators.network is not None or (operators.tables and operators.plan is plan)
    if not own or operators.gaussians or any(c.continuous for c in columns):
        return None
    cpts = {graph.names[v]: table for v, table in operators.model_tables.items()}
    return TableAnswers(graph, cpts, state_names={c.name: list(c.labels) for c in columns})


def answers_to_sample(
    plan: Plan, operators: Operators, columns: Sequence[Column], learner: str
) -> TableAnswers:
    """Tables that can be sampled, or an error for models without."""
    found = own_answers(plan, operators, columns)
    if found is None:
        raise EvidenceError(
            f"approximate answers are drawn from the graph's own tables; this model, learned by "
            f"{learner}, has none. Leave approximate out, or use learner='tables' or 'em'."
        )
    return found


def hidden_names(graph: LatentGraph, names: Iterable[Label]) -> list[Label]:
    """Those of the names that are latents."""
    latents = [graph.names[v] for v in sorted(graph.latent)]
    return [name for name in names if name in latents]


def check_can_tell(answers: TableAnswers | None, hidden: Sequence[Label], learner: str) -> None:
    """An error for a model that knows no states of latents."""
    if answers is None:
        raise EvidenceError(
            f"{hidden[0]!r} is latent, and this model, learned by {learner}, has no table of it: "
            "only columns can be asked for or observed. Use learner='tables' or 'em'."
        )


def query_own(
    answers: TableAnswers,
    names: Sequence[Label],
    evidence: Mapping[Any, Any],
    soft: Mapping[Any, Any],
    approximate: bool = False,
) -> Posterior:
    """P(names | evidence) by the graph's own tables; states of latents are numbers.

    If `approximate`: with a standard error, and by drawing where an exact answer is too wide.
    """
    given = {name: state for name, state in evidence.items() if not _is_missing(state)}
    twice = [name for name in (*given, *soft) if name in names]
    if twice:
        raise EvidenceError(
            f"{twice[0]!r} is asked for and observed at once. Leave it out of the evidence."
        )
    states = tuple(labels_of(answers, answers.graph.index(name)) for name in names)
    if approximate:
        found = answers.sampled(list(names), given, soft, rng=0)
        log = float(answers.sampled_log_evidence(given, soft, rng=0)[0])
        shown = {**given, **soft}
        return Posterior(
            tuple(names), states, found.table[0], log, 0.0, shown, standard_error=found.error[0]
        )
    table = answers.joint(list(names), given, soft)[0]
    log = float(answers.log_evidence(given, soft)[0])
    return Posterior(tuple(names), states, np.asarray(table), log, 0.0, {**given, **soft})


def best_own(
    answers: TableAnswers,
    names: Sequence[Label],
    evidence: Mapping[Any, Any],
    soft: Mapping[Any, Any],
) -> Assignment:
    """The most probable joint state of the names."""
    sizes = [answers.states[answers.graph.index(name)] for name in names]
    if math.prod(sizes) > MOST_STATES:
        raise EvidenceError(
            f"{len(names)} variables have {math.prod(sizes):.1e} joint states, of which at most "
            f"{MOST_STATES:.0e} can be looked at. Ask for fewer at once."
        )
    found = query_own(answers, names, evidence, soft)
    best = np.unravel_index(int(found.table.argmax()), found.table.shape)
    values = {name: states[k] for name, states, k in zip(names, found.states, best, strict=True)}
    return Assignment(values, math.log(max(float(found.table[best]), 1e-300)), True)


def _is_missing(state: Any) -> bool:
    return state is None or (isinstance(state, float) and math.isnan(state))

"""Other ways to learn a chain: EM from random starts, and EM by steps of a few sequences each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.errors import DataError, UnknownNameError
from latentia.linear_algebra import one_thread
from latentia.model.learners import PBP
from latentia.networks.em import EM
from latentia.networks.stepwise import StepwiseEM
from latentia.networks.stepwise_passes import batch_rows
from latentia.seeds import as_generator
from latentia.sequences.chain_wiring import Wired, wire_groups
from latentia.sequences.expectation import chain_estep
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.learn_chain import (
    ChainLearning,
    ChainPrior,
    LearnedChain,
    chain_prior,
    learn_chain,
    plain_climb,
)
from latentia.sequences.step_data import Sequences, missing_cells
from latentia.typing import Array, Given

if TYPE_CHECKING:
    from latentia.networks.learner import LearnerLike

FEW = 20  # sequences: fewer are cut into stretches
SHORTEST_STRETCH = 200  # steps: how a stretch begins then hardly matters
NAMED = {"em": EM, "stepwise": StepwiseEM}
CLOSED = "closed-form"
ONLY_DEFAULTS = ("init", "mixture", "variance_floor", "tied")  # settings that chains do not have


def learn_as_told(
    learner: Given,
    layout: ChainLayout,
    sequences: Sequences,
    how: ChainLearning,
    rng: np.random.Generator,
) -> LearnedChain:
    """By the default (None), by EM or by stepwise EM, with the settings of the learner."""
    if learner is None or isinstance(learner, PBP):
        return learn_chain(layout, sequences, how, rng)
    chosen = as_chain_learner(learner)
    if chosen.random_state is not None:
        rng = as_generator(chosen.random_state)
    prior = prior_as_told(chosen, layout, sequences, how)
    with one_thread():
        climb = _em_climb if isinstance(chosen, EM) else _stepwise_climb
        task = _Task(layout, sequences, wire_groups(layout, sequences), prior)
        found = [climb(chosen, task, rng) for _ in range(int(chosen.restarts))]
    return max(found, key=lambda f: f.history[-1])


def prior_as_told(
    learner: Given, layout: ChainLayout, sequences: Sequences, how: ChainLearning
) -> ChainPrior:
    """Pseudo-counts and known cells: those of the learner, if it has any, or those of the model."""
    if learner is None or isinstance(learner, PBP):
        return chain_prior(layout, sequences, how.pseudo_counts, how.known)
    chosen = as_chain_learner(learner)
    known = how.known if chosen.known is None else chosen.known
    return chain_prior(layout, sequences, chosen.smoothing or how.pseudo_counts, known)


def closed_form_asked(learner: Given) -> bool | None:
    """Is it the closed form, and regularised or not? None: it is another learner."""
    if isinstance(learner, str) and learner == CLOSED:
        return True
    if not isinstance(learner, PBP):
        return None
    if learner.refine not in ("auto", True, False):
        raise UnknownNameError("refine", learner.refine, ["auto", True, False])
    plain = PBP().get_params(deep=False)
    for name in ("groups", "kernel", "smoothing", "known", "tied"):
        if getattr(learner, name) != plain[name]:
            raise DataError(
                f"sequences are learned without {name}= of PBP; SequenceModel has known= and "
                "pseudo_counts=."
            )
    return bool(learner.regularize) if not (learner.refine and learner.regularize) else None


def as_chain_learner(learner: LearnerLike) -> Given:
    """A learner by its name, or as it is; checked."""
    chosen = NAMED[learner]() if isinstance(learner, str) and learner in NAMED else learner
    if not isinstance(chosen, EM | StepwiseEM):
        raise DataError(
            f"expected learner to be None, 'closed-form', 'em', 'stepwise', PBP(...), EM(...) or "
            f"StepwiseEM(...), got {learner!r:.80}. The default starts from the closed form."
        )
    plain = type(chosen)().get_params(deep=False)
    for name in ONLY_DEFAULTS:
        if name in plain and getattr(chosen, name) != plain[name]:
            raise DataError(f"sequences are learned without {name}=; leave it as it is.")
    if not isinstance(chosen.restarts, int) or chosen.restarts < 1:
        raise DataError(f"expected restarts as a whole number from 1 on, got {chosen.restarts!r}.")
    return chosen


@final
@dataclass(frozen=True, slots=True)
class _Task:
    layout: ChainLayout
    sequences: Sequences
    groups: tuple[Wired, ...]
    prior: ChainPrior

    def random_start(self, rng: np.random.Generator) -> dict[int, Array]:
        """Rows from a flat Dirichlet; Gaussians as wide as the column, each around some cell."""
        found = {}
        for n, family in enumerate(self.layout.families):
            shape = self.layout.shape(family)
            if self.layout.sizes[family.variable]:
                found[n] = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
                continue
            x = self.sequences.cells[family.variable]
            there = x[~missing_cells(x)]
            found[n] = np.ones(shape)
            found[n][..., 1] = rng.choice(there, size=shape[:-1]) if len(there) else 0.0
        return self.prior.known.held(found)


def _em_climb(learner: EM, task: _Task, rng: np.random.Generator) -> LearnedChain:
    enough = float(learner.tol) * task.sequences.steps
    start = task.random_start(rng)
    found = plain_climb(task.groups, start, task.prior, int(learner.max_iter), enough)
    return replace(found, start="random")


def _stepwise_climb(learner: StepwiseEM, task: _Task, rng: np.random.Generator) -> LearnedChain:
    """s ← (1 − γ_k) s + γ_k s(batch), as counts of all steps; an M-step after every batch."""
    steps, prior = task.sequences.steps, task.prior
    tables = task.random_start(rng)
    sums, fit, _ = chain_estep(task.groups, tables)
    history: list[float] = []
    size = batch_rows(learner.batch_size, steps * learner.epochs)
    k = 0
    for _ in range(int(learner.epochs)):
        for batch in _batches(task.sequences, size, rng):
            counts, _, _ = chain_estep(wire_groups(task.layout, batch), tables)
            step, scale = (k + 2.0) ** -float(learner.exponent), steps / batch.steps
            sums = {n: step * scale * x + (1.0 - step) * sums[n] for n, x in counts.items()}
            tables = prior.maximise(sums)
            k += 1
        # stretches begin anywhere: the tables of first steps come from whole sequences
        whole, _, _ = chain_estep(task.groups, tables)
        own = {n: whole[n] if _first(task, n) else x for n, x in sums.items()}
        sums, tables = own, prior.maximise(own)
        _, fit, _ = chain_estep(task.groups, tables)
        history.append(fit + prior.log_density(tables))
    return LearnedChain(tables, "random", True, tuple(history), fit)


def _first(task: _Task, n: int) -> bool:
    return task.layout.families[n].when == "first"


def _batches(sequences: Sequences, size: int, rng: np.random.Generator) -> Iterator[Sequences]:
    """Sequences in a new order, very long ones in stretches, of about so many steps together."""
    longest = max(size, SHORTEST_STRETCH) if len(sequences) < FEW else sequences.steps
    spans = [
        (a, min(a + longest, steps.stop))
        for steps in sequences
        for a in range(steps.start, steps.stop, longest)
    ]
    batch: list[tuple[int, int]] = []
    room = size
    for k in rng.permutation(len(spans)).tolist():
        batch.append(spans[k])
        room -= spans[k][1] - spans[k][0]
        if room <= 0:
            yield sequences.spans(batch)
            batch, room = [], size
    if batch:
        yield sequences.spans(batch)

"""Answers of Python for a page: what its own junction tree would say, for models of any size."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias, final

import numpy as np

from latentia.errors import EvidenceError, LatentiaError, LatentiaWarning
from latentia.exact.shafer_shenoy import FactorNetwork, axes_without, wire
from latentia.exact.surgery import cut_tables
from latentia.exact.table_answers import TableAnswers
from latentia.exact.tabular_model import TabularModel
from latentia.explore.explored import Explored, TableNetwork
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.typing import Array, Cell, Facts

Weights: TypeAlias = Mapping[int, Array]  # shown variable -> a weight for each of its states


@final
@dataclass(frozen=True, slots=True)
class PageAnswer:
    """log P(evidence), and P(variable | evidence) of every variable that is shown."""

    log: float | None  # None: impossible
    marginals: tuple[list[float] | None, ...] | None

    def plain(self) -> Facts:
        return {"log": self.log, "marginals": self.marginals}


IMPOSSIBLE = PageAnswer(None, None)


def read_weights(explored: Explored, given: object) -> dict[int, Array]:
    """Evidence as it comes from a page: [[variable, [weight of each state]], …]."""
    states = explored.states
    found: dict[int, Array] = {}
    if not isinstance(given, list) or len(given) > len(states):
        raise EvidenceError(f"expected a list of at most {len(states)} pieces of evidence.")
    for piece in given:
        v, weights = piece if isinstance(piece, list) and len(piece) == 2 else (None, None)
        if type(v) is not int or not 0 <= v < len(states) or v in found or not states[v]:
            raise EvidenceError("expected [number of a variable, weights], each variable once.")
        if not isinstance(weights, list) or len(weights) != states[v]:
            raise EvidenceError(f"expected {states[v]} weights for variable {v}.")
        if not all(type(w) in (int, float) and (w == 0 or 1e-300 < w < 1e300) for w in weights):
            raise EvidenceError("expected weights of 0, or from 1e-300 to 1e300.")
        found[v] = np.asarray(weights, dtype=float)
    return found


def read_hand(explored: Explored, weights: Weights, given: object) -> dict[int, int]:
    """{variable: state} of what is set by hand: a list of variables with one state each."""
    if given is None or given == []:
        return {}
    if not isinstance(given, list) or not all(type(v) is int and v in weights for v in given):
        raise EvidenceError("expected variables set by hand to be among the evidence.")
    if explored.network is None or not explored.graph.directed:
        raise EvidenceError("expected tables of a directed graph to set variables by hand.")
    found = {v: _certain_state(weights[v]) for v in given}
    if None in found.values():
        raise EvidenceError("expected one state for each variable that is set by hand.")
    return {v: state for v, state in found.items() if state is not None}


def set_by_hand(explored: Explored, hand: Mapping[int, int]) -> Explored:
    """The model after an intervention: its own tables, some of them cut off from their parents."""
    network = explored.network
    if not hand or network is None:
        return explored
    own = {scope[-1]: table for scope, table in network.tables.items()}
    names = network.graph.names
    done = {network.place[v]: state for v, state in hand.items()}
    graph, cpts = cut_tables(network.graph, own, done)
    above = graph.parents()
    tables = {(*above[v], v): np.asarray(cpts[names[v]]) for v in range(len(names))}
    cut = TableNetwork(graph, tables, network.place)
    return replace(explored, network=cut, predicting=None, signed=False)


def answer_page(explored: Explored, weights: Weights, coherent: bool = False) -> PageAnswer:
    """As `model.query` answers: columns by what predicts them, unless a latent is known.

    Coherent: everything by the tables of the user's own graph, where it has some.
    """
    if any(not w.any() for w in weights.values()):
        return IMPOSSIBLE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)  # the page shows what is impossible
        if explored.network is None:
            return _by_operators(explored, weights)
        own = _by_tables(explored.network, weights)
        hidden = any(explored.shown[v].latent for v in weights)
        if coherent or hidden or not (explored.signed or explored.predicting):
            return own
        if explored.predicting is not None:
            return _joined(explored, own, _by_tables(explored.predicting, weights))
        return _joined(explored, own, _by_operators(explored, weights))


def _joined(explored: Explored, own: PageAnswer, columns: PageAnswer) -> PageAnswer:
    """Latents of the one, columns of the other."""
    if columns.marginals is None:
        return columns
    latents = own.marginals or (None,) * len(explored.shown)
    both = zip(explored.shown, latents, columns.marginals, strict=True)
    return PageAnswer(columns.log, tuple(p if shown.latent else q for shown, p, q in both))


@lru_cache(maxsize=4)
def _asked(network: TableNetwork) -> TabularModel | TableAnswers:
    """Something that answers for these tables."""
    names = network.graph.names
    if network.graph.directed:
        cpts = {names[scope[-1]]: table for scope, table in network.tables.items()}
        return TableAnswers(network.graph, cpts)
    return TabularModel(
        network.graph, {tuple(names[v] for v in s): t for s, t in network.tables.items()}
    )


def _by_tables(network: TableNetwork, weights: Weights) -> PageAnswer:
    asked, names = _asked(network), network.graph.names
    codes = np.full((1, len(names)), -1)
    soft = {}
    for v, w in weights.items():
        place = network.place[v]
        state = _certain_state(w)
        if state is None:
            soft[names[place]] = w
        else:
            codes[0, place] = state
    log = float(asked.log_evidence(codes, soft)[0])
    if log == -np.inf:
        return IMPOSSIBLE
    found = asked.posteriors(codes, [names[p] for p in network.place if p >= 0], soft)
    return PageAnswer(
        log,
        tuple(None if p < 0 else found[names[p]][0].tolist() for p in network.place),
    )


def _certain_state(weights: Array) -> int | None:
    """The one state that is possible; None for soft evidence."""
    if np.count_nonzero(weights) == 1 and weights.max() == 1.0:
        return int(weights.argmax())
    return None


def _by_operators(explored: Explored, weights: Weights) -> PageAnswer:
    """Columns only: the operators of the closed form tell of no latent."""
    operators, graph = explored.model.operators_, explored.graph
    inner = operators.plan.graph
    place = {inner.names[v]: i for i, v in enumerate(inner.observed)}
    codes: list[Cell] = [None] * len(place)
    soft = {}
    for v, w in weights.items():
        i, state = place[graph.names[v]], _certain_state(w)
        if state is None:
            soft[i] = w[:, None]
        else:  # a position on its grid, if it is continuous
            continuous = explored.model.columns_[i].continuous
            codes[i] = np.array([float(state) if continuous else state])
    try:
        found = answer(operators, read_evidence(operators.plan, codes, soft))
    except EvidenceError:
        return IMPOSSIBLE
    marginals: list[list[float] | None] = []
    for v, name in enumerate(graph.names):
        if name not in place:
            marginals.append(None)
            continue
        own = found.probabilities[inner.observed[place[name]]][:, 0]
        own = own * weights[v] if v in weights else own  # others spoke; now its own evidence
        total = float(own.sum())
        if not total > 0:
            return IMPOSSIBLE
        marginals.append((own / total).tolist())
    return PageAnswer(float(found.log_evidence[0]), tuple(marginals))


# --- the most probable explanation ----------------------------------------------------------------


def explain_page(explored: Explored, weights: Weights) -> Facts:
    """The most probable state of all variables together, by max-product."""
    network = explored.network
    if network is None:
        raise LatentiaError(
            "this model was learned in closed form; the most probable explanation needs tables. "
            "Fit with learner='tables' or 'em'."
        )
    wired = wire(network.graph, network.tables)
    with np.errstate(divide="ignore"):
        logs = {network.place[v]: np.log(w) for v, w in weights.items()}
    states, log = best_of_tree(wired, logs)
    if log == -np.inf:
        return {"states": None, "log": None}
    return {"states": [None if p < 0 else states[p] for p in network.place], "log": log}


def best_of_tree(network: FactorNetwork, logs: Mapping[int, Array]) -> tuple[dict[int, int], float]:
    """argmax and max of Σ ψ + Σ log λ: maxima up the tree, choices down."""
    beliefs = [psi[..., 0].copy() for psi in network.psi]
    for v, log_weight in logs.items():
        i = network.homes[v][0]
        clique = network.cliques[i]
        beliefs[i] = beliefs[i] + log_weight.reshape([-1 if u == v else 1 for u in clique])
    total = 0.0
    for i in reversed(network.order):
        clique, up = network.cliques[i], network.parent[i]
        above = network.cliques[up] if up != i else ()
        message = beliefs[i].max(axis=axes_without(clique, above))
        if up == i:
            total += float(message)
        else:
            sizes = iter(message.shape)
            shape = [next(sizes) if v in clique else 1 for v in above]
            beliefs[up] = beliefs[up] + message.reshape(shape)
    states: dict[int, int] = {}
    for i in network.order:
        clique = network.cliques[i]
        part = beliefs[i][tuple(states.get(v, slice(None)) for v in clique)]
        fresh = [v for v in clique if v not in states]
        best = np.unravel_index(int(part.argmax()), part.shape) if fresh else ()
        states |= {v: int(k) for v, k in zip(fresh, best, strict=True)}
    return states, total


def model_numbered(explored: Sequence[Explored], number: object) -> Explored:
    """The model of this number, of those that a page shows."""
    if type(number) is not int or not 0 <= number < len(explored):
        raise EvidenceError(f"expected the number of a model below {len(explored)}.")
    return explored[number]

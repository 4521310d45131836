"""What tables are measured against: EM of ten restarts, hill climbing without latents, pyAgrum."""

from __future__ import annotations

import numpy as np
from network_tasks import Task

from latentia.exact.pieces import cut_graph, with_ancestors
from latentia.exact.table_answers import TableAnswers
from latentia.networks.accelerate import normalised
from latentia.networks.counting import tables_of_counts
from latentia.networks.em_problem import prior_of_tables
from latentia.networks.first_look import count_once
from latentia.networks.knowledge import Knowledge
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_problem import TableProblem, pose_piece
from latentia.structure.graph import LatentGraph

SMOOTHING = 1.0


def em_of_pieces(
    task: Task, restarts: int = 10, most: int = 200, tol: float = 1e-6
) -> tuple[dict, float]:
    """Plain EM with random restarts, all pieces of a restart together; the highest is kept."""
    graph, source, nothing = task.graph, task.source, Knowledge()
    telling = with_ancestors(graph.parents(), graph.observed)
    seen = count_once(graph, source, cut_graph(graph, graph.latent & telling, telling).closed)
    prior = prior_of_tables(
        graph, seen.marginals, dict.fromkeys(range(len(graph.names)), SMOOTHING), nothing
    )
    inner = {a for a, _ in graph.edges}
    cut = cut_graph(graph, (graph.latent & telling) | inner.intersection(seen.holes), telling)
    tables = tables_of_counts(seen.counts_of(cut.closed), prior, nothing)
    problem = TableProblem(graph, source, seen.weight, seen.holes, prior, nothing)
    pieces = [pose_piece(problem, piece) for piece in cut.pieces]
    best, found = -np.inf, {}
    for k in range(restarts):
        rng = np.random.default_rng([99, task.number, k])
        climbs = [_climb(p, _random(p, rng), most, tol * seen.weight / len(pieces)) for p in pieces]
        if sum(level for level, _ in climbs) > best:
            best = sum(level for level, _ in climbs)
            found = {
                v: t
                for p, (_, own) in zip(pieces, climbs, strict=True)
                for v, t in p.piece.outside(own).items()
            }
    barren = {
        v: np.full([graph.states[u] for u in (*graph.parents()[v], v)], 1 / graph.states[v])
        for v in graph.latent - telling
    }
    return tables | found | barren, best


def _random(problem, rng) -> dict:
    graph = problem.piece.graph
    parents = graph.parents()
    return {
        k: rng.dirichlet(np.ones(graph.states[k]), size=[graph.states[u] for u in parents[k]])
        for k in problem.piece.inside(dict.fromkeys(problem.piece.families))
    }


def _climb(problem, tables: dict, most: int, small: float) -> tuple[float, dict]:
    before = -np.inf
    for _ in range(most):
        counts, fit = problem.estep(tables)
        level = fit + problem.prior.log_density(tables)
        if level - before < small:
            break
        before = level
        tables = normalised(counts, problem.prior)
    return level, tables


def hill_climbing(task: Task, settings: TableSettings) -> TableAnswers:
    """pyAgrum's greedy hill climbing (BIC) over the columns; tables counted as ours are."""
    import pandas as pd
    import pyagrum

    names = [str(task.truth.names[v]) for v in task.truth.graph.observed]
    states = [task.truth.states[v] for v in task.truth.graph.observed]
    template = pyagrum.BayesNet()
    for name, count in zip(names, states, strict=True):
        template.add(pyagrum.LabelizedVariable(name, "", count))
    learner = pyagrum.BNLearner(pd.DataFrame(task.train, columns=names).astype(str), template)
    learner.useScoreBIC()
    learner.useGreedyHillClimbing()
    place = {name: k for k, name in enumerate(names)}
    edges = sorted(
        (place[learner.nameFromId(a)], place[learner.nameFromId(b)])
        for a, b in learner.learnDAG().arcs()
    )
    graph = LatentGraph(tuple(names), tuple(edges), frozenset(), tuple(states))
    return TableAnswers(graph, learn_tables(graph, task.source, settings, 0).cpts)


def as_pyagrum(model: TableAnswers):
    """The same network for pyAgrum; None where it is not installed."""
    try:
        import pyagrum
    except ImportError:
        return None
    bn = pyagrum.BayesNet()
    parents = model.graph.parents()
    for name, states in zip(model.names, model.states, strict=True):
        bn.add(pyagrum.LabelizedVariable(name, "", states))
    for v, above in enumerate(parents):
        for u in above:
            bn.addArc(model.names[u], model.names[v])
    for v, table in model.tables.items():
        family = [model.names[u] for u in (*parents[v], v)]
        axes = [family.index(x) for x in reversed(bn.cpt(model.names[v]).names)]
        bn.cpt(model.names[v])[:] = np.ascontiguousarray(table.transpose(axes))
    return bn


def ask_pyagrum(bn, model: TableAnswers, row) -> dict:
    """P(every variable | the cells of one row)."""
    import pyagrum

    engine = pyagrum.LazyPropagation(bn)
    engine.setEvidence({x: int(c) for x, c in zip(model.names, row, strict=True) if c >= 0})
    engine.makeInference()
    return {x: engine.posterior(x).toarray() for x in model.names}

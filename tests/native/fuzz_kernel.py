"""Random cases of what the kernel does, through one that was built with a sanitizer.

    LD_PRELOAD=libasan.so python -m tests.native.fuzz_kernel kernel.so CASES

Every answer is compared with numpy's; whatever the sanitizer finds ends the process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from latentia.closed_form import windows
from latentia.closed_form.basis import canonical_basis
from latentia.closed_form.pairs import pair_layout, sum_pairs
from latentia.closed_form.sharpen import needs_sharpening
from latentia.closed_form.windows import product_windows, sum_windows
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.discovery.cell_bells import cell_line
from latentia.discovery.island_network import island_layout, random_islands
from latentia.discovery.island_steps import island_steps
from latentia.discovery.islands import cut_islands
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.exact.max_product import max_product_states
from latentia.exact.pieces import cut_graph
from latentia.inference.answering import (
    log_evidence,
    log_evidence_at_root,
    posterior_below,
    posteriors,
)
from latentia.inference.evidence import read_evidence
from latentia.inference.message_program import message_program
from latentia.inference.subtrees import subtree_tables
from latentia.kernels.exponentials import exp_negative
from latentia.model.learners import PBP
from latentia.native import loading
from latentia.networks.accelerate import Prior
from latentia.networks.compiled_counts import count_joint_states
from latentia.networks.knowledge import Knowledge
from latentia.networks.lockstep import Lockstep
from latentia.networks.piece_problem import TableProblem, pose_piece
from latentia.networks.piece_starts import drawn_tables
from latentia.pooling.node_rows import grow_nodes
from latentia.sequences.chain_questions import Chain, decode_states, filter_states, smooth_states
from latentia.sequences.chain_wiring import wire_groups
from latentia.sequences.expectation import chain_estep
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import hidden_markov, latent_class
from latentia.testing.random_models import random_model

LEVELS = ("base", "avx2")
# slices with one table of moves, with several, and with columns in the hidden state
SLICES = (
    "z -> z', z -> a, b",
    "z -> z', z -> a, a -> z', z -> b",
    "z -> z', z -> a, a -> a', z -> b",
)


def chain_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Beliefs, scores, best paths and counts of one random chain."""
    states, symbols = int(rng.integers(1, 21)), int(rng.integers(1, 6))
    slice_ = read_slice(SLICES[rng.integers(3)], {"z": states})
    sizes = {"z": states, "a": 2, "b": symbols}
    lengths = rng.integers(0, 80, size=rng.integers(1, 6))
    lengths[0] += 1
    steps, holes = int(lengths.sum()), rng.random() < 0.5
    cells = {}
    for v, name in enumerate(slice_.names):
        if name != "z":
            cells[v] = rng.integers(-1 if holes else 0, sizes[name], size=steps)
    columns = {
        v: DiscreteColumn(slice_.names[v], tuple(range(sizes[slice_.names[v]]))) for v in cells
    }
    sequences = Sequences(cells, np.concatenate([[0], np.cumsum(lengths)]))
    chain = Chain(slice_, columns, {})
    layout = chain.layout(sequences.holes())
    shapes = [layout.shape(f) for f in layout.families]
    tables = {n: rng.dirichlet(np.full(s[-1], 0.7), s[:-1]) for n, s in enumerate(shapes)}
    chain = replace(chain, tables=tables)
    counts, level, _ = chain_estep(wire_groups(layout, sequences), tables)
    beliefs = [ask(chain, sequences) for ask in (filter_states, smooth_states)]
    found = [x for b in beliefs for x in (b.belief, b.log_scale)]
    return [*found, decode_states(chain, sequences)[1], np.array(level), *counts.values()]


def estep_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Expected counts of a random tree of latents, each with columns; best states of a row."""
    count = int(rng.integers(1, 5))
    edges = [f"h{rng.integers(i)} -> h{i}" for i in range(1, count)]
    names = [f"x{i}" for i in range(int(rng.integers(count, 4 * count + 1)))]
    edges += [f"h{i % count} -> {name}" for i, name in enumerate(names)]
    latents = {f"h{i}": int(rng.integers(1, 10)) for i in range(count)}
    graph = as_graph("; ".join(edges), latents)
    sizes = tuple(latents.get(name, int(rng.integers(1, 5))) for name in graph.names)
    graph = replace(graph, states=sizes)
    holes = rng.random() < 0.5
    n = int(rng.integers(1, 200))
    codes = tuple(rng.integers(-1 if holes else 0, sizes[v], size=n) for v in graph.observed)
    weight = rng.gamma(1.0, size=n) if rng.random() < 0.5 else None
    shapes = [[sizes[u] for u in (*up, v)] for v, up in enumerate(graph.parents())]
    tables = {v: rng.dirichlet(np.full(s[-1], 0.7), s[:-1]) for v, s in enumerate(shapes)}
    if rng.random() < 0.3:  # past what products can hold: care is taken
        tables = {v: t * (1e-80 if v in graph.observed else 1.0) for v, t in tables.items()}
    found = sum_counts(compile_estep(graph, None if holes else []), tables, Rows(codes, weight))
    row = np.full(len(sizes), -1)
    row[list(graph.observed)] = [c[0] for c in codes]
    best = max_product_states(graph, tables, row, {}, sorted(graph.latent))
    told = np.array([*best.codes, best.log_joint, best.log_evidence])
    return [*found.sums.values(), told]


def class_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Levels of climbs of a latent class after a few E-steps."""
    states, columns = int(rng.integers(2, 9)), int(rng.integers(1, 20))
    template = latent_class(columns, states)
    sizes = {template.names[v]: int(rng.integers(1, 6)) for v in template.observed}
    graph = template.with_states(sizes)
    n, lowest = int(rng.integers(1, 150)), int(rng.choice([-1, 0]))
    codes = tuple(rng.integers(lowest, sizes[graph.names[v]], size=n) for v in graph.observed)
    prior = Prior({v: np.full(m or 1, 0.5) for v, m in enumerate(graph.states)})
    holes = graph.observed if lowest else ()
    rows = Rows(codes)
    problem = TableProblem(graph, LocalRows(rows), rows.total, holes, prior, Knowledge())
    (piece,) = cut_graph(graph, graph.latent).pieces
    own = pose_piece(problem, piece)
    starts = [own.shrink(x) for x in drawn_tables(piece, rng, 3)]
    climbs = (own.compiled(starts, 1e-6), own.compiled_steps(starts, 1e-6))
    found = []
    for fast in climbs:
        if fast is None:  # numpy
            many = own.repeated(starts[0], 3)
            assert many is not None
            slow = Lockstep(starts, own.climbed_prior, many, 1e-6)
            slow.advance(range(3), 6)
            found.append(np.array(slow.level))
        else:
            fast.advance(range(3), 6)
            found.append(np.array(fast.level))
    return found


def piece_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Levels of climbs of a random piece, whose columns may have parents, after a few E-steps."""
    size = int(rng.integers(4, 9))
    edges = [(a, b) for b in range(1, size) for a in range(b) if rng.random() < 0.4]
    hidden = frozenset(rng.choice(size, 2, replace=False).tolist())
    states = tuple(int(k) for k in rng.integers(2, 5, size))
    names = tuple(f"v{k}" for k in range(size))
    graph = relevant(LatentGraph(names, tuple(edges), hidden, states))
    states = tuple(k or 1 for k in graph.states)
    n, lowest = int(rng.integers(1, 150)), int(rng.choice([-1, 0]))
    rows = Rows(tuple(rng.integers(lowest, states[v], size=n) for v in graph.observed))
    prior = Prior({v: np.full(m, 0.5) for v, m in enumerate(states)})
    holes = graph.observed if lowest else ()
    problem = TableProblem(graph, LocalRows(rows), rows.total, holes, prior, Knowledge())
    found = []
    parents = {a for a, _ in graph.edges}
    for piece in cut_graph(graph, graph.latent | parents.intersection(holes)).pieces:
        own = pose_piece(problem, piece)
        starts = [own.shrink(x) for x in drawn_tables(piece, rng, 2)]
        fast = own.compiled_steps(starts, 1e-6)
        if fast is None:  # numpy
            many = own.repeated(starts[0], 2)
            assert many is not None
            fast = Lockstep(starts, own.climbed_prior, many, 1e-6)
        fast.advance(range(2), 5)
        found.append(np.array(fast.level))
    return found


def message_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Posteriors of a column and scores of rows, by the operators of a random tree."""
    states, columns = int(rng.integers(2, 6)), int(rng.integers(3, 40))
    template = (hidden_markov, latent_class)[int(rng.integers(2))](columns, states)
    graph = template.with_states(
        {template.names[v]: int(rng.integers(2, 7)) for v in template.observed}
    )
    codes = random_model(graph, rng).sample(400, rng).astype(np.int8)
    codes[rng.random(codes.shape) < rng.choice([0.0, 0.2])] = -1
    operators = PBP(refine=False).learn(make_plan(graph), LocalRows(Rows(tuple(codes.T.copy()))))
    plan, x = operators.plan, int(rng.integers(columns))
    trees = subtree_tables(operators, 10**5, {x})
    evidence = read_evidence(plan, tuple(codes.T.copy()))
    (v,) = plan.nodes[plan.leaves[x]].columns
    below = message_program(operators, trees, plan.leaves[x])
    top = message_program(operators, subtree_tables(operators, 10**5, ()), None)
    if below is None or top is None:  # numpy
        slow = posteriors(operators, evidence, [v])[v]
        return [slow, log_evidence(operators, evidence)[0]]
    down, up = below.run(evidence), top.run(evidence)
    assert down is not None
    assert up is not None
    marks = np.zeros(evidence.rows, dtype=bool)
    fast = posterior_below(operators, evidence, v, down[0], marks)
    return [fast, log_evidence_at_root(operators, *up)[0]]


def products_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Sums of products of coordinates of a random tree or class, in the second pass."""
    states, columns = int(rng.integers(2, 9)), int(rng.integers(1, 30))
    template = (hidden_markov, latent_class)[int(rng.integers(2))](columns, states)
    sizes = {template.names[v]: int(rng.integers(1, 12)) for v in template.observed}
    plan = make_plan(template.with_states(sizes))
    if needs_sharpening(plan):
        return []  # other sums
    n = int(rng.integers(1, 100))
    codes = [rng.integers(-1, plan.graph.states[v], size=n) for v in plan.graph.observed]
    for own in codes:
        own[0] = 0  # a column without any value is an error
    rows = Rows(tuple(codes), rng.random(n) if rng.random() < 0.5 else None)
    layout = pair_layout(plan)
    basis = canonical_basis(layout, sum_pairs(layout, rows), True)
    return list(sum_windows(product_windows(layout, basis), rows).sums.values())


def counts_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Joint states of random families."""
    n, sizes = int(rng.integers(0, 6000)), rng.integers(1, 50, size=4).tolist()
    kinds = rng.choice([np.int8, np.int16, np.int32, np.int64], size=4)
    low = -int(rng.integers(2))
    columns = [rng.integers(low, m, n).astype(k) for m, k in zip(sizes, kinds, strict=True)]
    families = [rng.permutation(4)[: rng.integers(1, 4)].tolist() for _ in range(5)]
    return count_joint_states(
        columns, sizes, families, rng.random(n) if rng.random() < 0.5 else None
    )


def island_case(rng: np.random.Generator) -> list[np.ndarray]:
    """Counts and likelihoods of random islands after two batches, in single precision."""
    columns, n = int(rng.integers(2, 9)), int(rng.integers(2, 300))
    sizes = rng.integers(2, 7, size=columns).tolist()
    holes = np.flatnonzero(rng.random(columns) < rng.choice([0.0, 0.3])).tolist()
    lines = {
        c: cell_line(rng.dirichlet(np.full(sizes[c], 5.0)), int(rng.integers(2, sizes[c] + 1)))
        for c in np.flatnonzero(rng.random(columns) < 0.4).tolist()
    }
    edges = [(int(rng.integers(c)), c) for c in range(1, columns)]
    cut = cut_islands(
        columns, edges, int(rng.integers(1, columns + 1)), rng.random() < 0.5, {*holes, *lines}
    )
    layout = island_layout(cut, sizes, int(rng.integers(1, 20)), holes, lines)
    codes = np.stack([rng.integers(-(c in holes), m, size=n) for c, m in enumerate(sizes)], axis=1)
    weight = rng.random(n) if rng.random() < 0.5 else None
    steps = island_steps(layout, codes, weight, codes[: n // 2], 1.0)
    steps.start(random_islands(layout, [np.full(m, 1 / m) for m in sizes], rng))
    steps.count_all()
    half = np.float32(0.5)
    steps.batches(np.array_split(rng.permutation(n), 2), [half, half], [half, half])
    return [steps.likelihoods(), *steps.counts.links, *steps.counts.features]


def node_case(rng: np.random.Generator) -> list[np.ndarray]:
    n, width = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    x = rng.normal(size=(n, width))
    forest, _ = grow_nodes(x, x[:, 0], x[:, 0], 2, 1.0, False, 0.7, rng)
    tree = rng.integers(2, size=n)
    return [forest.nodes(x, tree, least) for least in (1, 3, 10)]


def main(path: str, cases: int) -> None:
    own = loading.loaded(Path(path))
    assert own.library is not None, own.reason
    loading.loaded = lambda: own  # type: ignore[assignment]
    windows.COMPILED = 1  # few rows are compiled, too
    for seed in range(cases):
        level = LEVELS[seed % 2]
        answers = []
        for wish in (level, "off"):
            os.environ["LATENTIA_KERNEL"] = wish
            assert (loading.kernel() is None) == (wish == "off")
            rng = np.random.default_rng(seed)
            powers = exp_negative(-rng.exponential(100.0, size=int(rng.integers(50))))
            found = [*chain_case(rng), *estep_case(rng), *class_case(rng), *message_case(rng)]
            found += [*piece_case(rng), *counts_case(rng)]
            exact = [*found, *products_case(rng), *node_case(rng), powers]
            answers.append([(x, 1e-10) for x in exact] + [(x, 1e-5) for x in island_case(rng)])
        for (a, small), (b, _) in zip(*answers, strict=True):
            limit = small * max(1.0, float(np.abs(b).max(initial=0.0)))
            np.testing.assert_allclose(a, b, rtol=0, atol=limit, err_msg=f"case {seed}")
    print(f"{cases} cases")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

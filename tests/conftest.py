"""Hypothesis draws the same examples everywhere, unless --hypothesis-profile=explore."""

import signal
from collections.abc import Iterator, Sequence

import networkx as nx
import numpy as np
import pytest
from hypothesis import settings

from latentia.native.loading import kernel
from latentia.structure.graph import LatentGraph

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile("ci")

# Shells start what runs in the background with interrupts ignored; tests of Ctrl-C would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["off", "base", "avx2"])
def kernel_level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Numpy alone, then every level of the compiled kernel that this machine has."""
    monkeypatch.setenv("LATENTIA_KERNEL", request.param)
    own = kernel()
    if request.param != "off" and (own is None or own.level != request.param):
        pytest.skip(f"no compiled kernel of level {request.param} here")
    return str(request.param)


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches for a structure that look at fewer candidates, where it does not matter which."""
    monkeypatch.setattr("latentia.discovery.structure_search.EFFORT", (0.1, 1.0))


@pytest.fixture
def quick_fits(short_search: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a fit without a graph, but little of each: where only its form matters."""
    monkeypatch.setattr("latentia.discovery.small_tables.ROUNDS", (1, 2))
    monkeypatch.setattr("latentia.pooling.learning_pool.TREES", (2, 2))
    monkeypatch.setattr("latentia.pooling.learning_chain.TREES", 2)


@pytest.fixture(scope="module")
def nameless() -> Iterator[None]:
    """No tables that give latents of mixed columns names: tests of columns do not ask for them."""
    with pytest.MonkeyPatch.context() as patch:
        asked = "latentia.model.arrow_questions.ArrowQuestions._needs_names"
        patch.setattr(asked, lambda *_: False)
        yield


PRIME = 2**31 - 1


class ExactRanks:
    """Generic ranks from the full joint of random tables, modulo a prime: nothing is rounded.

    Ranks of almost all tables are those of random ones, over any large field.
    """

    def __init__(self, graph: LatentGraph, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        states = [count or 1 for count in graph.states]
        joint = np.ones(states, dtype=np.int64)
        for family in self._families(graph):
            table = rng.integers(PRIME, size=[states[v] for v in family])
            if graph.directed:  # rows add up to one
                table[..., -1] = (1 - table[..., :-1].sum(axis=-1)) % PRIME
            shape = [states[v] if v in family else 1 for v in range(len(states))]
            joint = joint * table.transpose(np.argsort(family)).reshape(shape) % PRIME
        self.columns = graph.observed
        self.joint = joint.sum(axis=tuple(graph.latent)) % PRIME

    @staticmethod
    def _families(graph: LatentGraph) -> list[tuple[int, ...]]:
        if graph.directed:
            return [(*above, child) for child, above in enumerate(graph.parents())]
        tied = nx.empty_graph(len(graph.names))
        tied.add_edges_from(graph.edges)
        return [tuple(clique) for clique in nx.find_cliques(tied)]

    def rank(self, blocks: Sequence[Sequence[int]], others: Sequence[int]) -> int:
        """rank E[θ φ(others)ᵀ], θ the joint indicators of blocks of columns, φ that of others."""
        tables = [
            np.einsum(self.joint, self.columns, [*block, *others]).reshape(
                -1, max(1, int(np.prod(self._sizes(others))))
            )
            for block in blocks
        ]
        return _rank_modulo(np.concatenate(tables) % PRIME)

    def _sizes(self, columns: Sequence[int]) -> list[int]:
        return [self.joint.shape[self.columns.index(v)] for v in columns]


def _rank_modulo(matrix: np.ndarray) -> int:
    """Gaussian elimination in the field of PRIME elements."""
    rank = 0
    while matrix.any():
        i, j = np.unravel_index(int((matrix != 0).argmax()), matrix.shape)
        pivot = matrix[i] * pow(int(matrix[i, j]), -1, PRIME) % PRIME
        matrix = (matrix - matrix[:, j, None] * pivot) % PRIME
        rank += 1
    return rank


@pytest.fixture(scope="session")
def exact_ranks() -> type[ExactRanks]:
    return ExactRanks

"""TableAnswers: exact answers of a directed graph's tables, conditioned on the evidence at hand.

No junction tree of the whole graph is made. Rows with like evidence are taken together; for them
the graph is cut at what they know (pieces.py), what lies below neither evidence nor question is
dropped, and so is every piece that the question does not meet. What is left is wired once per
pattern of evidence, and answered for all different rows of its few columns at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.errors import DataError, EvidenceError, PlanError
from latentia.exact.coded_answers import (
    NumberedTables,
    answer_codes,
    joint_of_codes,
    sampled_of_codes,
    with_likelihoods,
)
from latentia.exact.forward_marginals import forward_marginals
from latentia.exact.reading_evidence import RowsGiven, Soft, StateCodes, read_codes, with_latents
from latentia.exact.reading_tables import checked_state_names, read_tables
from latentia.exact.tabular_model import check_rows_possible, numbers_of
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.typing import Array, ByName, Cell, Label, Names

if TYPE_CHECKING:
    from latentia.exact.sampled_answers import SampledTable


@final
@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class TableAnswers:
    """P(x) = ∏_v P(x_v | parents of v), asked as a TabularModel is, however large the graph.

    Evidence: codes (rows, variables), all variables in the graph's order with latents, -1 where
    unobserved; or {name: code} for one row; None for one row without any. `soft`: {name: likelihood
    of its states, (states,) or (rows, states)}, multiplied onto it.

    >>> answers = TableAnswers(
    ...     "H->X", {"H": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]]}, latents=["H"]
    ... )
    >>> answers.query("H", {"X": 1}).round(3)
    array([0.111, 0.889])
    """

    graph: LatentGraph  # with the number of states of every variable
    tables: Mapping[int, Array]  # variable -> (parents …, variable)
    state_names: Mapping[Label, tuple[Hashable, ...]]  # of those that have names

    def __init__(
        self,
        graph: GraphLike,
        cpts: ByName[Cell],
        latents: Latents = None,
        state_names: ByName[Cell] | None = None,
    ) -> None:
        read, tables = read_tables(as_graph(graph, latents), cpts)
        if not read.directed:
            raise PlanError(
                "tables P(variable | parents) are of a directed graph, got undirected edges (--). "
                "Use TabularModel, which takes potentials."
            )
        own = {scope[-1]: table for scope, table in tables.items()}
        object.__setattr__(self, "graph", read)  # as a frozen dataclass does it
        object.__setattr__(self, "tables", MappingProxyType(own))
        object.__setattr__(self, "state_names", checked_state_names(read, state_names))

    def __reduce__(self) -> tuple[object, ...]:
        return TableAnswers, (self.graph, self.cpts, None, self.state_names)

    def __repr__(self) -> str:
        hidden, cells = len(self.graph.latent), sum(t.size for t in self.tables.values())
        return (
            f"TableAnswers: {len(self.graph.observed)} observables, {hidden} latents, "
            f"{len(self.tables)} tables with {cells:,} cells"
        )

    @property
    def names(self) -> tuple[Label, ...]:
        """All variables, latents too, in the graph's order: the columns of evidence."""
        return self.graph.names

    @property
    def states(self) -> tuple[int, ...]:
        """The number of states of every variable."""
        return tuple(count or 1 for count in self.graph.states)

    @property
    def cpts(self) -> dict[Label, Array]:
        """The tables by name, as the constructor takes them."""
        return {self.names[v]: table for v, table in self.tables.items()}

    def log_evidence(self, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """log P(evidence), (rows,); -inf where it is impossible. Soft: log E[∏ likelihoods]."""
        network, codes = self._read(evidence, soft)
        return answer_codes(network, codes, (), None)[0]

    def posteriors(
        self, evidence: RowsGiven = None, variables: Names | None = None, soft: Soft = None
    ) -> dict[Label, Array]:
        """P(variable | all evidence), {name: (rows, states)}; an observed one is certain.

        Evidence that these variables do not depend on, given the rest, is not looked at.
        """
        asked = range(len(self.names)) if variables is None else numbers_of(self.names, variables)
        if evidence is None and not soft:
            alone = forward_marginals(self.graph, self.tables, asked)
            if alone is not None:
                return {self.names[v]: p[None] for v, p in alone.items()}
        network, codes = self._read(evidence, soft, asked)
        log, found = answer_codes(network, codes, asked, frozenset(asked))
        check_rows_possible(log)
        return {self.names[v]: found[v] for v in asked}

    def joint(self, variables: Names, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """P(variables | evidence), (rows, states of the first, of the second, …)."""
        asked = numbers_of(self.names, variables)
        network, codes = self._read(evidence, soft, asked)
        if len(asked) > 1:
            return joint_of_codes(network, codes, asked)
        log, found = answer_codes(network, codes, asked, frozenset(asked))
        check_rows_possible(log)
        return found[asked[0]]

    def sampled(
        self,
        variables: Names,
        evidence: RowsGiven = None,
        soft: Soft = None,
        rng: np.random.Generator | int | None = None,
    ) -> SampledTable:
        """`joint` with standard errors: exact where it can be, else by drawing a few variables.

        `rng` draws; the same seed gives the same answer.
        """
        from latentia.exact.sampled_answers import SampledTable

        asked = numbers_of(self.names, variables)
        network, codes = self._read(evidence, soft, asked)
        shape = [network.states[v] for v in asked]
        found = SampledTable(np.empty((len(codes), *shape)), np.zeros((len(codes), *shape)), 0)
        return sampled_of_codes(network, codes, asked, found, np.random.default_rng(rng))

    def sampled_log_evidence(
        self,
        evidence: RowsGiven = None,
        soft: Soft = None,
        rng: np.random.Generator | int | None = None,
    ) -> Array:
        """log P(evidence), (rows,): exact where it can be, else estimated by weighted draws."""
        from latentia.exact.sampled_answers import estimated_logs

        network, codes = self._read(evidence, soft)
        try:
            return answer_codes(network, codes, (), None)[0]
        except PlanError:
            generator = np.random.default_rng(rng)
            return estimated_logs(network.graph, network.tables, codes, generator)

    def query(self, variables: Names, evidence: RowsGiven = None, soft: Soft = None) -> Array:
        """P(variables | one row of evidence), (states of the first, of the second, …)."""
        table = self.joint(variables, evidence, soft)
        if len(table) != 1:
            raise EvidenceError(
                f"query answers one row of evidence, got {len(table)}. Use joint or posteriors."
            )
        return np.asarray(table[0])

    def sample(
        self, n: int, rng: np.random.Generator | int | None = None, latents: bool = False
    ) -> StateCodes:
        """n independent rows of codes: (n, observables), or (n, all variables)."""
        from latentia.exact.drawing_rows import draw_rows

        if n < 0:
            raise DataError(f"expected a number of rows of 0 or more, got {n}.")
        codes = draw_rows(self.graph, self.tables, n, np.random.default_rng(rng))
        return codes if latents else codes[:, self.graph.observed]

    def evidence(self, columns: object) -> StateCodes:
        """StateCodes (rows, observables), as `sample` gives them -> (rows, all variables)."""
        return with_latents(self, self.graph.observed, columns)

    def _read(
        self, evidence: RowsGiven, soft: Soft, asked: Sequence[int] = ()
    ) -> tuple[NumberedTables, StateCodes]:
        """StateCodes, and the network that they are of: soft evidence is a column of its own."""
        codes, weights = read_codes(self, evidence, soft)
        network = NumberedTables(self.graph, self.tables, self.states)
        return with_likelihoods(network, codes, weights, asked) if weights else (network, codes)

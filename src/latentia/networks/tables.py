"""Tables: the learner of the graph's own tables (design 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import PlanError
from latentia.exact.drawing_rows import draw_rows
from latentia.exact.own_network import OwnNetwork
from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators, independent
from latentia.inference.provenance import Provenance
from latentia.networks.knowledge import AUTO, PseudoCounts, short_tables
from latentia.networks.learner import Abilities
from latentia.networks.mixed_tables import learn_mixed_tables
from latentia.networks.own_tables import LearnedTables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_reports import PieceReport
from latentia.parameters import Parameters, shown_with
from latentia.seeds import as_generator
from latentia.structure.graph import LatentGraph
from latentia.structure.kept_plans import plan_again
from latentia.structure.plan import Plan
from latentia.typing import Array, ByName, Cell, Label, Seed

DRAWN = 20_000  # rows, where shares of columns are too wide to be worked out
MOST_STARTS = 6  # whose levels are told
MANY_ROUNDS = 3  # of starts, after which one that stands alone is doubted …
CLEAR_GAP, CLEAR_SHARE = 3.0, 0.05  # … by nats, and by nats for each parameter that rows speak of


class Tables(Parameters):
    """The tables of the graph itself: what columns tell is counted, latents are climbed in pieces.

    No junction tree of the whole graph is made, neither to learn nor to answer, so that large
    Bayesian networks with a few hidden nodes are welcome. For directed graphs; always a valid
    distribution, with `cpts_` and `predict_latent`. Tables of continuous columns, which have no
    children, are Gaussians on the cells of a grid, one for each state of the parents.

    Parameters
    ----------
    smoothing : "auto", float, or dict of variable -> float or table
        Pseudo-counts for every row of every table, as in `EM`. "auto": one at least, and more where
        the counts of a table say that its rows are much alike.
    known, tied
        Known cells of tables, and tables that are shared, as in `EM`.
    random_state : int, optional
        Seed of samples and starts.
    """

    def __init__(
        self,
        smoothing: PseudoCounts = AUTO,
        known: ByName[Cell] | None = None,
        tied: Sequence[Sequence[Label]] | None = None,
        random_state: Seed = None,
    ) -> None:
        self.smoothing = smoothing
        self.known = known
        self.tied = tied
        self.random_state = random_state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shown = {name: short_tables(x) for name, x in self.get_params(deep=False).items()}
        return shown_with(self, shown, N_CHAR_MAX)

    @property
    def abilities(self) -> Abilities:
        """What the road from a table to a model must know."""
        return Abilities(
            mixed=True,
            frozen=False,
            partial=False,
            plans=False,
            gaussian=True,
            known=self.known,
            tied=self.tied,
            smoothing=self.smoothing,
            random_state=self.random_state,
        )

    def learn(self, plan: Plan, source: Source) -> Operators:
        """From the plan of the whole graph, if there is one already."""
        return self.learn_graph(plan.graph, source)

    def learn_graph(self, graph: LatentGraph, source: Source) -> Operators:
        """From the graph itself, with the numbers of states of all variables."""
        refuse_undirected(graph)
        return as_operators(learn_tables(graph, source, self._settings, self._rng))

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """With continuous columns on their grids."""
        graph = plan.tables_of or plan.graph
        refuse_undirected(graph)
        found = learn_mixed_tables(graph, columns, source, self._settings, self._rng)
        return as_operators(found)

    @property
    def _settings(self) -> TableSettings:
        return TableSettings(smoothing=self.smoothing, known=self.known, tied=self.tied)

    @property
    def _rng(self) -> np.random.Generator:
        return as_generator(0 if self.random_state is None else self.random_state)


def refuse_undirected(graph: LatentGraph) -> None:
    """Tables are of arrows."""
    if not graph.directed:
        raise PlanError(
            "tables P(variable | parents) are of a directed graph, got undirected edges (--). "
            "Use PBP()."
        )


def column_plan(graph: LatentGraph) -> Plan:
    """The plan of the columns by themselves: where evidence is read, when tables answer."""
    columns = [graph.names[v] for v in graph.observed]
    states = tuple(graph.states[v] for v in graph.observed)
    plan = plan_again(LatentGraph(tuple(columns), (), frozenset(), states), ())
    return replace(plan, tables_of=graph)


def told_pieces(found: LearnedTables) -> tuple[str, ...]:
    """What was counted, and how each piece was raced and climbed, a line each."""
    counted = f"counted {len(found.counted)} of {len(found.tables)} tables"
    return (counted, *map(_told_piece, found.pieces))


def _told_piece(piece: PieceReport) -> str:
    names = _names(piece)
    head = f"piece of {names}: {len(piece.families)} tables, {piece.parameters:,} parameters; "
    climb = f"climbed in {piece.climb_steps} E-steps over {piece.rows:,} different rows"
    if not piece.starts:
        return f"{head}from {piece.winner}, {climb}"
    shown = ", ".join(f"{s.kind} {s.level:,.1f}" for s in piece.starts[:MOST_STARTS])
    more = len(piece.starts) - MOST_STARTS
    return (
        f"{head}best of {len(piece.starts)} starts in {piece.rounds} rounds: {piece.winner}, level "
        f"with it {piece.agreed}; {climb}; levels of starts: {shown}"
        + (f" and {more} lower" if more > 0 else "")
    )


def _names(piece: PieceReport) -> str:
    """The latents of a piece; without any, what its holes tie together."""
    names = piece.latents or piece.families
    return ", ".join(map(str, names[:6])) + (" …" if len(names) > 6 else "")


def doubts_of(found: LearnedTables) -> tuple[str, ...]:
    """Pieces whose best tables a single start of many has found, well above all others.

    Another seed would draw other starts, and might miss it as these did.
    """
    said = []
    for piece in found.pieces:
        if piece.agreed > 1 or piece.rounds < MANY_ROUNDS or len(piece.starts) < 2:
            continue
        gap = piece.starts[0].level - piece.starts[1].level
        if gap > max(CLEAR_GAP, CLEAR_SHARE * piece.effective):
            said.append(
                f"of {len(piece.starts)} starts only one found the best tables of {_names(piece)}, "
                f"{gap:.1f} nats above the next: another random_state may find others, and answer "
                "otherwise. Bring more rows, or give these latents fewer states."
            )
    return tuple(said)


def _shares(answers: TableAnswers, names: Sequence[Label]) -> list[Array]:
    """P(column), which independence is measured by; drawn, where the exact ones are too wide.

    Questions without evidence do not come here: they say that they are too wide.
    """
    try:
        alone = answers.posteriors(None, names)
        return [np.ascontiguousarray(alone[name][0]) for name in names]
    except PlanError:
        codes = draw_rows(answers.graph, answers.tables, DRAWN, np.random.default_rng(0))
    found = []
    for name in names:
        v = answers.graph.index(name)
        count = np.bincount(codes[:, v], minlength=answers.states[v]) + 1.0 / answers.states[v]
        found.append(count / count.sum())
    return found


def as_operators(found: LearnedTables) -> Operators:
    """Learned tables as a model keeps them."""
    plan, answers = column_plan(found.graph), TableAnswers(found.graph, found.cpts)
    leaves = tuple(plan.nodes[k].columns[0] for k in plan.leaves)
    marginals = _shares(answers, [plan.graph.names[v] for v in leaves])
    blank = independent(plan, marginals, found.weight)
    told = Provenance(notes=found.notes, pieces=told_pieces(found), doubts=doubts_of(found))
    network = OwnNetwork(answers, leaves)
    return Operators(
        plan,
        blank.leaves,
        blank.tensors,
        blank.marginals,
        found.weight,
        0.0,
        network=network,
        provenance=told,
    )

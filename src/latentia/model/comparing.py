"""compare: how many states should latents have? Candidates side by side, by every criterion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral

import numpy as np

from latentia.assess.comparison import Comparison
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import keep_rows
from latentia.data.sources.table_rows import open_rows
from latentia.discovery.finding import Structure
from latentia.discovery.id_columns import note_ids
from latentia.errors import DataError, GraphError
from latentia.model.candidates_mixed import MixedRoad, gaussian_columns
from latentia.model.judging import LIGHT, TableRoad, judge
from latentia.model.mixed_plans import has_continuous
from latentia.model.opened_table import Opened, look_at
from latentia.model.specification import LATENT_CLASS, Specification
from latentia.networks.accelerate import PSEUDO_COUNTS
from latentia.seeds import as_generator
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.typing import ByName, Cell, Label, Seed, TableLike, WeightLike

MOST_CANDIDATES = 64
POOL = 25_000  # different rows by which candidates are judged
PRECISE_ROWS = 3000  # different rows up to which the very maximum is looked for
NEARLY = 1e-4  # gain for each parameter still to come, beyond


def compare(
    X: TableLike,
    graph: GraphLike | None = None,
    latents: ByName[Cell] | None = None,
    *,
    sample_weight: WeightLike | None = None,
    smoothing: float = 0.0,
    bootstrap: int = 0,
    kinds: ByName[str] | None = None,
    state_names: ByName[Sequence[Cell]] | None = None,
    random_state: Seed = 0,
) -> Comparison:
    """Candidates with different numbers of states, learned from the same rows, side by side.

    Parameters
    ----------
    X : table
        Whatever `LatentModel.fit` takes.
    graph : optional
        As in `LatentModel`; default: one latent class that tells all columns but ids.
    latents : dict of name -> number, or numbers such as ``range(1, 9)``
        All combinations are compared. Without a graph the one name is that of the latent class;
        default: ``{"class": range(1, 9)}``.
    smoothing : float
        Pseudo-counts of tables, as in `EM`; the default is maximum likelihood, which AIC and BIC
        are about. Losses on held-out rows are of candidates with pseudo-counts of at least 1: a
        zero would make them infinite.
    bootstrap : int
        So many tables are drawn from each candidate's predecessor, to tell by likelihood ratios
        whether the additional states are needed (p_value). 99 is usual; it takes its time.

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> h = rng.integers(3, size=1500)
    >>> P = np.array([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]])
    >>> frame = {f"x{i}": rng.random(1500) < P[i % 2, (h + i // 2) % 3] for i in range(8)}
    >>> lt.compare(frame, latents={"class": range(1, 5)}).recommended
    {'class': 3}
    """
    wanted, ranges = _read(graph, latents)
    rows = open_rows(X, Specification(wanted).columns, sample_weight)
    if rows.once:
        raise DataError(
            "candidates read the rows again and again, these can be read only once. Pass a "
            "function that opens them anew, or write them to a Parquet file and pass its path."
        )
    if wanted is None:
        (name,) = ranges
        if name in rows.names:
            raise DataError(
                f"the latent class is called {name!r}, and so is a column. Call it something else, "
                "or drop the column."
            )
        wished = Specification(LATENT_CLASS, {name: 2}, kinds, state_names)
        opened = look_at(wished, rows, sought=Structure())
        note_ids(opened.left_out)
    else:
        opened = look_at(Specification(wanted, None, kinds, state_names), rows)
    if has_continuous(opened.columns):
        opened = replace(opened, columns=gaussian_columns(opened.graph, opened.columns))
    rng = as_generator(random_state)
    source = opened.source(opened.columns)
    pool, whole = keep_rows(source, POOL, rng)
    if whole:
        source = LocalRows(pool)
    road = _road(opened, float(smoothing), whole and len(pool) <= PRECISE_ROWS)
    return judge(road, ranges, source, pool, _times(bootstrap), rng)


def _read(
    graph: GraphLike | None, latents: Latents
) -> tuple[LatentGraph | None, dict[Label, list[int]]]:
    """The graph, if it does not depend on the table, and the numbers of states to be tried."""
    if latents is None and graph is None:
        latents = {"class": range(1, 9)}
    if not isinstance(latents, Mapping) or not latents:
        raise DataError(
            "expected latents as a dict of names and numbers to be tried, such as "
            f"{{'class': range(1, 9)}}, got {type(latents).__name__}."
        )
    ranges = {name: _numbers(name, given) for name, given in latents.items()}
    count = int(np.prod([len(numbers) for numbers in ranges.values()], dtype=object))
    if count > MOST_CANDIDATES:
        raise DataError(
            f"{count:,} combinations of numbers of states are too many to compare, at most "
            f"{MOST_CANDIDATES}. Narrow the ranges, or vary one latent at a time."
        )
    if graph is None and len(ranges) > 1:
        raise DataError(
            f"without a graph there is one latent, got {', '.join(map(str, ranges))}. Pass the "
            "graph that ties them."
        )
    if graph is None:
        return None, ranges
    if callable(graph):
        raise DataError("expected a graph, got a function. Call it, and pass what it gives.")
    read = as_graph(graph, {name: numbers[0] for name, numbers in ranges.items()})
    if not read.directed:
        raise GraphError("numbers of states are compared for directed graphs, got edges (--).")
    return read, ranges


def _numbers(name: Label, given: object) -> list[int]:
    numbers = [given] if isinstance(given, Integral) else given
    if isinstance(numbers, str) or not isinstance(numbers, Iterable):
        raise DataError(f"expected numbers of states of {name!r}, got {given!r}.")
    found = sorted({_whole(name, n) for n in numbers})
    if not found:
        raise DataError(f"expected numbers of states of {name!r}, got none.")
    return found


def _whole(name: Label, n: object) -> int:
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise DataError(f"expected whole numbers of states of {name!r} from 1 on, got {n!r}.")
    return int(n)


def _times(bootstrap: object) -> int:
    if not isinstance(bootstrap, Integral) or isinstance(bootstrap, bool) or bootstrap < 0:
        raise DataError(f"expected bootstrap to be a whole number from 0 on, got {bootstrap!r}.")
    return int(bootstrap)


def _road(opened: Opened, smoothing: float, precise: bool) -> TableRoad | MixedRoad:
    if has_continuous(opened.columns):
        return MixedRoad(opened.graph, opened.columns, smoothing)
    sizes = {c.name: c.cells for c in opened.columns}
    exactly = replace(LIGHT, smoothing=smoothing)
    quickly = replace(exactly, precise=False, closely=NEARLY)
    held = replace(LIGHT, smoothing=max(smoothing, PSEUDO_COUNTS), precise=False)
    return TableRoad(opened.graph.with_states(sizes), exactly if precise else quickly, held)

"""What costs time, counted: singular value decompositions of a plan, passes over rows."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.data.sources import csv_files
from latentia.data.sources.memory import LocalRows
from latentia.structure import generic_rank
from latentia.structure.templates import hidden_markov, latent_class

COUNTED = ("svd", "singular_values")


@pytest.fixture
def decompositions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a plan asks for singular values."""
    found: Counter[str] = Counter()

    def counted(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def outer(*args: Any, **named: Any) -> Any:
            found[name] += 1
            return inner(*args, **named)

        return outer

    for name in COUNTED:
        monkeypatch.setattr(generic_rank, name, counted(name, getattr(generic_rank, name)))
    return found


def wide_star(columns: int) -> lt.LatentGraph:
    graph = latent_class(columns, 2)
    return graph.with_states({graph.names[v]: 4 for v in graph.observed})


def long_chain(columns: int) -> lt.LatentGraph:
    graph = hidden_markov(columns // 2, 2)
    return graph.with_states({graph.names[v]: 4 for v in graph.observed})


@pytest.mark.parametrize("draw", [wide_star, long_chain])
def test_parts_that_are_alike_are_decomposed_once(
    draw: Callable[[int], lt.LatentGraph], decompositions: Counter[str]
) -> None:
    """A hundred decompositions for a thousand separators at most, and no more for more of them."""
    separators = len(lt.make_plan(draw(600)).nodes)
    assert sum(decompositions.values()) <= 100 < separators
    decompositions.clear()
    lt.make_plan(draw(1200))
    assert sum(decompositions.values()) == 0  # all of its parts have been met


def rows_of(graph: lt.LatentGraph, count: int) -> dict[Any, Any]:
    """Columns that follow one hidden state."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(3, size=count)
    noise = {graph.names[v]: rng.integers(3, size=count) for v in graph.observed}
    return {name: np.where(rng.random(count) < 0.5, hidden, x) for name, x in noise.items()}


@pytest.mark.parametrize("columns", [6, 24])
@pytest.mark.parametrize("learner", [lt.PBP(refine=False), lt.PBP(regularize=False)])
def test_the_closed_form_passes_twice_over_rows(
    columns: int, learner: lt.PBP, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many columns there are: once for coordinates, once for the products in them."""
    passes = [0]
    fold = LocalRows.fold

    def counted(self: LocalRows, summary: Any) -> Any:
        passes[0] += 1
        return fold(self, summary)

    monkeypatch.setattr(LocalRows, "fold", counted)
    graph = hidden_markov(columns, 3)
    lt.LatentModel(graph, learner=learner).fit(rows_of(graph, 2000))
    assert passes[0] == 2


def test_a_file_is_read_twice_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once to see what its cells are, once for its rows; the first look is remembered."""
    graph = hidden_markov(6, 3)
    rows, path = rows_of(graph, 2000), tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    reads = [0]
    text_tables = csv_files._text_tables

    def counted(*args: Any) -> Any:
        reads[0] += 1
        return text_tables(*args)

    monkeypatch.setattr(csv_files, "_text_tables", counted)
    model = lt.LatentModel(graph, learner=lt.PBP(refine=False))
    model.fit(path)
    assert reads[0] == 2
    model.fit(path)
    assert reads[0] == 3

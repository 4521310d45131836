"""The products of pass 2 by the kernel, against matrix products; how often it is called."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

from latentia import make_plan
from latentia.closed_form import windows
from latentia.closed_form.basis import canonical_basis
from latentia.closed_form.compiled_windows import MOST_RANK, WindowProgram
from latentia.closed_form.pairs import pair_layout, sum_pairs
from latentia.closed_form.windows import (
    Windows,
    product_windows,
    sum_windows,
    window_products,
    window_sums,
)
from latentia.data.rows import Rows
from latentia.native.loading import kernel
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import hidden_markov, latent_class, latent_tree

pytestmark = pytest.mark.skipif(kernel() is None, reason="no kernel was built")

GRAPHS = {
    "chain": (hidden_markov(20, 3), (2, 3, 6)),
    "binary chain": (hidden_markov(12, 2), (2,)),
    "wide ranks": (hidden_markov(9, 7), (8, 9)),
    "star": (latent_class(25, 3), (1, 3, 40)),
    "tree": (latent_tree([["a", "b", "c"], [["d", "e"], ["f", "g"]], "h"], 3), (4,)),
    "pair": (as_graph("H[2]->a; H->b"), (2,)),
    "one": (as_graph("H[2]->a"), (3,)),
    "forest": (as_graph("H[2]->a; H->b; H->c; G[3]->d; G->e; G->f"), (3, 5)),
}


def posed(name: str, n: int, holes: bool, weighted: bool) -> tuple[Windows, Rows]:
    graph, sizes = GRAPHS[name]
    rng = np.random.default_rng(len(name))
    known = graph.with_states(
        {graph.names[v]: sizes[i % len(sizes)] for i, v in enumerate(graph.observed)}
    )
    plan = make_plan(known)
    hidden = rng.random(n)
    codes = []
    for v in plan.graph.observed:
        m = plan.graph.states[v]
        own = np.floor(np.clip(hidden + rng.normal(0, 0.3, n), 0, 0.999) * m).astype(np.int8)
        codes.append(np.where(rng.random(n) < 0.2, -1, own).astype(np.int8) if holes else own)
    rows = Rows(tuple(codes), rng.random(n) + 0.5 if weighted else None)
    layout = pair_layout(plan)
    return product_windows(layout, canonical_basis(layout, sum_pairs(layout, rows), True)), rows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_kernel_sums_what_matrix_products_sum(
    name: str, holes: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "COMPILED", 1)
    given, rows = posed(name, 1003, holes, weighted)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    slow = sum_windows(given, rows)
    for level in ("base", "avx2"):
        monkeypatch.setenv("LATENTIA_KERNEL", level)
        fast = sum_windows(given, rows)
        assert given.programs
        assert (fast.kind, fast.weight, fast.rows) == (slow.kind, slow.weight, slow.rows)
        assert fast.sums.keys() == slow.sums.keys()
        for key, total in slow.sums.items():
            # a thousand numbers are added in another order
            limit = 1e-12 * len(rows) * max(1.0, float(np.abs(total).max() / len(rows)))
            np.testing.assert_allclose(fast.sums[key], total, rtol=0, atol=limit)


def test_a_block_is_one_call_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(self: WindowProgram, own: Any, codes: Any, weight: Any) -> Any:
        calls.append(len(codes[0]))
        return sums(self, own, codes, weight)

    sums = WindowProgram.sums
    monkeypatch.setattr(WindowProgram, "sums", counted)
    given, rows = posed("chain", windows.COMPILED, False, False)
    sum_windows(given, rows)
    assert calls == [len(rows)]
    sum_windows(given, rows[:-1])  # fewer are left to numpy
    assert calls == [len(rows)]


def test_blocks_of_the_kernel_and_of_matrix_products_add_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, rows = posed("chain", windows.COMPILED + 700, False, True)
    parts = [rows[: windows.COMPILED], rows[windows.COMPILED : -1], rows[-1:]]
    for some in (parts, parts[::-1]):
        total = window_products(given, reduce(add, [window_sums(given, part) for part in some]))
        monkeypatch.setenv("LATENTIA_KERNEL", "off")
        slow = sum_windows(given, rows)
        monkeypatch.delenv("LATENTIA_KERNEL")
        assert (total.kind, total.rows) == (slow.kind, slow.rows)
        assert total.sums.keys() == slow.sums.keys()
        for key, own in slow.sums.items():
            limit = 1e-12 * max(1.0, float(np.abs(own).max()))  # thousands of numbers of this size
            np.testing.assert_allclose(total.sums[key], own, rtol=0, atol=limit)


def test_ranks_beyond_the_kernel_are_left_to_matrix_products() -> None:
    GRAPHS["wider"] = (hidden_markov(5, MOST_RANK + 2), (MOST_RANK + 3,))
    given, _ = posed("wider", 500, False, False)
    assert given.programs is None


def test_codes_out_of_bounds_are_an_error() -> None:
    given, rows = posed("tree", windows.COMPILED, False, False)
    odd = (rows.codes[0] + 100).astype(np.int8)
    with pytest.raises(IndexError, match="out of bounds"):
        sum_windows(given, Rows((odd, *rows.codes[1:])))

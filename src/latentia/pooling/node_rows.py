"""Trees whose nodes know what their rows hold, so that a draw can stop at any size of node.

scikit-learn grows extremely randomised trees (Geurts et al. 2006), each on a part of the rows; the
rest tells how good it is. Nodes come in preorder, so that the rows below a node are one stretch.
"""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.native.loading import kernel
from latentia.typing import Array, Bools, CellArray, Codes, Foreign

SMALLEST = 3  # rows of a leaf


class _Descent(ctypes.Structure):
    """As nodes.c has it."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "width", "least")),
        *((name, ctypes.c_void_p) for name in ("features", "feature", "threshold")),
        *((name, ctypes.c_void_p) for name in ("left", "right", "size", "node")),
    ]


@final
@dataclass(frozen=True, slots=True, eq=False)
class NodeRows:
    """All nodes of all trees in a row; a leaf is its own child."""

    roots: Codes  # (trees,)
    feature: Codes  # that a node looks at, (nodes,)
    threshold: Array  # up to which it goes to the left, (nodes,)
    left: Codes  # (nodes,)
    right: Codes  # (nodes,)
    first: Codes  # of the stretch of `held` below a node, (nodes,) …
    size: Codes  # … and its length, (nodes,)
    held: Array  # what rows hold: trees, in each the rows from the leftmost leaf on

    @property
    def trees(self) -> int:
        return len(self.roots)

    def nodes(self, features: Array, tree: Codes, least: int) -> Codes:
        """The lowest node of at least `least` rows on the way down one tree for each row, (n,)."""
        own = np.ascontiguousarray(features, dtype=np.float32)
        node = np.array(self.roots[tree], dtype=np.int64)
        arrays = (self.feature, self.threshold, self.left, self.right, self.size)
        kinds = (np.int64, np.float64, np.int64, np.int64, np.int64)
        compiled = kernel()
        if compiled is not None:
            held = [np.ascontiguousarray(x, dtype=k) for x, k in zip(arrays, kinds, strict=True)]
            everything: list[CellArray] = [own, *held, node]
            at = (x.ctypes.data for x in everything)
            call = _Descent(*own.shape, least, *at)
            compiled.function("nodes_descend")(ctypes.byref(call))
            return node
        row = np.arange(len(own))
        while True:
            low = own[row, self.feature[node]] <= self.threshold[node]
            after = np.where(low, self.left[node], self.right[node])
            after = np.where(self.size[after] >= least, after, node)
            if (after == node).all():
                return np.asarray(node)
            node = after

    def draw(self, features: Array, tree: Codes, least: int, rng: np.random.Generator) -> Array:
        """What one of the rows of each row's node holds, (n,)."""
        node = self.nodes(features, tree, least)
        step = (rng.random(len(node)) * self.size[node]).astype(np.int64)
        return np.asarray(self.held[self.first[node] + step])


def grow_nodes(
    features: Array,
    target: Array,
    held: Array,
    trees: int,
    tried: float,
    classes: bool,
    part: float,
    rng: np.random.Generator,
) -> tuple[NodeRows, Bools]:
    """Trees that tell `target`, and which rows each has not seen, (trees, n)."""
    from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

    kind: Foreign = ExtraTreeClassifier if classes else ExtraTreeRegressor
    own = np.ascontiguousarray(features, dtype=np.float32)
    unseen = np.zeros((trees, len(own)), dtype=bool)
    parts: list[tuple[CellArray, ...]] = []
    nodes, rows = 0, 0
    for t in range(trees):
        some = rng.permutation(len(own))
        some, out = np.split(some, [max(int(part * len(own)), 1)])
        unseen[t, out] = True
        model = kind(min_samples_leaf=SMALLEST, max_features=tried, random_state=t)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of states that are many: they are no numbers
            tree = model.fit(own[some], target[some]).tree_
        leaf = tree.apply(own[some])
        order = np.argsort(leaf, kind="stable")
        places = np.arange(tree.node_count)
        bare = tree.feature < 0
        below = [np.where(bare, places, c) for c in (tree.children_left, tree.children_right)]
        parts.append(
            (
                np.where(bare, 0, tree.feature),
                tree.threshold,
                below[0] + nodes,
                below[1] + nodes,
                np.searchsorted(leaf[order], places) + rows,  # leaves before it
                tree.n_node_samples,
                held[some][order],
            )
        )
        nodes, rows = nodes + tree.node_count, rows + len(some)
    sizes = [len(part[0]) for part in parts]
    roots = np.cumsum(sizes) - sizes
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    feature, threshold, left, right, first, size, values = whole
    whole_ones = (x.astype(np.int64) for x in (roots, feature, left, right, first, size))
    at, looks, low, high, begins, many = whole_ones
    found = NodeRows(at, looks, threshold, low, high, begins, many, values.astype(float))
    return found, unseen

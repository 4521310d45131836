"""Trees whose leaves hold distributions: extremely randomised ones (Geurts et al. 2006).

scikit-learn grows them; what is kept are plain arrays, which answer without it. A leaf holds the
cells of the rows that fell into it, and a forest answers with the mean of its leaves (Meinshausen
2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from latentia.typing import Array, Codes, Foreign


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeafForest:
    """All nodes of all trees in a row; a leaf is its own child."""

    roots: Codes  # node of each tree, (trees,)
    feature: Codes  # that a node looks at, (nodes,)
    threshold: Array  # up to which it goes to the left, (nodes,)
    left: Codes  # (nodes,)
    right: Codes  # (nodes,)
    start: Codes  # of the cells of each node, (nodes + 1,)
    cells: Codes  # of rows, leaf by leaf
    share: Array  # of each of them in its leaf
    states: int  # cells of the column

    @property
    def trees(self) -> int:
        return len(self.roots)

    def leaves(self, features: Array) -> Codes:
        """The leaf of every row in every tree, (n, trees)."""
        own = features.astype(np.float32)
        node = np.broadcast_to(self.roots, (len(own), self.trees)).copy()
        row = np.arange(len(own))[:, None]
        while True:
            low = own[row, self.feature[node]] <= self.threshold[node]
            after = np.where(low, self.left[node], self.right[node])
            if (after == node).all():
                return np.asarray(node)
            node = after

    def masses(self, features: Array) -> Array:
        """P(cell | features), (cells, n)."""
        n, nodes = len(features), len(self.feature)
        leaves = self.leaves(features).ravel()
        starts = np.arange(0, n * self.trees + 1, self.trees)
        asked = scipy.sparse.csr_array(
            (np.full(leaves.size, 1.0 / self.trees), leaves, starts), (n, nodes)
        )
        held = scipy.sparse.csr_array((self.share, self.cells, self.start), (nodes, self.states))
        return np.asarray((asked @ held).toarray().T)


def grow_forest(
    features: Array,
    target: Array,
    cells: Codes,
    states: int,
    weight: Array | None,
    trees: int,
    smallest: int,
    tried: float,
    classes: bool,
    seed: int,
) -> LeafForest:
    """Grow trees that tell `target`; their leaves hold `cells`, at least `smallest` rows each.

    A split looks at a share `tried` of the features; of `classes`, the target's values are states.
    """
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    kind: Foreign = ExtraTreesClassifier if classes else ExtraTreesRegressor
    model = kind(trees, min_samples_leaf=smallest, max_features=tried, random_state=seed)
    own = np.ascontiguousarray(features, dtype=np.float32)
    model.fit(own, target, sample_weight=weight)
    parts = [each.tree_ for each in model.estimators_]
    sizes = np.array([each.node_count for each in parts])
    roots = np.cumsum(sizes) - sizes
    nodes = np.arange(sizes.sum())
    feature = np.concatenate([each.feature for each in parts])
    leaf = feature < 0
    moved = np.repeat(roots, sizes)
    left = np.concatenate([each.children_left for each in parts]) + moved
    right = np.concatenate([each.children_right for each in parts]) + moved
    at = (model.apply(own) + roots).T.ravel()  # leaves, tree by tree
    held = scipy.sparse.csr_array(
        (np.tile(np.ones(len(own)) if weight is None else weight, len(parts)),
         (at, np.tile(cells, len(parts)))),
        shape=(len(nodes), states),
    )  # fmt: skip
    held.sum_duplicates()
    total = np.repeat(np.asarray(held.sum(axis=1)).ravel(), np.diff(held.indptr))
    return LeafForest(
        roots.astype(np.int64),
        np.where(leaf, 0, feature).astype(np.int64),
        np.concatenate([each.threshold for each in parts]),
        np.where(leaf, nodes, left).astype(np.int64),
        np.where(leaf, nodes, right).astype(np.int64),
        held.indptr.astype(np.int64),
        held.indices.astype(np.int64),
        held.data / np.maximum(total, 1e-300),
        states,
    )

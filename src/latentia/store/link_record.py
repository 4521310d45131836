"""Records of covariates: the columns that tell a latent by a logit, and their coefficients."""

from __future__ import annotations

import numpy as np

from latentia.errors import StoreError
from latentia.model.coefficients import Coefficients
from latentia.model.links import LogitLink, feature_names
from latentia.store.column_record import read_column, write_column
from latentia.store.plain import fields, items, number, pack, unpack, whole
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Given

MOST_CELLS = 10**6
LARGEST = 1e100


def write_link(link: LogitLink, log_likelihood: float) -> dict[str, Given]:
    told = link.coefficients
    return {
        "latent": pack(link.latent, "a latent"),
        "columns": [
            [pack(c.name, "a name of a column"), c.cells, write_column(c)] for c in link.columns
        ],
        "values": told.values.tolist(),
        "covariance": told.covariance.tolist(),
        "robust": link.robust.covariance.tolist(),
        "share": link.share.tolist(),
        "log_likelihood": float(log_likelihood),
        **({} if link.donors is None else {"donors": link.donors.tolist()}),
    }


def read_link(record: object, graph: LatentGraph) -> tuple[LogitLink, float]:
    """The link of a record, and the log-likelihood of its model; older ones have no donors."""
    given = None
    if isinstance(record, dict) and "donors" in record:
        given, record = record["donors"], {k: x for k, x in record.items() if k != "donors"}
    latent, columns, values, covariance, robust, share, log = fields(
        record, "latent", "columns", "values", "covariance", "robust", "share", "log_likelihood"
    )
    name = unpack(latent)
    if name not in [graph.names[v] for v in sorted(graph.latent)]:
        raise StoreError(f"expected a latent of the graph, got {name!r:.80}.")
    classes = graph.states[graph.index(name)] or 1
    own = []
    for column in items(columns):
        label, cells, states = items(column, 3)
        own.append(read_column(states, unpack(label), whole(cells, MOST_CELLS, 1)))
    names = tuple(feature_names(own))
    size = (classes - 1) * len(names)
    B = _matrix(values, classes, len(names))
    labels = tuple(range(classes))
    told = [
        Coefficients(name, labels, names, B, _matrix(each, size, size))
        for each in (covariance, robust)
    ]
    shares = _matrix([share], 1, classes)[0]
    if not (shares > 0).all() or B[0].any():
        raise StoreError("expected positive shares of classes, and no coefficients of the first.")
    donors = None if given is None else _matrix(given, len(items(given)), len(names))
    if donors is not None and not (len(donors) and (donors[:, 0] == 1).all()):
        raise StoreError("expected rows of features, the first of which is 1.")
    return LogitLink(name, tuple(own), told[0], told[1], shares, donors), number(log)


def _matrix(record: object, rows: int, columns: int) -> Array:
    found = [
        [number(x, -LARGEST, LARGEST) for x in items(row, columns)] for row in items(record, rows)
    ]
    return np.array(found).reshape(rows, columns)

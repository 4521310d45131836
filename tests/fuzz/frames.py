"""Frames: every dtype and every library, missing, infinite, empty, mixed; fitted and asked."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import uuid
import warnings
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import latentia as lt

from .trial import Finding, check_probabilities, check_scores, matrix, rows_of

NAN = float("nan")
ODD_CELLS: list[Any] = [
    None,
    NAN,
    pd.NA,
    pd.NaT,
    float("inf"),
    -float("inf"),
    2**70,
    -(2**63),
    1e308,
    -1e308,
    1e-320,
    0.0,
    -0.0,
    1,
    True,
    "1",
    "",
    "a",
    b"a",
    (1, 2),
    ("t", NAN),
    [1],
    {"k": 1},
    {1},
    frozenset({1}),
    dt.date(2020, 1, 1),
    dt.datetime(2020, 1, 1),
    np.datetime64("2020"),
    np.datetime64("NaT"),
    decimal.Decimal("1.5"),
    decimal.Decimal("nan"),
    1 + 2j,
    fractions.Fraction(1, 3),
    uuid.UUID(int=1),
    np.float32(1.5),
    np.array([1, 2]),
    object(),
]


def pool(r: Random, n: int, *states: Any) -> list[Any]:
    return [r.choice(states) for _ in range(n)]


def uniform(r: Random, n: int) -> list[float]:
    return [r.random() for _ in range(n)]


# each makes n cells, as a list or an array
CELLS: list[Any] = [
    lambda r, n: pool(r, n, 0, 1, 2),
    lambda r, n: pool(r, n, "x", "y"),
    lambda r, n: pool(r, n, False, True),
    lambda r, n: np.array(
        pool(r, n, 0, 1, 2),
        dtype=r.choice(["int8", "uint8", "int64", "float32", "float16", "uint64"]),
    ),
    lambda r, n: pool(r, n, 0.5, 1.0, NAN),
    lambda r, n: pool(r, n, "x", "y", None),
    lambda r, n: pool(r, n, True, False, None),
    lambda r, n: uniform(r, n),
    lambda r, n: [r.gauss(0, 1) * 10 ** r.choice([-300, -9, 0, 9, 150, 300]) for _ in range(n)],
    lambda r, n: [1e16 + k for k in range(n)],
    lambda r, n: [x if r.random() < 0.7 else NAN for x in uniform(r, n)],
    lambda r, n: [x if r.random() < 0.5 else 0.0 for x in uniform(r, n)],
    lambda r, n: [r.choice([1e-320, 1e308, -1e308, 0.0, 5e-324]) for _ in range(n)],
    lambda r, n: [r.choice([float("inf"), 1.0, 2.0]) for _ in range(n)],
    lambda r, n: list(range(n)),
    lambda r, n: [r.randint(-(2**63), 2**63 - 1) for _ in range(n)],
    lambda r, n: [r.choice([2**64, 2**70, -(2**65)]) for _ in range(n)],
    lambda r, n: np.array([r.choice([0, 2**64 - 1, 2**63]) for _ in range(n)], dtype=np.uint64),
    lambda r, n: [f"id{k}" for k in range(n)],
    lambda r, n: [7] * n,
    lambda r, n: ["same"] * n,
    lambda r, n: [None] * n,
    lambda r, n: [NAN] * n,
    lambda r, n: pool(r, n, *ODD_CELLS),
    lambda r, n: pool(r, n, 1, 1.0, True, "1"),
    lambda r, n: pool(r, n, 1, "a", 2.5, None),
    lambda r, n: pool(r, n, dt.date(2020, 1, 1), dt.date(2021, 1, 1)),
    lambda r, n: np.array(
        [r.choice(["2020-01-01", "2021-01-01", "NaT"]) for _ in range(n)], dtype="datetime64[ns]"
    ),
    lambda r, n: np.array([r.choice([1, 2, 3]) for _ in range(n)], dtype="timedelta64[s]"),
    lambda r, n: [decimal.Decimal(r.choice(["1.5", "2.5"])) for _ in range(n)],
    lambda r, n: [b"a" if r.random() < 0.5 else b"b" for _ in range(n)],
    lambda r, n: [("t", r.randint(0, 1)) for _ in range(n)],
    lambda r, n: [[1, 2] for _ in range(n)],
    lambda r, n: np.ma.MaskedArray(pool(r, n, 0, 1), [r.random() < 0.3 for _ in range(n)]),
    lambda r, n: np.zeros((n, 2)),
    lambda r, n: [-0.0 if r.random() < 0.5 else 0.0 for _ in range(n)],
    lambda r, n: [0.1 + k * 1e-17 for k in range(n)],
    lambda r, n: [complex(1, r.randint(0, 1)) for _ in range(n)],
    lambda r, n: pool(r, n, "é", "\x00", "a\nb", "🙂", "'\""),
]
SOUND = CELLS[:12]


def _as_series(r: Random, x: Any) -> Any:
    s = pd.Series(list(x) if isinstance(x, np.ma.MaskedArray) else x)
    way = r.random()
    if way < 0.15:
        return s.astype("category")
    if way < 0.25:
        return s.convert_dtypes()
    return s.astype(object) if way < 0.3 else s


def as_pandas(r: Random, cells: dict[Any, Any], n: int) -> Any:
    with warnings.catch_warnings():  # what pandas says of odd cells is not our affair
        warnings.simplefilter("ignore")
        columns = {name: _as_series(r, x) for name, x in cells.items()}
    frame = pd.DataFrame(columns)
    way = r.random()
    if way < 0.05 and frame.shape[1] > 1:
        frame.columns = [frame.columns[0]] * frame.shape[1]
    elif way < 0.1:
        frame.columns = r.choice(
            [
                list(range(frame.shape[1])),
                [("a", k) for k in range(frame.shape[1])],
                [None, *frame.columns[1:]],
                ["a", 0, 1.5, "0"][: frame.shape[1]],
            ]
        )
    elif way < 0.13:
        frame.columns = pd.MultiIndex.from_tuples([("p", c) for c in frame.columns])
    elif way < 0.2:
        frame.index = r.choice(
            [pd.Index([0] * n), pd.Index([f"i{k}" for k in range(n)]), pd.Index([None] * n)]
        )
    return frame


def as_polars(r: Random, cells: dict[Any, Any], n: int) -> Any:
    if any(isinstance(v, decimal.Decimal) and v.is_nan() for x in cells.values() for v in list(x)):
        raise ValueError("polars itself panics at this")
    frame = pl.DataFrame({k: pl.Series(k, list(x), strict=False) for k, x in cells.items()})
    way = r.random()
    if way < 0.2:
        text = [c for c in frame.columns if frame[c].dtype == pl.String]
        frame = frame.with_columns([pl.col(c).cast(pl.Categorical) for c in text])
    elif way < 0.3:
        return frame.lazy()
    return frame


def as_arrow(r: Random, cells: dict[Any, Any], n: int) -> Any:
    table = pa.table({k: pa.array(list(x)) for k, x in cells.items()})
    way = r.random()
    if way < 0.2:
        table = pa.table(
            {
                k: c.combine_chunks().dictionary_encode()
                for k, c in zip(table.column_names, table.columns, strict=True)
            }
        )
    elif way < 0.3 and table.num_columns > 1:
        table = table.rename_columns([table.column_names[0]] * table.num_columns)
    elif way < 0.4:
        return table.to_reader()
    return table


def as_dict(r: Random, cells: dict[Any, Any], n: int) -> Any:
    if r.random() < 0.05:
        cells = {
            **cells,
            r.choice(list(cells)): r.choice([5, "abc", None, [1], np.array(3), {}, [[1], [1, 2]]]),
        }
    return cells


def as_numpy(r: Random, cells: dict[Any, Any], n: int) -> Any:
    cells = {k: x.filled(0) if isinstance(x, np.ma.MaskedArray) else x for k, x in cells.items()}
    columns = [np.array(list(x), dtype=r.choice([None, object, float])) for x in cells.values()]
    made = np.column_stack(columns)
    return r.choice(
        [made, made, made.astype(object), made.tolist(), made[:, :1], made[..., None], made.T]
    )


def as_blocks(r: Random, cells: dict[Any, Any], n: int) -> Any:
    frame = as_pandas(r, cells, n)
    cut = r.randint(0, n)
    return r.choice(
        [[frame[:cut], frame[cut:]], [frame], [], iter([frame[:cut], frame[cut:]]), lambda: [frame]]
    )


CONTAINERS = [as_pandas, as_pandas, as_polars, as_arrow, as_dict, as_dict, as_numpy, as_blocks]


def build(r: Random) -> tuple[Any, list[str], int] | None:
    """A frame of three or so columns; None where its own library will not have it."""
    n = r.choice([0, 1, 2, 3, 8, 25, 25, 60])
    names = ["a", "b", "c"][: r.choice([1, 2, 3, 3, 3])]
    kinds = CELLS if r.random() < 0.6 else SOUND
    cells = {name: r.choice(kinds)(r, n) for name in names}
    try:
        return r.choice(CONTAINERS)(r, cells, n), names, n
    except Exception:
        return None


def weight(r: Random, n: int) -> Any:
    if r.random() < 0.75:
        return None
    return r.choice(
        [
            [1.0] * n,
            [0.0] * n,
            [0] * (n - 1) + [1],
            [-1.0] * n,
            [NAN] * n,
            [1.0] * (n + 1),
            "a",
            "zz",
            2.0,
            [1e300] * n,
            [1e-300] * n,
            [[1.0]] * n,
            ["x"] * n,
            [r.random() for _ in range(n)],
            np.ones((n, 2)),
            [10**6] * n,
        ]
    )


CHEAP: list[Any] = [lt.PBP(refine=False)] * 5 + [
    "paper",
    "spectral",
    lt.PBP(regularize=False, refine=False),
]
COSTLY: list[Any] = [
    "pbp",
    lt.EM(1, max_iter=5, random_state=0),
    lt.PBP(refine=True),
    lt.StepwiseEM(restarts=1, epochs=1, random_state=0),
]


def learner(r: Random) -> Any:
    return r.choice(COSTLY if r.random() < 0.12 else CHEAP)


def case(r: Random) -> str:
    """Fit a hostile frame; if that works, ask it about its own rows, or those of another."""
    made = build(r)
    if made is None:
        return "not a frame"
    frame, names, n = made
    way = r.random()
    graph: Any = None if way < 0.15 else f"H->{','.join(names)}"
    latents = None if graph is None else {"H": r.choice([2, 2, 2, None])}
    kinds = (
        {r.choice(names): r.choice(["discrete", "continuous", "odd"])}
        if r.random() < 0.15
        else None
    )
    named = (
        {r.choice(names): r.choice([[0, 1, 2], ["x", "y"], [], [0, 0], None, 5, [NAN, 1]])}
        if r.random() < 0.07
        else None
    )
    model = lt.LatentModel(graph, latents, learner(r), kinds, named)
    model.fit(frame, sample_weight=weight(r, n))
    repr(model), repr(model.diagnostics_), str(model.plan_)
    if not isinstance(frame, pd.DataFrame | pl.DataFrame | pa.Table | dict | np.ndarray):
        return "fitted"
    if isinstance(frame, np.ndarray):
        n = len(frame)
    elif isinstance(frame, dict):
        n = rows_of(frame)
    if r.random() < 0.15:
        other = build(r)
        if other is not None and isinstance(
            other[0], pd.DataFrame | pl.DataFrame | pa.Table | dict
        ):
            frame, n = other[0], other[2]
    column = r.choice(model.columns_)
    way = r.randint(0, 4)
    if way == 0 and hasattr(column, "states"):
        check_probabilities(matrix(model.predict_proba(frame, column.name)), n)
    elif way == 1:
        check_scores(model.score_samples(frame), n)
    elif way == 2:
        if len(model.predict(frame, column.name)) != n:
            raise Finding("predict lost rows")
    elif way == 3:
        found = model.predict(frame)
        if not isinstance(found, pa.Table) and rows_of(found) != n:
            raise Finding("filling in lost rows")
    else:
        check_scores([model.score(frame)])
    return "answered"

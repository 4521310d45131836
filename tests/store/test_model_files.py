"""Model files: every answer the same bit for bit, written at once or not at all, clear errors."""

import base64
import datetime
import decimal
import enum
import fractions
import math
import os
import pickle
import stat
import struct
import uuid
import warnings
import zlib
import zoneinfo
from pathlib import Path
from typing import Any

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import latentia as lt
from latentia.errors import LatentiaError, LatentiaWarning, StoreError
from latentia.store.file import HEAD, VERSION, load, save
from latentia.store.model_record import write_latent_model
from latentia.store.plain import pack, unpack

pytestmark = pytest.mark.filterwarnings(r"ignore:.*cat\.get_categories")  # by narwhals 2.26

STAR = "H->a,b,c,d"


def rows(states: dict[str, list[Any]], n: int = 400, seed: int = 0) -> dict[str, Any]:
    """Columns that all lean on one hidden coin; cells are the states themselves."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    table = {}
    for name, known in states.items():
        noisy = np.where(rng.random(n) < 0.7, hidden, rng.random(n))
        cells = np.empty(n, dtype=object)
        cells[:] = [known[int(u * len(known))] for u in noisy]
        table[name] = cells
    return table


def fitted(data: Any, graph: Any = STAR, **parameters: Any) -> lt.LatentModel:
    given = {"latents": {"H": 2}, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        return lt.LatentModel(graph, **given).fit(data)


def told(ask: Any, *given: Any, **named: Any) -> Any:
    """An answer, or the error that a signed model gave instead."""
    try:
        return ask(*given, **named)
    except LatentiaError as error:
        return str(error)


def bits(answer: Any) -> Any:
    """An answer to the last bit."""
    if isinstance(answer, lt.Posterior):
        numbers = (answer.log_evidence.hex(), answer.clipped.hex())
        return (answer.table.tobytes(), repr(answer.states), *numbers)
    if isinstance(answer, lt.Assignment):
        return repr(answer), answer.log_probability.hex()
    if isinstance(answer, np.ndarray) and answer.dtype != object:
        return answer.dtype.str, answer.tobytes()
    if isinstance(answer, dict | pd.DataFrame):
        return [(repr(key), bits(np.asarray(part))) for key, part in answer.items()]
    return repr(list(answer) if isinstance(answer, np.ndarray) else answer)


def answers(model: lt.LatentModel, data: Any) -> list[Any]:
    """Answers of every kind."""
    names = [c.name for c in model.columns_]
    last = model.columns_[-1]
    evidence = {last.name: last.states[-1]}
    soft = {last.name: {last.states[0]: 0.3}}
    tables = told(model.marginals, data)
    found = [
        *(told(model.query, [name], evidence) for name in names[:-1]),
        told(model.query, names[:2], evidence),
        told(model.query, names[:1], soft=soft),
        told(model.map_query, names[:-1], evidence),
        told(model.score_samples, data),
        told(model.predict_proba, data, names[0]),
        told(model.sample, 50, random_state=3),
        *(list(tables.values()) if isinstance(tables, dict) else [tables]),
        *(model.diagnostics_, model.plan_.fingerprint, model.columns_, model.ranks_),
        *(str(model.plan_), model.feature_names_in_),
    ]
    return [bits(answer) for answer in found]


def quiet_answers(model: lt.LatentModel, data: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        return answers(model, data)


def kinds(value: Any) -> Any:
    """Types all the way down."""
    if isinstance(value, tuple | list):
        return type(value), [kinds(v) for v in value]
    if isinstance(value, frozenset | set):
        return type(value), sorted(repr((v, kinds(v))) for v in value)
    return type(value)


STATES: dict[str, dict[str, list[Any]]] = {
    "text": {"a": ["lo", "hi"], "b": ['ä\n"\\[{', "\ud800"], "c": ["", "x"], "d": ["1", "2"]},
    "whole": {"a": [0, 1], "b": [-5, 2**40, 7], "c": [1, 2, 3], "d": [10, 20]},
    "logical": {name: [False, True] for name in "abcd"},
    "decimal": {
        "a": [0.1, 0.30000000000000004],
        "b": [-0.0, 1.5],
        "c": [1e-300, 1e300],
        "d": [1, 2],
    },
    "tuples": {
        "a": [("x", 1), ("x", 2.0)],
        "b": [(True,), ()],
        "c": [(("n", 1),), ((1.5,),)],
        "d": [frozenset({"a"}), frozenset()],
    },
    "dates": {
        "a": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
        "b": [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 12, 30, 0, 5)],
        "c": [("from", datetime.date(2024, 1, 1)), ("to", datetime.date(2024, 1, 2))],
        "d": [0, 1],
    },
    "mixed": {"a": [1, "1"], "b": [2.5, "x", ("t", 1)], "c": [False, 2, "two"], "d": [0, 1]},
}


@pytest.mark.parametrize("learner", ["pbp", "paper", lt.PBP(False), lt.PBP.paper((0.1, 0.0))])
@pytest.mark.parametrize("states", STATES.values(), ids=STATES.keys())
def test_answers_are_the_same_bit_for_bit(states: Any, learner: Any, tmp_path: Path) -> None:
    data = rows(states)
    model = fitted(data, learner=learner, state_names=states)
    model.save(tmp_path / "m.latentia")
    loaded = lt.load(tmp_path / "m.latentia")
    assert quiet_answers(loaded, data) == quiet_answers(model, data)
    for mine, theirs in zip(loaded.columns_, model.columns_, strict=True):
        assert kinds(mine.states) == kinds(theirs.states)
    assert loaded.plan_ == model.plan_
    assert loaded.operators_.provenance.reports.keys() == model.operators_.provenance.reports.keys()
    assert repr(loaded.learner) == repr(model.learner)
    save(loaded, tmp_path / "again.latentia")
    assert (tmp_path / "again.latentia").read_bytes() == (tmp_path / "m.latentia").read_bytes()


def round_trip(model: lt.LatentModel, folder: Path) -> lt.LatentModel:
    model.save(folder / "m.latentia")
    return lt.load(folder / "m.latentia")


def test_timestamps_come_back_as_the_times_they_equal(tmp_path: Path) -> None:
    days = [pd.Timestamp("2024-01-01 08:00"), pd.Timestamp("2024-03-01")]
    data = pd.DataFrame(rows({**{x: ["no", "yes"] for x in "abc"}, "d": days}))
    data["d"] = pd.to_datetime(data["d"])
    model = fitted(data)
    loaded = round_trip(model, tmp_path)
    np.testing.assert_array_equal(loaded.score_samples(data), model.score_samples(data))
    assert loaded.predict(data, "d").equals(model.predict(data, "d"))
    assert loaded.query("d").states[0] == (
        datetime.datetime(2024, 1, 1, 8),
        datetime.datetime(2024, 3, 1),
    )


class Kind(enum.Enum):
    ONE = 1


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TYPED: dict[str, list[Any]] = {
    "zone": [
        datetime.datetime(2024, 1, 1, tzinfo=BERLIN),
        datetime.datetime(2024, 7, 1, 8, tzinfo=BERLIN),
    ],
    "timestamp": [
        pd.Timestamp("2024-01-01", tz="Asia/Tokyo"),
        pd.Timestamp("2024-01-02", tz="Asia/Tokyo"),
    ],
    "offset": [
        datetime.datetime(
            2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))
        ),
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    ],
    "span": [datetime.timedelta(-1, 5, 7), datetime.timedelta(2)],
    "time": [datetime.time(1), datetime.time(23, 59, 59, 1)],
    "decimal": [decimal.Decimal("1.10"), decimal.Decimal("-2.5e-7")],
    "fraction": [fractions.Fraction(1, 3), fractions.Fraction(-7, 2)],
    "uuid": [uuid.UUID(int=1), uuid.UUID(int=2**127)],
    "bytes": [b"", b"\x00a"],
    "interval": [pd.Interval(0, 1.5), pd.Interval(1.5, 4.0)],
    "interval of times": [
        pd.Interval(pd.Timestamp("2024"), pd.Timestamp("2025"), "left"),
        pd.Interval(pd.Timestamp("2025"), pd.Timestamp("2026"), "left"),
    ],
    "month": [pd.Period("2024-01", "M"), pd.Period("2024-02", "M")],
    "quarter": [pd.Period("2024Q4", "Q-NOV"), pd.Period("2025Q1", "Q-NOV")],
}


@pytest.mark.filterwarnings("ignore::latentia.errors.DateColumnWarning")
@pytest.mark.parametrize("states", TYPED.values(), ids=TYPED.keys())
def test_typed_cells_come_back(states: list[Any], tmp_path: Path) -> None:
    """They could be learned from, and not be kept: `pandas.cut` makes intervals."""
    data = rows({**{x: ["no", "yes"] for x in "abc"}, "d": states})
    model = fitted(data)
    loaded = round_trip(model, tmp_path)
    own, theirs = (
        m.columns_[[c.name for c in m.columns_].index("d")].labels for m in (loaded, model)
    )
    assert own == theirs
    np.testing.assert_array_equal(loaded.score_samples(data), model.score_samples(data))
    asked = {"d": states[1]}
    assert loaded.query("a", asked).probabilities == model.query("a", asked).probabilities


@pytest.mark.parametrize("value", [1j, Kind.ONE, object])
def test_what_cannot_be_kept_says_so(value: Any) -> None:
    with pytest.raises(StoreError, match=r"cannot be kept in a model file: .*str\(…\)"):
        pack(value, "a state")


@pytest.mark.parametrize(
    "odd",
    [
        *({"zoned": ["2024-01-01T00:00", None]}, {"zoned": ["soon", "UTC"]}, {"zoned": [1]}),
        *({"span": [10**12, 0, 0]}, {"span": ["x"]}, {"time": ["25:00"]}, {"time": []}),
        *({"decimal": ["1e999999999"]}, {"decimal": ["NaN"]}, {"decimal": [3]}),
        *({"fraction": [1, 0]}, {"fraction": [True, 2]}, {"uuid": ["x"]}, {"bytes": ["0"]}),
        *({"interval": [2, 1, "left"]}, {"interval": ["a", [], "left"]}, {"interval": [0, 1, "x"]}),
        *({"period": [10**30, "M"]}, {"period": [3, "?"]}, {"period": [3, None]}, {"period": "M"}),
    ],
    ids=str,
)
def test_odd_parts_of_typed_cells(odd: Any) -> None:
    with pytest.raises(StoreError, match="expected"):
        unpack(odd)


def test_a_zone_that_is_not_known_here_keeps_its_time() -> None:
    found = unpack({"zoned": ["2024-01-01T08:00:00+01:00", "No/Where"]})
    assert found == datetime.datetime(2024, 1, 1, 8, tzinfo=BERLIN)
    assert unpack({"zoned": ["2024-01-01T08:00:00+01:00", "../../etc/passwd"]}) == found


FOREST = "H->a,b,c; G->d,e,f; K->g,h; i; H->G"
GRAPHS: dict[str, Any] = {
    "text": STAR,
    "edges": [("H", x) for x in "abcd"],
    "parents": {x: ["H"] for x in "abcd"},
    "networkx": nx.DiGraph([("H", x) for x in "abcd"]),
    "undirected": "H--a; H--b; H--c; H--d",
    "none": None,
    "generator": (("H", x) for x in "abcd"),
    "unseen latent": "H->a,b,c,d; H->L",
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_graph_of_any_kind_comes_back_as_latent_graph(kind: str, tmp_path: Path) -> None:
    data = pd.DataFrame(rows({x: ["no", "yes"] for x in "abcd"}))
    latents = {"unseen latent": {"H": 2, "L": 3}, "none": None}.get(kind, {"H": 2})
    model = fitted(data, GRAPHS[kind], latents=latents)
    loaded = round_trip(model, tmp_path)
    assert quiet_answers(loaded, data) == quiet_answers(model, data)
    assert loaded.latents == model.latents
    if kind == "none":
        assert loaded.graph is None
    else:
        assert isinstance(loaded.graph, lt.LatentGraph)
        again = fitted(data, loaded.graph, latents=loaded.latents)
        assert quiet_answers(again, data) == quiet_answers(model, data)


def test_forests_numpy_labels_and_frames(tmp_path: Path) -> None:
    data = pd.DataFrame(rows({x: ["no", "yes", "or"] for x in "abcdefghi"}))
    data["a"] = pd.Categorical(data["a"], ["or", "never", "no", "yes"], ordered=True)
    data.loc[3:40, "b"] = None
    latents = {"H": 2, "G": 2, "K": 2}
    model = fitted(data, FOREST, latents=latents, kinds={"b": "discrete"})
    loaded = round_trip(model, tmp_path)
    assert loaded.kinds == {"b": "discrete"}
    assert loaded.diagnostics_.missing == model.diagnostics_.missing
    assert loaded.columns_ == model.columns_
    pd.testing.assert_frame_equal(
        loaded.predict_proba(data, "c"), model.predict_proba(data, "c"), check_exact=True
    )
    names: list[Any] = [np.int64(1), np.float32(0.1), np.str_("u"), "z"]
    data = rows({name: [0, 1] for name in names})
    model = fitted(data, [("H", name) for name in names])
    loaded = round_trip(model, tmp_path)
    assert kinds(loaded.plan_.graph.names) == kinds(model.plan_.graph.names)
    assert quiet_answers(loaded, data) == quiet_answers(model, data)


@pytest.mark.parametrize("refine", ["auto", False])
def test_groups_of_columns(refine: Any, tmp_path: Path) -> None:
    data = rows({x: [0, 1, 2][: 2 + i % 2] for i, x in enumerate("abcdef")})
    learner = lt.PBP(refine=refine, groups=[("b", "a"), ("e", "f")])
    model = fitted(data, "H->a,b,c,d,e,f; a->b; e->f", learner=learner)
    assert any(len(node.columns) == 2 for node in model.plan_.nodes)
    assert quiet_answers(round_trip(model, tmp_path), data) == quiet_answers(model, data)


def test_a_loaded_model_is_an_estimator(tmp_path: Path) -> None:
    data = rows(STATES["mixed"])
    model = fitted(data, learner=lt.PublishedPBP(ridge=(0.01, 0.1), folds=3))
    loaded = round_trip(model, tmp_path)
    assert loaded.learner.get_params() == model.learner.get_params()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        assert answers(clone(loaded).fit(data), data) == answers(model, data)


def test_a_learner_with_objects_is_kept_by_what_it_prints(tmp_path: Path) -> None:
    data = rows(STATES["whole"])
    model = fitted(data, learner=lt.PBP.paper(stage1=Ridge(alpha=0.5)))
    loaded = round_trip(model, tmp_path)
    assert quiet_answers(loaded, data) == quiet_answers(model, data)
    assert loaded.learner == "pbp"
    assert "Ridge(alpha=0.5)" in loaded.diagnostics_.learner


def test_every_parameter_is_kept() -> None:
    model = fitted(rows(STATES["whole"]))
    model.set_params(order_by="size", name_states={}, link={})  # files without any leave them out
    model.set_params(mechanism={"a": []})
    record, _ = write_latent_model(model)
    assert set(record["parameters"]) == set(lt.LatentModel().get_params())


@pytest.mark.parametrize("way", ["pickle", "joblib"])
def test_pickle_and_joblib(way: str, tmp_path: Path) -> None:
    for learner in ("pbp", "paper"):
        data = rows(STATES["tuples"])
        model = fitted(data, learner=learner, state_names=STATES["tuples"])
        if way == "pickle":
            copy = pickle.loads(pickle.dumps(model))
        else:
            joblib.dump(model, tmp_path / "m.joblib")
            copy = joblib.load(tmp_path / "m.joblib")
        assert quiet_answers(copy, data) == quiet_answers(model, data)


# -- what cannot be saved --------------------------------------------------------------------------


def test_a_label_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    model = fitted(rows({"a": [1j, 2j], "b": [0, 1], "c": [0, 1], "d": [0, 1]}))
    with pytest.raises(StoreError, match=r"state of column 'a'.*1j"):
        model.save(tmp_path / "m")
    deep: Any = 1
    for _ in range(5000):
        deep = (deep,)
    for label in (2**64, 3 + 4j, b"x" * 5000, deep, object()):
        with pytest.raises(StoreError, match=r"Rename|Flatten"):
            pack(label, "a label")
    assert not list(tmp_path.iterdir())


def test_values_keep_their_types() -> None:
    for value in (None, -0.0, math.inf, {1: [2.0, {3}]}, np.uint8(7), np.float16(0.1), "\udfff"):
        again = unpack(pack(value, "a value"))
        assert (kinds(again), repr(again)) == (kinds(value), repr(value))
    assert math.isnan(unpack(pack(math.nan, "a value")))


def test_only_fitted_models_are_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        lt.LatentModel(STAR).save(tmp_path / "m")
    with pytest.raises(
        StoreError, match="expected a LatentModel, LatentClassifier or SequenceModel, got dict"
    ):
        save({}, tmp_path / "m")  # type: ignore[arg-type]


# -- writing at once -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_no_half_written_file(
    error: Any, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(rows(STATES["whole"]))
    path = tmp_path / "m.latentia"
    path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    expected = KeyboardInterrupt if error is KeyboardInterrupt else StoreError
    with pytest.raises(expected):
        model.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.latentia"]
    assert path.read_bytes() == b"old"


def test_links_and_modes_stay(tmp_path: Path) -> None:
    model = fitted(rows(STATES["whole"]))
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o600
    lt.load(tmp_path / "link")


def test_odd_places(tmp_path: Path) -> None:
    model = fitted(rows(STATES["whole"]))
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "no" / "m", "", "a\0b", 3):
        with pytest.raises(StoreError):
            model.save(path)
        with pytest.raises(StoreError):
            load(path)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="No such file"):
        load(tmp_path / "missing")


# -- foreign, damaged, newer -----------------------------------------------------------------------

FOREIGN = {
    "empty": (b"", "an empty file"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(99), "a PNG image"),
    "zip": (b"PK\x03\x04" + bytes(99), "a zip archive"),
    "parquet": (b"PAR1" + bytes(99), "a Parquet file"),
    "pickle": (pickle.dumps({"a": 1}), "pickle"),
    "text": (b"a,b,c\n1,2,3\n", "something else"),
    "line ends": (b"\x89LAT\n\x1a\n" + bytes(99), "as text"),
    "start": (b"\x89LAT\r\n", "truncated"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(kind: str, tmp_path: Path) -> None:
    content, message = FOREIGN[kind]
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(StoreError, match=message) as caught:
        load(tmp_path / "f")
    assert str(tmp_path / "f") in str(caught.value)


def test_newer_truncated_and_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "m"
    fitted(rows(STATES["whole"])).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + struct.pack("<I", VERSION + 1) + whole[12:])
    with pytest.raises(
        StoreError, match=f"version {VERSION + 1}, this latentia reads up to {VERSION}"
    ):
        load(path)
    path.write_bytes(whole[:-1])
    with pytest.raises(StoreError, match="truncated: expected"):
        load(path)
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(StoreError, match="does not match its checksum"):
        load(path)
    assert len(whole) > HEAD.size


# -- files of old versions -------------------------------------------------------------------------

GOLDEN = """
eNq9VUuIHEUYHr1Eg7ko5BBC0AKJYjvUsx+zYGdzcZEEVvGwZBy0M10709nenrGnJ69lvEgI0WMu4mkxKBpk9RBhwYXxEA/m
pJLgQbKbByGgiasXIZsN+ld19+zMbCZRDzbTNf3/9dX3f/VVV/WpfeOvb9u6Y+sjhUKhvqVQmFIPcL07/ww5t/ratoULtxbu
1Oe3n/sWP7l2ZuLGR4dWv3vvk/eNORQGB2MvPoZKCBdJESMDzQSRD+E+L5FRsr/hyxCSTS/2ZmUi4xYqzaFa7DXr6iGCJGTK
aAIBV9JuhlJFR5FBKh0DHUMGNdARVDGQ9GsaWcbQZUBLdct0yyuACHVBgGAIWglECk+NqB2GQw0A/CCW1USC0iRuy04+XMvz
g6ri0apoRQkJpRdHMlad2fQm905umlYsa+3Qi4PjMmPtpG5Apy6dqnozm7RKAaAZetH/7gkDDqrgm32ohsHb7Zx2kNDICqlb
9ai8zqpSYEXqX9k2bCigboBDGRt6643Q15wA7/2GeRRNBC+MAs5lhKiEQVM9CH2IIK8ImZqMVN4nDVgToELVRtiejVppAKt1
WJNo0Sj2ohlUIgYKolbgy1QFUQpAAGq0k03ZjjGq/FBlPFCaDtYmvdq0vzaMoYZuB6sznWfKMtX3HzWwfg2a6n4aiK5FRmrA
D9PADfFAGf0qaN8qDKjIq9FNOjKPDDKsgv1zJ/igBnZ/DVRXog9w4t9pIAMaSL8G9hAfRruQrcbQ0hrpIkSNdFerw6G3xcu0
KGAcOg7nRBnVAzirwoZ6nvbCljTUXodg43jBeoZ5BDtA7cVGU+pppYcb6M4L097xcUQGtTp4IjAuwhsyGxyFN6WIObcoYcIR
3HEcYTkc5i2bjVifDxlFGRe5LQiMZA6m2LJt5UARm4QSGxNOhGNzZqkzIscLyzRNxgQxLcdmFNwlRYtxQjjgbUFtyhWe5XiT
27awuKBU2DCOKrwAuIWFALSlwLwHppQz0CI4trmtoCY2TSwYTEYwUGgCWmxQcweEMkZMGGA6mlpg0GwzyHKHCaY8TNrw4fCz
5ZkOEmVl72uiviLPPY+Ub61WENXUQoCNfXel03karvXP/vhx/8Erbvf6zd/O3FtxH/t85wF/bCWPu7M37wLisrvnw5fOP357
xX3liUdfOLn9ah5306/5FTf7H47dtXcOLSWnF92mv/aGO3a6e2r8rRvfo5/d1Yu3vwyWl93FXSd+fXVx2f20uOvrr85e7uZ6
ch15/bzuKP6cN+dL+3/P/jeuyZPPzvCpa908Xvppanx9adk9sX7nqQ/uXuzuHdt5duHFZOT4vw7sKFH/Vm/8pT/vXa/+8It7
nuyevvTF1e7H30xEL1+Yd/8GLqXL/w==
"""


def test_a_file_of_version_1_gives_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(zlib.decompress(base64.b64decode(GOLDEN)))
    model = load(tmp_path / "m")
    found = model.query(("x", 1), {"y": "hi", 2: True})
    assert found.states == ((2.5, 1, "z"),)
    np.testing.assert_allclose(
        found.table,
        [0.10839950761181533, 0.1055564422113069, 0.7860440501768778],
        rtol=0,
        atol=1e-12,
    )
    assert abs(found.log_evidence - -1.0351904180932183) < 1e-12
    assert model.diagnostics_.learner == "PBP()"
    assert str(model.graph) == "(H[2])->('x', 1); (H[2])->y; (H[2])->2; (H[2])->w"


@pytest.mark.parametrize("name", ["x.bif", "x.XDSL", "x.net.gz", "x.uai", "x.dot", "x.xml"])
def test_endings_of_other_tools_are_left_to_them(name: str, tmp_path: Path) -> None:
    """A file of ours under such a name would be taken for one of theirs."""
    model = fitted(rows({c: [0, 1] for c in "abcd"}))
    with pytest.raises(StoreError, match=r"Use lt\.write\(model, path\)"):
        model.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "x.latentia")

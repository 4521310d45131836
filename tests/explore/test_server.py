"""The server of a page: what it answers, and whom it turns away."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.explore.networks import random_tables, shipped

import latentia as lt
from latentia.errors import LatentiaError, MissingLibraryError
from latentia.explore.local_server import LONGEST, PageServer, serve_page

pytest.importorskip("starlette", reason="starlette is not installed: pip install starlette")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install uvicorn")


def frame_of(model: lt.TabularModel, count: int) -> dict[Any, list[Any]]:
    codes = model.sample(count, rng=0)
    names = [model.names[v] for v in model.graph.observed]
    return {
        name: [model.state_names[name][k] for k in column]
        for name, column in zip(names, codes.T, strict=True)
    }


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    model = shipped("asia")
    rows = frame_of(model, 30)
    rows["lung"][3] = None
    rows["xray"][5] = "maybe"
    with serve_page(model, rows=rows, browser=False) as running:
        yield running


def request(
    server: PageServer,
    method: str,
    path: str,
    body: Any = None,
    token: bool = True,
    **headers: str,
) -> tuple[int, str]:
    parts = urlsplit(server.url)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        named["X-Latentia-Token"] = parts.query.removeprefix("token=")
    line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        line.request(method, path, data, named)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    except ConnectionError:  # cut off in the middle of it
        return 400, ""
    finally:
        line.close()


def told(server: PageServer, what: str, **asked: Any) -> Any:
    status, text = request(server, "POST", f"/api/{what}", asked)
    assert status == 200, text
    return json.loads(text)


def test_answers_are_those_of_the_model(server: PageServer) -> None:
    model = shipped("asia")
    found = told(server, "answer", model=0, evidence=[[7, [1, 0]], [2, [0.5, 0.1]]])
    soft = {"smoke": [0.5, 0.1]}
    truth = model.posteriors({"dysp": "yes"}, None, soft)
    for p, expected in zip(found["marginals"], truth.values(), strict=True):
        assert p == pytest.approx(expected[0].tolist(), abs=1e-12)
    log = model.log_evidence({"dysp": "yes"}, soft)[0]
    assert found["log"] == pytest.approx(log, abs=1e-12)
    assert told(server, "answer", model=0, evidence=[[5, [0, 1]], [3, [1, 0]]])["log"] is None


def test_what_is_set_by_hand(server: PageServer) -> None:
    model = shipped("asia")
    evidence = [[7, [1, 0]], [4, [1, 0]]]
    found = told(server, "answer", model=0, evidence=evidence, hand=[4])
    for v in (0, 1, 2, 3, 5, 6):
        truth = model.query(model.names[v], {"dysp": "yes"}, do={"bronc": "yes"})
        assert found["marginals"][v] == pytest.approx(np.asarray(truth).tolist(), abs=1e-12)
    assert found["log"] == pytest.approx(truth.log_evidence, abs=1e-12)
    for hand in ([0], "4", [True], [[4]], [4.0]):
        body = {"model": 0, "evidence": evidence, "hand": hand}
        assert request(server, "POST", "/api/answer", body)[0] == 400
    soft = {"model": 0, "evidence": [[4, [1, 0.5]]], "hand": [4]}
    assert request(server, "POST", "/api/answer", soft)[0] == 400


def test_the_best_explanation_is_that_of_enumeration() -> None:
    model = random_tables("H->a,b,c; G->b,c,d; a->d; H->G", {"H": 2, "G": 2})
    joint = model.joint_table(list(model.names))
    with serve_page(model, browser=False) as running:
        found = told(running, "explain", model=0, evidence=[[1, [0, 1, 0.3]]])
    weighed = joint * np.array([0, 1, 0.3]).reshape(1, 3, 1, 1, 1, 1)
    assert found["log"] == pytest.approx(np.log(weighed.max()), abs=1e-9)
    assert weighed[tuple(found["states"])] == pytest.approx(weighed.max(), rel=1e-12)


# --- rows -----------------------------------------------------------------------------------------


def test_rows_are_judged_as_by_the_model(server: PageServer) -> None:
    model = shipped("asia")
    rows = frame_of(model, 30)
    rows["lung"][3] = None
    rows["xray"][5] = None  # no state of the model, so as good as missing
    found = told(server, "rows", start=0, count=30, sort="table")
    assert found["total"] == 30
    for i, row in enumerate(found["rows"]):
        given = {name: cells[i] for name, cells in rows.items() if cells[i] is not None}
        assert row["score"] == pytest.approx(model.log_evidence(given)[0], abs=1e-9)
        for name, cell in zip(found["columns"], row["cells"], strict=True):
            others = {n: s for n, s in given.items() if n != name}
            truth = dict(
                zip(model.state_names[name], model.posteriors(others)[name][0], strict=True)
            )
            assert cell["missing"] == (name not in given)
            assert cell["p"] == pytest.approx(truth[cell["text"]], abs=1e-9)
            assert truth[cell["best"]] == pytest.approx(max(truth.values()), abs=1e-12)
    assert "maybe" in found["rows"][5]["cells"][found["columns"].index("xray")]["note"]


def test_rows_are_sorted_by_score(server: PageServer) -> None:
    odd = told(server, "rows", start=0, count=30, sort="odd")["rows"]
    usual = told(server, "rows", start=0, count=30, sort="usual")["rows"]
    scores = [row["score"] for row in odd]
    assert scores == sorted(scores)
    assert [row["score"] for row in usual] == scores[::-1]


def test_rows_of_continuous_columns() -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=800)
    rows: dict[str, Any] = {name: rng.normal(3.0 * h, 1.0) for name in "xyz"}
    model = lt.LatentModel("H->x,y,z", {"H": 2}, learner="em").fit(rows)
    few = {name: column[:20].copy() for name, column in rows.items()}
    few["x"][0], few["y"][1] = np.nan, 40.0
    with serve_page(model, rows=few, browser=False) as running:
        found = told(running, "rows", start=0, count=20, sort="table")["rows"]
    hole, odd = found[0]["cells"][0], found[1]["cells"][1]
    assert hole["missing"]
    middle = model.predict_quantiles({n: c[:1] for n, c in few.items()}, "x", [0.5])["0.5"][0]
    assert float(hole["text"]) == pytest.approx(middle, rel=1e-3)  # four digits are shown
    assert odd["grade"] == 3
    assert "99" in odd["note"]


def test_a_closed_form_is_answered_by_python_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=4000)
    data = {c: np.where(rng.random(4000) < 0.8, h, 1 - h) for c in "xyz"}
    model = lt.LatentModel("H->x,y,z", {"H": 2}, learner=lt.PBP(refine=False)).fit(data)
    with pytest.raises(LatentiaError, match="closed form"):
        model.explore(to=tmp_path / "page.html")
    with serve_page(model, browser=False) as running:
        names = list(model.plan_.graph.names)
        found = told(running, "answer", model=0, evidence=[[names.index("y"), [0, 1]]])
    assert found["marginals"][names.index("H")] is None
    truth = np.asarray(model.query("x", {"y": 1}))
    assert found["marginals"][names.index("x")] == pytest.approx(truth.tolist(), abs=1e-9)
    assert found["marginals"][names.index("y")] == [0, 1]


# --- attacks --------------------------------------------------------------------------------------

ASKED = {"model": 0, "evidence": []}


def test_without_the_token_nothing_is_shown(server: PageServer) -> None:
    assert request(server, "GET", "/", token=False)[0] == 403
    assert request(server, "GET", "/?token=guess", token=False)[0] == 403
    assert request(server, "POST", "/api/answer", ASKED, token=False)[0] == 403
    status, page = request(server, "GET", f"/?{urlsplit(server.url).query}", token=False)
    assert status == 200
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
    ids=str,
)
def test_foreign_pages_are_turned_away(server: PageServer, headers: dict[str, str]) -> None:
    assert request(server, "POST", "/api/answer", ASKED, **headers)[0] == 403
    assert request(server, "GET", "/", **headers)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/../../etc/passwd"),
        *("/api/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/page/app.js", "/file:///etc/passwd"),
    ],
)
def test_no_path_leads_to_a_file(server: PageServer, path: str) -> None:
    for method in ("GET", "POST"):
        status, text = request(server, method, path, ASKED if method == "POST" else None)
        assert status in (404, 405)
        assert "root:" not in text


def test_long_questions_are_refused(server: PageServer) -> None:
    assert request(server, "POST", "/api/answer", b"[" * LONGEST)[0] == 400  # as deep as can be
    assert request(server, "POST", "/api/answer", b" " * (LONGEST + 1))[0] == 413
    assert request(server, "GET", "/" + "a" * 10**6)[0] in (400, 404, 414, 431)
    assert told(server, "answer", **ASKED)["log"] == pytest.approx(0.0)  # it still answers


@pytest.mark.parametrize(
    "asked",
    [
        *({}, [], "answer", None, {"model": 1, "evidence": []}, {"model": True, "evidence": []}),
        *({"model": 0}, {"model": 0, "evidence": {}}, {"model": 0, "evidence": [[0]]}),
        *({"model": 0, "evidence": [[99, [1, 0]]]}, {"model": 0, "evidence": [[0, [1]]]}),
        *({"model": 0, "evidence": [[0, [1, -1]]]}, {"model": 0, "evidence": [[0, ["1", 0]]]}),
        {"model": 0, "evidence": [[0, [1, 0]], [0, [1, 0]]]},
        {"model": 0, "evidence": [[0, [float("nan"), 1]]]},
        {"model": 0, "evidence": [[0, [1e-320, 1e-320]]]},
        {"model": 0, "evidence": [["a" * 900_000, [1, 0]]]},
    ],
    ids=lambda asked: str(asked)[:50],
)
def test_odd_questions_are_told_what_was_expected(server: PageServer, asked: Any) -> None:
    status, text = request(server, "POST", "/api/answer", asked)
    assert status == 400
    assert "expected" in json.loads(text)["error"]
    assert len(text) < 1000


@pytest.mark.parametrize("start", [-1, "0", 1e9, 10**30, None])
def test_odd_rows_are_refused(server: PageServer, start: Any) -> None:
    body = {"start": start, "count": 10, "sort": "table"}
    assert request(server, "POST", "/api/rows", body)[0] == 400


def test_it_listens_on_this_machine_only(server: PageServer) -> None:
    parts = urlsplit(server.url)
    assert parts.hostname == "127.0.0.1"
    others = {
        info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    } - {"127.0.0.1"}
    for address in others:
        with pytest.raises(OSError, match=r"."):
            socket.create_connection((str(address), parts.port or 0), timeout=2).close()


def test_a_port_that_is_taken_is_told(server: PageServer) -> None:
    port = urlsplit(server.url).port or 0
    with pytest.raises(LatentiaError, match="Try another"):
        serve_page(shipped("asia"), browser=False, port=port)
    with pytest.raises(LatentiaError, match="from 0"):
        serve_page(shipped("asia"), browser=False, port=-1)


def test_a_missing_library_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingLibraryError, match=r"latentia\[explore\]"):
        serve_page(shipped("asia"), browser=False)


def test_the_command_serves_until_it_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "asia.bif"
    lt.write(shipped("asia"), path)
    run = [sys.executable, "-m", "latentia", "explore", str(path), "--no-browser", "--json"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        running = PageServer(json.loads(process.stdout.readline())["url"], None, None)  # type: ignore[arg-type]
        assert told(running, "answer", **ASKED)["log"] == pytest.approx(0.0)
        process.terminate()
    page = tmp_path / "page.html"
    done = subprocess.run(
        [*run[:5], "--to", str(page)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert page.stat().st_size > 50_000

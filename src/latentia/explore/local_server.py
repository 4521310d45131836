"""A server for one page: on this machine only, with a token, and with no path to any file.

It answers a handful of questions about the models it was started with. Whoever has no token, comes
from another page, or calls the machine by another name is turned away.
"""

from __future__ import annotations

import asyncio
import html
import json
import secrets
import socket
import threading
import time
import warnings
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import final

from latentia.errors import LatentiaError, LatentiaWarning, MissingLibraryError
from latentia.explore.check_figures import check_figures, checked_report
from latentia.explore.explored import Explored, as_explored
from latentia.explore.facts import page_facts
from latentia.explore.page_answers import (
    answer_page,
    explain_page,
    model_numbered,
    read_hand,
    read_weights,
    set_by_hand,
)
from latentia.explore.page_file import make_page
from latentia.explore.row_panel import RowPanel, open_rows_panel
from latentia.explore.timelines import timelines
from latentia.model.latent_model import LatentModel
from latentia.sequences.sequence_model import SequenceModel
from latentia.typing import Facts, Foreign, Given, TableLike

HERE = "127.0.0.1"
LONGEST = 1_000_000  # bytes of a question
PATIENCE = 10.0  # seconds for the server to begin
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Shop:
    """What the server has: models, a table perhaps, the page, and the token that opens it."""

    models: tuple[Explored, ...]
    panel: RowPanel | None
    token: str
    page: str
    checked: Callable[[], Facts] | None = None  # the check of the table, once it is asked

    def tell(self, what: str, asked: object) -> Facts:
        """The answer to one question of the page."""
        if not isinstance(asked, dict):
            raise LatentiaError("expected a question as a JSON object.")
        if what == "rows":
            if self.panel is None:
                raise LatentiaError("there is no table; start with one to look through its rows.")
            return self.panel.page(asked.get("start"), asked.get("count"), asked.get("sort"))
        if what == "check":
            if self.checked is None:
                raise LatentiaError("there is no table that the model could be checked on.")
            return self.checked()
        explored = model_numbered(self.models, asked.get("model"))
        weights = read_weights(explored, asked.get("evidence"))
        explored = set_by_hand(explored, read_hand(explored, weights, asked.get("hand")))
        if what == "explain":
            return explain_page(explored, weights)
        return answer_page(explored, weights, asked.get("coherent") is True).plain()


def open_shop(
    models: Sequence[Given], rows: TableLike, titles: Sequence[str | None], check: object = None
) -> Shop:
    """Everything that is needed is read now: nothing else can be asked for later."""
    explored = tuple(as_explored(m, t) for m, t in zip(models, titles, strict=True))
    token = secrets.token_urlsafe(24)
    panel = None if rows is None else open_rows_panel(explored[0], rows)
    checked = None
    if rows is not None and isinstance(models[0], LatentModel) and models[0]._alone is None:
        checked = cache(partial(_check, models[0], rows))
    facts = page_facts(explored[0], server=True)
    asks = checked is not None and check is None
    facts["server"] = {"token": token, "rows": panel is not None, "check": asks}
    if check is not None:
        facts["check"] = check_figures(checked_report(check))
    if len(explored) > 1:
        facts["other"] = page_facts(explored[1], server=True)
    return Shop(explored, panel, token, make_page(facts), checked)


def _check(model: LatentModel, rows: TableLike) -> Facts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)  # what is odd stands in the report
        return check_figures(model.check(rows))


def open_sequences(model: SequenceModel, rows: TableLike, **options: Given) -> Shop:
    """The page of sequences; it has all that it shows, and asks nothing."""
    token = secrets.token_urlsafe(24)
    return Shop((), None, token, make_page(timelines(model, rows, **options), "sequences"))


# --- requests -------------------------------------------------------------------------------------


def web_application(shop: Shop, port: int) -> Foreign:
    """The ASGI application."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, JSONResponse, Response
        from starlette.routing import Route
    except ModuleNotFoundError:
        raise MissingLibraryError.of("a page that is served", "starlette", "explore") from None
    hosts = {f"{HERE}:{port}", f"localhost:{port}"}
    origins = {f"http://{host}" for host in hosts}

    def refused(request: Request) -> str:
        """Why a request is turned away; empty: it is not."""
        if request.headers.get("host", "") not in hosts:
            return "this server is called 127.0.0.1 and by no other name"
        if request.headers.get("origin", next(iter(origins))) not in origins:
            return "questions from other pages are not answered"
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "questions from other pages are not answered"
        given = request.headers.get("x-latentia-token") or request.query_params.get("token", "")
        if not secrets.compare_digest(given.encode(), shop.token.encode()):
            return "the token is missing or wrong; open the address that was printed"
        return ""

    async def show(request: Request) -> Response:
        why = refused(request)
        if why:
            text = f"<!doctype html><title>latentia</title><p>Not shown: {html.escape(why)}.</p>"
            return HTMLResponse(text, 403, HEADERS)
        return HTMLResponse(shop.page, headers=HEADERS)

    async def ask(request: Request) -> Response:
        why = refused(request)
        if why:
            return JSONResponse({"error": why}, 403, HEADERS)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > LONGEST:
                return JSONResponse({"error": "the question is too long"}, 413, HEADERS)
        what = request.path_params["what"]
        if what not in ("answer", "explain", "rows", "check"):
            return JSONResponse({"error": "there is no such question"}, 404, HEADERS)
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            return JSONResponse({"error": "expected a question as JSON"}, 400, HEADERS)
        try:
            found = await asyncio.to_thread(shop.tell, what, asked)
        except LatentiaError as error:
            return JSONResponse({"error": str(error)}, 400, HEADERS)
        return JSONResponse(found, headers=HEADERS)

    routes = [Route("/", show, methods=["GET"]), Route("/api/{what}", ask, methods=["POST"])]
    application = Starlette(routes=routes)
    application.router.redirect_slashes = False
    return application


# --- running --------------------------------------------------------------------------------------


@final
@dataclass(slots=True, eq=False)
class PageServer:
    """A server that shows a page until it is stopped; `url` opens it."""

    url: str
    _server: Foreign = field(repr=False)
    _thread: threading.Thread = field(repr=False)

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(timeout=PATIENCE)

    def wait(self) -> None:
        """Come back when the server has ended; Ctrl-C ends it."""
        try:
            while self._thread.is_alive():
                self._thread.join(timeout=0.5)
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        address = html.escape(self.url, quote=True)
        return f'<p>Explorer: <a href="{address}" target="_blank">{address}</a></p>'


def serve_page(
    model: Given,
    *,
    rows: TableLike = None,
    other: object = None,
    port: int = 0,
    browser: bool = True,
    title: str | None = None,
    other_title: str | None = None,
    check: object = None,
    **more: object,
) -> PageServer:
    """Show a model at an address of this machine; `port` 0 takes any that is free."""
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise MissingLibraryError.of("a page that is served", "uvicorn", "explore") from None
    if isinstance(model, SequenceModel):
        shop = open_sequences(model, rows, title=title, **more)
    else:
        models = [model] if other is None else [model, other]
        names = [title, other_title or ("Other" if other is not None else None)][: len(models)]
        shop = open_shop(models, rows, names, check)
    door = _door(port)
    number = door.getsockname()[1]
    config = uvicorn.Config(
        web_application(shop, number),
        http="h11",
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=64,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    begun = time.monotonic()
    while not server.started:
        if not thread.is_alive() or time.monotonic() - begun > PATIENCE:
            raise LatentiaError(f"the server did not start on port {number}. Try another port.")
        time.sleep(0.01)
    found = PageServer(f"http://{HERE}:{number}/?token={shop.token}", server, thread)
    if browser:
        webbrowser.open(found.url)
    return found


def _door(port: int) -> socket.socket:
    """A socket that only this machine can reach."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise LatentiaError(f"expected a port from 0 (any) to 65535, got {port!r}.")
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        door.bind((HERE, port))
    except OSError as error:
        door.close()
        raise LatentiaError(
            f"port {port} cannot be had: {error.strerror}. Try another one, or 0 for any."
        ) from None
    return door

"""The web application: reads the record anew for each request, and changes nothing.

    uvicorn.run(make_app(workspace))

Requests are answered in threads of their own; the record is open only while it
is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pipelines import recovery
from pipelines.errors import ConfigError, HeadraceError, NotFoundError
from pipelines.lineage import models, query
from pipelines.lineage.open import record_of
from pipelines.lineage.records import RunRecord
from pipelines.lineage.view import view
from pipelines.report.write import gather
from pipelines.ui import lists, pages
from pipelines.workspace import Workspace

LOOPBACK = ("127.0.0.1", "localhost")
PER_PAGE = 50
_MAX_DEPTH = 50
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}

Page = Callable[[Workspace, Request], str]


def make_app(workspace: Workspace, hosts: Sequence[str] = LOOPBACK) -> Starlette:
    """The application.

    Args:
        workspace: what it shows.
        hosts: names that a request may call this server by. Else a page from elsewhere
            whose name was made to lead here could read it.
    """
    pages_by_path: dict[str, Page] = {
        "/": _runs,
        "/runs/{run}": _run,
        "/compare": _compare,
        "/models": _models,
        "/models/{model}": _model,
        "/lineage": _lineage,
    }
    routes = [
        Route(path, _endpoint(workspace, page), methods=["GET"]) for path, page in pages_by_path.items()
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
        exception_handlers={404: _no_page},
    )


def _endpoint(workspace: Workspace, page: Page) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            return HTMLResponse(page(workspace, request), headers=_HEADERS)
        except HeadraceError as error:
            status = 404 if isinstance(error, NotFoundError) else 400
            return HTMLResponse(pages.problem(error), status_code=status, headers=_HEADERS)

    return answer


def _no_page(request: Request, error: Exception) -> Response:
    wanted = NotFoundError("There is no such page", place=request.url.path, remedy="Go on from Runs.")
    return HTMLResponse(pages.problem(wanted), status_code=404, headers=_HEADERS)


def _number(request: Request, name: str, default: int, most: int) -> int:
    """A number in the address, at least 1.

    Raises:
        ConfigError: it is none.
    """
    text = request.query_params.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise ConfigError(f"{name} should be a number from 1 to {most}. Received: {text[:20]!r}", place=name)
    return int(text)


def _runs(workspace: Workspace, request: Request) -> str:
    text, state = request.query_params.get("text", "").strip(), request.query_params.get("state", "")
    number = _number(request, "page", 1, 1_000_000)
    with record_of(workspace) as source:
        found = source.find_runs(text, state, PER_PAGE + 1, (number - 1) * PER_PAGE)
    found = [_as_it_is(workspace, run) for run in found]
    return lists.runs(found[:PER_PAGE], text, state, number, more=len(found) > PER_PAGE)


def _as_it_is(workspace: Workspace, run: RunRecord) -> RunRecord:
    """A run that was killed is recorded as running until a command that may write finds it."""
    return replace(run, state=recovery.state_of(run, workspace))


def _run(workspace: Workspace, request: Request) -> str:
    with record_of(workspace) as source:
        gathered = gather(source, _as_it_is(workspace, query.find_run(source, request.path_params["run"])))
    return pages.run(gathered, time.time())


def _compare(workspace: Workspace, request: Request) -> str:
    names = request.query_params.getlist("run")
    if len(names) != 2:
        raise ConfigError(
            f"Two runs can be compared. Received: {len(names)}", place="compare", remedy="Choose two in Runs."
        )
    with record_of(workspace) as source:
        first, second = (view(source, query.find_run(source, name)) for name in names)
    return pages.compared(first, second)


def _models(workspace: Workspace, request: Request) -> str:
    with record_of(workspace) as source:
        latest = {push.model: push for push in sorted(source.pushes(), key=lambda push: push.at)}
        found = [version for model in latest for version in models.versions(source, model, 1)]
    return lists.models(found)


def _model(workspace: Workspace, request: Request) -> str:
    model = request.path_params["model"]
    with record_of(workspace) as source:
        query.find_push(source, model, "latest")
        versions = models.versions(source, model)
        history = query.services(source.pushes(model), source.switches(model))
    return lists.model(model, versions, history)


def _lineage(workspace: Workspace, request: Request) -> str:
    given = request.query_params
    target, direction = given.get("target", "").strip(), given.get("direction", "")
    depth = _number(request, "depth", _MAX_DEPTH, _MAX_DEPTH)
    if not target:
        return pages.ask_lineage()
    with record_of(workspace) as source:
        found = query.resolve(source, target)
        wanted: query.Direction = "down" if direction == "down" else "up"
        lineage = query.follow(source, found, wanted, depth)
    return pages.lineage(target, lineage, None if depth == _MAX_DEPTH else depth)

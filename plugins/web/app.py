"""What is served, and what is true of every answer: who may be called, headers, errors."""

import ipaddress
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from daemon.frontend import Site
from plugins.web import health
from plugins.web.answering import for_programs
from plugins.web.login import Logins
from plugins.web.metrics import expose
from plugins.web.settings import WebSettings

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        b" form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""Of every answer: nothing is loaded from elsewhere, nothing in a page is run, and nobody frames it."""

HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
NOT_STORED: Final = (b"cache-control", b"no-store")

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


def make_app(site: Site, settings: WebSettings) -> AsgiApp:
    """All that is served."""
    logins = Logins(site, settings)

    async def ready(request: Any) -> Any:
        return await health.ready(site, settings)

    async def metrics(request: Any) -> Any:
        data, content_type = await expose(
            site, settings.metrics_topics_max, request.headers.get("accept", "")
        )
        return Response(data, media_type=content_type)

    routes = [
        Route("/health/live", health.live, methods=["GET"]),
        Route("/health/ready", ready, methods=["GET"]),
        Route(
            "/metrics", for_programs(logins, metrics) if settings.metrics_login else metrics, methods=["GET"]
        ),
    ]
    return Guarded(site, settings, Starlette(routes=routes))


class Guarded:
    """An application behind what holds for all of it.

    It is called by a name that it knows: a page of somebody else, whose name was made to lead here for a
    moment (DNS rebinding), has another.
    """

    def __init__(self, site: Site, settings: WebSettings, app: AsgiApp) -> None:
        self._site = site
        self._app = app
        self._hosts = {"localhost", site.server_name.partition(":")[0], *map(str.lower, settings.hosts)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request. Errors of ours end it alone."""
        started = False

        async def send_guarded(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *HEADERS,
                    *((NOT_STORED,) if b"cache-control" not in given else ()),
                    *((HSTS,) if scope["scheme"] == "https" else ()),
                ]
            await send(message)

        if not self._knows(_host(scope)):
            refused = "this site has another name; see hosts in [plugins.web]\n"
            await PlainTextResponse(refused, 421)(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except Exception as error:
            self._site.mishap("a request of the page", error)
            if not started:
                failed = "an error of smqpd itself; its log says more\n"
                await PlainTextResponse(failed, 500)(scope, receive, send_guarded)

    def _knows(self, host: str) -> bool:
        name = host.lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name in self._hosts:
            return True
        with suppress(ValueError):  # who has reached an address was led here by no name
            ipaddress.ip_address(name)
            return True
        return False


def _host(scope: Any) -> str:
    """What the client has called the server; "" where that is not said, or twice."""
    said = [value for name, value in scope["headers"] if name.lower() in (b"host", b":authority")]
    distinct = {value.decode("latin-1") for value in said}
    return distinct.pop() if len(distinct) == 1 else ""

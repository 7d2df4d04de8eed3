"""What is served, and what is true of every answer: who may be called, headers, errors."""

import ipaddress
from contextlib import suppress
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from daemon.frontend import Site
from plugins.web import health
from plugins.web.account_forms import AccountForms
from plugins.web.actions import Actions
from plugins.web.answering import View, action, for_programs, page, refusing
from plugins.web.api import Api, as_json
from plugins.web.connection import AsgiApp
from plugins.web.events import EventStream
from plugins.web.live import Live
from plugins.web.login import Logins, NotAllowed, NotLoggedIn
from plugins.web.metrics import Exposition
from plugins.web.pages import Pages
from plugins.web.settings import WebSettings
from plugins.web.static_files import StaticFiles

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

BODY_IN_FORM_BYTES_MAX: Final = 262_144
"""Of a message that is published by the form of the page; programs may send larger ones."""


def make_app(site: Site, settings: WebSettings, live: Live | None = None) -> AsgiApp:
    """All that is served; `live` is kept by whoever runs it."""
    logins = Logins(site, settings)
    live = live or Live(site)
    pages = Pages(site, settings, logins, live)
    actions, accounts, api = Actions(pages), AccountForms(pages), Api(pages)
    exposition = Exposition(site, settings.metrics_topics_max)

    async def ready(request: Any) -> Any:
        return await health.ready(site, settings)

    async def metrics(request: Any) -> Any:
        data, content_type = await exposition.expose(request.headers.get("accept", ""))
        return Response(data, media_type=content_type)

    async def events(request: Any) -> Any:
        async def may_listen() -> bool:
            try:
                await logins.user(request)
            except (NotLoggedIn, NotAllowed):
                return False
            return True

        return EventStream(site, live, may_listen)

    looks = {
        "/": pages.overview,
        "/topics": pages.topics,
        "/topic": pages.topic,
        "/topic/messages": pages.messages,
        "/topic/dead-letters": pages.dead_letters,
        "/message": pages.message,
        "/sessions": pages.sessions,
        "/accounts": pages.accounts,
        "/account": pages.account,
        "/links": pages.links,
    }
    does = {
        "/topic/set": actions.set_topic,
        "/topic/purge": actions.purge,
        "/topic/delete": actions.delete_topic,
        "/topic/remove": actions.remove_message,
        "/topic/replay": actions.replay,
        "/session/close": actions.close_session,
        "/account/add": accounts.add,
        "/account/change": accounts.change,
        "/account/disable": accounts.disable,
        "/account/enable": accounts.enable,
        "/account/password": accounts.set_password,
        "/account/remove": accounts.remove,
    }
    programs = partial(for_programs, site, logins)
    routes = Routes()
    routes.add("GET", "/health/live", health.live)
    routes.add("GET", "/health/ready", ready)
    routes.add("GET", "/metrics", programs(metrics) if settings.metrics_login else metrics)
    routes.add("GET", "/static/{name}", StaticFiles().serve)
    routes.add("GET", "/login", pages.login)
    routes.add("POST", "/login", refusing(pages, actions.log_in))
    routes.add("POST", "/logout", action(pages, actions.log_out, look=True))
    routes.add("GET", "/events", programs(events))
    for path, view in looks.items():
        routes.add("GET", path, page(pages, view))
    for path, act in does.items():
        routes.add("POST", path, action(pages, act))
    publishing = action(pages, actions.publish, bytes_max=3 * BODY_IN_FORM_BYTES_MAX)
    routes.add("POST", "/topic/publish", publishing)
    routes.add("GET", "/api/openapi.json", programs(api.schema))
    for each in api.endpoints:
        routes.add(each.method, each.path, programs(as_json(each), change=each.change))
    return Guarded(site, settings, Starlette(routes=routes.all()))


class Routes:
    """Views by path and method, so that who calls a path by another method is told of all that it has."""

    def __init__(self) -> None:
        self._views: dict[str, dict[str, View]] = {}

    def add(self, method: str, path: str, view: View) -> None:
        """Have a view answer; that of GET answers HEAD, too."""
        self._views.setdefault(path, {})[method] = view

    def all(self) -> list[Any]:
        """As Starlette takes them."""
        return [Route(path, _by_method(views), methods=[*views]) for path, views in self._views.items()]


def _by_method(views: dict[str, View]) -> View:
    async def answer(request: Any) -> Any:
        return await views["GET" if request.method == "HEAD" else request.method](request)

    return answer


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

"""/api: what the pages show and do, as JSON for programs; `/api/openapi.json` has its schema."""

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, get_args

import msgspec
from starlette.responses import Response

from daemon.frontend import (
    TIMEOUT_S_MAX,
    BrowsedMessage,
    DeadLetter,
    Journey,
    KnownSite,
    LinkStatus,
    Overview,
    Replayed,
    Route,
    SessionStatus,
    Site,
    TopicOrder,
    TopicPage,
    TopicStatus,
)
from plugins.web.account_api import AccountApi
from plugins.web.actions import actor
from plugins.web.endpoints import ApiMethod, get, openapi, post, taken
from plugins.web.login import NotAllowed
from plugins.web.pages import JOURNEY_S, WHOLE_DIGITS_MAX, Pages, is_whole
from plugins.web.publishing import publish
from routing.errors import Refusal
from routing.message import DeliveryMode, Message, Section
from routing.sections import write_section_head

COUNT: Final = 50

TOPIC: Final = ("name", "The topic.", True, "string")
AFTER: Final = ("after", "What follows the message with this id.", False, "integer")
HOW_MANY: Final = ("count", "At most so many.", False, "integer")
HOW_MANY_MESSAGES: Final = ("count", "At most so many, or fewer with large headers.", False, "integer")
SMUID: Final = ("smuid", "The message.", True, "string")


class Published(msgspec.Struct, frozen=True):
    """A message is on disk; `due_to_nobody` where nobody has subscribed, so that it is gone."""

    smuid: str
    due_to_nobody: bool = False


class Removed(msgspec.Struct, frozen=True):
    """How many messages went."""

    messages: int


class Unsubscribed(msgspec.Struct, frozen=True):
    """How many messages waited for the subscription that has ended."""

    waited: int


class Closed(msgspec.Struct, frozen=True):
    """Whether there was such a session."""

    closed: bool


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic's own; null lets each message say. What is left out stays as it is."""

    delivery: DeliveryMode | msgspec.UnsetType | None = msgspec.UNSET
    timeout_s: float | Literal["INFINITE"] | msgspec.UnsetType | None = msgspec.UNSET


class Api:
    """Of one site."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._site: Site = pages.site
        listed = (TOPIC, AFTER, HOW_MANY_MESSAGES)
        self.endpoints = (
            get("/api/overview", "The whole site.", self._overview, Overview),
            get(
                "/api/topics",
                "Topics, searched, sorted and paged.",
                self._topics,
                TopicPage,
                ("search", "Part of the name, or a pattern with * or #.", False, "string"),
                ("order", f"One of {', '.join(get_args(TopicOrder))}.", False, "string"),
                ("offset", "After so many.", False, "integer"),
                HOW_MANY,
            ),
            get("/api/topic", "One topic.", self._topic, TopicStatus, TOPIC),
            get("/api/topic/messages", "What it holds.", self._messages, list[BrowsedMessage], *listed),
            get(
                "/api/topic/dead-letters", "Its dead letters.", self._dead_letters, list[DeadLetter], *listed
            ),
            get("/api/message", "Its way over all sites.", self._message, Journey, SMUID),
            get("/api/sessions", "All sessions, the oldest first.", self._sessions, list[SessionStatus]),
            get("/api/links", "All peers, by name.", self._links, list[LinkStatus]),
            post(
                "/api/topic/messages",
                "Publish the body as one message, of the request's Content-Type.",
                self._publish,
                Published,
                TOPIC,
                ("delivery", "ONE or ALL.", False, "string"),
                takes=bytes,
            ),
            post("/api/topic/settings", "Set its own.", self._set, TopicStatus, TOPIC, takes=TopicSettings),
            post("/api/topic/purge", "Remove all that it holds.", self._purge, Removed, TOPIC),
            post("/api/topic/delete", "Remove it whole.", self._delete, Removed, TOPIC),
            post("/api/topic/remove", "Remove one message, everywhere.", self._remove, Removed, TOPIC, SMUID),
            post(
                "/api/topic/unsubscribe",
                "End a subscription from which no session consumes, with what waits for it alone.",
                self._unsubscribe,
                Unsubscribed,
                ("name", "The topic, or the pattern, that it is to.", True, "string"),
                ("account", "Whose it is.", True, "string"),
                ("channel", "Of the login.", True, "string"),
                ("subscription", "Its name, where it has one.", False, "string"),
            ),
            post(
                "/api/topic/replay",
                "Dead letters go back: one, or those after an id.",
                self._replay,
                Replayed,
                TOPIC,
                ("smuid", "One of them.", False, "string"),
                AFTER,
            ),
            post(
                "/api/session/close",
                "End a session.",
                self._close,
                Closed,
                ("id", "Of the session.", True, "integer"),
            ),
            get("/api/sites", "All sites that are known, the nearest first.", self._sites, list[KnownSite]),
            get(
                "/api/routes",
                "Where a message for a topic, or a server, would go from here.",
                self._routes,
                list[Route],
                TOPIC,
            ),
            *AccountApi(pages.site.operations).endpoints,
        )

    async def schema(self, request: Any) -> Any:
        """What there is, as OpenAPI 3.1."""
        return _json(openapi(self.endpoints, self._site.server_ident.partition("/")[2]))

    # -- looking ----------------------------------------------------------------------------------

    async def _overview(self, request: Any) -> Any:
        return await self._pages.live.overview()

    async def _topics(self, request: Any) -> Any:
        asked = request.query_params
        order = asked.get("order", "name")
        if order not in get_args(TopicOrder):
            raise Refusal(Refusal.BAD_COMMAND, f"order is one of {', '.join(get_args(TopicOrder))}")
        return await self._site.operations.topics(
            asked.get("search", ""),
            order=order,
            offset=_integer(asked, "offset"),
            count=_integer(asked, "count", COUNT),
        )

    async def _topic(self, request: Any) -> Any:
        name = _needed(request, "name")
        found = await self._site.operations.topic(name)
        if found is None:
            raise Refusal(Refusal.NOT_FOUND, f"nothing is known of {name}")
        return found

    async def _messages(self, request: Any) -> Any:
        name, asked = self._readable(request), request.query_params
        return await self._site.operations.browse(
            name, after=_integer(asked, "after"), count=_integer(asked, "count", COUNT)
        )

    async def _dead_letters(self, request: Any) -> Any:
        name, asked = self._readable(request), request.query_params
        return await self._site.operations.dead_letters(
            name, after=_integer(asked, "after"), count=_integer(asked, "count", COUNT)
        )

    def _readable(self, request: Any) -> str:
        name, user = _needed(request, "name"), request.state.user
        if not self._pages.may_read(user, name):
            raise NotAllowed(f"{user.identity.account} may neither subscribe to nor administer {name}")
        return name

    async def _message(self, request: Any) -> Any:
        return await self._site.operations.journey(_needed(request, "smuid"), JOURNEY_S)

    async def _sessions(self, request: Any) -> Any:
        return await self._site.operations.sessions()

    async def _links(self, request: Any) -> Any:
        return await self._site.operations.links()

    async def _sites(self, request: Any) -> Any:
        return await self._site.operations.sites()

    async def _routes(self, request: Any) -> Any:
        return await self._site.operations.routes(_needed(request, "name"))

    # -- changing ---------------------------------------------------------------------------------

    async def _publish(self, request: Any) -> Any:
        name, user = _needed(request, "name"), request.state.user
        content_type = request.headers.get("content-type", "application/octet-stream")
        write_section_head(Section(content_type, b""))  # refuses a type that is none
        delivery = request.query_params.get("delivery")
        if delivery not in (None, "ONE", "ALL"):
            raise Refusal(Refusal.BAD_HEADER, "delivery is ONE or ALL")

        def made(body: bytes) -> Message:
            return Message(delivery=delivery, sections=(Section(content_type, body),))

        answer = await publish(self._site, user, request, name, made)
        return Published(answer.smuid, answer.due_to_nobody)

    async def _set(self, request: Any) -> Any:
        name, by = _needed(request, "name"), actor(request)
        wanted = await taken(request, TopicSettings)
        if isinstance(wanted.timeout_s, float) and not 0 < wanted.timeout_s <= TIMEOUT_S_MAX:
            text = f"timeout_s is seconds above 0 and at most {TIMEOUT_S_MAX:,.0f}, INFINITE, or null"
            raise Refusal(Refusal.BAD_HEADER, text)
        if wanted.delivery is not msgspec.UNSET:
            await self._site.operations.set_delivery(name, wanted.delivery, by)
        if wanted.timeout_s is not msgspec.UNSET:
            timeout_s = math.inf if wanted.timeout_s == "INFINITE" else wanted.timeout_s
            await self._site.operations.set_timeout(name, timeout_s, by)
        return await self._topic(request)

    async def _purge(self, request: Any) -> Any:
        return Removed(await self._site.operations.purge(_needed(request, "name"), actor(request)))

    async def _delete(self, request: Any) -> Any:
        return Removed(await self._site.operations.delete_topic(_needed(request, "name"), actor(request)))

    async def _remove(self, request: Any) -> Any:
        name, smuid = _needed(request, "name"), _needed(request, "smuid")
        await self._site.operations.remove_message(name, smuid, actor(request))
        return Removed(1)

    async def _unsubscribe(self, request: Any) -> Any:
        wanted, account, channel = (_needed(request, part) for part in ("name", "account", "channel"))
        name, by = request.query_params.get("subscription", ""), actor(request)
        try:
            waited = await self._site.operations.end_subscription(wanted, account, channel, by, name=name)
        except Refusal as refusal:
            if refusal.code == Refusal.BAD_LOGIN:  # it is not who asks
                raise Refusal(Refusal.BAD_COMMAND, refusal.text) from None
            if refusal.code == Refusal.NOT_SUBSCRIBED:
                text = f"there is no subscription of {account}:{channel}{name and f'/{name}'} to {wanted}"
                raise Refusal(Refusal.NOT_FOUND, text) from None
            raise
        return Unsubscribed(waited)

    async def _replay(self, request: Any) -> Any:
        asked = request.query_params
        return await self._site.operations.replay(
            _needed(request, "name"),
            actor(request),
            smuid=asked.get("smuid", ""),
            after=_integer(asked, "after"),
        )

    async def _close(self, request: Any) -> Any:
        _needed(request, "id")
        id = _integer(request.query_params, "id")
        return Closed(await self._site.operations.close_session(id, actor(request)))


def as_json(endpoint: ApiMethod) -> Callable[[Any], Awaitable[Any]]:
    """A view that answers with what an endpoint does."""

    async def view(request: Any) -> Any:
        return _json(await endpoint.answer(request))

    return view


def _json(value: Any) -> Any:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _needed(request: Any, name: str) -> str:
    value: str = request.query_params.get(name, "")
    if not value:
        raise Refusal(Refusal.BAD_COMMAND, f"{name} is missing in the address")
    return value


def _integer(asked: Any, name: str, otherwise: int = 0) -> int:
    text = asked.get(name)
    if text is None:
        return otherwise
    if not is_whole(text):
        raise Refusal(
            Refusal.BAD_COMMAND,
            f"{name} is {text[:40]!r}, and no integer from 0 of at most {WHOLE_DIGITS_MAX} digits",
        )
    return int(text)

"""What people do: forms of the page, each of which says afterwards what became of it."""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.responses import RedirectResponse

from daemon.frontend import TIMEOUT_S_MAX, UNCOUNTED_BYTES, Actor
from daemon.terminal.figures import counted
from plugins.web.login import WebUser
from plugins.web.pages import Pages, is_whole, own_path, topic_address
from plugins.web.publishing import publish, read_held_body
from routing.errors import Refusal
from routing.message import DeliveryMode, Message, Section
from routing.sections import write_section_head

FORM_BYTES_MAX: Final = 65_536
LOGIN_FORM_BYTES_MAX: Final = UNCOUNTED_BYTES
"""Of who is nobody yet, and whose form is counted nowhere."""

FIELDS_MAX: Final = 50
Fields = Mapping[str, str]
LISTS: Final = {"messages": "/topic/messages", "dead": "/topic/dead-letters"}
MODES: Final[dict[str, DeliveryMode]] = {"ONE": "ONE", "ALL": "ALL"}


async def read_form(request: Any, bytes_max: int) -> dict[str, str]:
    """The fields of a form; a large one is counted as of `request.state.user`. Raises Refusal."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise Refusal(Refusal.BAD_COMMAND, "this is not a form of the page")
    data = await read_held_body(request, bytes_max)
    try:
        return dict(
            parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, strict_parsing=True)
        )
    except ValueError:
        raise Refusal(Refusal.BAD_COMMAND, "this is not a form of the page") from None


class Actions:
    """Each takes the fields of its form, and says what it did and where to go then."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._site = pages.site

    async def log_in(self, request: Any) -> Any:
        """Make a session; a new one also for who has one, so that nobody is given somebody else's."""
        pages = self._pages
        fields = await read_form(request, LOGIN_FORM_BYTES_MAX)
        pages.logins.check_form(request, None, "")
        account, there = fields.get("account", ""), fields.get("next", "/")
        try:
            cookie = await pages.logins.log_in(request, account, fields.get("password", ""))
        except Refusal as refusal:
            pages.site.metrics.tell_refused(refusal)
            return pages.show(
                request, "login.html", "Log in", status=403, next=there, account=account, error=refusal.text
            )
        answer = RedirectResponse(own_path(there), 303)
        answer.headers.append("set-cookie", cookie)
        return answer

    async def log_out(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """End the session."""
        answer = RedirectResponse("/login", 303)
        answer.headers.append("set-cookie", self._pages.logins.log_out(request, user))
        return answer

    async def publish(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """One message, as the account of the user."""
        name, content_type = fields.get("name", ""), fields.get("content_type", "") or "text/plain"
        section = Section(content_type, fields.get("body", "").replace("\r\n", "\n").encode())
        write_section_head(section)  # refuses a type that is none
        message = Message(
            delivery=MODES.get(fields.get("delivery", "")),
            timeout_s=_seconds(fields.get("timeout", "")),
            sections=(section,),
        )
        answer = await publish(self._site, user, request, name, message)
        nobody = "; nobody has subscribed, so it is gone" if answer.due_to_nobody else ""
        return self._done(user, f"Published {answer.smuid}{nobody}.", topic_address(name))

    async def set_topic(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Set the delivery mode and the timeout of a topic."""
        name, by = fields.get("name", ""), actor(request)
        mode, timeout_s = MODES.get(fields.get("delivery", "")), _seconds(fields.get("timeout", ""))
        await self._site.operations.set_delivery(name, mode, by)
        await self._site.operations.set_timeout(name, timeout_s, by)
        return self._done(user, f"Set {name}.", topic_address(name))

    async def purge(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Remove all that it holds."""
        name = fields.get("name", "")
        count = await self._site.operations.purge(name, actor(request))
        return self._done(user, f"Removed {counted(count, 'message')} of {name}.", topic_address(name))

    async def delete_topic(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Remove its messages, subscriptions and settings."""
        name = fields.get("name", "")
        count = await self._site.operations.delete_topic(name, actor(request))
        return self._done(user, f"Deleted {name}, and {counted(count, 'message')} with it.", "/topics")

    async def remove_message(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Remove one message, wherever it went."""
        name, smuid = fields.get("name", ""), fields.get("smuid", "")
        await self._site.operations.remove_message(name, smuid, actor(request))
        return self._done(user, f"Removed {smuid}.", _back(fields))

    async def replay(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Dead letters of a topic go back to it: one, or all."""
        name, by, smuid = fields.get("name", ""), actor(request), fields.get("smuid", "")
        replayed = await self._site.operations.replay(name, by, smuid=smuid)
        done, stayed, why = replayed.done, replayed.stayed, [*replayed.refused.values()][:1]
        while not smuid and replayed.last_id is not None:
            replayed = await self._site.operations.replay(name, by, after=replayed.last_id)
            done += replayed.done
            stayed += replayed.stayed
            why = why or [*replayed.refused.values()][:1]
        stays = f" {stayed} stay: {why[0]}." if why else ""
        return self._done(user, f"Replayed {done} to {name}.{stays}", _back(fields))

    async def close_session(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """End one, whose client may come back."""
        number = fields.get("id", "")
        found = is_whole(number) and await self._site.operations.close_session(int(number), actor(request))
        text = "Closed the session." if found else "That session has ended already."
        return self._done(user, text, "/sessions")

    def _done(self, user: WebUser, text: str, there: str) -> Any:
        self._pages.note(user, text)
        return RedirectResponse(there, 303)


Action = Callable[[Any, WebUser, Fields], Awaitable[Any]]


def actor(request: Any) -> Actor:
    """The user who does it, for the log."""
    user: WebUser = request.state.user
    return Actor(
        name=user.identity.account,
        via=f"web, token {user.bearer}" if user.bearer else "web",
        remote=request.state.remote,
    )


def _back(fields: Fields) -> str:
    """To the list that the form was in, of a topic."""
    address = topic_address(fields.get("back") or fields.get("name", ""))
    path = LISTS.get(fields.get("list", ""))
    return f"{path}?{address.partition('?')[2]}" if path else address


def _seconds(text: str) -> float | None:
    """A timeout as people write it; None for none. Raises Refusal."""
    text = text.strip()
    if not text:
        return None
    if text.upper() in ("INFINITE", "INF"):
        return math.inf
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= TIMEOUT_S_MAX:
        raise Refusal(
            Refusal.BAD_HEADER,
            f"a timeout is above 0 and at most {TIMEOUT_S_MAX:,.0f} seconds, or INFINITE: not {text[:40]!r}",
        )
    return seconds

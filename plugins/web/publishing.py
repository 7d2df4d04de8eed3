"""What comes with a request: bodies, within bounds; and a message that is published so."""

from collections.abc import Callable
from typing import Any, Final

import trio

from daemon.frontend import UNCOUNTED_BYTES, Answer, Site
from plugins.web.login import WebUser
from routing.errors import Refusal
from routing.message import Message

BODY_S: Final = 60.0
"""For a body to come whole."""


async def read_body(request: Any, bytes_max: int) -> bytes:
    """The body of a request. Raises Refusal (too-large, too-many) where it is larger, or comes too slowly."""
    too_large = Refusal(Refusal.TOO_LARGE, f"what was sent is larger than {bytes_max} bytes")
    if announced(request) > bytes_max:
        raise too_large
    pieces, size = [], 0
    with trio.move_on_after(BODY_S):
        more = True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise Refusal(Refusal.BAD_FRAME, "what was sent ended in the middle")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > bytes_max:
                raise too_large
            more = message.get("more_body", False)
        return b"".join(pieces)
    raise Refusal(Refusal.TOO_MANY, f"what was sent did not come within {BODY_S:g} s")


async def read_held_body(request: Any, bytes_max: int) -> bytes:
    """As `read_body`, counted while it comes among what is unfinished at the site, if it is no small one.

    Its sender is `request.state.user`, and `request.state.holding` counts it. Raises Refusal, also (too-many)
    where there is no room. A body whose length is not announced is taken for one of the greatest size.
    """
    size = announced(request) if "content-length" in request.headers else bytes_max
    if not UNCOUNTED_BYTES < size <= bytes_max:
        return await read_body(request, bytes_max)
    async with request.state.holding(request.state.user.identity, size, remote=request.state.remote):
        return await read_body(request, bytes_max)


def announced(request: Any) -> int:
    """How long a request says that its body is; 0 where it does not say."""
    text: str = request.headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 10**18


async def publish(
    site: Site, user: WebUser, request: Any, topic: str, message: Message | Callable[[bytes], Message]
) -> Answer:
    """Publish a message, or what is made of the body, as the account of the user; answers once it is on disk.

    Raises Refusal, and NotAllowed where its sender may do nothing any more once the body has come. One whose
    length is not announced is taken for one of the greatest size.
    """
    bytes_max = site.limits.message_bytes_max
    session = site.open_session(user.identity, "web", protocol="web", remote=request.state.remote)
    try:
        session.check_publish(topic)
        if not isinstance(message, Message):
            size = announced(request) if "content-length" in request.headers else bytes_max
            if UNCOUNTED_BYTES < size <= bytes_max:
                await session.hold(size)
            body = await read_body(request, bytes_max)
            await request.state.still()
            message = message(body)
        session.publish(topic, message, topic)
        while events := await session.events():
            for event in events:
                if isinstance(event, Answer):
                    if event.error is not None:
                        raise event.error
                    return event
        raise Refusal(Refusal.NOT_AVAILABLE, "the site is stopping")
    finally:
        session.close()

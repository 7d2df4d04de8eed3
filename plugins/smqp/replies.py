"""What the server says: its greeting, replies, deliveries and notices, as bytes.

Pure, and written for speed where a frame is sent for each message: those are put together from text whose
parts were checked when they came in (topics, Cmuids, Request tokens); whatever else may hold foreign text
goes through `routing.frames.encode_frame`, which lets no control character out.
"""

from datetime import datetime
from typing import Final

from daemon.frontend import Answer, Delivered, Detached, Withdrawn
from plugins.smqp.protocol import VERSION
from plugins.smqp.requests import RequestKey
from routing.errors import HeaderRefusal, Refusal
from routing.frames import Frame, encode_frame
from routing.headers import Headers, write_seconds
from routing.message import Message, Section

TEXT_CHARACTERS_MAX: Final = 500


def greeting(server_ident: str) -> bytes:
    """The server's first frame."""
    return encode_frame(Frame("SMQP", f"{VERSION} Ready {server_ident}"))


def not_available(server_ident: str, redirect: str | None, text: str) -> bytes:
    """The only frame of a server that takes nobody now, with where to go where that is known."""
    headers: Headers = [("Text", text)]
    if redirect:
        headers.append(("Redirect", redirect))
    return encode_frame(Frame("SMQP", f"{VERSION} Not Available {server_ident}", headers))


def logged_in(
    request: str | None, topic: str, timeout_s: float, now: datetime, suid: str, idle_timeout_s: float
) -> bytes:
    """The reply to PASS; `now` is in UTC."""
    headers: Headers = [
        ("Topic", topic),
        ("Timeout", write_seconds(timeout_s)),
        ("Time", now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")),
        ("Suid", suid),
        ("Idle", write_seconds(idle_timeout_s)),
    ]
    if request is not None:
        headers.append(("Request", request))
    return encode_frame(Frame("OK", "PASS", headers))


def pong(request: str | None) -> bytes:
    """The reply to PING."""
    return f"PONG\r\nRequest: {request}\r\n\r\n".encode() if request else b"PONG\r\n\r\n"


def goodbye(reason: str, text: str = "", redirect: str | None = None, *, request: str | None = None) -> bytes:
    """The server's last frame; `request` is that of a QUIT."""
    headers: Headers = [("Text", _one_line(text))] if text else []
    if redirect:
        headers.append(("Redirect", redirect))
    if request is not None:
        headers.append(("Request", request))
    return encode_frame(Frame("BYE", reason, headers))


def error(key: RequestKey, refusal: Refusal) -> bytes:
    """A request was refused, and nothing of it was done."""
    command, attribute = key
    headers: Headers = [("Command", _one_line(command)[:40])] if command else []
    if attribute:
        name, _, value = attribute[:-2].partition(": ")
        headers.append((name, _one_line(value)))
    headers.append(("Text", _one_line(refusal.text)))
    if isinstance(refusal, HeaderRefusal):
        headers.append(("Header", _one_line(refusal.header)))
        headers.append(("Value", _one_line(refusal.value)))
        headers.append(("Expected", _one_line(refusal.expected)))
    return encode_frame(Frame("ERROR", refusal.code, headers))


def withdrawn(event: Withdrawn) -> bytes:
    """The notice that a delivery is no longer the client's."""
    return (
        f"WITHDRAWN {event.number}\r\nTopic: {event.topic}\r\n{_subscription(event.subscription)}"
        f"{_pattern(event.pattern)}Reason: {event.reason}\r\n\r\n".encode()
    )


def detached(event: Detached) -> bytes:
    """A subscription delivers here no more."""
    return f"DETACHED {event.topic}\r\n{_subscription(event.name)}Reason: {event.reason}\r\n\r\n".encode()


def connect_request(address: str, port: int, timeout_s: float, created: datetime) -> Message:
    """What CONNECTTO publishes to the system topic of the account that is to connect."""
    where = (
        f"[{address}]:{port}" if ":" in address.strip("[]") and address[:1] != "[" else f"{address}:{port}"
    )
    return Message(
        name="CONNECTTO",
        created=created.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        timeout_s=timeout_s,
        others=(("Connect-To", where),),
        sections=(Section("text/plain", where.encode()),),
    )


def deliver(event: Delivered, parts: list[bytes]) -> None:
    """Add a MESSAGE to `parts`, as two more."""
    head = f"MESSAGE {event.topic}\r\n"
    if event.subscription:
        head += _subscription(event.subscription)
    if event.pattern:
        head += _pattern(event.pattern)
    if event.acknowledge:
        head += f"Id: {event.number}\r\nAttempt: {event.attempt}\r\n"
        if event.received:
            head += "Received: YES\r\n"
        if event.lock_s is not None:
            head += f"Lock: {event.lock_s:.3f}\r\n"
    if event.expires_in_s is not None:
        head += f"Expires: {max(event.expires_in_s, 0.0):.3f}\r\n"
    parts.append(head.encode())
    parts.append(event.stored.wire)


def _subscription(name: str) -> str:
    return f"Subscription: {name}\r\n" if name else ""


def _pattern(pattern: str) -> str:
    return f"Pattern: {pattern}\r\n" if pattern else ""


def answer(event: Answer) -> bytes:
    """The reply to a request that the session has answered."""
    command, attribute = event.request
    if event.error is not None:
        return error(event.request, event.error)
    if event.repeated:
        return f"OK {command}\r\n{attribute}Smuid: {event.smuid}\r\nRepeated: YES\r\n\r\n".encode()
    smuid = f"Smuid: {event.smuid}\r\n" if event.smuid else ""
    if event.due_to_nobody:
        smuid += "Due: 0\r\n"
    return f"OK {command}\r\n{attribute}{smuid}\r\n".encode()


def _one_line(text: str) -> str:
    """Foreign text made fit for a header line: cut, and without what no line may hold."""
    cut = text[:TEXT_CHARACTERS_MAX]
    return "".join(
        c if c == "\t" or (c >= " " and c != "\x7f" and not "\ud800" <= c <= "\udfff") else "?" for c in cut
    )

"""XEP-0114 as a component speaks it, without a socket: bytes in, stanzas out, and what to send.

    opening      our header has been sent
    proving      the server's header has come, our digest has been sent
    established  `<handshake/>` has come: stanzas
    closed       the stream has ended, from whichever side

An error that says we are not who we claim to be (`not-authorized`, `host-unknown`, ...) is told apart from
all others, since trying again cannot help. Servers do not agree which of them a wrong name gets.
"""

import hashlib
from typing import Final, Literal
from xml.etree.ElementTree import Element

from plugins.xmpp.wire.namespaces import COMPONENT, STREAM, STREAM_ERRORS, local_name, namespace_of
from plugins.xmpp.wire.parser import (
    ParserLimits,
    StanzaTooMuch,
    StreamBroken,
    StreamEnd,
    StreamHeader,
    StreamParser,
)
from plugins.xmpp.wire.serializer import escape_attribute

CLOSE: Final = b"</stream:stream>"

_AUTHENTICATION_CONDITIONS: Final = frozenset(
    {"not-authorized", "host-unknown", "host-gone", "invalid-from", "invalid-namespace"}
)

StreamState = Literal["opening", "proving", "established", "closed"]


class StreamFailed(Exception):
    """The server has ended the stream, or broke it; a new one may do better.

    Attributes:
        condition: of RFC 6120 4.9.3.
    """

    def __init__(self, condition: str, text: str = "") -> None:
        super().__init__(f"{condition}: {text}" if text else condition)
        self.condition = condition


class NotAuthorized(StreamFailed):
    """The server does not take this name and secret: trying again would be answered alike."""


class ComponentStream:
    """One stream of a component, from connecting to its end."""

    def __init__(self, component: str, secret: str, limits: ParserLimits) -> None:
        self.state: StreamState = "opening"
        self._secret = secret
        self._parser = StreamParser(limits)
        self._to_send = (
            "<?xml version='1.0'?>"
            f"<stream:stream xmlns='{COMPONENT}' xmlns:stream='{STREAM}' to='{escape_attribute(component)}'>"
        ).encode()

    def data_to_send(self) -> bytes:
        """What the stream itself wants sent; b"" for nothing."""
        data, self._to_send = self._to_send, b""
        return data

    def receive(self, data: bytes | bytearray) -> list[Element | StanzaTooMuch]:
        """Bytes from the server (b"" at their end) to stanzas.

        Raises StreamFailed or NotAuthorized; the state is then `closed`, and what was complete before is
        lost with the stream. A clean end by the server leaves `closed` without raising.
        """
        if not data:
            if self.state == "closed":
                return []
            self.state = "closed"
            raise StreamFailed("connection lost", "the server closed the connection")
        stanzas: list[Element | StanzaTooMuch] = []
        try:
            for event in self._parser.feed(data):
                if isinstance(event, StreamHeader):
                    self._header(event)
                elif isinstance(event, StreamEnd):
                    self._server_closed()
                elif isinstance(event, Element) and event.tag == f"{{{STREAM}}}error":
                    self._stream_error(event)
                elif self.state == "established":
                    stanzas.append(event)
                elif isinstance(event, StanzaTooMuch):
                    raise StreamBroken("policy-violation", event.text)
                elif self.state == "proving" and event.tag == f"{{{COMPONENT}}}handshake":
                    self.state = "established"
                else:
                    raise StreamBroken("not-authorized", "a stanza before the handshake")
        except StreamBroken as broken:
            self.state = "closed"
            self._to_send += (
                f"<stream:error><{broken.condition} xmlns='{STREAM_ERRORS}'/></stream:error>".encode() + CLOSE
            )
            raise StreamFailed(broken.condition, broken.text) from None
        return stanzas

    def close(self) -> None:
        """Say goodbye; the server answers with its own end."""
        if self.state != "closed":
            self.state = "closed"
            self._to_send += CLOSE

    def _header(self, header: StreamHeader) -> None:
        if header.tag != f"{{{STREAM}}}stream":
            raise StreamBroken("invalid-namespace", "what the server speaks is no XML stream")
        stream_id = header.attributes.get("id")
        if stream_id is None:
            # without an id there is nothing to hash; an error is about to follow
            return
        self.state = "proving"
        digest = hashlib.sha1((stream_id + self._secret).encode(), usedforsecurity=False).hexdigest()
        self._to_send += f"<handshake>{digest}</handshake>".encode()

    def _server_closed(self) -> None:
        if self.state != "established":
            refused = self.state == "proving"
            self.state = "closed"
            if refused:
                # XEP-0114 1: a server may simply close the stream where the digest is wrong
                raise NotAuthorized("not-authorized", "the server closed the stream at the handshake")
            raise StreamFailed("connection lost", "the server closed the stream")
        self.state = "closed"

    def _stream_error(self, error: Element) -> None:
        condition, text = "undefined-condition", ""
        for child in error:
            if local_name(child.tag) == "text":
                text = (child.text or "")[:200]
            elif namespace_of(child.tag) == STREAM_ERRORS:
                condition = local_name(child.tag)
        established = self.state == "established"
        self.state = "closed"
        self._to_send += CLOSE
        if not established and condition in _AUTHENTICATION_CONDITIONS:
            raise NotAuthorized(condition, text)
        raise StreamFailed(condition, text)

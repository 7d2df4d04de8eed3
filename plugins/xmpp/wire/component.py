"""The connection to the XMPP server, for as long as the site runs: connect, prove, serve, connect again.

    run             one stream after the other; waits between them, longer each time
      _read         stanzas to the handler, which is awaited and must not wait for room: what it cannot
                    take, the server keeps
      _write        from the outbox; a server that does not read holds up whoever sends
      _keep_alive   a mark each `IDLE_S`; one that does not come back ends the stream

A server that refuses the name or the secret is not asked again: that is logged and `run` returns. Only
where the same server had taken them before, the refusal is taken for a server in trouble.
"""

import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final
from xml.etree.ElementTree import Element

import trio

from plugins.xmpp.wire.namespaces import COMPONENT, PING
from plugins.xmpp.wire.outbox import MARK_PREFIX, Outgoing, StanzaOutbox
from plugins.xmpp.wire.parser import ParserLimits, StanzaTooMuch
from plugins.xmpp.wire.serializer import escape_attribute, serialize
from plugins.xmpp.wire.stream import ComponentStream, NotAuthorized, StreamFailed

_log = logging.getLogger(__name__)

UNREAD_BYTES_MAX: Final = 4 * 2**20
"""What may wait for the server before senders have to wait."""

UNWRITTEN_BYTES_MAX: Final = 16 * 2**20
"""What may wait to be written, answers and all, before no more is read."""

SENT_AT_A_TIME: Final = 16
"""Stanzas that are made before other tasks have their turn."""

RECEIVE_BYTES: Final = 65_536
RETRY_FIRST_S: Final = 0.25
RETRY_MAX_S: Final = 30.0
STEADY_S: Final = 30.0
"""A stream that held so long was a good one: the next waits are short again."""

CONNECT_S: Final = 20.0
"""To connect and to be let in."""

IDLE_S: Final = 30.0
MARK_S: Final = 30.0
"""In which a mark has to come back."""

CLOSE_S: Final = 1.0

Dial = Callable[[], Awaitable[trio.abc.Stream]]


def tcp_connector(host: str, port: int, context: ssl.SSLContext | None) -> Dial:
    """A dialler of the server's component port; with TLS from the first byte where a context is given."""

    async def connect() -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(host, port)
        if context is None:
            return stream
        secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(secured)
            raise
        return secured

    return connect


class StanzaTooLargeError(ValueError):
    """It is larger than the server may take; sending it could end the stream."""


class Component:
    """Sends and receives stanzas under one name.

    Args:
        handle: awaited for each stanza, one after the other; never while another call is running.
        too_much: awaited likewise for a stanza over the limits, of which there is no more than its addresses.
        up: called when a stream is established, before its first stanza.
        down: called when that stream has ended.
    """

    def __init__(
        self,
        name: str,
        secret: str,
        connect: Dial,
        *,
        handle: Callable[[Element], Awaitable[None]],
        too_much: Callable[[StanzaTooMuch], Awaitable[None]],
        up: Callable[[], None],
        down: Callable[[], None],
        limits: ParserLimits,
        send_bytes_max: int,
    ) -> None:
        self.name = name
        self._secret = secret
        self._connect = connect
        self._handle = handle
        self._too_much = too_much
        self._up = up
        self._down = down
        self._limits = limits
        self._send_bytes_max = send_bytes_max
        self._outbox = StanzaOutbox(self._mark)
        self._work = trio.Event()
        self._room = trio.Event()
        self._marked = trio.Event()
        self._accepted = False
        self._mark_wanted = False
        self._sent = 0

    def _mark(self, id: str) -> bytes:
        name = escape_attribute(self.name)
        return f"<iq type='get' from='{name}' to='{name}' id='{id}'><ping xmlns='{PING}'/></iq>".encode()

    async def send(
        self, stanza: Element | str, *, settled: Callable[[bool], None] | None = None, again: bool = False
    ) -> None:
        """Have a stanza sent, or one that is written already; waits while much is unread.

        What goes `again` waits for nothing: it answers what was read, and only reading on shows what the
        server has read. See `outbox.Outgoing` for the rest.

        Raises UnsendableError and StanzaTooLargeError, before anything has been taken. Where it is cancelled,
        nothing has been taken either.
        """
        data = (stanza if isinstance(stanza, str) else serialize(stanza, COMPONENT)).encode()
        if len(data) > self._send_bytes_max:
            raise StanzaTooLargeError(f"a stanza of {len(data)} bytes; at most {self._send_bytes_max} may be")
        while not again and self._outbox.bytes > UNREAD_BYTES_MAX:
            await self._room.wait()
        self._sent += 1
        if self._sent % SENT_AT_A_TIME == 0:
            await trio.lowlevel.checkpoint()
        self._outbox.put(Outgoing(data, settled, again))
        self._work.set()

    def drop(self) -> None:
        """Drop what is to come once only: there has been no stream for long, see `StanzaOutbox.drop`."""
        self._outbox.drop()
        self._wake_senders()

    async def flushed(self) -> None:
        """Wait until the server has read everything, but not longer than `CLOSE_S`."""
        with trio.move_on_after(CLOSE_S):
            while self._outbox.bytes:
                await self._room.wait()

    async def run(self) -> None:
        """Stay connected until cancelled. Returns where the server takes neither name nor secret."""
        delay_s = RETRY_FIRST_S
        while True:
            began = trio.current_time()
            try:
                await self._one_stream()
            except NotAuthorized as error:
                if not self._accepted:
                    _log.error(
                        "the XMPP server does not take the component %s: %s; check the name and the secret on"
                        " both sides, then restart; XMPP is off until then",
                        self.name,
                        error,
                    )
                    return
                _log.warning("the XMPP server has taken %s before and does not now: %s", self.name, error)
            except (StreamFailed, OSError, trio.BrokenResourceError, ssl.SSLError) as error:
                _log.warning("no connection to the XMPP server as %s: %s", self.name, _reason(error))
            if trio.current_time() - began > STEADY_S:
                delay_s = RETRY_FIRST_S
            # spread, so that the components of a server that restarts do not come all at once
            await trio.sleep(delay_s * random.uniform(0.5, 1.0))
            delay_s = min(delay_s * 2, RETRY_MAX_S)

    async def _one_stream(self) -> None:
        with trio.move_on_after(CONNECT_S) as connecting:
            transport = await self._connect()
        if connecting.cancelled_caught:
            raise StreamFailed("connection lost", f"no connection within {CONNECT_S:g} s")
        stream = ComponentStream(self.name, self._secret, self._limits)
        try:
            with trio.move_on_after(CONNECT_S) as proving:
                stanzas = await self._establish(transport, stream)
            if proving.cancelled_caught:
                raise StreamFailed("connection lost", f"no handshake within {CONNECT_S:g} s")
            self._accepted = True
            _log.info("connected to the XMPP server as %s", self.name)
            try:
                await self._serve(transport, stream, stanzas)
            finally:
                self._down()
        finally:
            self._outbox.broken()
            self._wake_senders()
            stream.close()
            with trio.move_on_after(CLOSE_S) as closing:
                closing.shield = True
                # it may be closed already, or in the middle of a stanza
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                    await transport.send_all(stream.data_to_send())
            await trio.aclose_forcefully(transport)

    async def _establish(
        self, transport: trio.abc.Stream, stream: ComponentStream
    ) -> list[Element | StanzaTooMuch]:
        stanzas: list[Element | StanzaTooMuch] = []
        while stream.state != "established":
            if data := stream.data_to_send():
                await transport.send_all(data)
            stanzas += stream.receive(await transport.receive_some(RECEIVE_BYTES))
        return stanzas

    async def _serve(
        self, transport: trio.abc.Stream, stream: ComponentStream, stanzas: list[Element | StanzaTooMuch]
    ) -> None:
        self._up()
        failed: list[Exception] = []
        async with trio.open_nursery() as nursery:
            for task in (
                partial(self._read, transport, stream, stanzas),
                partial(self._write, transport),
                self._keep_alive,
            ):
                nursery.start_soon(_until_failed, task, failed, nursery.cancel_scope)
        raise failed[0] if failed else StreamFailed("connection lost", "the server closed the stream")

    async def _read(
        self, transport: trio.abc.Stream, stream: ComponentStream, stanzas: list[Element | StanzaTooMuch]
    ) -> None:
        while True:
            for stanza in stanzas:
                while self._outbox.unwritten_bytes > UNWRITTEN_BYTES_MAX:
                    await self._room.wait()
                if isinstance(stanza, StanzaTooMuch):
                    await self._too_much(stanza)
                elif stanza.get("from") == self.name and stanza.get("id", "").startswith(MARK_PREFIX):
                    self._outbox.marked(stanza.get("id", ""))
                    self._marked.set()
                    self._wake_senders()
                    self._work.set()
                else:
                    await self._handle(stanza)
            if stream.state == "closed":
                return
            stanzas = stream.receive(await transport.receive_some(RECEIVE_BYTES))

    async def _write(self, transport: trio.abc.Stream) -> None:
        while True:
            while self._outbox.has_work or self._mark_wanted:
                data = self._outbox.take(force_mark=self._mark_wanted)
                self._mark_wanted = False
                if data:
                    await transport.send_all(data)
                    self._wake_senders()
            self._work = trio.Event()
            await self._work.wait()
            # what others have to send at this moment goes with it: a write costs more than a stanza
            await trio.lowlevel.checkpoint()

    async def _keep_alive(self) -> None:
        while True:
            if self._outbox.mark_out:
                self._marked = trio.Event()
                with trio.move_on_after(MARK_S) as waiting:
                    await self._marked.wait()
                if waiting.cancelled_caught:
                    raise StreamFailed("connection lost", f"no sign of life for {MARK_S:g} s")
            await trio.sleep(IDLE_S)
            if not self._outbox.mark_out:
                self._mark_wanted = True
                self._work.set()

    def _wake_senders(self) -> None:
        room, self._room = self._room, trio.Event()
        room.set()


def _reason(error: BaseException) -> str:
    """What went wrong; what TLS has to say is in the cause of an error without words."""
    return str(error) or (_reason(error.__cause__) if error.__cause__ is not None else repr(error))


async def _until_failed(
    task: Callable[[], Awaitable[None]], failed: list[Exception], stream: trio.CancelScope
) -> None:
    """Run one task of a stream; however it ends, the stream ends."""
    try:
        await task()
    except (StreamFailed, OSError, trio.BrokenResourceError, ssl.SSLError) as error:
        failed.append(error)
    stream.cancel()

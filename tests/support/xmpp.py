"""The XMPP front end at one end of a stream in memory, and at the other an XMPP server with its clients.

The server does what a real one does for a component: it checks the handshake, stamps `from`, passes on by
`to`, sends back what the component sends to itself, and says so when a resource is not there.
"""

import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import trio
import trio.testing

from daemon.settings import Limits, QueueSettings
from plugins.xmpp.serving import serve
from plugins.xmpp.settings import JidRule, XmppSettings
from plugins.xmpp.wire.namespaces import COMPONENT, DISCO_INFO
from plugins.xmpp.wire.parser import ParserLimits, StreamEnd, StreamParser, parse_fragment
from plugins.xmpp.wire.serializer import serialize
from routing.quotas import Quotas
from tests.support.patience import PATIENCE_S
from tests.support.site import running_site
from tests.support.xmpp_client import StanzaClient

COMPONENT_NAME = "workflow.shakespeare.lit"
SECRET = "a secret"
LIMITS = ParserLimits(stanza_bytes_max=2**24, tag_bytes_max=2**24)
RULES = (
    JidRule(jid="eve@shakespeare.lit", account="eve"),
    JidRule(jid="dan@shakespeare.lit", account="dan"),
    JidRule(pattern="worker*@shakespeare.lit", account="bob"),
    JidRule(domain="shakespeare.lit", account="ada"),
    JidRule(domain="engine.shakespeare.lit", account="ada"),
)


class XmppClient(StanzaClient):
    """One full JID. Stanzas are written as text, without `from`; a missing `to` is the component."""

    service = COMPONENT_NAME
    patience_s = PATIENCE_S

    def __init__(self, server: "XmppServer", jid: str, *, features: tuple[str, ...] = ()) -> None:
        super().__init__(math.inf)
        self.jid = jid
        self.server = server
        self.features = features
        self.answers_questions = True
        """What disco#info asks it is answered for it."""

    async def send(self, text: str) -> None:
        stanza = parse_fragment(text.encode(), LIMITS)
        stanza.set("from", self.jid)
        if "to" not in stanza.attrib:
            stanza.set("to", COMPONENT_NAME)
        for each in stanza.iter():
            if each.tag[:1] != "{":
                each.tag = f"{{{COMPONENT}}}{each.tag}"
        await self.server.to_component(stanza)


class XmppServer:
    """Accepts the component, again and again."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.clients: dict[str, XmppClient] = {}
        self.connected = trio.Event()
        self.connections = 0
        self.refuse = False
        self.keeps_messages = False
        """Whether it stores messages for who is away, as servers do (XEP-0160)."""
        self.kept: list[Element] = []
        self.is_slow = False
        """Whether what the component sends to itself, to see what has been read, is held back."""
        self._held_back: list[Element] = []
        self._streams, self._accepted = trio.open_memory_channel[trio.abc.Stream](math.inf)
        self._stream: trio.abc.Stream | None = None
        self._sending = trio.Lock()

    async def connect(self) -> trio.abc.Stream:
        """What the component is given to reach the server."""
        if self.refuse:
            raise OSError("nobody listens")
        ours, theirs = trio.testing.memory_stream_pair()
        await self._streams.send(ours)
        return theirs

    def client(self, jid: str, *, features: tuple[str, ...] = ()) -> XmppClient:
        client = self.clients[jid] = XmppClient(self, jid, features=features)
        return client

    def leave(self, client: XmppClient) -> None:
        """The client's connection is gone."""
        self.clients.pop(client.jid, None)

    async def read_on(self) -> None:
        """Send back what was held back as it was slow."""
        self.is_slow = False
        held_back, self._held_back = self._held_back, []
        for stanza in held_back:
            await self.to_component(stanza)

    async def cut(self) -> None:
        """The component's connection breaks."""
        assert self._stream is not None
        self.connected = trio.Event()
        await trio.aclose_forcefully(self._stream)

    async def to_component(self, stanza: Element | str) -> None:
        with trio.fail_after(PATIENCE_S):
            await self.connected.wait()
        assert self._stream is not None
        await self._send(self._stream, stanza)

    async def _send(self, stream: trio.abc.Stream, stanza: Element | str) -> None:
        text = stanza if isinstance(stanza, str) else serialize(stanza, COMPONENT)
        async with self._sending:
            await stream.send_all(text.encode("utf-8", "surrogatepass"))

    async def run(self) -> None:
        async for stream in self._accepted:
            self.connections += 1
            try:
                await self._serve(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                continue
            finally:
                self.connected = trio.Event()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        parser = StreamParser(LIMITS)
        digest = hashlib.sha1(f"s1{self.secret}".encode()).hexdigest()
        while data := await stream.receive_some(65_536):
            for event in parser.feed(data):
                if isinstance(event, StreamEnd):
                    return
                if not isinstance(event, Element):
                    await stream.send_all(
                        f"<stream:stream xmlns='{COMPONENT}' xmlns:stream='http://etherx.jabber.org/streams'"
                        f" id='s1' from='{COMPONENT_NAME}'>".encode()
                    )
                elif event.tag.endswith("}handshake"):
                    if event.text != digest:
                        await stream.send_all(
                            b"<stream:error><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
                            b"</stream:error></stream:stream>"
                        )
                        return
                    await stream.send_all(b"<handshake/>")
                    self._stream = stream
                    self.connected.set()
                else:
                    await self._route(stream, event)

    async def _route(self, stream: trio.abc.Stream, stanza: Element) -> None:
        to = stanza.get("to", "")
        client = self.clients.get(to)
        kind = stanza.tag.rpartition("}")[2]
        resources = [each for jid, each in self.clients.items() if jid.partition("/")[0] == to and jid != to]
        if to == COMPONENT_NAME and self.is_slow:
            self._held_back.append(stanza)
        elif to == COMPONENT_NAME:
            await self._send(stream, stanza)
        elif resources and kind == "message" and stanza.get("type") != "error":
            for each in resources:
                await each.stanzas_in.send(stanza)
        elif self.keeps_messages and kind == "message" and client is None:
            self.kept.append(stanza)
        elif client is not None:
            query = stanza.find(f"{{{DISCO_INFO}}}query")
            if query is not None and stanza.get("type") == "get" and client.answers_questions:
                features = "".join(f"<feature var='{feature}'/>" for feature in client.features)
                await client.send(
                    f"<iq type='result' id='{stanza.get('id')}'>"
                    f"<query xmlns='{DISCO_INFO}'>{features}</query></iq>"
                )
            else:
                await client.stanzas_in.send(stanza)
        elif stanza.get("type") not in ("error", "result") and not stanza.tag.endswith("presence"):
            await self._send(
                stream,
                f"<{kind} type='error' from='{to}' to='{COMPONENT_NAME}' id='{stanza.get('id')}'>"
                "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
                f"</error></{kind}>",
            )


@asynccontextmanager
async def xmpp_site(
    directory: Path,
    server: XmppServer | None = None,
    queues: QueueSettings | None = None,
    limits: Limits | None = None,
    rules: Any = RULES,
    quotas: Quotas | None = None,
    **changes: Any,
) -> AsyncIterator[Any]:
    """A site whose front end is connected to a server; gives (server, service, site)."""
    server = server or XmppServer()
    settings = XmppSettings(
        component=COMPONENT_NAME, accounts=rules, **{"create_on_subscribe": True, **changes}
    )
    async with running_site(directory, limits, queues, quotas) as site, trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        service = await nursery.start(serve, site, settings, server.connect, SECRET)
        with trio.fail_after(PATIENCE_S):
            await server.connected.wait()
        yield server, service, site
        nursery.cancel_scope.cancel()

"""Who is there: presence where a client sends us any, errors that come back, and questions by IQ.

A client's broadcast presence does not come to a component; directed presence does, and `unavailable`
follows it when the client's connection breaks. Everyone else is noticed to be gone by what comes back: an
error to a notification, or to an IQ; and to be there by whatever comes from it. A server may keep a message
for who is away and say nothing, but answers an IQ to a resource that is gone with an error (RFC 6121 8.5).

A client that knows nothing of XEP-0030 answers a question with an error too, often the very one that its
server has for who is gone. So the server is asked for a resource that cannot be there: an error of another
shape than that one's is the client's own. Where the shapes are the same, a client that has just asked
something itself is `mute`: it is never asked again, and counts as there until the lock of an item ends
without a word of it.
"""

from functools import partial
from typing import Final, Protocol
from xml.etree.ElementTree import Element

import trio

from plugins.xmpp.delivery.attention import Availability
from plugins.xmpp.delivery.client import Client
from plugins.xmpp.delivery.clients import Clients
from plugins.xmpp.forms.notifications import delivery_number, unsubscribed
from plugins.xmpp.forms.stanzas import PRESENCE, StanzaError, condition_of
from plugins.xmpp.known.identities import NoAccount, bare_of
from plugins.xmpp.known.registry import Registry
from plugins.xmpp.wire.component import Component
from plugins.xmpp.wire.namespaces import COMPONENT, DISCO_INFO, QOS
from plugins.xmpp.wire.serializer import serialize
from routing.errors import Refusal


class QuestionPort(Protocol):
    """Whoever can ask a JID by IQ; None where no answer comes in time, or the stream breaks."""

    async def ask(self, jid: str, question: Element) -> Element | None: ...

    def next_id(self, kind: str) -> str: ...


class StreamPort(QuestionPort, Protocol):
    """One who can also tell whether an answer may have been lost with a stream; see `service.Service`."""

    is_up: bool
    streams: int


class PresencePort(QuestionPort, Protocol):
    """Who is asked, and how what is found out is used; see `service.Service`."""

    name: str
    registry: Registry

    @property
    def clients(self) -> Clients: ...

    @property
    def component(self) -> Component: ...

    def ask_later(self, jid: str) -> None: ...

    def found(self, jid: str) -> None: ...

    async def notify(self, jid: str, event: Element, *, kind: str = "") -> None: ...


GONE_CONDITIONS: Final = frozenset(
    {
        "gone",
        "item-not-found",
        "recipient-unavailable",
        "remote-server-not-found",
        "remote-server-timeout",
        "service-unavailable",
    }
)
ASKED_AT_A_TIME: Final = 50

_FEATURE: Final = f"{{{DISCO_INFO}}}query/{{{DISCO_INFO}}}feature"


def says_gone(stanza: Element) -> bool:
    """Whether an error says that there is nobody under the address."""
    return condition_of(stanza)[0] in GONE_CONDITIONS


def bounced(hub: PresencePort, stanza: Element) -> None:
    """Take a notification that has come back: nobody is there, or it could not be sent."""
    client = hub.clients.get(stanza.get("from", ""))
    if client is None:
        return
    number = delivery_number(stanza.get("id", ""))
    if says_gone(stanza):
        if number is None:
            client.gone()
        else:
            client.bounced(number)
    elif number is not None:
        client.give_back(number, "the notification was refused: " + (condition_of(stanza)[0] or "no reason"))


def seen(hub: PresencePort, jid: str) -> None:
    """Note that something has come from a full JID: send what waits for it, or for its bare JID."""
    client = hub.clients.get(jid)
    if client is not None:
        client.seen_at = trio.current_time()
    absent, bare = hub.registry.absent, bare_of(jid)
    for each in (jid, bare):
        if each in absent:
            came_back(hub, each)
    if bare not in absent:
        # nobody could be asked whether it is there: it was only tried
        hub.found(bare)


async def changed(hub: PresencePort, stanza: Element) -> None:
    """Take a presence stanza. Source: RFC 6121 3, 4.3 and 4.5."""
    jid, kind = stanza.get("from", ""), stanza.get("type", "")
    if kind in ("unavailable", "error"):
        if (client := hub.clients.get(jid)) is not None:
            client.gone()
        return
    answers = {"subscribe": ("subscribed", ""), "unsubscribe": ("unsubscribed",), "probe": ("",)}
    asked = bare_of(stanza.get("to") or hub.name)
    for answer in answers.get(kind, ()):
        # from whom it was asked: a contact's server takes it from nobody else
        presence = Element(PRESENCE, {"from": asked, "to": bare_of(jid) if kind != "probe" else jid})
        if answer:
            presence.set("type", answer)
        await hub.component.send(presence, again=True)


def came_back(hub: PresencePort, jid: str, *, is_there: bool = True) -> None:
    """Send to a subscriber that is there (again), or may be; look later for one that is kept out for now.

    One that has no account any more is looked for with the next stream, or once something comes from it.
    """
    client = _let_in(hub, jid)
    if client is not None:
        if is_there:
            hub.found(jid)
        client.back()


def _let_in(hub: PresencePort, jid: str) -> Client | None:
    try:
        return hub.clients.of(jid)
    except NoAccount:
        hub.found(jid)
    except (StanzaError, Refusal):
        hub.ask_later(jid)
    return None


async def is_there(hub: QuestionPort, jid: str) -> Availability:
    """Ask a full JID; see the module for what an error means."""
    answer = await hub.ask(jid, Element(f"{{{DISCO_INFO}}}query"))
    return "silent" if answer is None else await _judge(hub, jid, answer)


async def _judge(hub: QuestionPort, jid: str, answer: Element) -> Availability:
    if answer.get("type") != "error" or not says_gone(answer):
        return "there"
    bare = bare_of(jid)
    if bare == jid or "@" not in bare:
        return "gone"
    nobody = await hub.ask(f"{bare}/{hub.next_id('nobody-')}", Element(f"{{{DISCO_INFO}}}query"))
    return "gone" if nobody is None or _shape(nobody) == _shape(answer) else "there"


def _shape(stanza: Element) -> tuple[str, ...]:
    return tuple(serialize(child, COMPONENT) for child in stanza)


class Looked(Protocol):
    """A client, as far as it is looked at."""

    jid: str
    mute: bool


async def look_at(hub: StreamPort, client: Looked, *, is_there: bool) -> bool:
    """Whether a client speaks urn:xmpp:qos; and whether it is mute, where it is known to be there.

    Raises StanzaError (`wait`) where the stream broke before the answer: who speaks it must not be served
    as one that does not, for it would pass over all that it is sent.
    """
    stream = hub.streams
    answer = await hub.ask(client.jid, Element(f"{{{DISCO_INFO}}}query"))
    if answer is None:
        if hub.streams != stream or not hub.is_up:
            raise StanzaError(
                "remote-server-timeout", "wait", "the stream to the XMPP server broke meanwhile"
            )
        return False
    if is_there:
        client.mute = await _judge(hub, client.jid, answer) == "gone"
    return any(feature.get("var") == QOS for feature in answer.findall(_FEATURE))


async def look_for(hub: PresencePort, jids: list[str]) -> None:
    """Find out whether subscribers are there: those who are go on, those who are not are gone."""
    limiter = trio.CapacityLimiter(ASKED_AT_A_TIME)
    async with trio.open_nursery() as nursery:
        for jid in jids:
            nursery.start_soon(partial(_look_for, hub, jid, limiter))


async def _look_for(hub: PresencePort, jid: str, limiter: trio.CapacityLimiter) -> None:
    if "/" not in jid and "@" in jid:
        # its server would answer for it; a notification that comes back tells
        came_back(hub, jid, is_there=False)
        return
    async with limiter:
        verdict = await is_there(hub, jid)
    if verdict == "there":
        came_back(hub, jid)
    elif verdict == "gone":
        await _is_gone(hub, jid)
    else:
        hub.ask_later(jid)


async def _is_gone(hub: PresencePort, jid: str) -> None:
    if not any(each.attached or not each.outlives_absence for each in hub.registry.of(jid)):
        hub.ask_later(jid)
        return
    client = _let_in(hub, jid)
    if client is None:
        return
    # only an attached subscription can be given up
    client.back()
    ended = [each for each in hub.registry.of(jid) if not each.outlives_absence]
    client.gone()
    for each in ended:
        # should it be there and mute, it subscribes again; a headline is kept for nobody
        await hub.notify(jid, unsubscribed(each.node, each.subscriber), kind="headline")

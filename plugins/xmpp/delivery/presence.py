"""Who is there: presence where a client sends us any, errors that come back, and questions by IQ.

A client's broadcast presence does not come to a component; directed presence does, and `unavailable`
follows it when the client's connection breaks. Everyone else is noticed to be gone by what comes back: an
error to a notification, or to an IQ. After a start, and whenever a stream is established anew, each
subscriber is asked (XEP-0030, which also tells whether it speaks urn:xmpp:qos).
"""

from datetime import UTC, datetime
from typing import Final, Protocol
from xml.etree.ElementTree import Element

import trio

from plugins.xmpp.delivery.client import Client
from plugins.xmpp.forms.notifications import delivery_number
from plugins.xmpp.forms.stanzas import PRESENCE, StanzaError, condition_of
from plugins.xmpp.known.registry import Registry
from plugins.xmpp.wire.component import Component
from plugins.xmpp.wire.namespaces import DISCO_INFO, QOS
from routing.errors import Refusal


class Asks(Protocol):
    """Whoever can ask a JID by IQ; None where no answer comes in time."""

    async def ask(self, jid: str, question: Element) -> Element | None: ...


class Hub(Asks, Protocol):
    """Who is asked, and how what is found out is used; see `service.Service`."""

    name: str
    registry: Registry
    clients: dict[str, Client]
    streams: int

    @property
    def component(self) -> Component: ...

    def client(self, jid: str) -> Client: ...


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
ASKED_AGAIN_S: Final = (30.0, 300.0)
"""Pauses after which those are asked again who have not answered: to them nothing is sent until then."""

_FEATURE: Final = f"{{{DISCO_INFO}}}query/{{{DISCO_INFO}}}feature"


def timestamp() -> str:
    """Now, as XEP-0082 writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def says_gone(stanza: Element) -> bool:
    """Whether an error says that there is nobody under the address."""
    return condition_of(stanza)[0] in GONE_CONDITIONS


def bounced(service: Hub, stanza: Element) -> None:
    """A notification has come back."""
    client = service.clients.get(stanza.get("from", ""))
    if client is None:
        return
    number = delivery_number(stanza.get("id", ""))
    if says_gone(stanza):
        client.gone()
    elif number is not None:
        client.give_back(number, "the notification was refused: " + (condition_of(stanza)[0] or "no reason"))


async def changed(service: Hub, stanza: Element) -> None:
    """A presence stanza."""
    jid, kind = stanza.get("from", ""), stanza.get("type", "")
    if kind in ("unavailable", "error"):
        if (client := service.clients.get(jid)) is not None:
            client.gone()
    elif kind in ("subscribe", "probe"):
        answer = {"from": service.name, "to": jid}
        if kind == "subscribe":
            answer["type"] = "subscribed"
        await service.component.send(Element(PRESENCE, answer), again=True)
    elif not kind and service.registry.of(jid):
        came_back(service, jid)


def came_back(service: Hub, jid: str) -> None:
    """A subscriber is there (again). What keeps it out keeps it out: nobody waits for an answer."""
    try:
        service.client(jid).back()
    except (StanzaError, Refusal):
        return


async def speaks_qos(service: Asks, jid: str) -> bool:
    """Whether a full JID announces urn:xmpp:qos."""
    answer = await service.ask(jid, Element(f"{{{DISCO_INFO}}}query"))
    if answer is None or answer.get("type") != "result":
        return False
    return any(feature.get("var") == QOS for feature in answer.findall(_FEATURE))


async def ask_all(service: Hub, stream: int) -> None:
    """Ask subscribers whether they are there: those who are go on, those who are not are gone.

    `stream` is the number of the stream over which they are asked; the next one begins anew.
    """
    jids = list(service.registry.jids())
    for pause_s in ASKED_AGAIN_S:
        jids = await _ask(service, jids)
        await trio.sleep(pause_s)
        if stream != service.streams:
            return
    await _ask(service, jids)


async def _ask(service: Hub, jids: list[str]) -> list[str]:
    """Those who have not answered."""
    limiter = trio.CapacityLimiter(ASKED_AT_A_TIME)
    silent = []

    async def ask(jid: str) -> None:
        async with limiter:
            answer = await service.ask(jid, Element(f"{{{DISCO_INFO}}}query"))
        if answer is None:
            silent.append(jid)
        elif answer.get("type") == "error" and says_gone(answer):
            _is_gone(service, jid)
        else:
            came_back(service, jid)

    async with trio.open_nursery() as nursery:
        for jid in jids:
            nursery.start_soon(ask, jid)
    return silent


def _is_gone(service: Hub, jid: str) -> None:
    if all(each.outlives_absence and not each.attached for each in service.registry.of(jid)):
        return
    try:
        client = service.client(jid)
    except (StanzaError, Refusal):
        return
    # only an attached subscription can be given up
    client.back()
    client.gone()

"""urn:xmpp:qos towards the service: messages that clients send acknowledged or assured.

What such a message publishes is what the same message would publish by itself (`routes.message`); here it
is made sure that it does so at least once, or exactly once. `to` and `from` of the embedded message are
those of the IQ, whatever it says itself.

An assured message waits for its `<deliver/>` in a system topic of the sender's account, at most `HELD_S`.
That it is taken from there and that it is published is one transaction, so that neither a crash nor a full
disk can come in between.
"""

from functools import partial
from typing import Final
from xml.etree.ElementTree import Element

import trio

from daemon.frontend import Answer
from plugins.xmpp.forms.stanzas import StanzaError, from_refusal, result
from plugins.xmpp.known.assured import MSG_ID_CHARACTERS_MAX, AssuredMessage
from plugins.xmpp.known.identities import NoAccount, channel_of
from plugins.xmpp.requests.publishing import Publication, check_may_publish, give, read_message
from plugins.xmpp.requests.request import AskingClient, Request, ServicePort
from plugins.xmpp.wire.namespaces import CLIENT, COMPONENT, QOS
from plugins.xmpp.wire.parser import ParserLimits, StreamBroken, parse_fragment
from plugins.xmpp.wire.serializer import serialize
from routing.errors import Refusal
from routing.message import Message, Section
from routing.names import make_address

_MSG_ID: Final = "Xmpp-Msgid"
_TO: Final = "Xmpp-To"
_PAGE: Final = 200

HELD_S: Final = 7 * 86_400.0
"""A sender that has not asked for `<deliver/>` until then will not: what it reserved is free again."""


async def request(service: ServicePort, iq: Element, child: Element) -> None:
    """Carry out an IQ of the namespace."""
    jid = iq.get("from", "")
    if iq.get("type") != "set":
        raise StanzaError("bad-request", "modify")
    handler = {
        f"{{{QOS}}}acknowledged": _acknowledged,
        f"{{{QOS}}}assured": _assured,
        f"{{{QOS}}}deliver": _deliver,
    }.get(child.tag)
    if handler is None:
        raise StanzaError("feature-not-implemented", "cancel")
    try:
        client = service.client(jid)
    except NoAccount as error:
        await service.log_misuse(jid, "the sender has no account at this site")
        raise StanzaError("not-allowed", "cancel", error.text) from None
    await handler(Request(service, client, iq, child, child))


def _embedded(child: Element) -> Element:
    """The message, with what belongs to the IQ taken off it."""
    kinds = (f"{{{CLIENT}}}message", f"{{{COMPONENT}}}message", "message")
    messages = [each for each in child if each.tag in kinds]
    if len(messages) != 1:
        raise StanzaError("bad-request", "modify", "one message is in it")
    [message] = messages
    for name in ("to", "from"):
        message.attrib.pop(name, None)
    message.tail = None
    return message


def _publication(service: ServicePort, client: AskingClient, to: str, message: Element) -> Publication:
    publication = read_message(service, to, message)
    if publication is None:
        raise StanzaError("service-unavailable", "cancel", "the message is to no topic")
    if not client.session.allows("publish", publication.node):
        text = f"{client.session.account} may not publish {publication.node}"
        raise StanzaError("forbidden", "auth", text)
    check_may_publish(service, client, publication.node)
    return publication


def _assured_publication(
    service: ServicePort, client: AskingClient, to: str, message: Element
) -> Publication:
    publication = _publication(service, client, to, message)
    if not publication.item.message.guarantee:
        raise StanzaError("bad-request", "modify", "an assured message is guaranteed")
    return publication


async def _acknowledged(request: Request) -> None:
    publication = _publication(
        request.service, request.client, request.iq.get("to", ""), _embedded(request.action)
    )

    async def done(answer: Answer) -> None:
        if answer.error is not None:
            await request.refuse(answer.error)
        else:
            await request.answer()

    await give(request.service, request.client, publication, done)


# -- assured --------------------------------------------------------------------------------------


def _topic(service: ServicePort, client: AskingClient) -> str:
    """Where the sender's messages wait. Nobody but the account may read it or take from it."""
    return make_address(
        client.session.account, "held." + channel_of(client.jid)[-24:], service.site.server_name
    )


def _msg_id(child: Element) -> str:
    msg_id = child.get("msgId", "")
    if not 0 < len(msg_id) <= MSG_ID_CHARACTERS_MAX:
        raise StanzaError("bad-request", "modify", f"msgId has 1 to {MSG_ID_CHARACTERS_MAX} characters")
    return msg_id


async def _remember(service: ServicePort, client: AskingClient) -> None:
    """Once for each session: what was held before it."""
    if client.assured_known:
        return
    topic, after = _topic(service, client), 0
    limits = ParserLimits(stanza_bytes_max=service.settings.receive_bytes_max)
    while True:
        page = await client.session.browse(topic, after, _PAGE)
        for held in page:
            message = held.stored.message
            headers = dict(message.others)
            body = message.sections[0].body if message.sections else b""
            try:
                element = parse_fragment(body, limits)
            except StreamBroken:
                # not one of ours
                continue
            ends_in_s = HELD_S if held.expires_in_s is None else held.expires_in_s
            holding = AssuredMessage(
                element,
                headers.get(_TO, ""),
                len(body),
                trio.current_time() + ends_in_s,
                "held",
                held.smuid,
            )
            service.assured.remember(client.jid, headers.get(_MSG_ID, ""), holding)
        if len(page) < _PAGE:
            break
        after = page[-1].message_id
    try:
        _count(service, client)
    except StanzaError:
        service.assured.forget_sender(client.jid)
        raise
    client.assured_known = True


async def _assured(request: Request) -> None:
    msg_id, jid = _msg_id(request.action), request.client.jid
    await _remember(request.service, request.client)
    known = request.service.assured.find(jid, msg_id)
    if known is not None:
        if known.state == "storing":
            known.waiting.append(request.iq)
        else:
            await request.service.answer(_received(request.iq, msg_id))
        return
    embedded, to = _embedded(request.action), request.iq.get("to", "")
    _assured_publication(request.service, request.client, to, embedded)
    body = serialize(embedded, "").encode()
    holding = AssuredMessage(embedded, to, len(body), trio.current_time() + HELD_S, waiting=[request.iq])
    try:
        request.service.assured.hold(jid, msg_id, holding)
    except StanzaError as error:
        await request.service.log_misuse(jid, error.text)
        raise
    headers = ((_MSG_ID, msg_id), (_TO, to))
    message = Message(timeout_s=HELD_S, sections=(Section("application/xml", body),), others=headers)
    try:
        _count(request.service, request.client)
        request.client.request(
            request.client.session.publish,
            _topic(request.service, request.client),
            message,
            done=partial(_stored, request.service, request.client, msg_id, holding),
        )
    except (Refusal, StanzaError):
        _forget(request.service, request.client, msg_id)
        raise


def _count(service: ServicePort, client: AskingClient) -> None:
    """What is held of a sender counts in the memory for what is no message yet.

    Raises StanzaError(resource-constraint) where there is no room; to hold less never raises.
    """
    try:
        client.session.hold_now(service.memory_of(client.jid))
    except Refusal as refusal:
        raise StanzaError("resource-constraint", "wait", refusal.text, refusal=refusal) from None


def _forget(service: ServicePort, client: AskingClient, msg_id: str) -> None:
    service.assured.forget(client.jid, msg_id)
    _count(service, client)


async def _stored(
    service: ServicePort, client: AskingClient, msg_id: str, holding: AssuredMessage, answer: Answer
) -> None:
    waiting, holding.waiting = holding.waiting, []
    if answer.error is not None:
        _forget(service, client, msg_id)
        for iq in waiting:
            await service.fail(iq, from_refusal(answer.error))
        return
    holding.state, holding.smuid = "held", answer.smuid
    for iq in waiting:
        await service.answer(_received(iq, msg_id))


def _received(iq: Element, msg_id: str) -> Element:
    return result(iq, Element(f"{{{QOS}}}received", {"msgId": msg_id}))


async def _deliver(request: Request) -> None:
    msg_id = _msg_id(request.action)
    await _remember(request.service, request.client)
    holding = request.service.assured.find(request.client.jid, msg_id)
    if holding is None:
        # delivered before: the answer was lost
        await request.answer()
    elif holding.state == "delivering":
        holding.waiting.append(request.iq)
    elif holding.state == "storing":
        raise StanzaError("unexpected-request", "wait", "it has not been answered yet")
    else:
        publication = _assured_publication(request.service, request.client, holding.to, holding.message)
        delivered = partial(_delivered, request.service, request.client, msg_id, holding)
        on_disk = (_topic(request.service, request.client), holding.smuid)
        await give(request.service, request.client, publication, delivered, instead_of=on_disk)
        holding.state = "delivering"
        holding.waiting.append(request.iq)


async def _delivered(
    service: ServicePort, client: AskingClient, msg_id: str, holding: AssuredMessage, answer: Answer
) -> None:
    waiting, holding.waiting = holding.waiting, []
    if answer.error is not None:
        # the session has ended, and with it what was in memory; what is on disk says whether it was published
        for iq in waiting:
            await service.fail(iq, from_refusal(answer.error))
        return
    _forget(service, client, msg_id)
    for iq in waiting:
        await service.answer(result(iq))

"""urn:xmpp:qos towards the service: messages that clients send acknowledged or assured.

What such a message publishes is what the same message would publish by itself (`routes.message`); here it
is made sure that it does so at least once, or exactly once. `to` and `from` of the embedded message are
those of the IQ, whatever it says itself.

An assured message waits for its `<deliver/>` in a system topic of the sender's account, at most `HELD_S`.
That it is taken from there and that it is published is one transaction, so that neither a crash nor a full
disk can come in between.
"""

import sys
from contextlib import suppress
from functools import partial
from typing import Final
from xml.etree.ElementTree import Element

import trio

from daemon.frontend import Answer, HeldMessage
from plugins.xmpp.forms.stanzas import StanzaError, from_refusal, result
from plugins.xmpp.known.assured import MSG_ID_CHARACTERS_MAX, AssuredMessage
from plugins.xmpp.known.identities import channel_of
from plugins.xmpp.requests.publishing import Publication, check_may_publish, give, read_message
from plugins.xmpp.requests.request import Request
from plugins.xmpp.wire.namespaces import CLIENT, COMPONENT, QOS
from plugins.xmpp.wire.parser import ParserLimits, StreamBroken, parse_fragment
from plugins.xmpp.wire.serializer import serialize
from routing.errors import Refusal
from routing.message import Message, Section
from routing.names import make_address, parse_smuid

_MSG_ID: Final = "Xmpp-Msgid"
_TO: Final = "Xmpp-To"
_PAGE: Final = 200

_STORED: Final = ParserLimits(stanza_bytes_max=sys.maxsize, tag_bytes_max=sys.maxsize)
"""What has been let in is read back, though it was shorter on its way: there `>` need not be escaped."""

_UNREADABLE: Final = Element("unreadable")

HELD_S: Final = 7 * 86_400.0
"""A sender that has not asked for `<deliver/>` until then will not: what it reserved is free again."""


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


def _publication(request: Request, to: str, message: Element) -> Publication:
    publication = read_message(message, to, request.service.site.limits)
    if publication is None:
        raise StanzaError("service-unavailable", "cancel", "the message publishes nothing")
    session = request.client.session
    if not session.allows("publish", publication.node):
        text = f"{session.account} may not publish {publication.node}"
        raise StanzaError("forbidden", "auth", text)
    check_may_publish(request, publication.node)
    return publication


def _assured_publication(request: Request, to: str, message: Element) -> Publication:
    publication = _publication(request, to, message)
    if not publication.item.message.guarantee:
        raise StanzaError("bad-request", "modify", "an assured message is guaranteed")
    return publication


async def acknowledged(request: Request) -> None:
    """Publish the message in `<acknowledged/>`; answered once it is on disk."""
    publication = _publication(request, request.stanza.get("to", ""), _embedded(request.action))

    @request.unless_refused
    async def done(_: Answer) -> None:
        await request.answer()

    await give(request, publication, done)


# -- assured --------------------------------------------------------------------------------------


def _topic(request: Request) -> str:
    """Where the sender's messages wait. Nobody but the account may read it or take from it."""
    channel = "held." + channel_of(request.client.jid)[-24:]
    return make_address(request.client.session.account, channel, request.service.site.server_name)


def _msg_id(child: Element) -> str:
    msg_id = child.get("msgId", "")
    if not 0 < len(msg_id) <= MSG_ID_CHARACTERS_MAX:
        raise StanzaError("bad-request", "modify", f"msgId has 1 to {MSG_ID_CHARACTERS_MAX} characters")
    return msg_id


async def _remember(request: Request) -> None:
    """Once for each session: what was held before it."""
    service, client = request.service, request.client
    if client.assured_known:
        return
    topic, after = _topic(request), 0
    while True:
        page = await client.session.browse(topic, after, _PAGE)
        for held in page.held:
            message = held.stored.message
            headers = dict(message.others)
            if _MSG_ID not in headers or not _is_by(request, held):
                # not one of ours: others may publish there, too
                continue
            body = message.sections[0].body if message.sections else b""
            try:
                element = parse_fragment(body, _STORED)
            except StreamBroken:
                element = _UNREADABLE
            ends_in_s = HELD_S if held.expires_in_s is None else held.expires_in_s
            holding = AssuredMessage(
                element,
                headers.get(_TO, ""),
                len(body),
                trio.current_time() + ends_in_s,
                "held",
                held.smuid,
            )
            service.assured.remember(client.jid, headers[_MSG_ID], holding)
        if not page.more:
            break
        after = page.held[-1].message_id
    try:
        _count(request)
    except StanzaError:
        service.assured.forget_sender(client.jid)
        raise
    client.assured_known = True


def _is_by(request: Request, held: HeldMessage) -> bool:
    """Whether a message was published at this site, and by the login of the sender.

    An account may be that of many JIDs.
    """
    server, client = request.service.site.server_name, request.client
    login = make_address(client.session.account, channel_of(client.jid), server)
    return parse_smuid(held.smuid).server == server and held.stored.message.account == login


async def assured(request: Request) -> None:
    """Hold the message in `<assured/>`; `<received/>` once it is on disk."""
    msg_id, jid = _msg_id(request.action), request.client.jid
    await _remember(request)
    known = request.service.assured.find(jid, msg_id)
    if known is not None and known.message is not _UNREADABLE:
        if known.state == "storing":
            known.waiting.append(request.stanza)
        else:
            await request.service.answer(_received(request.stanza, msg_id))
        return
    # what cannot be read any more is replaced: its sender has it still
    embedded, to = _embedded(request.action), request.stanza.get("to", "")
    _assured_publication(request, to, embedded)
    body = serialize(embedded, "").encode()
    holding = AssuredMessage(embedded, to, len(body), trio.current_time() + HELD_S, waiting=[request.stanza])
    try:
        request.service.assured.hold(jid, msg_id, holding)
    except StanzaError as error:
        await request.service.log_misuse(jid, error.text)
        raise
    headers = ((_MSG_ID, msg_id), (_TO, to))
    message = Message(timeout_s=HELD_S, sections=(Section("application/xml", body),), others=headers)
    try:
        _count(request)
        stored = partial(_stored, request, msg_id, holding, known)
        request.client.request(request.client.session.publish, _topic(request), message, done=stored)
    except (Refusal, StanzaError):
        _forget(request, msg_id, known)
        raise


def _count(request: Request) -> None:
    """What is held of a sender counts in the memory for what is no message yet.

    Raises StanzaError(resource-constraint) where there is no room; to hold less never raises.
    """
    try:
        request.client.session.hold_now(request.service.memory_of(request.client.jid))
    except Refusal as refusal:
        raise StanzaError("resource-constraint", "wait", refusal.text, refusal=refusal) from None


def _forget(request: Request, msg_id: str, before: AssuredMessage | None = None) -> None:
    """Hold no more under an id, or what was held `before`."""
    request.service.assured.forget(request.client.jid, msg_id)
    if before is not None:
        request.service.assured.remember(request.client.jid, msg_id, before)
    _count(request)


async def _stored(
    request: Request, msg_id: str, holding: AssuredMessage, before: AssuredMessage | None, answer: Answer
) -> None:
    waiting, holding.waiting = holding.waiting, []
    if answer.error is not None:
        _forget(request, msg_id, before)
        for iq in waiting:
            await request.service.fail(iq, from_refusal(answer.error))
        return
    holding.state, holding.smuid = "held", answer.smuid
    if before is not None:
        with suppress(Refusal):  # the session has just ended: it goes at the end of its time
            request.client.session.remove(_topic(request), before.smuid)
    for iq in waiting:
        await request.service.answering(iq, request.service.answer(_received(iq, msg_id)))


def _received(iq: Element, msg_id: str) -> Element:
    return result(iq, Element(f"{{{QOS}}}received", {"msgId": msg_id}))


def _unreadable() -> StanzaError:
    text = "what was held cannot be read any more: it is to be sent again"
    return StanzaError("internal-server-error", "cancel", text)


async def deliver(request: Request) -> None:
    """Publish the message that `<deliver/>` names, once, however often it is asked for."""
    msg_id = _msg_id(request.action)
    await _remember(request)
    holding = request.service.assured.find(request.client.jid, msg_id)
    if holding is None:
        # delivered before: the answer was lost
        await request.answer()
    elif holding.state == "delivering":
        holding.waiting.append(request.stanza)
    elif holding.state == "storing":
        raise StanzaError("unexpected-request", "wait", "it has not been answered yet")
    elif holding.message is _UNREADABLE:
        raise _unreadable()
    else:
        publication = _assured_publication(request, holding.to, holding.message)
        delivered = partial(_delivered, request, msg_id, holding)
        await give(request, publication, delivered, instead_of=(_topic(request), holding.smuid))
        holding.state = "delivering"
        holding.waiting.append(request.stanza)


async def _delivered(request: Request, msg_id: str, holding: AssuredMessage, answer: Answer) -> None:
    waiting, holding.waiting = holding.waiting, []
    if answer.error is not None:
        # where its session has ended it is read from the disk again, if it has not been published
        holding.state = "held"
        for iq in waiting:
            await request.service.fail(iq, from_refusal(answer.error))
        return
    _forget(request, msg_id)
    for iq in waiting:
        await request.service.answering(iq, request.service.answer(result(iq)))

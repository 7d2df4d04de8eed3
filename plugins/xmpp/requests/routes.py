"""Which handler a stanza goes to."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import NoAccount, bare_of, local_of
from plugins.xmpp.requests import (
    authorizing,
    collections,
    disco,
    items,
    nodes,
    owning,
    publishing,
    qos,
    retracting,
    subscribing,
)
from plugins.xmpp.requests.request import OpenRequest, Request, ServicePort
from plugins.xmpp.wire.namespaces import (
    COMMANDS,
    DISCO_INFO,
    DISCO_ITEMS,
    PING,
    PUBSUB,
    PUBSUB_OWNER,
    QOS,
    QUEUEING,
    namespace_of,
)

RequestHandler = Callable[[Request], Awaitable[None]]

_PUBSUB: Final = f"{{{PUBSUB}}}"
_OWNER: Final = f"{{{PUBSUB_OWNER}}}"
_ACTED_IN: Final = (_PUBSUB + "pubsub", _OWNER + "pubsub")
_COMMAND: Final = f"{{{COMMANDS}}}command"

HOT: Final[Mapping[tuple[str, str], RequestHandler]] = {
    ("set", _PUBSUB + "publish"): publishing.publish,
    ("set", _PUBSUB + "retract"): retracting.retract,
    # the XEP's own examples ask by get
    ("get", _PUBSUB + "retract"): retracting.retract,
    ("set", f"{{{QUEUEING}}}unlock"): retracting.unlock,
    ("get", f"{{{QUEUEING}}}unlock"): retracting.unlock,
}

COLD: Final[Mapping[tuple[str, str], RequestHandler]] = {
    ("set", _PUBSUB + "subscribe"): subscribing.subscribe,
    ("set", _PUBSUB + "unsubscribe"): subscribing.unsubscribe,
    ("get", _PUBSUB + "options"): subscribing.get_options,
    ("set", _PUBSUB + "options"): subscribing.set_options,
    ("get", _PUBSUB + "subscriptions"): subscribing.subscriptions,
    ("get", _PUBSUB + "affiliations"): subscribing.affiliations,
    ("get", _PUBSUB + "items"): items.items,
    ("get", _PUBSUB + "default"): subscribing.default_options,
    ("set", _PUBSUB + "create"): nodes.create,
    ("get", _OWNER + "configure"): nodes.configuration,
    ("set", _OWNER + "configure"): nodes.configure,
    ("get", _OWNER + "default"): nodes.default_configuration,
    ("set", _OWNER + "delete"): nodes.delete,
    ("set", _OWNER + "purge"): nodes.purge,
    ("get", _OWNER + "subscriptions"): owning.subscriptions,
    ("set", _OWNER + "subscriptions"): owning.manage_subscriptions,
    ("get", _OWNER + "affiliations"): owning.affiliations,
    ("set", _OWNER + "affiliations"): owning.modify_affiliations,
}

OF_QOS: Final[Mapping[str, RequestHandler]] = {
    f"{{{QOS}}}acknowledged": qos.acknowledged,
    f"{{{QOS}}}assured": qos.assured,
    f"{{{QOS}}}deliver": qos.deliver,
}


async def question(service: ServicePort, iq: Element) -> None:
    """Answer an IQ of type get or set."""
    child = next(iter(iq), None)
    if child is None:
        raise StanzaError("bad-request", "modify")
    asked, kind, namespace = OpenRequest(service, iq, child, child), iq.get("type"), namespace_of(child.tag)
    if child.tag in _ACTED_IN:
        await _pubsub(service, iq, child)
    elif namespace == QOS:
        await _qos(asked)
    elif namespace == DISCO_INFO and kind == "get":
        # anybody may ask
        asked.start(disco.info(asked))
    elif namespace == DISCO_ITEMS and kind == "get":
        _start(asked, disco.things)
    elif child.tag == _COMMAND and kind == "set":
        _start(asked, authorizing.get_pending)
    elif namespace == PING and kind == "get":
        await asked.answer()
    elif namespace in (DISCO_INFO, DISCO_ITEMS):
        raise StanzaError("bad-request", "modify")
    else:
        raise StanzaError("service-unavailable", "cancel")


def _start(asked: OpenRequest, handler: RequestHandler) -> None:
    request = asked.of_client()
    request.start(handler(request))


async def _pubsub(service: ServicePort, iq: Element, pubsub: Element) -> None:
    if local_of(iq.get("to", "")):
        raise StanzaError("service-unavailable", "cancel", "ask the service itself")
    action = next(iter(pubsub), None)
    if action is None:
        raise StanzaError("bad-request", "modify")
    key = (iq.get("type", ""), action.tag)
    collections.check(action)
    request = OpenRequest(service, iq, pubsub, action).of_client()
    if (hot := HOT.get(key)) is not None:
        await hot(request)
    elif (cold := COLD.get(key)) is not None:
        request.start(cold(request))
    else:
        raise StanzaError("feature-not-implemented", "cancel")


async def _qos(asked: OpenRequest) -> None:
    if asked.stanza.get("type") != "set":
        raise StanzaError("bad-request", "modify")
    handler = OF_QOS.get(asked.action.tag)
    if handler is None:
        raise StanzaError("feature-not-implemented", "cancel")
    try:
        request = asked.of_client()
    except NoAccount as error:
        await asked.service.log_misuse(asked.jid, "the sender has no account at this site")
        raise StanzaError("not-allowed", "cancel", error.text) from None
    await handler(request)


async def message(service: ServicePort, stanza: Element) -> None:
    """Publish what `<pubsub><publish/></pubsub>` in a message has, or a message to `topic@component`.

    A form in it may be an owner's answer to who asked to subscribe.

    Nothing is answered to what succeeds; urn:xmpp:qos is for those who want an answer.
    """
    asked, to = OpenRequest(service, stanza, stanza, stanza), stanza.get("to", "")
    if (decided := authorizing.read_answer(stanza)) is not None:
        request = asked.of_client()
        request.start(authorizing.answered(request, decided))
    elif (publication := publishing.read_message(stanza, to, service.site.limits)) is not None:
        await publishing.publish_message(asked.of_client(), publication)
    elif publishing.only_annotates(stanza):
        # chat states, receipts and the like are nothing to complain about
        return
    elif bare_of(to) != service.name or stanza.get("type") not in ("", None, "normal"):
        raise StanzaError("service-unavailable", "cancel")

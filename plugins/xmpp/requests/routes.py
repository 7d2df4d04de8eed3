"""Which handler a stanza goes to."""

from collections.abc import Awaitable, Callable
from typing import Final
from xml.etree.ElementTree import Element

from plugins.xmpp.forms.stanzas import StanzaError, result
from plugins.xmpp.known.identities import bare_of, local_of
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
from plugins.xmpp.requests.request import Request, ServicePort
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

HOT: Final[dict[tuple[str, str], RequestHandler]] = {
    ("set", _PUBSUB + "publish"): publishing.publish,
    ("set", _PUBSUB + "retract"): retracting.retract,
    # the XEP's own examples ask by get
    ("get", _PUBSUB + "retract"): retracting.retract,
    ("set", f"{{{QUEUEING}}}unlock"): retracting.unlock,
    ("get", f"{{{QUEUEING}}}unlock"): retracting.unlock,
}

COLD: Final[dict[tuple[str, str], RequestHandler]] = {
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


async def question(service: ServicePort, iq: Element) -> None:
    """Answer an IQ of type get or set."""
    child = next(iter(iq), None)
    if child is None:
        raise StanzaError("bad-request", "modify")
    if child.tag in _ACTED_IN:
        await _pubsub(service, iq, child)
        return
    namespace = namespace_of(child.tag)
    if namespace in (DISCO_INFO, DISCO_ITEMS):
        if iq.get("type") != "get":
            raise StanzaError("bad-request", "modify")
        if namespace == DISCO_INFO:
            # anybody may ask
            service.start_request(iq.get("from", ""), iq, disco.info(service, iq, child))
        else:
            request = Request(service, service.client(iq.get("from", "")), iq, child, child)
            request.start(disco.things(request))
    elif child.tag == _COMMAND and iq.get("type") == "set":
        request = Request(service, service.client(iq.get("from", "")), iq, child, child)
        request.start(authorizing.get_pending(request))
    elif namespace == QOS:
        await qos.request(service, iq, child)
    elif namespace == PING and iq.get("type") == "get":
        await service.answer(result(iq))
    else:
        raise StanzaError("service-unavailable", "cancel")


async def _pubsub(service: ServicePort, iq: Element, pubsub: Element) -> None:
    if local_of(iq.get("to", "")):
        raise StanzaError("service-unavailable", "cancel", "ask the service itself")
    action = next(iter(pubsub), None)
    if action is None:
        raise StanzaError("bad-request", "modify")
    key = (iq.get("type", ""), action.tag)
    collections.check(action)
    client = service.client(iq.get("from", ""))
    request = Request(service, client, iq, pubsub, action)
    hot = HOT.get(key)
    if hot is not None:
        await hot(request)
        return
    cold = COLD.get(key)
    if cold is not None:
        request.start(cold(request))
        return
    raise StanzaError("feature-not-implemented", "cancel")


async def message(service: ServicePort, stanza: Element) -> None:
    """Publish what `<pubsub><publish/></pubsub>` in a message has, or a message to `topic@component`.

    A form in it may be an owner's answer to who asked to subscribe.

    Nothing is answered to what succeeds; urn:xmpp:qos is for those who want an answer.
    """
    decided = authorizing.read_answer(stanza)
    if decided is not None:
        request = Request(service, service.client(stanza.get("from", "")), stanza, stanza, stanza)
        request.start(authorizing.answered(request, decided))
        return
    publication = publishing.read_message(stanza, stanza.get("to", ""), service.site.limits)
    if publication is None:
        if bare_of(stanza.get("to", "")) == service.name and stanza.get("type") in ("", None, "normal"):
            # chat states, receipts and the like are nothing to complain about
            return
        raise StanzaError("service-unavailable", "cancel")
    request = Request(service, service.client(stanza.get("from", "")), stanza, stanza, stanza)
    await publishing.publish_message(request, publication)

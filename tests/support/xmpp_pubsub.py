"""What XEP-0060 and XEP-0254 look like to a client of the tests."""

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from tests.support.xmpp import XmppClient, XmppServer
from tests.support.xmpp_client import StanzaClient

NODE = "a290fjsl29j19kjb"
ITEM = "ae890ac52d0df67ed7cfd51b644e901"
PUBSUB = "http://jabber.org/protocol/pubsub"
INFO = "http://jabber.org/protocol/disco#info"
ITEMS = "http://jabber.org/protocol/disco#items"
SMQP = "urn:smqp:xmpp:0"
_SHIM = "{http://jabber.org/protocol/shim}"
ADA = "ada@shakespeare.lit"
NS = {
    "p": PUBSUB,
    "e": PUBSUB + "#event",
    "pe": PUBSUB + "#errors",
    "q": "urn:xmpp:pubsub:queueing:0",
    "s": "urn:ietf:params:xml:ns:xmpp-stanzas",
    "c": "jabber:component:accept",
    "x": "jabber:x:data",
    "ex": "urn:xmpp:example",
}


def error_of(stanza: Element) -> tuple[str, str]:
    """(type, condition) of an error."""
    assert stanza.get("type") == "error"
    error = stanza.find("c:error", NS)
    assert error is not None
    return error.get("type", ""), error[0].tag.rpartition("}")[2]


def within(stanza: Any, path: str) -> Any:
    """What is at a path; the prefixes are those of `NS`."""
    return stanza.find(path, NS)


def child(element: Element, path: str, namespaces: dict[str, str] | None = None) -> Element:
    """The first element at a path, which has to be there."""
    found = element.find(path, namespaces)
    assert found is not None, path
    return found


def subscribe(jid: str, requests: str | None = "5", node: str = NODE) -> str:
    options = ""
    if requests is not None:
        options = (
            f"<options jid='{jid}' node='{node}'><x xmlns='jabber:x:data' type='submit'>"
            "<field var='FORM_TYPE' type='hidden'>"
            f"<value>{PUBSUB}#subscribe_options</value></field>"
            f"<field var='pubsub#queue_requests'><value>{requests}</value></field></x></options>"
        )
    return f"<pubsub xmlns='{PUBSUB}'><subscribe jid='{jid}' node='{node}'/>{options}</pubsub>"


class Notification(NamedTuple):
    """Of an item.

    Attributes:
        delivery: which one of it this is; None where it is the first.
    """

    item: Element
    headers: dict[str | None, str | None]
    delivery: str | None


async def notification(client: StanzaClient) -> Notification:
    """The next one."""
    stanza = await client.receive()
    headers = {each.get("name"): each.text for each in stanza.findall(f"{_SHIM}headers/{_SHIM}header")}
    again = stanza.find(f"{{{SMQP}}}delivery")
    count = None if again is None else again.get("count")
    return Notification(child(stanza, "e:event/e:items/e:item", NS), headers, count)


async def notified(client: StanzaClient) -> Element:
    """The item of the next notification."""
    item = (await client.receive()).find("e:event/e:items/e:item", NS)
    assert item is not None
    return item


def ada(server: XmppServer, resource: str = "desk") -> XmppClient:
    return server.client(f"ada@shakespeare.lit/{resource}")


def pubsub(content: str, owner: str = "") -> str:
    return f"<pubsub xmlns='{PUBSUB}{owner}'>{content}</pubsub>"


def form(form_type: str, **values: str) -> str:
    fields = "".join(f"<field var='{var}'><value>{value}</value></field>" for var, value in values.items())
    return (
        "<x xmlns='jabber:x:data' type='submit'>"
        f"<field var='FORM_TYPE'><value>{PUBSUB}#{form_type}</value></field>{fields}</x>"
    )


def fields(form_element: Any) -> dict[str, str]:
    return {
        field.get("var"): field.findtext("x:value", "", NS)
        for field in form_element
        if field.get("var") != "FORM_TYPE"
    }


async def create(client: XmppClient, node: str, **config: str) -> None:
    configure = f"<configure>{form('node_config', **config)}</configure>" if config else ""
    answer = await client.iq("set", pubsub(f"<create node='{node}'/>{configure}"))
    assert answer.get("type") == "result"


async def configure(client: XmppClient, node: str, **values: str) -> Any:
    text = f"<configure node='{node}'>{form('node_config', **values)}</configure>"
    return await client.iq("set", pubsub(text, "#owner"))


async def put(client: XmppClient, node: str, item: str, content: str = "<a xmlns='urn:a'/>") -> Any:
    text = f"<publish node='{node}'><item id='{item}'>{content}</item></publish>"
    return await client.iq("set", pubsub(text))

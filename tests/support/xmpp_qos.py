"""What urn:xmpp:qos looks like to a worker of the tests."""

from typing import Any

from plugins.xmpp.wire.namespaces import QOS
from tests.support.xmpp import XmppClient, XmppServer
from tests.support.xmpp_pubsub import NODE, PUBSUB, subscribe


async def counter(server: XmppServer, node: str = NODE, resource: str = "1") -> XmppClient:
    """A worker that speaks urn:xmpp:qos."""
    client = server.client(f"worker@shakespeare.lit/{resource}", features=(QOS,))
    answer = await client.iq("set", subscribe(client.jid, "5", node), id="sub")
    assert answer.get("type") == "result"
    return client


async def next_request(client: XmppClient) -> Any:
    """(the IQ, what is in it)"""
    iq = await client.receive()
    assert iq.get("type") == "set"
    return iq, iq[0]


async def answer(client: XmppClient, iq: Any, content: str = "") -> None:
    await client.send(f"<iq type='result' id='{iq.get('id')}'>{content}</iq>")


async def publish_item(server: XmppServer, item: str = "i", node: str = NODE) -> None:
    """Publish as ada."""
    text = f"<publish node='{node}'><item id='{item}'><a xmlns='urn:a'/></item></publish>"
    got = await server.client("ada@shakespeare.lit/p").iq("set", f"<pubsub xmlns='{PUBSUB}'>{text}</pubsub>")
    assert got.get("type") == "result"

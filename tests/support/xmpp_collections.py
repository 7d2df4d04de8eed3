"""What a collection looks like to a client of the tests."""

from plugins.xmpp.settings import JidRule
from tests.support.xmpp import RULES, XmppClient, XmppServer
from tests.support.xmpp_pubsub import ITEMS, PUBSUB, SMQP, form, pubsub, subscribe, within

ALL = "weather.#"
PLAIN = {f"{{{SMQP}}}queueing": "0"}
KEPT = {**PLAIN, "pubsub#persist_items": "1"}
SHIM = "http://jabber.org/protocol/shim"
TYPE, DEPTH = "pubsub#subscription_type", "pubsub#subscription_depth"
READERS = (JidRule(pattern="reader*@shakespeare.lit", account="dan"), *RULES)
"""Who may subscribe to `*.open`, and nothing else."""


def reader(server: XmppServer, number: int = 1) -> XmppClient:
    return server.client(f"reader{number}@shakespeare.lit/desk")


def with_options(jid: str, node: str, **options: str) -> str:
    filled_in = f"<options>{form('subscribe_options', **options)}</options>"
    return pubsub(f"<subscribe jid='{jid}' node='{node}'/>{filled_in}")


async def collect(client: XmppClient, node: str = ALL, **options: str) -> None:
    text = with_options(client.jid, node, **options) if options else subscribe(client.jid, None, node)
    answer = await client.iq("set", text)
    [state] = answer.iter(f"{{{PUBSUB}}}subscription")
    assert (state.get("node"), state.get("subscription")) == (node, "subscribed")


async def told(client: XmppClient) -> tuple[str, str, str, str | None]:
    """The next event: what it is, of which node and which item, and the collection that it came by."""
    stanza = await client.receive()
    event = within(stanza, "e:event")[0]
    inner = event[0] if len(event) else event
    [collection] = [
        each.text for each in stanza.iter(f"{{{SHIM}}}header") if each.get("name") == "Collection"
    ] or [None]
    what = inner.tag.rpartition("}")[2]
    return what, str(event.get("node")), str(inner.get("id", "")), collection


async def nodes(client: XmppClient, node: str = ALL, page: str = "") -> list[str | None]:
    answer = await client.iq("get", f"<query xmlns='{ITEMS}' node='{node}'>{page}</query>")
    return [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")]


async def subscriptions(client: XmppClient) -> list[str | None]:
    answer = await client.iq("get", pubsub("<subscriptions/>"))
    return [each.get("node") for each in answer.iter(f"{{{PUBSUB}}}subscription")]

"""What a user of aioxmpp's PubSubClient does: `python -m tests.support.clients.with_aioxmpp PORT`.

It answers no question about itself (XEP-0030), as most programs with aioxmpp do.
"""

import asyncio
import ssl
import sys
from typing import Any

import aioxmpp
import aioxmpp.forms
import aioxmpp.pubsub.xso as pubsub_xso
from aioxmpp.security_layer import PasswordSASLProvider, PKIXCertificateVerifier, SecurityLayer

from tests.support.xmpp_servers import COMPONENT_NAME, PASSWORD

TO = aioxmpp.JID.fromstr(COMPONENT_NAME)
SMQP = "{urn:smqp:xmpp:0}"


@pubsub_xso.as_payload_class
class AtomEntry(aioxmpp.xso.XSO):  # type: ignore[misc] # it has no types
    TAG = ("http://www.w3.org/2005/Atom", "entry")
    title = aioxmpp.xso.ChildText(("http://www.w3.org/2005/Atom", "title"), default=None)


def form(kind: str, **values: str) -> aioxmpp.forms.Data:
    data = aioxmpp.forms.Data(aioxmpp.forms.DataType.SUBMIT)
    kinds = aioxmpp.forms.FieldType
    fields = [("FORM_TYPE", kinds.HIDDEN, f"http://jabber.org/protocol/pubsub#{kind}")]
    fields += [(var, kinds.TEXT_SINGLE, value) for var, value in values.items()]
    for var, type_, value in fields:
        data.fields.append(aioxmpp.forms.Field(type_=type_, var=var, values=[value]))
    return data


async def main(port: int) -> None:
    async def password(jid: str, attempt: int) -> Any:
        return PASSWORD if attempt == 0 else None

    security = SecurityLayer(
        lambda: ssl.create_default_context(), PKIXCertificateVerifier, False, [PasswordSASLProvider(password)]
    )
    client = aioxmpp.PresenceManagedClient(
        aioxmpp.JID.fromstr("ada@localhost/aioxmpp"),
        security,
        override_peer=[("127.0.0.1", port, aioxmpp.connector.STARTTLSConnector())],
    )
    pubsub = client.summon(aioxmpp.PubSubClient)
    items: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def published(jid: str, node: str, item: Any, *, message: Any = None) -> bool:
        payload = item.registered_payload
        items.put_nowait((item.id_, payload.title if payload is not None else ""))
        return False

    pubsub.on_item_published.connect(published)
    async with client.connected():
        features = await pubsub.get_features(TO)
        assert pubsub_xso.Feature.PUBLISH in features
        await pubsub.create(TO, "aio.news")
        values = {f"{SMQP}queueing": "0", "pubsub#persist_items": "1"}
        await pubsub.set_node_config(TO, form("node_config", **values), node="aio.news")
        await pubsub.subscribe(TO, node="aio.news", subscription_jid=client.local_jid.bare())
        entry = AtomEntry()
        entry.title = "news"
        assert await pubsub.publish(TO, "aio.news", entry, id_="one") == "one"
        assert await asyncio.wait_for(items.get(), 120) == ("one", "news")
        got = await pubsub.get_items(TO, "aio.news")
        assert [item.id_ for item in got.payload.items] == ["one"]
        listed = await pubsub.get_subscriptions(TO)
        assert [each.node for each in listed.subscriptions] == ["aio.news"]
        assert ("aio.news", None) in await pubsub.get_nodes(TO)
        await pubsub.retract(TO, "aio.news", "one")
        await pubsub.unsubscribe(TO, node="aio.news", subscription_jid=client.local_jid.bare())
        await pubsub.delete(TO, "aio.news")
        # a queue; what it answers is parsed by the schema of XEP-0060 16.1
        await pubsub.create(TO, "aio.work")
        config = form("subscribe_options", **{"pubsub#queue_requests": "1"})
        answer = await pubsub.subscribe(TO, node="aio.work", config=config)
        assert answer.payload.subscription == "subscribed"
        await pubsub.publish(TO, "aio.work", entry, id_="job")
        assert (await asyncio.wait_for(items.get(), 120))[0] == "job"
        await pubsub.retract(TO, "aio.work", "job")
        await pubsub.unsubscribe(TO, node="aio.work")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

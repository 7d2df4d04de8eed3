"""What a user of slixmpp's XEP-0060 does: `python -m tests.support.clients.with_slixmpp PORT`."""

import asyncio
import sys
from typing import Any

import slixmpp
from slixmpp import JID
from slixmpp.xmlstream import ET

from tests.support.xmpp_servers import COMPONENT_NAME, PASSWORD

SMQP = "{urn:smqp:xmpp:0}"


def node_config(client: slixmpp.ClientXMPP, **values: str) -> Any:
    form = client.plugin["xep_0004"].make_form("submit")
    form.add_field(var="FORM_TYPE", ftype="hidden", value="http://jabber.org/protocol/pubsub#node_config")
    for var, value in values.items():
        form.add_field(var=var, value=value)
    return form


async def logged_in(user: str, port: int) -> slixmpp.ClientXMPP:
    client = slixmpp.ClientXMPP(f"{user}@localhost/slixmpp", PASSWORD)
    for plugin in ("xep_0030", "xep_0004", "xep_0060", "xep_0199"):
        client.register_plugin(plugin)
    client.enable_starttls = client.enable_direct_tls = False
    client.enable_plaintext = True
    client.plugin["feature_mechanisms"].unencrypted_scram = True
    started = asyncio.Event()
    client.add_event_handler("session_start", lambda _: started.set())
    client.connect("127.0.0.1", port)
    await asyncio.wait_for(started.wait(), 120)
    client.send_presence()
    return client


async def main(port: int) -> None:
    client = await logged_in("ada", port)
    pubsub = client.plugin["xep_0060"]
    items: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def published(message: Any) -> None:
        # the library is iterating over the items itself
        item = message["pubsub_event"]["items"]["item"]
        items.put_nowait((item["id"], item["payload"].tag if item["payload"] is not None else ""))

    client.add_event_handler("pubsub_publish", published)
    to = COMPONENT_NAME
    await client.plugin["xep_0030"].get_info(JID(to))
    # a plain node, by the bare JID as the library has it
    values = {f"{SMQP}queueing": "0", "pubsub#persist_items": "1"}
    await pubsub.create_node(to, "slix.news", config=node_config(client, **values))
    await pubsub.subscribe(to, "slix.news")
    payload = ET.fromstring("<entry xmlns='http://www.w3.org/2005/Atom'><title>t</title></entry>")
    await pubsub.publish(to, "slix.news", id="one", payload=payload)
    assert await asyncio.wait_for(items.get(), 120) == ("one", "{http://www.w3.org/2005/Atom}entry")
    got = await pubsub.get_items(to, "slix.news")
    assert [item["id"] for item in got["pubsub"]["items"]] == ["one"]
    listed = await pubsub.get_subscriptions(to)
    assert [each["node"] for each in listed["pubsub"]["subscriptions"]] == ["slix.news"]
    affiliations = await pubsub.get_affiliations(to, "slix.news")
    assert [each["affiliation"] for each in affiliations["pubsub"]["affiliations"]] == ["owner"]
    config = await pubsub.get_node_config(to, "slix.news")
    form = config["pubsub_owner"]["configure"]["form"]
    assert form.get_values()["pubsub#persist_items"] is True
    nodes = await pubsub.get_nodes(to)
    assert "slix.news" in {node for _, node, _ in nodes["disco_items"]["items"]}
    await pubsub.retract(to, "slix.news", "one")
    await pubsub.unsubscribe(to, "slix.news")
    # it and its like, as a collection
    info = await client.plugin["xep_0030"].get_info(JID(to), "slix.*")
    assert {identity[:2] for identity in info["disco_info"]["identities"]} == {("pubsub", "collection")}
    await pubsub.subscribe(to, "slix.*")
    await pubsub.publish(to, "slix.news", id="two", payload=payload)
    assert await asyncio.wait_for(items.get(), 120) == ("two", "{http://www.w3.org/2005/Atom}entry")
    await pubsub.unsubscribe(to, "slix.*")
    await pubsub.delete_node(to, "slix.news")
    # a queue
    await pubsub.create_node(to, "slix.work")
    options = client.plugin["xep_0004"].make_form("submit")
    kind = "http://jabber.org/protocol/pubsub#subscribe_options"
    options.add_field(var="FORM_TYPE", ftype="hidden", value=kind)
    options.add_field(var="pubsub#queue_requests", value="1")
    await pubsub.subscribe(to, "slix.work", options=options)
    await pubsub.publish(to, "slix.work", id="job", payload=payload)
    assert (await asyncio.wait_for(items.get(), 120))[0] == "job"
    await pubsub.retract(to, "slix.work", "job")
    await pubsub.unsubscribe(to, "slix.work")
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

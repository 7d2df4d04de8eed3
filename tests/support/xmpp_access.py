"""Who may have what of a node: what owners do, and what others are told."""

from typing import Any

from tests.support.xmpp import XmppClient
from tests.support.xmpp_pubsub import PUBSUB, SMQP, pubsub

PLAIN = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"}
NODE = "news.open"


def bare(client: XmppClient) -> str:
    return client.jid.partition("/")[0]


async def affiliate(owner: XmppClient, jid: str, affiliation: str, node: str = NODE) -> Any:
    listed = f"<affiliation jid='{jid}' affiliation='{affiliation}'/>"
    return await owner.iq("set", pubsub(f"<affiliations node='{node}'>{listed}</affiliations>", "#owner"))


async def affiliations(owner: XmppClient) -> dict[str | None, str | None]:
    answer = await owner.iq("get", pubsub(f"<affiliations node='{NODE}'/>", "#owner"))
    return {
        each.get("jid"): each.get("affiliation") for each in answer.iter(f"{{{PUBSUB}#owner}}affiliation")
    }


async def states(client: XmppClient) -> list[str | None]:
    answer = await client.iq("get", pubsub("<subscriptions/>"))
    return [each.get("subscription") for each in answer.iter(f"{{{PUBSUB}}}subscription")]


async def items(client: XmppClient) -> Any:
    return await client.iq("get", pubsub(f"<items node='{NODE}'/>"))


async def let_in(owner: XmppClient, jid: str) -> Any:
    listed = f"<subscription jid='{jid}' subscription='subscribed'/>"
    text = pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")
    return await owner.iq("set", text)

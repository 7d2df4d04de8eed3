"""Every listing of XEP-0254, by number and title, through a real Prosody and a real ejabberd.

What is sent is the listing itself, and what comes is compared with the listing, element by element (see
`tests.support.xmpp_listings`). Where the XEP contradicts itself, the listing is changed visibly, as
plugins/xmpp/README.md says.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.xmpp_listings import here, missing
from tests.support.xmpp_pubsub import ITEM, NODE, PUBSUB, error_of, notified, subscribe
from tests.support.xmpp_real import ready, site_at
from tests.support.xmpp_servers import COMPONENT_NAME, RealClient, RealServer, log_in

LISTING_1 = f"""
<iq from='workflows.shakespeare.lit' id='sub1' to='workerbee237@shakespeare.lit/foo' type='error'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <subscribe jid='workerbee237@shakespeare.lit' node='{NODE}'/>
    <options jid='workerbee237@shakespeare.lit' node='{NODE}'>
      <x xmlns='jabber:x:data' type='form'>
        <field var='FORM_TYPE' type='hidden'>
          <value>http://jabber.org/protocol/pubsub#subscribe_options</value>
        </field>
        <field type='text-single' var='pubsub#queue_requests'>
          <required/>
        </field>
      </x>
    </options>
  </pubsub>
  <error type='modify'>
    <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
    <configuration-required xmlns='http://jabber.org/protocol/pubsub#errors'/>
  </error>
</iq>"""

LISTING_2 = f"""
<iq from='workerbee237@shakespeare.lit/foo' id='sub2' to='workflows.shakespeare.lit' type='set'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <subscribe jid='workerbee237@shakespeare.lit' node='{NODE}'/>
    <options jid='workerbee237@shakespeare.lit' node='{NODE}'>
      <x xmlns='jabber:x:data' type='submit'>
        <field var='FORM_TYPE' type='hidden'>
          <value>http://jabber.org/protocol/pubsub#subscribe_options</value>
        </field>
        <field var='pubsub#queue_requests'>
          <value>5</value>
        </field>
      </x>
    </options>
  </pubsub>
</iq>"""

LISTING_3 = f"""
<iq from='workflows.shakespeare.lit' id='sub2' to='workerbee237@shakespeare.lit/foo' type='result'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <subscription jid='workerbee237@shakespeare.lit' node='{NODE}'
      subid='ba49252aaa4f5d320c24d3766f0bdcade78c78d3' subscription='subscribed'/>
    <options>
      <x xmlns='jabber:x:data' type='result'>
        <field var='FORM_TYPE' type='hidden'>
          <value>http://jabber.org/protocol/pubsub#subscribe_options</value>
        </field>
        <field var='pubsub#queue_requests'>
          <value>5</value>
        </field>
      </x>
    </options>
  </pubsub>
</iq>"""

LISTING_4 = f"""
<iq from='engine.shakespeare.lit' id='pub1' to='workflow.shakespeare.lit' type='set'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <publish node='{NODE}'>
      <item id='{ITEM}'>
        <example xmlns='urn:xmpp:example'>payload</example>
      </item>
    </publish>
  </pubsub>
</iq>"""

# notifications go to the resource that subscribed, not to all of the JID's
LISTING_5 = f"""
<message from='workflow.shakespeare.lit' id='foo' to='workerbee237@shakespeare.lit/foo'>
  <event xmlns='http://jabber.org/protocol/pubsub#event'>
    <items node='{NODE}'>
      <item id='{ITEM}'>
        <example xmlns='urn:xmpp:example'>payload</example>
      </item>
    </items>
  </event>
</message>"""

LISTING_6 = f"""
<iq from='workerbee237@shakespeare.lit/foo' id='delete1' to='workflows.shakespeare.lit' type='get'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <retract node='{NODE}'>
      <item id='{ITEM}'/>
    </retract>
  </pubsub>
</iq>"""

LISTING_7 = f"""
<message from='workflow.shakespeare.lit' id='bar' to='workerbee237@shakespeare.lit/foo'>
  <event xmlns='http://jabber.org/protocol/pubsub#event'>
    <items node='{NODE}'>
      <retract id='{ITEM}'/>
    </items>
  </event>
</message>"""


def refused_retraction(error: str) -> str:
    # the XEP's listings 8 and 9 are of type `get`; an error is of type `error` (RFC 6120 8.2.3)
    return f"""
<iq from='workflows.shakespeare.lit' id='delete1' to='workerbee237@shakespeare.lit/foo' type='error'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <retract node='{NODE}'>
      <item id='{ITEM}'/>
    </retract>
  </pubsub>
  {error}
</iq>"""


def refused_unlocking(error: str) -> str:
    return f"""
<iq from='workflows.shakespeare.lit' id='delete1' to='workerbee237@shakespeare.lit/foo' type='error'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <unlock xmlns='urn:xmpp:pubsub:queueing:0' node='{NODE}'>
      <item id='{ITEM}'/>
    </unlock>
  </pubsub>
  {error}
</iq>"""


FORBIDDEN = "<error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
CONFLICT = "<error type='cancel'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
NOT_FOUND = "<error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
UNEXPECTED = "<error type='wait'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"

LISTING_8 = refused_retraction(FORBIDDEN)
LISTING_9 = refused_retraction(UNEXPECTED)

LISTING_10 = f"""
<iq from='workerbee237@shakespeare.lit/foo' id='unlock1' to='workflows.shakespeare.lit' type='get'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <unlock xmlns='urn:xmpp:pubsub:queueing:0' node='{NODE}'>
      <item id='{ITEM}'/>
    </unlock>
  </pubsub>
</iq>"""

# the XEP has `urn:xmpp:queueing:0` here, and the registered name everywhere else
LISTING_11 = f"""
<message from='workflow.shakespeare.lit' id='baz' to='workerbee237@shakespeare.lit/foo'>
  <event xmlns='http://jabber.org/protocol/pubsub#event'>
    <items node='{NODE}'>
      <unlock xmlns='urn:xmpp:pubsub:queueing:0' id='{ITEM}'/>
    </items>
  </event>
</message>"""

LISTING_12 = refused_unlocking(NOT_FOUND)
LISTING_13 = refused_unlocking(FORBIDDEN)
LISTING_14 = refused_unlocking(CONFLICT)
LISTING_15 = refused_unlocking(UNEXPECTED)

RETRACT, UNLOCK = LISTING_6, LISTING_10.replace("unlock1", "delete1")


class Desk:
    """The clients of the XEP, logged in: the engine and a worker bee; `other` is another worker's login."""

    def __init__(self, site: Any, worker: RealClient, other: RealClient, engine: Any) -> None:
        self.site = site
        self.worker = worker
        self.other = other
        self.engine = engine

    async def subscribed(self, *clients: Any) -> None:
        for client in clients:
            answer = await client.exchange(
                here(LISTING_2).replace("/foo", client.jid.partition("bob@localhost")[2])
            )
            assert answer.get("type") == "result"

    async def published(self) -> None:
        assert (await self.engine.exchange(here(LISTING_4))).get("type") == "result"

    async def worker_has_it(self) -> None:
        await self.subscribed(self.worker)
        await self.published()
        assert (await notified(self.worker)).get("id") == ITEM

    async def other_has_it(self) -> None:
        await self.subscribed(self.other)
        await self.published()
        assert (await notified(self.other)).get("id") == ITEM

    async def worker_had_it(self) -> None:
        """It gave the item back and subscribes no more, so nobody has it."""
        await self.worker_has_it()
        leave = f"<pubsub xmlns='{PUBSUB}'><unsubscribe node='{NODE}' jid='bob@localhost'/></pubsub>"
        assert (await self.worker.iq("set", leave, id="leave")).get("type") == "result"
        assert (await self.worker.exchange(here(LISTING_10))).get("type") == "result"
        await self.worker.receive()


@pytest.fixture
async def desk(server: RealServer, tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(server, tmp_path) as desk:
        yield desk


@asynccontextmanager
async def opened(server: RealServer, tmp_path: Path) -> AsyncIterator[Any]:
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        worker = await log_in(server.c2s, nursery, "bob", "foo")
        other = await log_in(server.c2s, nursery, "bob", "other")
        engine = await log_in(server.c2s, nursery, "ada", "engine")
        await ready(worker)
        yield Desk(site, worker, other, engine)


async def test_listing_1_service_indicates_that_subscription_configuration_is_required(desk: Desk) -> None:
    answer = await desk.worker.iq("set", subscribe("bob@localhost", None, NODE), id="sub1")
    assert missing(answer, LISTING_1) == []


async def test_listing_2_subscribing_with_options(desk: Desk) -> None:
    assert (await desk.worker.exchange(here(LISTING_2))).get("type") == "result"
    assert desk.site.durable_subscriptions("xmpp/")[0].credit == 5


async def test_listing_3_service_replies_with_success_including_configuration_options(desk: Desk) -> None:
    assert missing(await desk.worker.exchange(here(LISTING_2)), LISTING_3) == []


async def test_listing_4_publisher_publishes_an_item(desk: Desk) -> None:
    answer = await desk.engine.exchange(here(LISTING_4))
    # XEP-0060 7.1.1
    published = f"""
        <iq type='result' id='pub1' from='workflow.shakespeare.lit' to='engine.shakespeare.lit'>
          <pubsub xmlns='{PUBSUB}'><publish node='{NODE}'><item id='{ITEM}'/></publish></pubsub>
        </iq>"""
    assert missing(answer, published) == []
    assert desk.site.broker.held == 1


async def test_listing_5_one_subscriber_receives_a_notification(desk: Desk) -> None:
    await desk.subscribed(desk.worker, desk.other)
    await desk.published()
    assert missing(await desk.worker.receive(), LISTING_5) == []
    await ready(desk.other)
    assert desk.other.quiet()


async def test_listing_6_entity_deletes_an_item_from_a_node(desk: Desk) -> None:
    await desk.worker_has_it()
    assert (await desk.worker.exchange(here(LISTING_6))).get("type") == "result"
    assert desk.site.broker.held == 0


async def test_listing_7_subscriber_receives_delete_notification(desk: Desk) -> None:
    await desk.subscribed(desk.worker, desk.other)
    await desk.published()
    await notified(desk.worker)
    await desk.worker.exchange(here(LISTING_6))
    assert missing(await desk.worker.receive(), LISTING_7) == []
    # only this subscriber is told
    await ready(desk.other)
    assert desk.other.quiet()


async def test_listing_8_item_is_locked_by_another_subscriber(desk: Desk) -> None:
    await desk.other_has_it()
    assert missing(await desk.worker.exchange(here(RETRACT)), LISTING_8) == []
    # the text above the listing wants a conflict, which is for those who take part in the queue
    await desk.subscribed(desk.worker)
    assert missing(await desk.worker.exchange(here(RETRACT)), refused_retraction(CONFLICT)) == []


async def test_listing_9_item_is_no_longer_locked_by_subscriber(desk: Desk) -> None:
    await desk.worker_had_it()
    assert missing(await desk.worker.exchange(here(RETRACT)), LISTING_9) == []


async def test_listing_10_entity_unlocks_an_item(desk: Desk) -> None:
    await desk.worker_has_it()
    await desk.subscribed(desk.other)
    assert (await desk.worker.exchange(here(LISTING_10))).get("type") == "result"
    # it goes to the next subscriber
    assert (await notified(desk.other)).get("id") == ITEM


async def test_listing_11_subscriber_receives_unlock_notification(desk: Desk) -> None:
    await desk.worker_has_it()
    await desk.subscribed(desk.other)
    await desk.worker.exchange(here(LISTING_10))
    assert missing(await desk.worker.receive(), LISTING_11) == []


async def test_listing_12_item_does_not_exist(desk: Desk) -> None:
    await desk.subscribed(desk.worker)
    assert missing(await desk.worker.exchange(here(UNLOCK)), LISTING_12) == []
    assert missing(await desk.worker.exchange(here(RETRACT)), refused_retraction(NOT_FOUND)) == []


async def test_listing_13_requesting_entity_did_not_receive_item(desk: Desk) -> None:
    await desk.other_has_it()
    assert missing(await desk.worker.exchange(here(UNLOCK)), LISTING_13) == []


async def test_listing_14_item_is_locked_by_another_subscriber(desk: Desk) -> None:
    await desk.other_has_it()
    await desk.subscribed(desk.worker)
    assert missing(await desk.worker.exchange(here(UNLOCK)), LISTING_14) == []


async def test_listing_15_item_is_no_longer_locked_by_subscriber(desk: Desk) -> None:
    await desk.worker_had_it()
    assert missing(await desk.worker.exchange(here(UNLOCK)), LISTING_15) == []


async def test_section_3_support_is_determined_by_service_discovery(desk: Desk) -> None:
    answer = await desk.worker.iq("get", "<query xmlns='http://jabber.org/protocol/disco#info'/>", id="d")
    announced = f"""
        <iq type='result' id='d' from='{COMPONENT_NAME}' to='bob@localhost/foo'>
          <query xmlns='http://jabber.org/protocol/disco#info'>
            <identity category='pubsub' type='service'/>
            <feature var='urn:xmpp:pubsub:queueing:0'/>
          </query>
        </iq>"""
    assert missing(answer, announced) == []


async def test_section_4_unavailable_presence_unlocks_and_unsubscribes(desk: Desk) -> None:
    await desk.worker_has_it()
    await desk.subscribed(desk.other)
    await desk.worker.send(f"<presence type='unavailable' to='{COMPONENT_NAME}'/>")
    assert (await notified(desk.other)).get("id") == ITEM
    assert [info.name for info in desk.site.durable_subscriptions("xmpp/")] == [
        "xmpp/plain-bare/bob@localhost/other"
    ]


async def test_section_4_a_subscriber_in_trouble_unsubscribes_then_unlocks(desk: Desk) -> None:
    await desk.worker_had_it()
    await desk.subscribed(desk.other)
    assert (await notified(desk.other)).get("id") == ITEM


async def test_section_4_an_item_without_an_answer_goes_to_the_next_subscriber(desk: Desk) -> None:
    soon = "<field var='{urn:smqp:xmpp:0}lock'><value>0.3</value></field></x>"
    answer = await desk.worker.exchange(here(LISTING_2).replace("</x>", soon))
    assert answer.get("type") == "result"
    await desk.published()
    assert (await notified(desk.worker)).get("id") == ITEM
    await desk.subscribed(desk.other)
    assert missing(await desk.worker.receive(), LISTING_11) == []
    assert (await notified(desk.other)).get("id") == ITEM
    assert error_of(await desk.worker.exchange(here(RETRACT))) == ("cancel", "conflict")

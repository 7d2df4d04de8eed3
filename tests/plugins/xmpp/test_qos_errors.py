"""Requests of urn:xmpp:qos that a client answers with errors: it is there, and has what it had."""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from daemon.settings import Limits
from plugins.xmpp.known.transfers import TRIES
from plugins.xmpp.wire.namespaces import QOS
from tests.support.xmpp import COMPONENT_NAME, XmppClient, xmpp_site
from tests.support.xmpp_pubsub import NODE, PUBSUB, SMQP, subscribe
from tests.support.xmpp_qos import answer, counter, next_request, publish_item


async def test_an_error_to_deliver_gives_a_received_item_to_nobody_else(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """It may be the server's, and an earlier request may have been worked on."""
    async with xmpp_site(tmp_path) as (server, _, site):
        client, other = await counter(server), await counter(server, resource="2")
        await publish_item(server)
        iq, _ = await next_request(client)
        await answer(client, iq)
        iq, first = await next_request(client)
        error = (
            "<error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        )
        await client.send(f"<iq type='error' id='{iq.get('id')}'>{error}</iq>")
        while client.quiet():
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(1)
        iq, again = await next_request(client)
        assert (again.tag, again.get("msgId")) == (first.tag, first.get("msgId"))
        await answer(client, iq)
        text = f"<pubsub xmlns='{PUBSUB}'><retract node='{NODE}'><item id='i'/></retract></pubsub>"
        assert (await client.iq("set", text)).get("type") == "result"
        assert other.quiet()
        assert site.broker.held == 0


async def test_a_received_that_the_session_cannot_note_now_is_asked_for_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    limits = Limits(unanswered_per_session_max=1)
    async with xmpp_site(tmp_path, limits=limits, answer_s=1.0) as (server, _, site):
        client = await counter(server)
        await publish_item(server)
        iq, first = await next_request(client)
        received = f"<received xmlns='{QOS}' msgId='{first.get('msgId')}'/>"
        publish = f"<pubsub xmlns='{PUBSUB}'><publish node='other'><item/></publish></pubsub>"
        addresses = f"from='{client.jid}' to='{COMPONENT_NAME}'"
        await server.to_component(
            f"<iq type='set' id='p' {addresses}>{publish}</iq>"
            f"<iq type='result' id='{iq.get('id')}' {addresses}>{received}</iq>"
        )
        assert (await client.answer("p")).get("type") == "result"
        iq, again = await next_request(client)
        assert (again.tag, again.get("msgId")) == (f"{{{QOS}}}assured", first.get("msgId"))
        await answer(client, iq, received)
        iq, request = await next_request(client)
        assert request.tag == f"{{{QOS}}}deliver"
        await answer(client, iq)
        text = f"<pubsub xmlns='{PUBSUB}'><retract node='{NODE}'><item id='i'/></retract></pubsub>"
        assert (await client.iq("set", text)).get("type") == "result"
        assert site.broker.held == 1, "what it has published"


async def refuse_request(client: XmppClient, iq: Any, condition: str) -> None:
    error = f"<error type='cancel'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
    await client.send(f"<iq type='error' id='{iq.get('id')}'>{error}</iq>")


async def work_without(client: XmppClient, node: str) -> None:
    """Also at another queue, by plain messages: that ends when it is gone."""
    field = f"<field var='{{{SMQP}}}qos'><value>none</value></field></x>"
    answer = await client.iq("set", subscribe(client.jid, "5", node).replace("</x>", field))
    assert answer.get("type") == "result"


@pytest.mark.parametrize("condition", ["internal-server-error", "item-not-found"])
async def test_who_answers_with_errors_is_there_however_long(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, condition: str
) -> None:
    """Also with those that a server has for who is gone."""
    async with xmpp_site(tmp_path, answer_s=1.0) as (server, service, _):
        client = await counter(server)
        await work_without(client, "other")
        await publish_item(server)
        iq, _ = await next_request(client)
        await answer(client, iq)
        for _ in range(2 * TRIES):
            iq, request = await next_request(client)
            assert request.tag == f"{{{QOS}}}deliver"
            await refuse_request(client, iq, condition)
        assert service.registry.find(client.jid, "other") is not None


async def test_an_item_that_a_client_refuses_as_if_it_was_gone_comes_again(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        client = await counter(server)
        await work_without(client, "other")
        await publish_item(server)
        for _ in range(2):
            iq, request = await next_request(client)
            assert request.tag == f"{{{QOS}}}assured"
            await refuse_request(client, iq, "service-unavailable")
        assert service.registry.find(client.jid, "other") is not None

"""Subscribers that are away: what is sent to them meanwhile, and what they are told when they come back."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import msgspec
import pytest
import trio
from trio.testing import MockClock

from daemon.frontend import Identity
from plugins.xmpp.delivery.absence import FIRST_S, LAST_S, Absence
from tests.support.patience import until
from tests.support.xmpp import XmppServer, xmpp_site
from tests.support.xmpp_pubsub import NS, SMQP, ada, child, create, form, notified, pubsub, put, subscribe

LISTENER = "workerbee238@shakespeare.lit"


async def test_options_that_another_resource_changes_send_nothing_to_who_is_away(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        server.keeps_messages = True
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        one, other = (server.client(f"{LISTENER}/{resource}") for resource in ("one", "other"))
        await one.iq("set", subscribe(one.jid, None, "news"))
        server.leave(one)
        await one.send("<presence type='unavailable'/>")
        await until(lambda: service.registry.absent)
        options = form("subscribe_options", **{"pubsub#queue_requests": "50"})
        options = f"<options node='news' jid='{one.jid}'>{options}</options>"
        for _ in range(2):
            assert (await other.iq("set", pubsub(options))).get("type") == "result"
            await put(ada(server), "news", "item")
        assert server.kept == []
        server.clients[one.jid] = one
        await one.send("<presence/>")
        for _ in range(2):
            assert (await notified(one)).get("id") == "item"


async def its_node_is_deleted(site: Any) -> None:
    session = site.open_session(Identity("ada"), "desk", protocol="smqp", remote="")
    session.delete_topic("news.open", request=1)
    await session.events()
    session.close()


async def its_account_loses_the_right(site: Any) -> None:
    accounts = site.broker.settings.site.accounts_file
    accounts.write_text(accounts.read_text().replace("*.open", "*.closed"))
    site.take_on()


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        (its_node_is_deleted, "news.open"),
        (its_account_loses_the_right, "news.open"),
        (its_account_loses_the_right, "*.open"),
    ],
)
async def test_who_comes_back_is_told_that_its_subscription_has_ended_meanwhile(
    tmp_path: Path, ends: Callable[[Any], Awaitable[None]], wanted: str
) -> None:
    async with xmpp_site(tmp_path, create_on_subscribe=False) as (server, service, site):
        await create(ada(server), "news.open", **{f"{{{SMQP}}}queueing": "0"})
        listener = server.client("dan@shakespeare.lit/garden")
        assert (await listener.iq("set", subscribe(listener.jid, None, wanted))).get("type") == "result"
        await listener.send("<presence type='unavailable'/>")
        await until(lambda: service.registry.absent)
        await ends(site)
        await listener.send("<presence/>")
        told = child(await listener.receive(), "e:event/e:subscription", NS)
        assert (told.get("node"), told.get("subscription")) == (wanted, "none")
        answer = await listener.iq("get", pubsub("<subscriptions/>"))
        assert len(child(answer, "p:pubsub/p:subscriptions", NS)) == 0
        assert site.durable_subscriptions("xmpp/") == []


async def test_who_comes_back_under_lower_limits_keeps_its_subscription_and_what_waits(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path, create_on_subscribe=False) as (server, service, site):
        await create(ada(server), "news.open", **{f"{{{SMQP}}}queueing": "0"})
        listener = server.client("dan@shakespeare.lit/garden")
        assert (await listener.iq("set", subscribe(listener.jid, None, "news.open"))).get("type") == "result"
        await listener.send("<presence type='unavailable'/>")
        await until(lambda: service.registry.absent)
        settings = site.broker.settings
        limits = msgspec.structs.replace(settings.limits, credit_max=10)
        site.broker.reconfigure(msgspec.structs.replace(settings, limits=limits))
        await put(ada(server), "news.open", "item")
        await listener.send("<presence/>")
        answer = await listener.iq("get", pubsub("<subscriptions/>"))
        assert len(child(answer, "p:pubsub/p:subscriptions", NS)) == 1
        site.broker.reconfigure(settings)
        await listener.send("<presence/>")
        assert (await notified(listener)).get("id") == "item"


class ServerThatCounts(XmppServer):
    """How many messages come for the listener."""

    messages = 0

    async def _route(self, stream: trio.abc.Stream, stanza: Element) -> None:
        if stanza.get("to") == LISTENER:
            self.messages += 1
        await super()._route(stream, stanza)


async def test_what_waits_for_a_bare_jid_that_is_away_is_tried_ever_more_seldom(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with xmpp_site(tmp_path, ServerThatCounts()) as (server, _, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        listener = server.client(f"{LISTENER}/one")
        await listener.iq("set", subscribe(LISTENER, None, "news"))
        server.leave(listener)
        await put(ada(server), "news", "first")
        await trio.sleep(3600)
        assert 10 < server.messages < 20
        server.clients[listener.jid] = listener
        await listener.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert (await notified(listener)).get("id") == "first"
        server.leave(listener)
        server.messages = 0
        await put(ada(server), "news", "second")
        await trio.sleep(4 * FIRST_S)
        assert server.messages == 3


def test_a_bare_jid_of_which_nothing_has_come_back_for_long_is_tried_soon_when_it_is_away_again() -> None:
    absence, now = Absence(), 0.0
    for _ in range(8):
        absence.ask_later(LISTENER, now)
        now = absence.next_at()
        assert absence.due(now) == [LISTENER]
    absence.ask_later(LISTENER, now)
    assert absence.next_at() - now == LAST_S
    now = absence.next_at()
    absence.due(now)
    now += LAST_S + 1
    absence.ask_later(LISTENER, now)
    assert absence.next_at() - now == FIRST_S

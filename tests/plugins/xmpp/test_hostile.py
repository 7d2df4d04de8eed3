"""What a hostile client sends, through real servers: refused, and the component's stream lives on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.frontend import Delivered, Identity, SubscribeOptions
from plugins.xmpp.wire.namespaces import PUBSUB
from plugins.xmpp.wire.serializer import is_sendable
from routing.message import Message, Section
from tests.support.patience import PATIENCE_S
from tests.support.xmpp_pubsub import ITEMS, SMQP, error_of, notified, subscribe
from tests.support.xmpp_real import ready, site_at
from tests.support.xmpp_servers import COMPONENT_NAME, RealServer, log_in

LAUGHS = (
    "<!DOCTYPE lolz [<!ENTITY lol 'lol'>"
    + "".join(f"<!ENTITY lol{n} '{f'&lol{n - 1};' * 10}'>".replace("&lol0;", "&lol;") for n in range(1, 10))
    + "]>"
)


@asynccontextmanager
async def attacked(
    server: RealServer, directory: Any, caplog: pytest.LogCaptureFixture, **changes: Any
) -> AsyncIterator[Any]:
    """Gives (mallory's client, ada's client, site); at the end ada is answered, over the same stream."""
    async with site_at(server, directory, **changes) as (_, site, nursery):
        mallory = await log_in(server.c2s, nursery, "bob", "mallory")
        ada = await log_in(server.c2s, nursery, "ada", "desk")
        await ready(ada)
        yield mallory, ada, site
        await ready(ada)
        assert not [record for record in caplog.records if "no connection" in record.getMessage()]


def publication(content: str) -> str:
    item = f"<publish node='work'><item id='i'>{content}</item></publish>"
    return f"<pubsub xmlns='{PUBSUB}'>{item}</pubsub>"


@pytest.mark.parametrize(
    "stanza",
    [
        f"{LAUGHS}<message to='work@{COMPONENT_NAME}'><body>&lol9;</body></message>",
        f"<message to='work@{COMPONENT_NAME}'><body>&lol9;</body></message>",
        f"<message to='work@{COMPONENT_NAME}'><body>&#0;</body></message>",
        f"<message to='work@{COMPONENT_NAME}'><body>\x0b</body></message>",
        f"<message to='work@{COMPONENT_NAME}'><body></message>",
    ],
)
async def test_entity_bombs_and_broken_xml_end_the_clients_own_stream_only(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, stanza: Any
) -> None:
    async with attacked(server, tmp_path / "site", caplog) as (mallory, _, site):
        await mallory.send(stanza)
        with trio.fail_after(PATIENCE_S):
            async for _ in mallory.stanzas:
                continue
        assert site.broker.held == 0


@pytest.mark.parametrize(
    "content",
    [
        "<a xmlns='urn:a'>" + "<a>" * 150 + "</a>" * 150 + "</a>",
        "<a xmlns='urn:a' " + " ".join(f"a{number}='x'" for number in range(100)) + "/>",
        f"<a xmlns='urn:a' b='{'x' * 60_000}'/>",
        "<a xmlns='urn:a'>" + "<b/>" * 20_000 + "</a>",
    ],
    ids=["deep nesting", "many attributes", "a huge attribute", "many elements"],
)
async def test_a_stanza_over_the_limits_is_answered_with_an_error(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: Any
) -> None:
    changes = {"receive_bytes_max": 50_000}
    async with attacked(server, tmp_path / "site", caplog, **changes) as (mallory, _, site):
        for _ in range(3):
            answer = await mallory.iq("set", publication(content), id="attack")
            assert error_of(answer) == ("modify", "policy-violation")
        assert site.broker.held == 0


@pytest.mark.parametrize("attribute", ["", " xml:b='c'"])
async def test_what_servers_write_of_xmls_own_namespace_is_answered_with_an_error(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, attribute: str
) -> None:
    async with attacked(server, tmp_path / "site", caplog) as (mallory, _, site):
        content = publication("<a xmlns='urn:a'><xml:a/></a>")
        await mallory.send(f"<iq type='set' id='attack' to='{COMPONENT_NAME}'{attribute}>{content}</iq>")
        assert error_of(await mallory.answer("attack")) == ("modify", "policy-violation")
        assert site.broker.held == 0


async def test_names_and_ids_of_any_length_are_refused_or_answered(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = "x" * 30_000
    async with attacked(server, tmp_path / "site", caplog) as (mallory, _, _):
        for text in (
            f"<pubsub xmlns='{PUBSUB}'><publish node='{long}'><item/></publish></pubsub>",
            f"<pubsub xmlns='{PUBSUB}'><publish node='n'><item id='{long}'/></publish></pubsub>",
            f"<pubsub xmlns='{PUBSUB}'><retract node='n'><item id='{long}'/></retract></pubsub>",
            f"<assured xmlns='urn:xmpp:qos' msgId='{long}'><message/></assured>",
        ):
            assert (await mallory.iq("set", text)).get("type") == "error"


FORBIDDEN = [chr(code) for code in (0, 1, 8, 0x0B, 0x0C, 0x0E, 0x1F, 0xFFFE, 0xFFFF)]


async def test_characters_that_xml_forbids_come_from_another_front_end_as_they_are(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a STOMP client sends them: in bodies of any type, and in headers."""
    async with attacked(server, tmp_path / "site", caplog) as (worker, _, site):
        await worker.iq("set", subscribe("bob@localhost", "100", "work"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="stomp", remote="")
        session.subscribe("dead.work", SubscribeOptions())
        bodies = [f"a{character}b".encode() for character in FORBIDDEN]
        bodies += [b"\xff\xfe", b"<a>\x00</a>", b"]]>", b"</stream:stream>", b"\xed\xa0\x80"]
        for kind in ("text/plain", "application/xml"):
            for body in bodies:
                session.publish("work", Message(delivery="ONE", sections=(Section(kind, body),)))
                item = await notified(worker)
                as_text = kind == "text/plain" and body in (b"]]>", b"</stream:stream>")
                data = item.find(f"{{{SMQP}}}{'text' if as_text else 'data'}")
                assert data is not None
                assert data.get("type") == kind
                assert not as_text or data.text == body.decode()
        # other control characters are in no header of any front end
        for character in "\ufffe\uffff":
            assert not is_sendable(character)
            session.publish("work", Message(delivery="ONE", others=(("X-Bad", f"a{character}b"),)))
        session.publish("work", Message(delivery="ONE", others=(("Item-Id", "good"),)))
        assert (await notified(worker)).get("id") == "good"
        session.close()


async def test_a_million_nodes_are_refused_or_shown_by_pages(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with attacked(server, tmp_path / "site", caplog, nodes_max=50) as (mallory, _, site):
        requests = "".join(
            f"<iq type='set' id='c{n}' to='{COMPONENT_NAME}'>"
            f"<pubsub xmlns='{PUBSUB}'><create node='n{n}'/></pubsub></iq>"
            for n in range(300)
        )
        await mallory.send(requests)
        answers = [await mallory.receive() for _ in range(300)]
        refused = {error_of(answer) for answer in answers if answer.get("type") == "error"}
        assert refused == {("wait", "resource-constraint")}
        assert site.topic_count <= 50
        rsm = "<set xmlns='http://jabber.org/protocol/rsm'><max>1000000</max></set>"
        answer = await mallory.iq("get", f"<query xmlns='{ITEMS}'>{rsm}</query>")
        assert 0 < len(list(answer.iter(f"{{{ITEMS}}}item"))) <= 50
        most = site.limits.subscriptions_per_session_max
        text = "".join(
            f"<iq type='set' id='s{n}' to='{COMPONENT_NAME}'>{subscribe(mallory.jid, '1', f'x{n}')}</iq>"
            for n in range(100)
        )
        await mallory.send(text)
        kinds = [(await mallory.receive()).get("type") for _ in range(100)]
        assert kinds.count("result") <= most


async def test_what_was_published_by_the_well_behaved_is_still_delivered(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with attacked(server, tmp_path / "site", caplog) as (mallory, ada, site):
        session = site.open_session(Identity(account="ada"), "listener", protocol="test", remote="")
        session.subscribe("work", SubscribeOptions())
        deep = publication("<a xmlns='urn:a'>" + "<a>" * 150 + "</a>" * 150 + "</a>")
        for number in range(10):
            await mallory.send(f"<iq type='set' id='x{number}' to='{COMPONENT_NAME}'>{deep}</iq>")
            answer = await ada.iq("set", publication("<b xmlns='urn:b'/>"), id=f"g{number}")
            assert answer.get("type") == "result"
        delivered = 0
        with trio.fail_after(PATIENCE_S):
            while delivered < 10:
                delivered += sum(isinstance(event, Delivered) for event in await session.events())
        session.close()

"""Requests that are refused are counted once each by their code, whatever front end they came to."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plugins.stomp.settings import StompSettings
from plugins.web.app import make_app
from plugins.web.settings import WebSettings
from tests.support.site import PASSWORD, BrokerSite, running_site
from tests.support.smqp_peer import connected, frame, publish
from tests.support.stomp import stomp_server
from tests.support.web import WebBrowser
from tests.support.xmpp import xmpp_site
from tests.support.xmpp_pubsub import ada, error_of, pubsub


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path / "site") as site:
        yield site


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (publish("t", "c", "Priority: high"), "bad-header"),
        (publish("a/b", "c"), "bad-topic"),
        (publish("t", "c", "Smuid: 1"), "bad-header"),
        (frame("SUBSCRIBE a/b"), "bad-topic"),
        (frame("SUBSCRIBE t", "Credit: 99999999"), "bad-header"),
        (frame("COMMIT 4711"), "lock-lost"),
        (frame("DANCE"), "bad-command"),
        (frame("PASS ada/desk wrong"), "bad-command"),
    ],
)
async def test_of_smqp(site: BrokerSite, sent: bytes, code: str) -> None:
    async with connected(site) as peer:
        for count in range(1, 4):
            await peer.send(sent)
            assert (await peer.line())[0] == f"ERROR {code}"
            assert site.metrics.refused == {code: count}


async def test_of_smqp_also_where_nobody_wants_an_answer(site: BrokerSite) -> None:
    async with connected(site, "eve/desk") as peer:
        sent = publish("t", "c", "Guarantee: NO")
        head = sent.index(b"\r\n\r\n") + 4
        for part in (sent, sent[:head], sent[head:]):
            await peer.send(part)
        await peer.send(frame("PING"))
        assert (await peer.line())[0] == "PONG"
        assert site.metrics.refused == {"forbidden": 2}


async def test_of_smqp_before_a_login(site: BrokerSite) -> None:
    async with connected(site, None) as peer:
        await peer.line()
        await peer.send(frame("SUBSCRIBE t"))
        assert (await peer.line())[0] == "ERROR not-logged-in"
        await peer.send(frame("PASS ada/desk wrong"))
        assert (await peer.line())[0] == "ERROR bad-login"
        assert site.metrics.refused == {"not-logged-in": 1}, "there is a count of logins that are refused"


@pytest.mark.parametrize(
    ("command", "headers", "code"),
    [
        ("SEND", {"destination": "/topic/a/b"}, "bad-topic"),
        ("SEND", {"destination": "/topic/a", "priority": "high"}, "bad-header"),
        ("SEND", {"destination": "/topic/a", "persistent": "true", "cmuid": "a b"}, "bad-header"),
        ("DANCE", {}, "bad-command"),
    ],
)
async def test_of_stomp(site: BrokerSite, command: str, headers: dict[str, str], code: str) -> None:
    async with stomp_server(site, StompSettings()) as connect:
        for count in range(1, 4):
            client = connect()
            await client.connect()
            await client.send(command, {**headers, "receipt": "r"})
            await client.refused(code)
            assert site.metrics.refused == {code: count}


async def test_of_stomp_before_a_login(site: BrokerSite) -> None:
    async with stomp_server(site, StompSettings()) as connect:
        client = connect()
        await client.send("SEND", {"destination": "/topic/a"})
        await client.refused("not-logged-in")
        assert site.metrics.refused == {"not-logged-in": 1}


async def test_of_xmpp(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        expected: dict[str, int] = {}
        for asked, condition, code in [
            (pubsub("<create node='a b'/>"), "not-acceptable", "bad-topic"),
            (pubsub("<dance/>"), "feature-not-implemented", "bad-command"),
            (pubsub("<items node='nobody.knows'/>"), "item-not-found", "not-found"),
            (pubsub("<publish node='nobody.knows'><thing/></publish>"), "bad-request", "bad-command"),
        ]:
            expected[code] = expected.get(code, 0) + 1
            assert error_of(await client.iq("set" if "items" not in asked else "get", asked))[1] == condition
            assert site.metrics.refused == expected, asked


async def test_of_the_web(site: Any) -> None:
    program = WebBrowser(make_app(site, WebSettings()))
    told = {"authorization": f"Basic {b64encode(f'ada:{PASSWORD}'.encode()).decode()}"}
    expected: dict[str, int] = {}
    for method, path, code in [
        ("GET", "/api/topic?name=unused", "not-found"),
        ("GET", "/api/topics?order=size", "bad-command"),
        ("POST", "/api/topic/purge?name=a%20b", "bad-topic"),
        ("POST", "/api/topic/messages?name=a%20b", "bad-topic"),
    ]:
        expected[code] = expected.get(code, 0) + 1
        answer = await program.request(method, path, b"", {**told, "content-type": "text/plain"})
        assert answer.json["error"] == code
        assert site.metrics.refused == expected, path

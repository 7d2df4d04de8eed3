"""Why a session has ended, as the log is told: by whom, and never with what the client sent."""

from pathlib import Path
from typing import Any

import pytest
import trio

import plugins.xmpp.delivery.clients
from daemon.system.mishaps import OWN_ERROR
from plugins.stomp.conversation import StompConversation
from plugins.stomp.settings import StompSettings
from plugins.xmpp.delivery.client import Client
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite, running_site
from tests.support.smqp_peer import connected
from tests.support.stomp import ConnectStomp, StompClient, stomp_server
from tests.support.xmpp import xmpp_site
from tests.support.xmpp_pubsub import ada as desk
from tests.support.xmpp_pubsub import put

SECRET = "opensesame"


class OwnError(Exception):
    pass


@pytest.fixture
async def ada(connect: ConnectStomp) -> StompClient:
    client: StompClient = connect()
    await client.connect()
    return client


async def why(site: BrokerSite) -> str:
    """Of the only session, once it has ended."""
    with trio.fail_after(PATIENCE_S):
        while not site.ended:
            await trio.sleep(0.01)
    (told,) = site.ended
    return told


async def test_a_frame_that_ends_a_stomp_session_is_told_by_its_code(
    site: BrokerSite, ada: StompClient
) -> None:
    await ada.raw(f"{SECRET}\n\n\0".encode())
    await ada.refused("bad-command")
    assert await why(site) == "the site ended it: bad-command"


async def test_a_command_of_stomps_own_that_is_refused_is_named(site: BrokerSite, ada: StompClient) -> None:
    await ada.send("SEND", {"destination": f"/topic/{SECRET}#"}, SECRET.encode())
    await ada.refused("bad-topic")
    assert await why(site) == "the site ended it: bad-topic at SEND"


async def test_an_smqp_stream_that_cannot_be_read_is_told_by_its_code(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.send(f"PASS ada {SECRET}\n\n".encode())
        assert (await ada.line())[0] == "ERROR bad-frame"
        assert (await ada.line())[0] == "BYE framing-lost"
        assert await why(site) == "the site ended it: bad-frame"


async def test_a_client_that_closes_without_a_goodbye_has_not_lost_its_connection(site: BrokerSite) -> None:
    async with connected(site) as ada:
        await ada.stream.aclose()
        assert await why(site) == "its client closed the connection without a goodbye"


async def test_a_client_that_says_goodbye_has_left(site: BrokerSite, ada: StompClient) -> None:
    await ada.ask("DISCONNECT")
    assert await why(site) == "its client left"


async def test_what_the_site_says_first_is_why(site: BrokerSite, ada: StompClient) -> None:
    site.disable_all()
    await ada.refused("not-available")
    assert await why(site) == "the account has been disabled"


async def test_an_error_of_ours_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(conversation: Any, events: Any) -> None:
        raise OwnError

    monkeypatch.setattr(StompConversation, "handle", fails)
    async with running_site(tmp_path) as site:
        with pytest.RaisesGroup(OwnError, flatten_subgroups=True, allow_unwrapped=True):
            async with stomp_server(site, StompSettings()) as connect:
                ada = connect()
                await ada.connect()
                await ada.send("SEND", {"destination": "/queue/a", "receipt": "r"})
                assert await why(site) == OWN_ERROR
                await trio.sleep_forever()


async def test_a_session_of_xmpp_that_nobody_uses_is_ended_by_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins.xmpp.delivery.clients, "IDLE_S", 0.05)
    async with xmpp_site(tmp_path) as (server, _, site):
        await put(desk(server), "work", "a")
        assert await why(site) == "nobody used it for 0.05 s"


async def test_an_error_of_ours_that_ends_a_session_of_xmpp_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(client: Any, event: Any) -> None:
        raise OwnError

    monkeypatch.setattr(Client, "answered", fails)
    async with xmpp_site(tmp_path) as (server, _, site):
        await put(desk(server), "work", "a")
        assert await why(site) == "an error of smqpd; the log says more"

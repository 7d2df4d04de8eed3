"""A site's links from start over reloads to goodbye: when it has any, and what keeps them from changing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from daemon.broker.lifetime import OpenedBroker
from daemon.certificates.authority import Authority
from daemon.configuration.discovery import Installed
from daemon.connections.listen import ListenError
from daemon.control.client import Question
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings, Settings, SiteSettings
from daemon.site.examination import Examination, examine
from daemon.site.links import SiteLinks
from daemon.site.state_mark import INSTALLATION
from routing.errors import Refusal
from tests.support.broker_of_ada import broker_of_ada
from tests.support.federated import FederatedClient
from tests.support.keys import write_keys
from tests.support.patience import PATIENCE_S


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC))


class Directory:
    """The files of a site."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / name
        self.name = name
        self.path.mkdir()
        self.keys = self.path / "keys"
        self.peers = self.path / "peers.toml"

    def settings(self, *listen: str) -> Settings:
        links = LinkSettings(
            listen=listen, keys_directory=self.keys, peers_file=self.peers, back_off_first_s=0.05
        )
        site = SiteSettings(server_name=self.name, state_directory=self.path, drain_s=5.0)
        return Settings(site=site, links=links)

    def read(self, *listen: str, links: bool = False) -> Examination:
        """What is in the files now."""
        config, installed = self.path / "smqpd.toml", Installed({})
        now = datetime.now(UTC)
        return examine(config, self.settings(*listen), installed, now, links=links, starts=False)

    def reload(self, links: SiteLinks) -> list[str]:
        """Have the links take on what is good in the files; returns why the rest is not."""
        found = self.read(links=links.manager is not None)
        links.take(found.peers, found.keys)
        return refused(found)

    @asynccontextmanager
    async def links(self, *listen: str) -> AsyncIterator[SiteLinks]:
        """Its links, not running."""
        async with broker_of_ada(self.path, self.name) as opened:
            yield self._links(opened, *listen)

    @asynccontextmanager
    async def running(self, *listen: str) -> AsyncIterator[SiteLinks]:
        """Its links and its broker, running."""
        async with broker_of_ada(self.path, self.name) as opened:
            links = self._links(opened, *listen)
            await opened.start()
            await opened.tasks.start(links.run)
            yield links

    def _links(self, opened: OpenedBroker, *listen: str) -> SiteLinks:
        found = self.read(*listen)
        return SiteLinks(found.settings, opened.broker, opened.boot, found.peers or {}, found.keys)


def refused(found: Examination) -> list[str]:
    """Why links cannot be as the files say."""
    return [finding.problem for finding in found.refused if finding.part in ("peers", "keys")]


@asynccontextmanager
async def pair(
    directory: Path, authority: Authority
) -> AsyncIterator[tuple[Directory, Directory, SiteLinks]]:
    """Two peers: alpha, which dials and is yet to be started, and beta, and the links of beta, which runs."""
    alpha, beta = Directory(directory, "alpha"), Directory(directory, "beta")
    for site in (alpha, beta):
        write_keys(authority, site.name, site.keys, datetime.now(UTC))
    add_peer(beta.peers, PeerEntry(name="alpha"))
    async with beta.running("127.0.0.1:0") as listening:
        add_peer(alpha.peers, PeerEntry(name="beta", address=listening.addresses[0]))
        yield alpha, beta, listening


async def asked(links: SiteLinks, question: Question) -> list[Any]:
    """All that a question is answered with, as JSON has it."""
    told = []

    async def tell(value: object) -> None:
        told.append(msgspec.to_builtins(value))

    await links.answer(question, tell)
    return told


async def peers(links: SiteLinks) -> dict[str, Any]:
    [told] = await asked(links, Question(ask="peers"))
    return {link["peer"]: link for link in told}


async def up(links: SiteLinks, peer: str) -> None:
    with trio.fail_after(PATIENCE_S):
        while (await peers(links)).get(peer, {}).get("state") != "up":
            await trio.sleep(0.01)


async def subscribed(links: SiteLinks, topic: str) -> None:
    """Somebody at the site subscribes to a topic."""
    broker = links._broker
    identity = await broker.accounts.authenticate("ada", "correct horse", "test")
    client = FederatedClient(broker.open_session(identity, "reader", protocol="test", remote="test"))
    await client.subscribe(topic)


def wanting(links: SiteLinks, topic: str) -> dict[str, int]:
    """By peer, how far it is beyond it to who wants a topic."""
    return dict(links._broker.door.outlook.distances(("ALL", topic)))


def known(links: SiteLinks) -> set[str]:
    """The sites whose news is known, and believed."""
    return set(links._broker.door.outlook.news)


async def test_a_site_without_keys_and_peers_has_no_links_and_says_so(tmp_path: Path) -> None:
    async with Directory(tmp_path, "alpha").running() as links:
        assert links.manager is None
        assert links.addresses == []
        assert await peers(links) == {}


async def test_a_site_that_gets_keys_while_it_runs_links_from_the_next_reload_on(
    tmp_path: Path, authority: Authority
) -> None:
    alpha, beta = Directory(tmp_path, "alpha"), Directory(tmp_path, "beta")
    write_keys(authority, "beta", beta.keys, datetime.now(UTC))
    add_peer(beta.peers, PeerEntry(name="alpha"))
    async with beta.running("127.0.0.1:0") as listening, alpha.running() as links:
        write_keys(authority, "alpha", alpha.keys, datetime.now(UTC))
        add_peer(alpha.peers, PeerEntry(name="beta", address=listening.addresses[0]))
        assert alpha.reload(links) == []
        add_peer(alpha.peers, PeerEntry(name="gamma", address="127.0.0.1:9"))
        assert alpha.reload(links) == []  # at once, before the first has begun
        await up(links, "beta")
        assert list(await peers(links)) == ["beta", "gamma"]


def test_peers_without_keys_are_an_error(tmp_path: Path) -> None:
    alpha = Directory(tmp_path, "alpha")
    add_peer(alpha.peers, PeerEntry(name="beta"))
    [problem] = refused(alpha.read())
    assert "site.key: No such file" in problem


def test_keys_of_another_site_are_an_error(tmp_path: Path, authority: Authority) -> None:
    alpha = Directory(tmp_path, "alpha")
    write_keys(authority, "beta", alpha.keys, datetime.now(UTC))
    [problem] = refused(alpha.read())
    assert "is for beta, but this site is alpha" in problem


async def test_a_place_to_listen_that_is_taken_ends_the_start(tmp_path: Path, authority: Authority) -> None:
    alpha = Directory(tmp_path, "alpha")
    write_keys(authority, "alpha", alpha.keys, datetime.now(UTC))
    [taken] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = taken.socket.getsockname()[1]
    at = rf"^cannot listen for peers on 127\.0\.0\.1:{port}: "
    with pytest.RaisesGroup(pytest.RaisesExc(ListenError, match=at), flatten_subgroups=True):
        async with alpha.running(f"127.0.0.1:{port}"):
            pass
    await taken.aclose()


async def test_what_a_reload_refuses_stays_and_the_rest_is_taken_on(
    tmp_path: Path, authority: Authority
) -> None:
    async with pair(tmp_path, authority) as (alpha, _, _), alpha.running() as links:
        await up(links, "beta")
        good = alpha.peers.read_text()
        alpha.peers.write_text("[[peers]]\nname = 'Not A Name'\n")
        assert len(alpha.reload(links)) == 1
        assert (await peers(links))["beta"]["state"] == "up"
        alpha.peers.write_text(good)
        add_peer(alpha.peers, PeerEntry(name="gamma"))
        (alpha.keys / "site.pem").write_text("rubbish")
        assert len(alpha.reload(links)) == 1
        assert (await peers(links))["beta"]["state"] == "up"
        assert "gamma" in await peers(links)


async def test_who_is_no_peer_any_more_is_told_so_at_the_next_reload(
    tmp_path: Path, authority: Authority
) -> None:
    async with pair(tmp_path, authority) as (alpha, beta, listening), alpha.running() as links:
        await up(links, "beta")
        beta.peers.write_text("")
        assert beta.reload(listening) == []
        with trio.fail_after(PATIENCE_S):
            while "no longer a peer" not in (await peers(links))["beta"]["why_down"]:
                await trio.sleep(0.01)
        assert await peers(listening) == {}


async def test_a_site_that_drains_says_goodbye(tmp_path: Path, authority: Authority) -> None:
    async with pair(tmp_path, authority) as (alpha, _, listening):
        async with alpha.running() as links:
            await up(links, "beta")
            await links.drain()
        status = (await peers(listening))["alpha"]
        assert (status["state"], status["why_down"]) == ("waiting", "it has said goodbye, and not come back")


async def test_an_installation_has_one_word_for_itself_over_all_starts(
    tmp_path: Path, authority: Authority
) -> None:
    words = []
    for name in ("alpha", "beta"):
        site = Directory(tmp_path, name)
        write_keys(authority, name, site.keys, datetime.now(UTC))
        for _ in range(2):
            async with site.links():
                words.append((site.path / INSTALLATION).read_text())
    assert words[0] == words[1] != words[2] == words[3]


@pytest.mark.parametrize("damaged", [b"", b"\xff\xfe", b"two words"])
async def test_a_word_that_cannot_be_read_is_made_anew(
    tmp_path: Path, authority: Authority, damaged: bytes
) -> None:
    site = Directory(tmp_path, "alpha")
    write_keys(authority, "alpha", site.keys, datetime.now(UTC))
    words = []
    for _ in range(2):
        async with site.links():
            words.append((site.path / INSTALLATION).read_bytes())
        (site.path / INSTALLATION).write_bytes(damaged)
    assert words[0] != words[1] != damaged
    assert len(words[0]) == len(words[1])


@pytest.mark.parametrize(
    "question",
    [
        Question(ask="ping", name="Not A Server"),
        Question(ask="trace", name="not a topic"),
        Question(ask="why", name="no smuid"),
    ],
)
async def test_a_question_for_what_cannot_be_is_refused(tmp_path: Path, question: Question) -> None:
    async with Directory(tmp_path, "alpha").links() as links:
        with pytest.raises(Refusal):
            await asked(links, question)


async def test_a_site_that_trusts_its_peer_no_more_at_a_start_knows_still_what_that_wants(
    tmp_path: Path, authority: Authority
) -> None:
    """The store has its news, which is forgotten; a message waits for it all the same."""
    async with pair(tmp_path, authority) as (alpha, _, beta):
        await subscribed(beta, "weather")
        async with alpha.running() as links:
            with trio.fail_after(PATIENCE_S):
                while wanting(links, "weather") != {"beta": 0} or "beta" not in known(links):
                    await trio.sleep(0.01)
        another = Authority.create(tmp_path / "another", "another", 3650, datetime.now(UTC))
        write_keys(another, "alpha", alpha.keys, datetime.now(UTC))
        async with alpha.links() as links:
            assert wanting(links, "weather") == {"beta": 0}
            assert "beta" not in known(links)

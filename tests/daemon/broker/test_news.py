"""News of sites over real brokers, stores and links: it is kept, and refused where it is forged."""

import shutil
from pathlib import Path

import pytest

from daemon.control.federation import known_sites
from daemon.link.controls import NewsTold, WantsTold
from routing.federation.enquiry import FEATURES
from routing.link.units import Control, Lane
from routing.peering.leaves import NumberedBucket
from routing.peering.news import SignedNews, Version
from routing.peering.wants import PATTERNS
from tests.support.federated import FederatedSite, federated_site
from tests.support.links import MemoryNetwork
from tests.support.notary import said, wanted
from tests.support.patience import until


def version(site: FederatedSite, of: str) -> Version | None:
    news = site.broker.door.outlook.news.get(of)
    return news.statement.version if news is not None else None


def tell(site: FederatedSite, peer: str, news: SignedNews) -> None:
    """Have a site tell what it has made up."""
    told = NewsTold(news.statement, news.certificate, news.signature, age_s=1.0)
    site.broker.federating._tell(peer, "news", told)


async def agree(*sites: FederatedSite) -> None:
    """Wait until all of these have the latest of each."""
    await until(
        lambda: all(
            version(site, of.name) is not None and version(site, of.name) == version(of, of.name)
            for of in sites
            for site in sites
        )
    )


async def test_what_is_known_of_a_site_outlives_a_restart_and_needs_no_link(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha", "gamma"]) as beta,
        federated_site(network, tmp_path, "gamma", ["beta"]) as gamma,
    ):
        await agree(alpha, beta, gamma)
        before = {name: version(alpha, name) for name in ("beta", "gamma")}
    async with federated_site(network, tmp_path, "alpha", ["beta"]) as alpha:
        assert {name: version(alpha, name) for name in before} == before


def who_wants(site: FederatedSite, topic: str) -> set[str] | None:
    """None where it is not known of some site whether it does."""
    wants = site.broker.door.outlook.known_wants
    return None if wants.unsure(topic) else set(wants.wanting("ALL", topic))


async def test_who_wants_what_outlives_a_restart_and_needs_no_link(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha", "gamma"]),
        federated_site(network, tmp_path, "gamma", ["beta"]) as gamma,
    ):
        reader = await gamma.client("reader")
        for topic in ("weather", "sport", "work.*"):
            await reader.subscribe(topic)
        await until(lambda: who_wants(alpha, "work.x") == who_wants(alpha, "sport") == {"gamma"})
        await reader.unsubscribe("sport")
        await until(lambda: who_wants(alpha, "sport") == set())
    async with federated_site(network, tmp_path, "alpha", ["beta"]) as alpha:
        found = [who_wants(alpha, topic) for topic in ("weather", "sport", "work.x", "work")]
        assert found == [{"gamma"}, set(), {"gamma"}, set()]
        assert not alpha.store.damaged


async def test_wants_that_a_site_has_not_signed_are_refused_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha"]) as beta,
    ):
        await agree(alpha, beta)
        (good,), (other,) = wanted("weather"), wanted("sport")
        tell(beta, "alpha", said("x", 7, "beta", wants=[good]))

        def tell_wants(*buckets: NumberedBucket) -> None:
            beta.broker.federating._tell(alpha.name, "wants", WantsTold("x", 1, 7, buckets))

        for bucket in (other, NumberedBucket(good.index, other.data), NumberedBucket(good.index, b"?"), good):
            tell_wants(bucket)
        await until(lambda: who_wants(alpha, "weather") == {"x"})
        assert who_wants(alpha, "sport") == set()
        lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "refused wants of x that beta told: its site has not signed these wants" in lines
        assert {one.state for one in alpha.links.status()} == {"up"}
        assert not alpha.broker.mishaps.count


async def test_a_site_whose_store_is_that_of_a_backup_is_believed_as_soon_as_it_speaks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with federated_site(network, tmp_path, "beta", ["alpha"]) as beta:
        async with federated_site(network, tmp_path, "alpha", ["beta"]) as alpha:
            await agree(alpha, beta)
            latest = version(alpha, "alpha") or (0, 0)
        shutil.copytree(tmp_path / "alpha", tmp_path / "backup")
        for boot in (2, 3, 4):
            async with federated_site(network, tmp_path, "alpha", ["beta"]) as alpha:
                await until(lambda boot=boot: (version(beta, "alpha") or (0, 0))[0] == boot)  # type: ignore[misc] # bound now
                latest = version(beta, "alpha") or (0, 0)
        shutil.rmtree(tmp_path / "alpha")
        (tmp_path / "backup").rename(tmp_path / "alpha")
        async with federated_site(network, tmp_path, "alpha", ["beta"]) as alpha:
            assert (version(alpha, "alpha") or latest) < latest
            await until(lambda: (version(beta, "alpha") or (0, 0)) > latest)
            await agree(alpha, beta)
        assert any("its store is that of a backup" in record.getMessage() for record in caplog.records)


async def test_what_is_forged_is_refused_at_both_ends_and_the_link_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha"]) as beta,
    ):
        await agree(alpha, beta)
        good, other = said("x", 7, "beta"), said("x", 9, "alpha")
        tell(beta, "alpha", good)
        for number in range(8, 30):
            tell(beta, "alpha", said("x", number, "beta", by="beta"))
        tell(beta, "alpha", SignedNews(other.statement, good.certificate, good.signature))
        tell(beta, "alpha", SignedNews(b"[]", b"", b""))
        for payload in (b"", b"{}", b"\xff", b'{"statement":"!","certificate":"","signature":"","age_s":0}'):
            for kind in ("news", "news-known"):
                beta.links.send("alpha", Control(kind=kind, payload=payload), Lane.CONTROL)
        tell(beta, "alpha", said("y", 1, "beta"))
        await until(lambda: version(alpha, "y"))
        assert version(alpha, "x") == (1, 7)

        def lines() -> list[str]:
            return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

        assert lines().count("refused news of x that beta told: it is signed by another site") == 1
        assert lines().count("refused news of x that beta told: its signature is wrong") == 1
        await until(lambda: any(line.startswith("alpha denied (") for line in lines()))
        assert {one.state for one in alpha.links.status()} == {"up"}
        assert not alpha.broker.mishaps.count


async def test_a_peer_of_an_earlier_version_is_told_no_news_and_brings_none(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta", "old"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha"]) as beta,
        federated_site(network, tmp_path, "old", ["alpha"], features=(*FEATURES, PATTERNS)) as old,
    ):
        await agree(alpha, beta)
        await alpha.linked("old")
        links = {link.peer for link in beta.broker.door.outlook.news["alpha"].statement.links}
        assert links == {"beta", "old"}
        reader, writer = await old.client("reader"), await beta.client("writer")
        await reader.subscribe("t")
        await beta.wanted("ALL", "t", within=1)
        await writer.publish("t", "to all versions", depth=-1)
        assert await reader.take() == "to all versions"
        assert "alpha" not in old.broker.door.outlook.news
        shown = known_sites("alpha", alpha.broker.door.outlook, alpha.broker.clock.now())
        assert {one.site: (one.hops, one.age_s is None) for one in shown} == {
            "alpha": (0, False),
            "beta": (1, False),
            "old": (1, True),
        }

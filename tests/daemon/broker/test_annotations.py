"""What a front end keeps with a topic."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest
from trio.testing import MockClock

from daemon.frontend import ANNOTATION_BYTES_MAX
from daemon.store.backup import copy_store
from routing.errors import Refusal
from tests.support.broker import SessionClient, VirtualSite, virtual_site


async def annotate(client: SessionClient, topic: str, text: str | None) -> None:
    request = client.request()
    client.session.annotate(topic, text, request)
    await client.answer(request)


def kept(site: VirtualSite, topic: str) -> Mapping[str, str]:
    known = site.login("ada", "looks").session.topic(topic)
    return known.annotations if known is not None else {}


async def test_it_is_there_after_a_kill_and_in_a_backup(tmp_path: Path, mock_clock: MockClock) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada = site.login("ada")
        await annotate(ada, "news", "first")
        await annotate(ada, "other", "gone again")
        await annotate(ada, "news", "second ß")
        await annotate(ada, "other", None)
        killed = site.image(tmp_path / "killed")
        (tmp_path / "backup").mkdir()
        copy_store(tmp_path / "site" / "smqpd.db", tmp_path / "backup" / "smqpd.db", lambda done, all: None)
    for directory in (tmp_path / "site", killed, tmp_path / "backup"):
        async with virtual_site(directory) as site:
            assert kept(site, "news") == {"test": "second ß"}
            assert site.login("ada").session.topic("other") is None


async def test_it_can_be_read_at_once_and_keeps_the_topic_known(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        ada.session.annotate("news", "first")
        before = kept(site, "news")
        ada.session.annotate("news", "second")
        assert (before, kept(site, "news")) == ({"test": "first"}, {"test": "second"})
        await ada.publish("news", b"hello", delivery="ALL")
        assert kept(site, "news") == {"test": "second"}


async def test_it_goes_with_the_topic(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        await annotate(ada, "news", "text")
        request = ada.request()
        ada.session.delete_topic("news", request)
        await ada.answer(request)
        assert ada.session.topic("news") is None
    async with virtual_site(tmp_path) as site:
        assert site.login("ada").session.topic("news") is None


async def test_it_has_a_bound_and_its_topic_a_name(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        session = site.login("ada").session
        session.annotate("news", "ß" * (ANNOTATION_BYTES_MAX // 2))
        with pytest.raises(Refusal, match="more than 65536 bytes"):
            session.annotate("news", "ß" * (ANNOTATION_BYTES_MAX // 2) + "s")
        with pytest.raises(Refusal):
            session.annotate("no topic", "text")


@pytest.mark.parametrize("value", ["x'fffe'", "CAST(x'6eff' AS TEXT)"])
async def test_one_that_is_damaged_is_still_there_and_says_nothing(
    tmp_path: Path, mock_clock: MockClock, value: str
) -> None:
    async with virtual_site(tmp_path) as site:
        await annotate(site.login("ada"), "news", "text")
    with sqlite3.connect(tmp_path / "smqpd.db") as store:
        store.execute(f"UPDATE annotation SET text = {value}")
    store.close()
    for damaged in (1, 0):
        async with virtual_site(tmp_path) as site:
            assert kept(site, "news") == {"test": ""}
            assert site.broker.damaged == damaged

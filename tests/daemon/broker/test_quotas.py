"""What one account may use: how fast it publishes, and what it has published that is held."""

from pathlib import Path

import msgspec
import pytest
from trio.testing import MockClock

from routing.errors import Refusal
from routing.message import Message, Section
from routing.quotas import Quotas
from tests.support.broker import VirtualSite, virtual_site


def used(site: VirtualSite, account: str) -> tuple[int, int]:
    found = site.broker.account_use.of(account)
    return found.held_messages, found.held_bytes


async def test_what_an_account_has_held_is_bounded_over_all_topics_and_channels(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path, quotas=Quotas(held_messages_max=3)) as site:
        ada, phone, bob = site.login("ada"), site.login("ada", "phone"), site.login("bob")
        await ada.publish("jobs", b"one", delivery="ONE", cmuid="first")
        await phone.publish("tasks", b"two", delivery="ONE")
        await phone.publish("bob:desk@smqp.example", b"three", delivery="ONE")
        assert used(site, "ada") == (3, 11)
        with pytest.raises(Refusal) as refused:
            await ada.publish("others", delivery="ONE")
        assert (refused.value.code, refused.value.subject) == (Refusal.QUEUE_FULL, "held_messages_max")
        assert "the site holds 3 messages that ada has published, which may be 3" in refused.value.text
        assert site.broker.metrics.over_quota == {"held_messages_max": 1}
        await ada.publish("jobs", b"one", delivery="ONE", cmuid="first")  # that is there already
        await bob.publish("others", delivery="ONE")
        assert [record.topic for record in site.records() if record.event == "denied"] == ["others"]

        await bob.subscribe("tasks", accepts="ONE", durable=False)
        (task,) = await bob.delivered()
        await bob.received(task.number)
        await bob.commit(task.number)
        assert used(site, "ada") == (2, 8)
        await ada.publish("others", delivery="ONE")


async def test_bytes_that_are_held_are_bounded_likewise(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path, quotas=Quotas(held_bytes_max=10)) as site:
        ada = site.login("ada")
        await ada.publish("jobs", b"12345678", delivery="ONE")
        with pytest.raises(Refusal, match=r"which may be 10 \(held_bytes_max\)"):
            await ada.publish("jobs", b"123", delivery="ONE")
        await ada.publish("jobs", b"12", delivery="ONE")
        ada.send("jobs", b"", delivery="ONE", guarantee=False)
        assert used(site, "ada") == (3, 10)


async def test_a_transaction_is_taken_whole_or_not_at_all(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path, quotas=Quotas(held_messages_max=3)) as site:
        session = site.login("ada").session
        job = Message(delivery="ONE", sections=(Section("text/plain", b""),))

        def publish_together(*topics: str) -> None:
            with session.transaction(1):
                for topic in topics:
                    session.publish(topic, job)

        with pytest.raises(Refusal, match="held_messages_max"):
            publish_together("a", "b", "c", "d")
        assert (used(site, "ada"), session.published) == ((0, 0), 0)
        assert site.broker.metrics.over_quota == {"held_messages_max": 1}
        publish_together("a", "b", "c")
        assert (used(site, "ada"), session.published) == ((3, 0), 3)
        with pytest.raises(Refusal, match="held_messages_max"):
            session.publish("d", job)
        assert session.published == 3


async def test_what_is_held_is_known_after_a_kill(tmp_path: Path, mock_clock: MockClock) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site", quotas=Quotas(held_messages_max=2)) as site:
        ada, bob = site.login("ada"), site.login("bob")
        await ada.publish("jobs", b"one", delivery="ONE")
        await bob.publish("jobs", b"three", delivery="ONE")
        await ada.publish("bob:desk@smqp.example", b"four", delivery="ONE")
        image = site.image(tmp_path / "image")
    async with virtual_site(image, quotas=Quotas(held_messages_max=2)) as site:
        assert (used(site, "ada"), used(site, "bob")) == ((2, 7), (1, 5))
        with pytest.raises(Refusal, match="held_messages_max"):
            await site.login("ada").publish("jobs", delivery="ONE")
        site.broker.door.purge(site.login("ada").session.consumer, "jobs", None)
        assert (used(site, "ada"), used(site, "bob")) == ((1, 4), (0, 0))


async def test_a_receipt_counts_for_whom_it_is_to(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        await ada.publish("news", receipt="ALL")
        assert used(site, "ada") == (1, 3)  # 0/0, which waits on its system topic


async def test_who_publishes_faster_than_it_may_is_told_how_long_to_wait(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    quotas = Quotas(publish_rate_per_s_max=10.0, publish_burst_max=3)
    async with virtual_site(tmp_path, quotas=quotas) as site:
        ada, bob = site.login("ada"), site.login("bob")
        for _ in range(3):
            assert ada.session.publish_wait_s == 0
            await ada.publish("jobs")
        assert ada.session.publish_wait_s == pytest.approx(0.1)
        with pytest.raises(Refusal) as refused:
            await ada.publish("jobs")
        assert (refused.value.code, refused.value.subject) == (Refusal.TOO_MANY, "publish_rate_per_s_max")
        assert (
            "publishes as fast as it may (publish_rate_per_s_max); try again in 0.1 s" in refused.value.text
        )
        await bob.publish("jobs")
        mock_clock.jump(0.1)
        assert ada.session.publish_wait_s == 0
        await ada.publish("jobs")


async def test_all_sessions_of_an_account_share_its_rate_also_one_after_another(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    quotas = Quotas(publish_rate_per_s_max=10.0, publish_burst_max=1)
    async with virtual_site(tmp_path, quotas=quotas) as site:
        first = site.login("ada")
        await first.publish("jobs")
        first.session.close()
        second = site.login("ada")
        assert second.session.publish_wait_s == pytest.approx(0.1)
        with pytest.raises(Refusal, match="publish_rate_per_s_max"):
            await second.publish("jobs")
        mock_clock.jump(0.1)
        await second.publish("jobs")


async def test_a_transaction_is_paid_for_whole(tmp_path: Path, mock_clock: MockClock) -> None:
    quotas = Quotas(publish_rate_per_s_max=10.0, publish_burst_max=2)
    async with virtual_site(tmp_path, quotas=quotas) as site:
        session = site.login("ada").session
        with session.transaction(1):
            for _ in range(12):
                session.publish("jobs", Message())
        assert session.publish_wait_s == pytest.approx(1.1)
        other = site.login("ada").session  # it is the account that owes that
        with pytest.raises(Refusal, match=r"try again in 1\.1 s"), other.transaction(1):
            other.publish("jobs", Message())
        assert other.publish_wait_s == pytest.approx(1.1)
        site.broker.settings = msgspec.structs.replace(
            site.broker.settings, quotas=Quotas(publish_rate_per_s_max=20.0, publish_burst_max=2)
        )
        site.broker.reconfigure(site.broker.settings)
        assert other.publish_wait_s == pytest.approx(0.05)  # nothing of it, at another rate


async def test_an_account_has_its_own_quotas_and_a_reload_takes_others_on(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path, quotas=Quotas(held_messages_max=1, publish_rate_per_s_max=5)) as site:
        accounts_file, broker = tmp_path / "accounts.toml", site.broker
        ada, bob = site.login("ada"), site.login("bob")
        await ada.publish("jobs", delivery="ONE")
        await bob.publish("jobs", delivery="ONE")
        assert ada.session.publish_wait_s == 0
        with accounts_file.open("a") as file:
            file.write("\n[accounts.ada.quotas]\nheld_messages_max = 0\npublish_rate_per_s_max = 1\n")
        broker.accounts.replace(broker.accounts.read())
        broker.reconfigure(broker.settings)
        await ada.publish("jobs", delivery="ONE")
        assert ada.session.publish_wait_s == pytest.approx(1.0)
        with pytest.raises(Refusal, match="held_messages_max"):
            await bob.publish("jobs", delivery="ONE")

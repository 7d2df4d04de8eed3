"""`smqpd pub` where a message is refused, or its receipt does not come."""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from daemon.settings import Limits
from daemon.terminal.failure import FAILED, REFUSED, Failure
from plugins.smqp.client import Client
from plugins.smqp.connecting import session
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.incoming import Delivery
from plugins.smqp.pub import Work, publish
from plugins.smqp.standard_output import StandardOutput
from routing.errors import Refusal
from routing.message import Message
from tests.support.patience import until
from tests.support.receiving import full_pipe
from tests.support.site import PASSWORD, SERVER, BrokerSite, running_site
from tests.support.smqp_peer import serve_connection

LONG = b"x" * 1_001
SYSTEM_TOPIC = f"ada:pub@{SERVER}"


class Logins:
    """Connections to a site, as `plugins.smqp.profile.Profile` makes them; they can be cut."""

    def __init__(self, site: BrokerSite, nursery: trio.Nursery, account: str = "ada") -> None:
        self._site = site
        self._nursery = nursery
        self._account = account
        self._served: list[trio.abc.Stream] = []

    def connect(self, channel: str) -> Any:
        ours, theirs = memory_stream_pair()
        self._served.append(theirs)
        self._nursery.start_soon(serve_connection, self._site, theirs, "127.0.0.1:1")
        return session(ours, self._account, PASSWORD, channel=channel)

    async def cut(self) -> None:
        for stream in self._served:
            await trio.aclose_forcefully(stream)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path / "site", Limits(message_bytes_max=1_000)) as site:
        yield site


@pytest.fixture
def logins(site: BrokerSite, nursery: trio.Nursery) -> Any:
    return Logins(site, nursery)


WORK = Work(
    topic="t",
    message=Message(delivery="ONE", receipt="ALL"),
    body=b"rain",
    files=(),
    lines=False,
    content_type=None,
    wait_receipt_s=60.0,
    json=False,
)


def lines(tmp_path: Path, *texts: bytes, **headers: Any) -> Work:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(text + b"\n" for text in texts))
    message = Message(delivery="ONE", **headers)
    return msgspec.structs.replace(
        WORK, message=message, body=None, files=(file,), lines=True, wait_receipt_s=None
    )


async def bodies(logins: Logins, count: int) -> dict[str, bytes]:
    """So many messages that are stored, by their Smuids."""
    found: dict[str, bytes] = {}
    async with logins.connect("reader") as client:
        await client.subscribe("t")
        while len(found) < count:
            for delivery in await client.take():
                found[delivery.message.smuid] = delivery.message.sections[0].body
    return found


async def taken(client: Client, count: int) -> list[Delivery]:
    deliveries: list[Delivery] = []
    while len(deliveries) < count:
        deliveries += await client.take()
    return deliveries


async def test_a_refused_line_is_named_and_so_is_all_that_is_stored(
    logins: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    work = lines(tmp_path, b"one", LONG, b"three", LONG, LONG)
    with pytest.raises(Failure, match="no line after line 5 was published") as failure:
        await publish(logins, "pub", work, StandardOutput())
    assert failure.value.exit_code == FAILED
    printed, said = capfd.readouterr()
    assert sorted((await bodies(logins, 2)).items()) == sorted(
        zip(printed.split(), [b"one", b"three"], strict=True)
    )
    first, second = said.splitlines()
    assert first.startswith("smqpd: line 2 is refused: ")
    assert second.startswith("smqpd: lines 4 to 5 are refused: ")


async def test_what_cannot_be_sent_is_a_refused_line_and_none_after_it_is_published(
    logins: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = [b"%d" % number for number in range(1, 12)]
    with pytest.raises(Failure, match="no line after line 10 was published"):
        await publish(logins, "pub", lines(tmp_path, *texts, cmuid="x" * 253), StandardOutput())
    printed, said = capfd.readouterr()
    stored = await bodies(logins, 9)
    assert [stored.get(smuid) for smuid in printed.split()] == texts[:9]
    assert said.startswith("smqpd: line 10 is refused: Cmuid: ")


async def test_lines_that_had_no_answer_are_named(
    logins: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Headers that are longer than a site reads end the connection."""
    with pytest.raises(ConnectionLost) as lost:
        await publish(
            logins, "pub", lines(tmp_path, b"one", b"two", others=(("F", "a" * 70_000),)), StandardOutput()
        )
    assert lost.value.reason == "refused"
    assert capfd.readouterr() == ("", "smqpd: lines 1 to 2 had no answer, and may be stored or not\n")


async def test_lines_that_may_not_be_published_are_a_matter_of_rights(
    site: BrokerSite, nursery: trio.Nursery, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    as_eve: Any = Logins(site, nursery, "eve")
    with pytest.raises(Failure) as failure:
        await publish(as_eve, "pub", lines(tmp_path, b"one", b"two"), StandardOutput())
    assert failure.value.exit_code == REFUSED
    assert capfd.readouterr() == ("", "smqpd: lines 1 to 2 are refused: eve may not publish t\n")


async def test_one_message_is_refused_as_it_is(logins: Any) -> None:
    with pytest.raises(Refusal) as refusal:
        await publish(logins, "pub", msgspec.structs.replace(WORK, body=LONG), StandardOutput())
    assert refusal.value.code == Refusal.TOO_LARGE


async def test_two_runs_in_one_channel_get_their_receipts(
    logins: Any, site: BrokerSite, capfd: pytest.CaptureFixture[str]
) -> None:
    async with trio.open_nursery() as runs:
        for cmuid in ("x", "y"):
            message = msgspec.structs.replace(WORK.message, cmuid=cmuid)
            runs.start_soon(
                publish, logins, "pub", msgspec.structs.replace(WORK, message=message), StandardOutput()
            )
        await until(lambda: len(site.broker.door.view.subscriptions(SYSTEM_TOPIC)) == 2)
        async with logins.connect("reader") as client:
            await client.subscribe("t")
            both = await taken(client, 2)
            for delivery in reversed(both):
                await client.commit([delivery])
    printed = capfd.readouterr().out.splitlines()
    x, y = (delivery.message.smuid for delivery in both)
    assert sorted(printed) == sorted([f"{x} 1/1", f"{y} 1/1"])


async def test_the_same_message_published_by_two_runs_at_once_is_named_by_both(
    logins: Any, site: BrokerSite, capfd: pytest.CaptureFixture[str]
) -> None:
    work = msgspec.structs.replace(WORK, message=msgspec.structs.replace(WORK.message, cmuid="x"))
    failures: list[str] = []

    async def without_receipt() -> None:
        with pytest.raises(Failure) as failure:
            await publish(logins, "pub", msgspec.structs.replace(work, wait_receipt_s=0.0), StandardOutput())
        failures.append(str(failure.value))

    async with trio.open_nursery() as runs:
        runs.start_soon(publish, logins, "pub", work, StandardOutput())
        await until(lambda: site.broker.door.view.subscriptions(SYSTEM_TOPIC))
        await without_receipt()
        async with logins.connect("reader") as client:
            await client.subscribe("t")
            [delivery] = await client.take()
            await client.commit([delivery])
    smuid = delivery.message.smuid
    assert capfd.readouterr().out.splitlines() == [smuid, f"{smuid} 1/1"]
    assert failures == [f"no receipt within 0 s for {smuid}"]


async def test_a_stored_message_is_named_where_its_receipts_end(
    logins: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size: "run")
    failures: list[Failure] = []

    async def run() -> None:
        with pytest.raises(Failure) as failure:
            await publish(logins, "pub", WORK, StandardOutput())
        failures.append(failure.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        smuids = [*(await bodies(logins, 1))]
        async with logins.connect("pub") as other:
            await other.unsubscribe(SYSTEM_TOPIC, "pub-run")
    assert capfd.readouterr() == (f"{smuids[0]}\n", "")
    ended = f"the subscription pub-run to {SYSTEM_TOPIC} was removed"
    assert (str(failures[0]), failures[0].exit_code) == (f"no receipt for {smuids[0]}: {ended}", FAILED)


async def test_a_stored_message_is_named_where_its_session_is_to_end_before_its_receipt(
    logins: Any, site: BrokerSite, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it asks before BYE has come is refused: here to commit the receipt."""
    commit = Client.commit

    async def run() -> None:
        with pytest.raises(ConnectionLost, match="the site is stopping"):
            await publish(logins, "pub", WORK, StandardOutput())

    async with trio.open_nursery() as runs:
        runs.start_soon(run)
        async with logins.connect("reader") as reader:
            await reader.subscribe("t")
            [delivery] = await reader.take()

            async def stop_before(client: Any, deliveries: Any) -> None:
                site.broker.draining = client is not reader
                await commit(client, deliveries)

            monkeypatch.setattr(Client, "commit", stop_before)
            await reader.commit([delivery])
    assert capfd.readouterr().out == f"{delivery.message.smuid} 1/1\n"


async def test_a_stored_message_is_named_where_the_connection_ends_before_its_receipt(
    logins: Any, site: BrokerSite, nursery: trio.Nursery, capfd: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        with pytest.raises(ConnectionLost):
            await publish(logins, "pub", WORK, StandardOutput())

    async with trio.open_nursery() as runs:
        runs.start_soon(run)
        [smuid] = await bodies(Logins(site, nursery), 1)
        await wait_all_tasks_blocked()
        await logins.cut()
    printed, said = capfd.readouterr()
    assert printed == f"{smuid}\n"
    assert said.startswith(f"smqpd: no receipt for {smuid}: lost: ")


async def test_an_interrupt_before_the_receipt_leaves_the_smuid(
    logins: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    interrupt = trio.CancelScope()

    async def run() -> None:
        with interrupt:
            await publish(logins, "pub", WORK, StandardOutput())

    async with trio.open_nursery() as runs:
        runs.start_soon(run)
        [smuid] = await bodies(logins, 1)
        await wait_all_tasks_blocked()
        interrupt.cancel()
    assert capfd.readouterr() == (f"{smuid}\n", "")


def no_room() -> list[int]:
    return [os.open("/dev/full", os.O_WRONLY)]


def closed_pipe() -> list[int]:
    reads, writes = os.pipe()
    os.close(reads)
    return [writes]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (no_room, "cannot be written: No space left on device"),
        (closed_pipe, "cannot be written: Broken pipe"),
        (full_pipe, "was not read on"),
    ],
)
async def test_an_interrupt_leaves_on_stderr_what_is_stored_and_could_not_be_written(
    logins: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    output: Callable[[], Sequence[int]],
    why: str,
) -> None:
    *read, written = output()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(fileno=lambda: written))
    interrupt, standard_output = trio.CancelScope(), StandardOutput()
    work = msgspec.structs.replace(lines(tmp_path, b"one", b"two", receipt="ALL"), wait_receipt_s=60.0)

    async def run() -> None:
        with interrupt:
            await publish(logins, "pub", work, standard_output)

    async with trio.open_nursery() as runs:
        runs.start_soon(run)
        async with logins.connect("reader") as reader:
            await reader.subscribe("t")
            one, two = await taken(reader, 2)
            await reader.commit([one])  # its receipt comes
            await wait_all_tasks_blocked()
            interrupt.cancel()
            if output is full_pipe:
                standard_output.hurry()
    smuids = f"{one.message.smuid} to {two.message.smuid}"
    assert capfd.readouterr() == ("", f"smqpd: standard output {why}; stored: 2 messages, {smuids}\n")
    for descriptor in (*read, written):
        os.close(descriptor)


async def test_what_is_stored_is_named_where_whoever_read_the_output_has_gone(
    logins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    [written] = closed_pipe()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(fileno=lambda: written))
    with pytest.raises(BrokenPipeError):
        await publish(logins, "pub", lines(tmp_path, b"one"), StandardOutput())
    [smuid] = await bodies(logins, 1)
    assert capfd.readouterr().err == (
        f"smqpd: standard output cannot be written: Broken pipe; stored: {smuid}\n"
    )
    os.close(written)


@pytest.mark.parametrize("outstanding_max", [1, 1_000])
async def test_an_interrupt_between_answers_and_their_writing_leaves_all_smuids(
    logins: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    outstanding_max: int,
) -> None:
    monkeypatch.setattr("plugins.smqp.pub.OUTSTANDING_MAX", outstanding_max)
    publish_soon, interrupt = Client.publish_soon, trio.CancelScope()

    async def interrupted_after_two(client: Any, topic: str, message: Message) -> Any:
        publication = await publish_soon(client, topic, message)
        if message.sections[0].body == b"two":
            await publication.wait()
            interrupt.cancel()
        return publication

    monkeypatch.setattr(Client, "publish_soon", interrupted_after_two)
    with interrupt:
        await publish(logins, "pub", lines(tmp_path, b"one", b"two", b"three"), StandardOutput())
    monkeypatch.setattr(Client, "publish_soon", publish_soon)
    printed = capfd.readouterr().out.split()
    stored = await bodies(logins, 2)
    assert [stored.get(smuid) for smuid in printed] == [b"one", b"two"]

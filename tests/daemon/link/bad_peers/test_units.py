"""Bad units: they are denied or passed over, and end a link only where they go on and on."""

import msgspec
import pytest
from hyperframe.frame import (
    DataFrame,
)
from trio.testing import MockClock

from routing.frames import decode_message, encode_message
from routing.link.codec import REASON_CHARACTERS_MAX, encode
from routing.link.units import Acknowledge, Control, Lane, Probe, Transfer
from tests.support.links import Puppet, TestSite, puppet
from tests.support.played_peer import CONTROL_STREAM, answers, ended, sealed, wire


def published_by(account: str) -> Transfer:
    """A message of zeta's own that says so of its publisher."""
    message = msgspec.structs.replace(decode_message(sealed(1).wire), account=account)
    return sealed(1, wire=encode_message(message))


async def test_a_message_that_cannot_be_read_is_denied_and_the_next_one_taken(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    bad = Transfer(topic="weather", wire=b"Priority: high\r\n\r\n", number=1, hops=("zeta",))
    await zeta.say_unit(bad)
    await zeta.say_unit(sealed(2))
    denied, accepted = await answers(zeta, 2)
    assert denied[:2] == ("denied", 1)
    assert "Priority" in denied[2]
    assert accepted == ("accepted", 2, "")
    assert [one.transfer.number for one in alpha.broker.copies if one.peer == "zeta"] == [2]
    assert [reason for _, reason in alpha.broker.refused] == [denied[2]]


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        (sealed(1, hops=("other",)), "Hops does not end with zeta"),
        (sealed(1, hops=("zeta", "other", "zeta")), "Hops names a server twice"),
        (sealed(1, hops=("other", "zeta")), "Smuid is of zeta, but Hops begins with other"),
        (sealed(1, hops=()), "Hops does not end with zeta"),
        (Transfer(topic="weather", wire=b"\r\n", number=1, hops=("zeta",)), "Smuid is missing"),
        (published_by("boss:desk@alpha"), "Account is boss:desk@alpha, but Smuid is of zeta"),
        (published_by(""), "Account is missing, but Smuid is of zeta"),
    ],
)
async def test_forged_hops_smuids_and_accounts_are_denied(
    autojump_clock: MockClock,
    alpha: TestSite,
    zeta: Puppet,
    caplog: pytest.LogCaptureFixture,
    unit: Transfer,
    reason: str,
) -> None:
    await zeta.say_unit(unit)
    [(outcome, number, said)] = await answers(zeta, 1)
    assert (outcome, number) == ("denied", 1)
    assert reason in said
    assert reason in caplog.text


async def test_what_a_peer_denies_is_logged_with_its_reason(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    alpha.send("zeta", "weather")
    [transfer] = await zeta.hear(Transfer)
    assert isinstance(transfer, Transfer)
    ranges = ((transfer.number, transfer.number),)
    denied = Acknowledge(outcome="denied", ranges=ranges, received_us=1, sent_us=2, reason="not that topic")
    await zeta.say(Lane.CONTROL, encode(denied))
    await alpha.broker.until(lambda: alpha.broker.settled)
    assert "zeta denied (1 so far): not that topic" in caplog.text


async def test_a_unit_that_cannot_be_read_is_denied_by_its_number(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.BULK, b"TRANSFER 1 topic\r\n\r\nTRANSFER 2\r\n\r\n")
    await zeta.say_unit(sealed(3))
    assert [(outcome, number) for outcome, number, _ in await answers(zeta, 3)] == [
        ("denied", 1),
        ("denied", 2),
        ("accepted", 3),
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"Caf\xe9 au lait", r"Caf\udce9 au lait: '' is not a header line"),
        (b"Be\x07ll: rings", r"Be\x07ll: ' rings' is not a header line"),
    ],
)
async def test_what_a_peer_cannot_have_meant_is_quoted_so_that_it_can_be_sent_logged_and_recorded(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, line: bytes, shown: str
) -> None:
    await zeta.say(Lane.BULK, b"TRANSFER 1 topic\r\n" + line + b"\r\n\r\n")
    await zeta.say_unit(sealed(2, wire=line + b"\r\n\r\n"))
    await zeta.say_unit(sealed(3))
    first, second, accepted = await answers(zeta, 3)
    assert (first[:2], second[:2], accepted[:2]) == (("denied", 1), ("denied", 2), ("accepted", 3))
    assert first[2].startswith(shown)
    assert second[2].startswith(shown)
    [recorded] = [reason for _, reason in alpha.broker.refused]
    assert recorded.startswith(shown)
    for _ in range(101):
        await zeta.say(Lane.CONTROL, b"SHINY\r\n" + line + b"\r\n\r\n")
    await ended(zeta, f"more than 100 units that make no sense; the last: {shown}")


async def test_of_what_is_refused_no_more_is_kept_than_the_peer_can_be_told(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    line = b"\xff" * 60_000
    await zeta.say(Lane.BULK, b"TRANSFER 1 topic\r\n" + line + b"\r\n\r\n")
    await zeta.say_unit(sealed(2, wire=line + b"\r\n\r\n"))
    told = [reason for _, _, reason in await answers(zeta, 2)]
    for _ in range(101):
        await zeta.say(Lane.CONTROL, b"SHINY\r\n" + line + b"\r\n\r\n")
    await ended(zeta, "more than 100 units that make no sense; the last: ")
    kept = [reason for _, reason in alpha.broker.refused]
    assert kept == told[1:]
    assert {len(reason) for reason in told} == {REASON_CHARACTERS_MAX}
    assert max(map(len, [*caplog.messages, *alpha.log])) < 2 * REASON_CHARACTERS_MAX


async def test_an_oversized_message_is_denied_without_being_held(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say_unit(sealed(1, wire=b"x" * 3_000_000))
    await zeta.say_unit(sealed(2))
    denied, accepted = await answers(zeta, 2)
    assert denied[:2] == ("denied", 1)
    assert "more than 1000000 bytes" in denied[2]
    assert accepted[:2] == ("accepted", 2)


async def test_what_a_newer_peer_says_is_passed_over(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.CONTROL, b"SHINY 1\r\nNew: thing\r\n\r\n")
    await zeta.say_unit(Control(kind="shiny", payload=b"?", number=1), Lane.CONTROL)
    assert await answers(zeta, 1) == [("accepted", 1, "")]


async def test_a_stream_of_units_that_make_no_sense_ends_in_time(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    ack = encode(Acknowledge(outcome="accepted", ranges=((1, 10**15),), received_us=0, sent_us=0))
    for _ in range(101):
        await zeta.say(Lane.CONTROL, ack)
    await ended(zeta, "more than 100 units that make no sense; the last: ACK: names")


async def test_a_peer_that_has_said_more_when_it_is_refused_is_told_why_all_the_same(
    autojump_clock: MockClock, alpha: TestSite
) -> None:
    said = encode(Probe(1, 2)) + b"ACK\r\n\r\n" * 9 + b"\r\n" * 1_000
    for _ in range(20):  # which task comes first, of those that can go on, is chance
        async with puppet(alpha.network, "zeta", "alpha") as zeta:  # type: ignore[attr-defined] # of the fixture
            await zeta.greet()
            await zeta.say_raw(wire(DataFrame(CONTROL_STREAM, said), 30))
            await ended(zeta, "more than 100 units that make no sense")


async def test_a_head_without_end_ends_the_link(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say(Lane.BULK, b"TRANSFER 1 a\r\n" + b"X: y\r\n" * 20_000)
    await ended(zeta, "the framing is lost: the header lines are longer than 65536 bytes")

"""Every unit comes back as it was sent, however the bytes are split, and bad ones end nothing."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.errors import FramingLost
from routing.link.codec import UnitReader, UnitRefusal, encode, encode_control, encode_transfer
from routing.link.units import (
    Acknowledge,
    Control,
    Goodbye,
    Hello,
    Probe,
    ProbeReply,
    Transfer,
    Unit,
    Unknown,
    Welcome,
)
from routing.message import INFINITE

TRANSFER = Transfer(
    number=17,
    topic="weather.oslo",
    depth=3,
    hops=("alpha.example:720", "beta"),
    timeout_left_s=12.5,
    mode="ONE",
    flags=("custody",),
    wire=b"Smuid: alpha.example:720/0123456789ab-1-2\r\n\r\n\x00any\r\n\r\nbytes",
)
CONTROL = Control(number=18, kind="interest", payload=bytes(range(256)))

UNITS: list[Unit] = [
    Hello(
        version=(1, 3),
        server="alpha.example:720",
        site="5f0c-1",
        boot=17,
        features=("custody", "flood"),
        window_units=7,
        window_bytes=9,
    ),
    Hello(server="beta", boot=0),
    Welcome(),
    Goodbye("draining"),
    TRANSFER,
    CONTROL,
    Acknowledge(outcome="accepted", ranges=((17, 18), (20, 20)), received_us=5, sent_us=9),
    Acknowledge(outcome="denied", ranges=((1, 1),), received_us=5, sent_us=9, reason="no right to weather"),
    Probe(3, 1795082400000000),
    ProbeReply(3, 1795082400000000, 1795082400001000),
]

EMPTY_MESSAGE = b"Sections: 1\r\n\r\nContent-Type: message/smqp\r\nContent-Length: 2\r\n\r\n\r\n"


def to_bytes(unit: Unit) -> bytes:
    match unit:
        case Transfer():
            return encode_transfer(unit, unit.timeout_left_s)
        case Control():
            return encode_control(unit)
        case Unknown():
            return f"{unit.command} any thing\r\n\r\n".encode()
    return encode(unit)


def reader() -> UnitReader:
    return UnitReader(message_bytes_max=100_000)


def take_all(units: UnitReader) -> list[Unit]:
    found = []
    while (unit := units.take()) is not None:
        found.append(unit)
    return found


def read(data: bytes) -> Unit:
    units = reader()
    units.feed(data)
    [unit] = take_all(units)
    return unit


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
def test_a_unit_comes_back_as_it_was_sent(unit: Unit) -> None:
    assert read(to_bytes(unit)) == unit


def test_an_answer_to_a_probe_has_both_stamps_that_readers_ask_for() -> None:
    assert encode(ProbeReply(3, 5, 9)).split(b"\r\n") == [
        b"PROBED 3 5",
        b"Received: 9",
        b"Sent: 9",
        b"",
        b"",
    ]


@pytest.mark.parametrize(
    ("said", "unit"),
    [
        (b"GOODBYE draining\r\nText: back in a minute\r\n\r\n", Goodbye("draining")),
        (b"PROBED 3 5\r\nReceived: 7\r\nSent: 9\r\n\r\n", ProbeReply(3, 5, 9)),
        (b"CONTROL 18 interest\r\nAttempt: 2\r\n\r\n", Control(number=18, kind="interest", payload=b"")),
    ],
)
def test_what_only_older_sites_say_is_passed_over(said: bytes, unit: Unit) -> None:
    assert read(said) == unit


def test_units_are_the_same_byte_by_byte_and_all_at_once() -> None:
    data = b"".join(map(to_bytes, UNITS))
    whole = reader()
    whole.feed(data)
    assert take_all(whole) == UNITS
    bytewise = reader()
    found = []
    for position in range(len(data)):
        bytewise.feed(data[position : position + 1])
        found += take_all(bytewise)
    assert found == UNITS


@given(
    topic=st.from_regex(r"[a-zA-Z0-9_@:-]{1,20}(\.[a-zà-ÿ0-9]{1,9}){0,4}", fullmatch=True),
    number=st.integers(1, 2**63 - 1),
    attempt=st.integers(1, 2**31 - 1),
    depth=st.integers(-1, 2**31 - 1),
    hops=st.lists(st.sampled_from(["a", "b:1", "c.d.e:65535", "[::1]:720"]), unique=True),
    left=st.none() | st.just(INFINITE) | st.integers(0, 10**9).map(lambda ns: ns / 1_000),
    wire=st.binary(max_size=300),
)
def test_any_transfer_comes_back(
    topic: str, number: int, attempt: int, depth: int, hops: list[str], left: float | None, wire: bytes
) -> None:
    sent = Transfer(
        topic=topic,
        wire=wire,
        number=number,
        attempt=attempt,
        depth=depth,
        hops=tuple(hops),
        timeout_left_s=left,
    )
    assert read(to_bytes(sent)) == sent


def test_an_unguaranteed_copy_has_no_number() -> None:
    copy = Transfer(topic="a", wire=b"\r\n", guarantee=False)
    assert read(to_bytes(copy)) == copy
    with pytest.raises(UnitRefusal, match="a guaranteed copy has a number"):
        read(to_bytes(Transfer(topic="a", wire=b"\r\n", number=0)))


def test_what_a_newer_peer_says_is_passed_over() -> None:
    assert read(b"SHINY 1 2\r\nNew: thing\r\n\r\n") == Unknown("SHINY")
    hello = read(b"HELLO smqp-link/1.9\r\nServer: beta\r\nBoot: 3\r\nShiny: yes\r\n\r\n")
    assert hello == Hello(version=(1, 9), server="beta", boot=3)
    assert read(b"PROBE 3 4\r\nShiny: yes\r\n\r\n") == Probe(3, 4)


def test_of_another_major_version_only_the_name_is_read() -> None:
    hello = read(b"HELLO smqp-link/2.0\r\nServer: beta\r\nBoot: not-a-number\r\n\r\n")
    assert hello == Hello(version=(2, 0), server="beta", boot=0)


@pytest.mark.parametrize(
    ("frame", "number"),
    [
        (b"TRANSFER 17 bad/topic\r\n" + EMPTY_MESSAGE, 17),
        (b"TRANSFER 17 a\r\n\r\n", 17),
        (b"TRANSFER 17\r\n\r\n", 17),
        (b"TRANSFER x a\r\n\r\n", 0),
        (b"TRANSFER 17 a\r\nSections: 1\r\n\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n", 17),
        (b"TRANSFER 17 a\r\nHops: a,,b\r\n" + EMPTY_MESSAGE, 17),
        (b"TRANSFER 17 a\r\nTimeout: soon\r\n" + EMPTY_MESSAGE, 17),
        (b"TRANSFER 17 a\r\nNo colon\r\n" + EMPTY_MESSAGE, 17),
        (b"CONTROL 9 bad kind\r\n\r\n", 9),
        (b"CONTROL 0 interest\r\n\r\n", 0),
        (b"ACK eaten 1\r\nReceived: 1\r\nSent: 2\r\n\r\n", 0),
        (b"ACK accepted 2-1\r\nReceived: 1\r\nSent: 2\r\n\r\n", 0),
        (b"ACK accepted 5,4\r\nReceived: 1\r\nSent: 2\r\n\r\n", 0),
        (b"ACK accepted 5\r\nSent: 2\r\n\r\n", 0),
        (b"ACK accepted 99999999999999999999\r\nReceived: 1\r\nSent: 2\r\n\r\n", 0),
        (b"HELLO http/1.1\r\nServer: beta\r\nBoot: 3\r\n\r\n", 0),
        (b"HELLO smqp-link/1.0\r\nServer: Beta!\r\nBoot: 3\r\n\r\n", 0),
        (b"PROBE 3\r\n\r\n", 0),
    ],
)  # fmt: skip
def test_a_unit_that_cannot_be_read_is_refused_alone_and_the_next_one_is_read(
    frame: bytes, number: int
) -> None:
    units = reader()
    units.feed(frame + to_bytes(Probe(1, 2)))
    with pytest.raises(UnitRefusal) as refused:
        units.take()
    assert refused.value.number == number
    assert units.take() == Probe(1, 2)


def test_a_message_that_is_too_large_is_refused_by_its_number_and_skipped() -> None:
    units = UnitReader(message_bytes_max=1_000)
    units.feed(to_bytes(Transfer(topic="a", wire=b"x" * 1_001, number=5)) + to_bytes(Probe(1, 2)))
    with pytest.raises(UnitRefusal) as refused:
        units.take()
    assert refused.value.number == 5
    assert units.take() == Probe(1, 2)


def test_a_head_without_end_loses_the_framing() -> None:
    units = reader()
    units.feed(b"TRANSFER 1 a\r\n" + b"X-Filler: yyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 3_000)
    with pytest.raises(FramingLost):
        units.take()


@pytest.mark.parametrize("seed", range(20))
def test_mutated_units_are_read_or_refused_and_nothing_else(seed: int) -> None:
    source = random.Random(seed)
    data = bytearray(b"".join(map(to_bytes, UNITS)))
    for _ in range(source.randint(1, 30)):
        data[source.randrange(len(data))] = source.randrange(256)
    units = reader()
    units.feed(bytes(data))
    refusals = 0
    while True:
        try:
            if units.take() is None:
                break
        except FramingLost:
            break
        except UnitRefusal:
            refusals += 1
        assert refusals < 1_000


@pytest.mark.parametrize(
    ("attribute", "greatest"), [("Depth", 2**31 - 1), ("Attempt", 2**31 - 1), ("Timeout", 9_999_999_999)]
)
def test_a_transfer_takes_the_numbers_that_the_header_of_a_message_takes(
    attribute: str, greatest: int
) -> None:
    """What is taken here is written into the store, and has to be read there again."""
    units = reader()
    for number, value in enumerate((greatest + 1, greatest), start=1):
        units.feed(b"TRANSFER %d weather\r\n%s: %d\r\n" % (number, attribute.encode(), value))
        units.feed(EMPTY_MESSAGE)
    with pytest.raises(UnitRefusal) as refused:
        units.take()
    assert refused.value.number == 1
    transfer = units.take()
    assert isinstance(transfer, Transfer)
    assert greatest in (transfer.depth, transfer.attempt, transfer.timeout_left_s)

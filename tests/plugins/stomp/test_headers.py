from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.stomp.codec import unescape
from plugins.stomp.destinations import parse_destination
from plugins.stomp.headers import read_delay, read_message, write_message
from routing.errors import HeaderRefusal
from routing.frames import decode_message, encode_message
from routing.message import DEPTH_UNLIMITED, INFINITE, Message, Section

NOW_MS = 1_795_000_000_000


def read(
    headers: dict[str, str],
    body: bytes = b"",
    destination: str = "T",
    guarantee: bool = False,
    in_transaction: bool = False,
    reply_address: str | None = None,
    delay_s: float = 0.0,
) -> Message:
    return read_message(
        headers,
        body,
        parse_destination(destination),
        depth=0,
        guarantee=guarantee,
        in_transaction=in_transaction,
        reply_address=reply_address,
        wall_ms=lambda: NOW_MS,
        delay_s=delay_s,
    )


def pairs(message: Message) -> list[tuple[str, str]]:
    """What is written, as (name, value)."""
    lines = [line.split(":", 1) for line in write_message(message, "1.2")]
    return [(unescape(name, "1.2"), unescape(value, "1.2")) for name, value in lines]


def written(message: Message) -> dict[str, str]:
    return dict(pairs(message))


def test_smqp_headers_are_read_under_their_stomp_names() -> None:
    message = read(
        {
            "name": "Storm",
            "priority": "7",
            "created": "2026-11-21T10:00:00.25Z",
            "smqp-receipt": "ALL",
            "reply": "YES",
            "timeout": "12.5",
            "depth": "-1",
            "sequence": "3",
            "guarantee": "YES",
            "delivery": "ONE",
            "cmuid": "c-1",
            "mime-version": "1.0",
            "content-type": "text/plain",
        },
        b"hi",
    )
    assert message == Message(
        name="Storm",
        priority=7,
        created="2026-11-21T10:00:00.25Z",
        receipt="ALL",
        reply=True,
        timeout_s=12.5,
        depth=DEPTH_UNLIMITED,
        sequence=3,
        guarantee=True,
        delivery="ONE",
        cmuid="c-1",
        mime_version="1.0",
        sections=(Section("text/plain", b"hi"),),
    )


@pytest.mark.parametrize(
    ("headers", "in_transaction", "guaranteed"),
    [
        ({}, False, False),
        ({"receipt": "1"}, False, True),
        ({}, True, True),
        ({"persistent": "true"}, False, True),
        ({"persistent": "True"}, False, True),
        ({"persistent": "false", "receipt": "1"}, True, False),
        ({"guarantee": "YES", "persistent": "false"}, False, True),
        ({"guarantee": "NO", "persistent": "true", "receipt": "1"}, True, False),
    ],
)
def test_guarantee_then_persistent_then_what_was_asked_for_decide(
    headers: dict[str, str], in_transaction: bool, guaranteed: bool
) -> None:
    assert read(headers, in_transaction=in_transaction).guarantee is guaranteed


@pytest.mark.parametrize(
    ("headers", "timeout_s"),
    [
        ({}, None),
        ({"expires": "0"}, None),
        ({"expires": str(NOW_MS + 2_500)}, 2.5),
        ({"expires": str(NOW_MS - 1)}, 0),
        ({"expires": "253402300799000"}, 9_999_999_999),  # the end of the year 9999
        ({"expires": "9" * 16}, 9_999_999_999),
        ({"expiration": "1500"}, 1.5),
        ({"timeout": "INF"}, INFINITE),
        ({"timeout": "3", "expiration": "1", "expires": "1"}, 3),
    ],
)
def test_a_timeout_is_understood_in_all_dialects(headers: dict[str, str], timeout_s: float | None) -> None:
    assert read(headers).timeout_s == timeout_s


@pytest.mark.parametrize(
    ("destination", "headers", "delivery"),
    [
        ("/queue/T", {}, "ONE"),
        ("/topic/T", {}, "ALL"),
        ("T", {}, None),
        ("T", {"delivery": "ONE"}, "ONE"),
        ("/queue/T", {"delivery": "ONE"}, "ONE"),
    ],
)
def test_the_destination_says_to_how_many_it_goes(
    destination: str, headers: dict[str, str], delivery: str | None
) -> None:
    assert read(headers, destination=destination).delivery == delivery


@pytest.mark.parametrize(
    "headers",
    [
        {"priority": "high"},
        {"priority": "-1"},
        {"priority": ""},
        {"depth": "-2"},
        {"timeout": "soon"},
        {"expires": "tomorrow"},
        {"expires": "-5"},
        {"expires": "9" * 17},
        {"expiration": "9" * 14},
        {"expiration": "1.5"},
        {"persistent": "yes"},
        {"guarantee": "maybe"},
        {"smqp-receipt": "SOME"},
        {"delivery": "TWO"},
        {"sequence": "0"},
        {"created": "today"},
        {"name": "x" * 129},
        {"name": "a\nb"},
        {"cmuid": "a b"},
        {"content-type": "nonsense"},
        {"content-type": "text/plain\r\nX: y"},
        {"content-encoding": "a b"},
        {"content-language": "a\nb"},
    ],
)
def test_a_header_that_cannot_be_read_is_refused_by_name(headers: dict[str, str]) -> None:
    with pytest.raises(HeaderRefusal):
        read(headers, destination="/queue/T")


@pytest.mark.parametrize("destination", ["/queue/T", "/topic/T", "T"])
def test_what_a_message_came_with_may_be_sent_on_with_it(destination: str) -> None:
    received = Message(smuid="a/000000000000-1-1", account="ada:desk@a", hops=("a", "b"), delivery="ONE")
    came = {
        "ack": "1-1",
        "message-id": "a/1",
        "delivery-count": "3",
        "visible-after": "5",
        **written(received),
    }
    sent = read(came, destination=destination)
    assert (sent.smuid, sent.account, sent.hops, sent.others) == ("", "", (), ())
    assert sent.delivery == ("ALL" if destination == "/topic/T" else "ONE")


def test_what_the_first_publisher_wanted_is_not_wanted_by_who_sends_its_message_on() -> None:
    came = written(Message(smuid="a/1", account="ada:desk@a", cmuid="c-1", receipt="ALL", sequence=3))
    sent = read(came, destination="/queue/T")
    assert (sent.cmuid, sent.receipt, sent.sequence) == ("", "NONE", 3)


@pytest.mark.parametrize("name", ["AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_REPEAT", "x-single-active-consumer"])
def test_what_would_mislead_is_refused_by_name(name: str) -> None:
    with pytest.raises(HeaderRefusal, match=name):
        read({name: "1"}, destination="/queue/T")


def test_groups_have_the_names_of_jms() -> None:
    first = read({"JMSXGroupID": " a:b", "JMSXGroupSeq": "1"}, destination="/queue/T")
    assert (first.group, first.ends_group) == ("a:b", False)
    last = read({"JMSXGroupID": "a", "JMSXGroupSeq": "-1"}, destination="/queue/T")
    assert (last.group, last.ends_group) == ("a", True)
    assert read(written(last), destination="/queue/T") == last
    named = ("JMSXGroupID", "JMSXGroupSeq")
    assert [pair for pair in pairs(last) if pair[0] in named] == list(zip(named, ("a", "-1"), strict=True))
    by_smqp = written(Message(group="a", ends_group=True))
    assert (by_smqp["JMSXGroupID"], by_smqp["JMSXGroupSeq"]) == ("a", "-1")
    assert read({"JMSXGroupID": ""}).group is None
    for headers in ({"JMSXGroupID": "x" * 256}, {"JMSXGroupID": "a\nb"}, {"JMSXGroupSeq": "last"}):
        with pytest.raises(HeaderRefusal):
            read(headers)


@pytest.mark.parametrize(
    ("headers", "delay_s"),
    [
        ({}, 0),
        ({"AMQ_SCHEDULED_DELAY": "0"}, 0),
        ({"AMQ_SCHEDULED_DELAY": "1500"}, 1.5),
        ({"x-delay": "60000"}, 60),
        ({"_AMQ_SCHED_DELIVERY": str(NOW_MS + 2_500)}, 2.5),
        ({"_AMQ_SCHED_DELIVERY": str(NOW_MS - 2_500)}, 0),
        ({"AMQ_SCHEDULED_DELAY": "1500", "x-delay": "2000"}, 2),
    ],
)
def test_a_delay_is_read_under_the_names_of_three_brokers(headers: dict[str, str], delay_s: float) -> None:
    assert read_delay(headers, lambda: NOW_MS) == delay_s


def test_a_delay_that_is_too_long_is_named_with_the_longest_there_is() -> None:
    with pytest.raises(
        HeaderRefusal, match="x-delay: '31622400001' is not a delay of at most 31622400000 ms"
    ):
        read_delay({"AMQ_SCHEDULED_DELAY": "5", "x-delay": "31622400001"}, lambda: NOW_MS)
    with pytest.raises(HeaderRefusal, match=f"so a time until {NOW_MS + 31_622_400_000}$"):
        read_delay({"_AMQ_SCHED_DELIVERY": str(NOW_MS + 31_622_400_001)}, lambda: NOW_MS)


@pytest.mark.parametrize("name", ["AMQ_SCHEDULED_DELAY", "x-delay", "_AMQ_SCHED_DELIVERY"])
@pytest.mark.parametrize("value", ["-1", "soon", "1.5", "", "9" * 13, "9" * 30])
def test_a_delay_that_is_none_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(HeaderRefusal, match=name):
        read_delay({name: value}, lambda: NOW_MS)


@pytest.mark.parametrize(
    "headers", [{"timeout": "90"}, {"expiration": "90000"}, {"expires": str(NOW_MS + 90_000)}]
)
def test_the_delay_is_part_of_the_timeout(headers: dict[str, str]) -> None:
    assert read({"AMQ_SCHEDULED_DELAY": "60000", **headers}, delay_s=60.0).timeout_s == 30
    with pytest.raises(HeaderRefusal, match=next(iter(headers))):
        read({"AMQ_SCHEDULED_DELAY": "90000", **headers}, delay_s=90.0)


def test_what_is_delayed_is_guaranteed_and_asks_for_no_receipt_of_subscribers() -> None:
    assert read({"x-delay": "1"}, delay_s=0.001).guarantee
    assert not read({"x-delay": "1", "persistent": "false"}, delay_s=0.001).guarantee
    with pytest.raises(HeaderRefusal, match="smqp-receipt"):
        read({"x-delay": "1", "smqp-receipt": "ONE"}, delay_s=0.001)


def test_a_delay_is_not_carried_so_that_who_sends_the_message_on_does_not_delay_it_again() -> None:
    assert read({"AMQ_SCHEDULED_DELAY": "60000", "x-delay": "60000"}, delay_s=60.0).others == ()


def test_a_site_may_guarantee_every_send() -> None:
    assert read({}, guarantee=True).guarantee
    assert not read({"persistent": "false"}, guarantee=True).guarantee
    assert not read({"guarantee": "NO"}, guarantee=True).guarantee


def test_priority_0_is_the_same_as_none() -> None:
    assert read({"priority": "0"}).priority == 0


def test_headers_of_the_frame_are_no_headers_of_the_message() -> None:
    headers = {"destination": "T", "content-length": "0", "receipt": "1", "transaction": "t"}
    headers |= {"message-id": "m", "subscription": "s", "ack": "a", "redelivered": "true"}
    assert read(headers).others == ()


def test_other_headers_keep_their_order_and_spelling() -> None:
    headers = {"zebra": " 1 ", "Alpha": "2", "x:y": "3", "correlation-id": "4"}
    message = read(headers)
    assert message.others[:2] == (("zebra", " 1 "), ("Alpha", "2"))
    assert [pair for pair in pairs(message) if pair[0] in headers] == list(headers.items())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Receipt", "mine"),
        ("Priority", "high"),
        ("pri", "urgent"),  # short names of SMQP, which are no names of STOMP
        ("seq", "0"),
        ("guar", "2 years"),
        ("Content-Length", "7"),
        ("content-Type", "invoice"),
        ("sections", "7"),
        ("smörgås", "x"),
        ("two words", "x"),
        ("a:b", "x"),
        ("x", "two\r\nlines"),
        ("x", "\x01%0A\t"),
        ("stomp-header", "x"),
        ("Stomp-Header", "a:b"),
        ("n" * 200, "x"),
    ],
)
def test_what_smqp_cannot_name_is_carried_all_the_same(name: str, value: str) -> None:
    message = read({name: value})
    across = decode_message(encode_message(message))
    assert written(across)[name] == value


def test_a_reply_address_is_an_smqp_address_inside_and_a_destination_outside() -> None:
    message = read({"reply-to": "/temp-queue/x"}, reply_address="ada:t1@a")
    assert (message.reply, message.others) == (True, (("reply-to", "ada:t1@a"),))
    assert written(message)["reply-to"] == "/reply-queue/ada:t1@a"


def test_a_reply_address_of_another_is_an_smqp_address_inside_too() -> None:
    message = read({"reply-to": "/reply-queue/ada:desk@a"})
    assert message.others == (("reply-to", "ada:desk@a"),)
    assert written(message)["reply-to"] == "/reply-queue/ada:desk@a"


def test_a_reply_to_that_is_somebodys_queue_passes_unchanged() -> None:
    message = read({"reply-to": "/queue/answers"})
    assert not message.reply
    assert written(message)["reply-to"] == "/queue/answers"


def test_an_smqp_publisher_that_wants_a_reply_gets_it_on_its_system_topic() -> None:
    message = Message(reply=True, account="ada:desk@a", smuid="a/1")
    assert written(message)["reply-to"] == "/reply-queue/ada:desk@a"


def test_a_reply_goes_as_far_as_it_must() -> None:
    assert read({}, destination="/reply-queue/ada:desk@a").depth == DEPTH_UNLIMITED
    assert read({"depth": "1"}, destination="/reply-queue/ada:desk@a").depth == 1


def test_all_that_the_servers_know_is_written() -> None:
    message = Message(
        name="Storm",
        charset="utf-8",
        priority=7,
        created="2026-11-21T10:00:00Z",
        receipt="ONE",
        timeout_s=INFINITE,
        depth=2,
        sequence=3,
        guarantee=False,
        delivery="ALL",
        hops=("a", "b:1"),
        mime_version="1.0",
        smuid="a/1",
        cmuid="c",
        account="ada:desk@a",
    )
    assert written(message) == {
        "name": 'Storm; charset="utf-8"',
        "priority": "7",
        "created": "2026-11-21T10:00:00Z",
        "smqp-receipt": "ONE",
        "timeout": "INFINITE",
        "depth": "2",
        "sequence": "3",
        "guarantee": "NO",
        "delivery": "ALL",
        "hops": "a,b:1",
        "mime-version": "1.0",
        "smuid": "a/1",
        "cmuid": "c",
        "account": "ada:desk@a",
    }


def test_an_smqp_header_that_would_pass_for_one_of_the_frame_is_left_out() -> None:
    others = (("subscription", "1"), ("ack", "2"), ("message-id", "3"), ("destination", "4"), ("x", "5"))
    assert written(Message(others=others, smuid="a/1", account="b:c@d")).keys() & dict(others).keys() == {"x"}


@pytest.mark.parametrize(
    "name", ["hops", "smuid", "delivery-count", "expires", "content-type", "content-x", "name", "JMSXGroupID"]
)
def test_nothing_is_carried_that_would_pass_for_what_servers_write(name: str) -> None:
    others = (("Stomp-Header", f"{name}:forged"), ("Stomp-Header", f"{name.title()}:5"), ("x", "6"))
    out = written(Message(others=others, smuid="a/1", account="b:c@d"))
    assert out == {"smuid": "a/1", "account": "b:c@d", "persistent": "true", name.title(): "5", "x": "6"}


anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(anything.filter(bool), anything, max_size=5), st.binary(max_size=50))
def test_every_sent_message_is_refused_or_can_be_carried_by_smqp(headers: dict[str, str], body: Any) -> None:
    try:
        message = read(headers, body)
    except HeaderRefusal:
        return
    across = decode_message(encode_message(message))
    assert across == message
    out = written(across)
    known = {"name", "priority", "reply", "depth", "delivery", "smuid", "account", "hops"}
    for name, value in headers.items():
        if name in out and name not in known:
            assert out[name] == value

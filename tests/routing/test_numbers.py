"""Numbers from outside: whoever says one that is too great is refused where it is read."""

import msgspec
import pytest

from daemon.control.reports import ReportTold
from daemon.link.controls import InterestTold, ReceiptTold, queries_in
from routing.errors import HeaderRefusal, Refusal
from routing.federation.enquiry import Ask
from routing.frames import check_message, decode_message, encode_head, encode_message
from routing.hops import HopRecord
from routing.message import INFINITE, Message
from routing.names import parse_smuid
from routing.numbers import NUMBER_MAX, SECONDS_MAX, SMALL_MAX, read_integer
from routing.peering.counts import CountsAsked, CountsTold


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-1", None),
        ("9223372036854775807", NUMBER_MAX),
        ("9223372036854775808", None),
        ("1" * 10_000_000, None),
        ("²", None),
        ("٣", None),
        ("1_0", None),
        ("+1", None),
        (" 1", None),
        ("", None),
        ("1e3", None),
        ("nan", None),
    ],
)
def test_a_number_is_decimal_and_fits_into_63_bits(text: str, number: int | None) -> None:
    assert read_integer(text) == number


def test_a_number_may_be_negative_only_where_that_means_something() -> None:
    assert [read_integer(text, least=-1) for text in ("-1", "-2", "--1", "-")] == [-1, None, None, None]


RECORD = '{"version":1,"server":"a","boot":1,"record":1,"time_us":1,"event":"published","%s":%s}'


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (InterestTold, '{"changes":[{"kind":"ALL","name":"t","distance":9223372036854775808}]}'),
        (InterestTold, '{"changes":[{"kind":"ALL","name":"t","distance":-1}]}'),
        (InterestTold, '{"changes":[{"kind":"ALL","name":"t","distance":1e400}]}'),
        (InterestTold, '{"changes":[{"kind":"ALL","name":"%s","distance":1}],"more":true}' % ("t" * 301)),
        (ReceiptTold, '{"query":9223372036854775808,"due":1,"have":1,"closed":true}'),
        (
            CountsTold,
            '{"type":"told","to":"a","hops":["b"],"counts":{"a/1-1-1":{"due":2147483648,"have":1}}}',
        ),
        (CountsAsked, '{"type":"asked","to":"a","hops":[],"smuids":["a/1-1-1"]}'),
        (CountsAsked, '{"type":"asked","to":"a","hops":["b"],"smuids":[%s"a/1-1-1"]}' % ('"a/1-1-1",' * 100)),
        (Ask, '{"key":"a/1-1","about":{"type":"trace","topic":"t","depth":2147483648},"hops":[],"left_s":1}'),
        (Ask, '{"key":"a/1-1","about":{"type":"ping","server":"a"},"hops":["b"],"left_s":1e300}'),
        (
            ReportTold,
            '{"key":"a/1-1","report":{"at":"a","source":"","outcome":"reached","time_us":1000000000000000000}}',
        ),
        (HopRecord, RECORD % ("size", 2**63)),
        (HopRecord, RECORD % ("depth", -2)),
        (HopRecord, RECORD % ("peer_sent_us", 10**18)),
        (HopRecord, RECORD % ("expires_us", -2)),
    ],
)
def test_what_sites_tell_each_other_and_write_down_is_bounded(kind: type, payload: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(payload, type=kind)


def test_a_question_in_the_flags_of_a_transfer_is_bounded() -> None:
    assert queries_in((f"query-{NUMBER_MAX}",), "query-") == (NUMBER_MAX,)
    with pytest.raises(Refusal):
        queries_in((f"query-{NUMBER_MAX + 1}",), "query-")


def test_the_parts_of_an_id_are_bounded() -> None:
    assert parse_smuid(f"a/0123456789ab-{'f' * 15}-{'f' * 15}").boot < NUMBER_MAX
    with pytest.raises(HeaderRefusal):
        parse_smuid(f"a/0123456789ab-{'f' * 16}-1")


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"depth": SMALL_MAX + 1}, "Depth"),
        ({"depth": -2}, "Depth"),
        ({"priority": SMALL_MAX + 1}, "Priority"),
        ({"sequence": NUMBER_MAX + 1}, "Sequence"),
        ({"sequence": 0}, "Sequence"),
        ({"timeout_s": SECONDS_MAX}, "Timeout"),
        ({"timeout_s": -1.0}, "Timeout"),
        ({"timeout_s": float("nan")}, "Timeout"),
    ],
)
def test_a_message_with_a_number_that_nobody_could_read_again_is_refused(
    fields: dict[str, float], header: str
) -> None:
    for check in (check_message, encode_head):
        with pytest.raises(HeaderRefusal) as refused:
            check(Message(**fields))  # type: ignore[arg-type]
        assert header in refused.value.text


@pytest.mark.parametrize(
    "message",
    [
        Message(depth=-1, priority=SMALL_MAX, sequence=NUMBER_MAX, timeout_s=INFINITE),
        Message(depth=SMALL_MAX, timeout_s=9_999_999_999.5),
    ],
)
def test_the_greatest_numbers_come_back_as_they_were(message: Message) -> None:
    check_message(message)
    assert decode_message(encode_message(message)) == message

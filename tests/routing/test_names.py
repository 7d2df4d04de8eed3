from typing import Any

import pytest

from routing.errors import HeaderRefusal, Refusal
from routing.names import (
    Address,
    Smuid,
    account_name,
    birth_ms,
    channel_name,
    check_cmuid,
    check_topic,
    dead_letter_topic,
    is_system_topic,
    make_address,
    make_smuid,
    parse_address,
    parse_smuid,
    server_name,
)
from tests.support.remembered import bytes_kept


@pytest.mark.parametrize(
    "name", ["smqp.example", "smqp.example:1720", "localhost", "10.0.0.1:65535", "[::1]:720"]
)
def test_server_names(name: Any) -> None:
    assert server_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "Smqp.example", "a b", "host:", "host:0", "host:65536", "a/b", "-a", "a,b"]
)
def test_what_is_no_server_name_is_refused(name: Any) -> None:
    with pytest.raises(Refusal, match="server name"):
        server_name(name)


def test_smuid_comes_apart_as_it_was_made() -> None:
    smuid = make_smuid("smqp.example:1720", 1_795_255_200_250, 7, 255)
    assert smuid == "smqp.example:1720/01a1fd8c69fa-7-ff"
    assert parse_smuid(smuid) == Smuid("smqp.example:1720", 1_795_255_200_250, 7, 255)
    assert str(parse_smuid(smuid)) == smuid


def test_smuids_of_one_server_sort_by_age_as_text() -> None:
    assert make_smuid("a", 999, 9, 1) < make_smuid("a", 1000, 1, 1) < make_smuid("a", 2**44, 0, 0)


def test_messages_that_are_born_together_share_one_number() -> None:
    first, second = (make_smuid("a", 1_795_255_200_250, 7, counter) for counter in (1, 2))
    assert birth_ms(first) == 1_795_255_200_250
    assert birth_ms(first) is birth_ms(second)


@pytest.mark.parametrize(
    "text", ["", "a", "a/", "a/1-2-3", "A/0193abcdef01-1-1", "a/0193abcdef01-1-1 ", "a/x-y-z"]
)
def test_what_is_no_smuid_is_refused_by_header_and_value(text: str) -> None:
    with pytest.raises(HeaderRefusal) as refusal:
        parse_smuid(text)
    assert (refusal.value.header, refusal.value.value) == ("Smuid", text)
    example = refusal.value.expected.rpartition(" ")[2]
    assert parse_smuid(example).server == "alpha.example"


def test_address_comes_apart_as_it_was_made() -> None:
    text = make_address("ada+ops", "desk", "smqp.example:1720")
    assert parse_address(text) == Address("ada+ops", "desk", "smqp.example:1720")
    assert str(parse_address(text)) == text
    assert is_system_topic(text)


@pytest.mark.parametrize(
    "text", ["", "ada", "ada@host", "ada:desk", "ada:de+sk@host", "ada:desk@Host", "a:b@c d"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(HeaderRefusal, match="Account"):
        parse_address(text)
    assert not is_system_topic(text)


@pytest.mark.parametrize(
    "text", ["a", "weather.oslo", "vær.øst", "ada:desk@smqp.example:1720", "x" * 255, "@"]
)
def test_topics(text: str) -> None:
    assert check_topic(text) == text


@pytest.mark.parametrize(
    "text", ["", "a b", "a/b", "a*", "#", "a>b", "a\nb", "a\x7f", "a\u2028b", "x" * 256, "ø" * 128, "\ud800"]
)
def test_what_is_no_topic_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refusal:
        check_topic(text)
    assert refusal.value.code == Refusal.BAD_TOPIC


def test_accounts_channels_and_client_ids() -> None:
    assert account_name("ada.l+x_y-1") == "ada.l+x_y-1"
    assert channel_name("desk-1") == "desk-1"
    assert check_cmuid("ø-1") == "ø-1"
    for bad in ("", "a/b", "a:b", "a@b", "x" * 65, "a b"):
        with pytest.raises(Refusal):
            account_name(bad)
        with pytest.raises(Refusal):
            channel_name(bad)
    with pytest.raises(Refusal):
        channel_name("a+b")
    for bad in ("", "a b", "a\n", "x" * 256):
        with pytest.raises(HeaderRefusal, match="Cmuid"):
            check_cmuid(bad)


@pytest.mark.parametrize(
    "topic", ["t" * 250, "t" * 251, "t" * 255, "\u00fc" * 125, "\u00fc" * 126, "\U0001f600" * 63]
)
def test_every_topic_has_dead_letters_that_can_be_subscribed_to(topic: Any) -> None:
    dead = dead_letter_topic(topic)
    assert check_topic(dead) == dead
    assert dead.startswith("dead." + topic[:50])
    assert dead != dead_letter_topic(topic[:-1])


def test_dead_letters_of_two_long_topics_are_apart() -> None:
    assert dead_letter_topic("t" * 254 + "a") != dead_letter_topic("t" * 254 + "b")


def test_dead_letters_of_a_system_topic_are_none() -> None:
    assert not is_system_topic(dead_letter_topic("ada:desk@smqp.example"))


def test_what_can_be_no_topic_is_not_remembered() -> None:
    assert bytes_kept(lambda number: is_system_topic(f"{number:04d}@" + "x" * 10_000)) < 100_000

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.frontend import SubscribeOptions
from plugins.smqp.protocol import IDS_MAX, read_command, read_ids, reply_key, write_ids, write_login
from plugins.smqp.requests import (
    Commit,
    ConnectTo,
    Detach,
    Login,
    Ping,
    Publish,
    Quit,
    Received,
    Remove,
    Return,
    SetDelivery,
    SetTimeout,
    Subscribe,
    Unsubscribe,
)
from routing.errors import HeaderRefusal, Refusal
from routing.frames import Frame
from routing.message import INFINITE, Message, Section


def read(start_line: str, *lines: str) -> Any:
    command, _, arguments = start_line.partition(" ")
    return read_command(
        Frame(command, arguments, [(name, value) for name, value in (line.split(": ", 1) for line in lines)])
    )


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        (["PASS ada/desk secret"], Login("ada", "desk", "secret")),
        (["PASSWORD ada secret"], Login("ada", "default", "secret")),
        (["PASS  ada   two words "], Login("ada", "default", "  two words ")),
        (["SUBSCRIBE t"], Subscribe("t", SubscribeOptions())),
        (
            ["SUBSCRIBE t", "Credit: 5", "Accept: one", "Durable: NO", "Ordered: YES", "Lock: 2.5"],
            Subscribe(
                "t", SubscribeOptions(credit=5, accepts="ONE", durable=False, ordered=True, lock_s=2.5)
            ),
        ),
        (["SUBSCRIBE t", "Shared: YES"], Subscribe("t", SubscribeOptions(shared=True))),
        (
            ["SUBSCRIBE t", "Subscription: second", "Request: 7"],
            Subscribe("t", SubscribeOptions(name="second"), request="7"),
        ),
        (["UNSUBSCRIBE t"], Unsubscribe("t", "")),
        (["UNSUBSCRIBE t", "subscription: x"], Unsubscribe("t", "x")),
        (["DETACH t", "Request: r"], Detach("t", "", request="r")),
        (["RECEIVED 5"], Received([5])),
        (["COMMIT 5 17-20", "Request: 1"], Commit([5, 17, 18, 19, 20], request="1")),
        (["RETURN 1-2"], Return([1, 2], "", 0.0)),
        (["RETURN 1", "Reason: no disk", "Delay: 1.5"], Return([1], "no disk", 1.5)),
        (["REMOVE t a/0193abcdef01-1-1"], Remove("t", "a/0193abcdef01-1-1")),
        (["SET TOPIC DELIVERY t ONE"], SetDelivery("t", "ONE")),
        (["SET topic delivery t none"], SetDelivery("t", None)),
        (["SET TOPIC TIMEOUT t 2.5"], SetTimeout("t", 2.5)),
        (["SET TOPIC TIMEOUT t INF"], SetTimeout("t", INFINITE)),
        (["SET TOPIC TIMEOUT t NONE"], SetTimeout("t", None)),
        (["CONNECTTO bob/desk 4711"], ConnectTo("bob", "desk", None, 4711)),
        (["CONNECTTO bob/desk host.example:1"], ConnectTo("bob", "desk", "host.example", 1)),
        (["CONNECTTO bob/desk [::1]:1"], ConnectTo("bob", "desk", "[::1]", 1)),
        (["PING"], Ping()),
        (["PING", "Request: a"], Ping(request="a")),
        (["QUIT"], Quit()),
    ],
)
def test_a_command_is_read(lines: list[str], command: Any) -> None:
    assert read(*lines) == command


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["HELO x"], Refusal.BAD_COMMAND),
        (["PASS ada"], Refusal.BAD_COMMAND),
        (["PASS a:b c"], Refusal.BAD_LOGIN),
        (["PASS ada/a@b c"], Refusal.BAD_LOGIN),
        (["SUBSCRIBE"], Refusal.BAD_COMMAND),
        (["SUBSCRIBE a b"], Refusal.BAD_COMMAND),
        (["SUBSCRIBE a/b"], Refusal.BAD_TOPIC),
        (["COMMIT"], Refusal.BAD_COMMAND),
        (["COMMIT x"], Refusal.BAD_COMMAND),
        (["COMMIT 5-4"], Refusal.BAD_COMMAND),
        (["COMMIT 1-999999999999"], Refusal.TOO_MANY),
        (["COMMIT 1-6000 1-6000"], Refusal.TOO_MANY),
        (["SET TOPIC COLOUR t ONE"], Refusal.BAD_COMMAND),
        (["SET TOPIC DELIVERY t"], Refusal.BAD_COMMAND),
        (["CONNECTTO bob 4711"], Refusal.BAD_LOGIN),
        (["CONNECTTO bob/desk 0"], Refusal.BAD_COMMAND),
        (["CONNECTTO bob/desk 65536"], Refusal.BAD_COMMAND),
        (["CONNECTTO bob/desk a:1:2"], Refusal.BAD_COMMAND),
        (["CONNECTTO bob/desk :2"], Refusal.BAD_COMMAND),
        (["PUBLISH a b"], Refusal.BAD_TOPIC),
    ],
)
def test_a_command_that_cannot_be_read_is_refused_with_the_form_it_has(lines: list[str], code: str) -> None:
    with pytest.raises(Refusal) as refusal:
        read(*lines)
    assert refusal.value.code == code
    assert refusal.value.text


@pytest.mark.parametrize(
    ("lines", "header", "value"),
    [
        (["SUBSCRIBE t", "Credits: 5"], "Credits", "5"),
        (["SUBSCRIBE t", "Credit: -1"], "Credit", "-1"),
        (["SUBSCRIBE t", "Credit: 1", "credit: 2"], "credit", "2"),
        (["SUBSCRIBE t", "Accept: NONE"], "Accept", "NONE"),
        (["SUBSCRIBE t", "Lock: 0"], "Lock", "0"),
        (["SUBSCRIBE t", "Lock: INF"], "Lock", "INF"),
        (["SUBSCRIBE t", "Subscription: a b"], "Subscription", "a b"),
        (["RETURN 1", "Delay: never"], "Delay", "never"),
        (["PING", "Request: a b"], "Request", "a b"),
        (["PING", "X: 1"], "X", "1"),
        (["SET TOPIC DELIVERY t SOME"], "Delivery", "SOME"),
        (["SET TOPIC TIMEOUT t soon"], "Timeout", "soon"),
        (["REMOVE t 17"], "Smuid", "17"),
        (["PUBLISH t", "Created: 2026-11-21T10:00:00Z"], "Cmuid", ""),
        (["PUBLISH t", "Cmuid: 1"], "Created", ""),
        (["PUBLISH t", "Cmuid: 1", "Created: today"], "Created", "today"),
    ],
)
def test_an_attribute_that_cannot_be_read_is_refused_by_name_and_value(
    lines: list[str], header: str, value: str
) -> None:
    with pytest.raises(HeaderRefusal) as refusal:
        read(*lines)
    assert (refusal.value.header, refusal.value.value) == (header, value)


@pytest.mark.parametrize("command", ["PASS\tADA\tSECRET", "PASS\u00a0ADA\u00a0SECRET", "PASSWORT"])
def test_of_a_login_that_cannot_be_read_no_password_is_told(command: str) -> None:
    frame = Frame(command, "ada secret")
    with pytest.raises(Refusal) as refusal:
        read_command(frame)
    assert "secret" not in f"{refusal.value.text} {reply_key(frame)}".lower()


@pytest.mark.parametrize("password", ["", "sec\x01ret", "sec\nret", "sec\udce9ret"])
def test_a_login_that_cannot_be_written_is_refused_without_its_password(password: str) -> None:
    with pytest.raises(Refusal, match="the password is ") as refusal:
        write_login("ada", password, "desk")
    assert refusal.value.code == Refusal.BAD_LOGIN
    assert "sec" not in refusal.value.text


@pytest.mark.parametrize(("account", "channel"), [("a b", "desk"), ("ada", "a b"), ("a/b", None), ("", None)])
def test_a_login_that_would_be_read_as_another_is_refused(account: str, channel: str | None) -> None:
    with pytest.raises(Refusal) as refusal:
        write_login(account, "secret", channel)
    assert "secret" not in refusal.value.text


def test_a_login_is_read_as_it_was_written() -> None:
    assert read("PASS " + write_login("ada", "two words ", "desk")) == Login("ada", "desk", "two words ")
    assert read("PASS " + write_login("ada", " secret", None)) == Login("ada", "default", " secret")


def test_publish_carries_all_header_lines_as_the_message() -> None:
    sections = (Section("text/plain", b"rain"),)
    headers = [("Cmuid", "1"), ("Created", "2026-11-21T10:00:00Z"), ("Request", "7"), ("Pri", "3")]
    assert read_command(Frame("PUBLISH", "weather.oslo", headers, sections)) == Publish(
        "weather.oslo",
        Message(
            cmuid="1",
            created="2026-11-21T10:00:00Z",
            priority=3,
            others=(("Request", "7"),),
            sections=sections,
        ),
    )


def test_only_publish_has_sections() -> None:
    with pytest.raises(Refusal, match="sections"):
        read_command(Frame("PING", "", [], (Section("text/plain", b""),)))


@given(st.sets(st.integers(1, 10**17), max_size=50) | st.sets(st.integers(1, 60)))
def test_ids_are_read_as_they_were_written(numbers: Any) -> None:
    assert list(read_ids(write_ids(numbers).split())) == sorted(numbers)


def test_a_frame_names_a_bounded_number_of_deliveries() -> None:
    assert len(read_ids([f"1-{IDS_MAX}"])) == IDS_MAX
    with pytest.raises(Refusal):
        read_ids([f"1-{IDS_MAX + 1}"])
    with pytest.raises(Refusal):
        read_ids([f"1-{IDS_MAX}", "1"])

import base64

import pytest

from plugins.stomp.codec import Frame
from plugins.stomp.connect import HEART_BEAT_MS_MAX, Connect, NoCommonVersion, read_connect
from routing.errors import HeaderRefusal, Refusal
from routing.names import channel_name


def connect(headers: dict[str, str], token_passcode: bool = False) -> Connect:
    return read_connect(Frame("CONNECT", headers), token_passcode=token_passcode)


@pytest.mark.parametrize(
    ("accepted", "version"),
    [
        (None, "1.0"),
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.2", "1.2"),
        ("1.0,1.1,2.0", "1.1"),
        ("1.2,1.1,1.0", "1.2"),
        (" 1.1 , 1.2 ", "1.2"),
    ],
)
def test_the_highest_common_version_is_agreed(accepted: str | None, version: str) -> None:
    assert connect({} if accepted is None else {"accept-version": accepted}).version == version


@pytest.mark.parametrize("accepted", ["", "2.0", "1", "1.3,0.9", ","])
def test_without_a_common_version_the_login_is_refused(accepted: str) -> None:
    with pytest.raises(NoCommonVersion, match=r"1\.0, 1\.1, 1\.2"):
        connect({"accept-version": accepted})


def test_login_passcode_and_client_id_are_taken_as_they_are() -> None:
    asked = connect({"accept-version": "1.2", "login": "ada", "passcode": " p:w\\c ", "client-id": "desk"})
    assert (asked.account, asked.password, asked.channel) == ("ada", " p:w\\c ", "desk")


@pytest.mark.parametrize("client_id", ["ID:DESK-7-50123-638.1-1:0", "a b", "é", "x" * 65, "/"])
def test_a_client_id_that_is_no_channel_stands_for_one(client_id: str) -> None:
    channel = connect({"accept-version": "1.2", "client-id": client_id}).channel
    assert channel is not None
    assert channel_name(channel) == channel
    assert connect({"accept-version": "1.2", "client-id": client_id + "é"}).channel != channel


def test_an_empty_client_id_names_no_channel() -> None:
    assert connect({"accept-version": "1.2", "client-id": ""}).channel is None


def test_padding_is_no_part_of_a_login_in_1_0() -> None:
    asked = connect({"login": " ada", "passcode": " pw "})
    assert (asked.account, asked.password) == ("ada", "pw")


def test_a_missing_login_is_an_empty_one() -> None:
    asked = connect({})
    assert (asked.account, asked.password, asked.channel) == ("", "", None)


def test_a_token_is_the_password_in_base64() -> None:
    token = base64.b64encode("pæss".encode()).decode()
    assert connect({"passcode": token}, token_passcode=True).password == "pæss"


@pytest.mark.parametrize("token", ["pæss", "æ", "not base64!", "/w=="])
def test_what_is_no_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(Refusal) as raised:
        connect({"passcode": token}, token_passcode=True)
    assert raised.value.code == Refusal.BAD_LOGIN
    assert token not in raised.value.text


@pytest.mark.parametrize(
    ("header", "beats"),
    [
        ("0,0", (0, 0)),
        ("10000,5000", (10_000, 5_000)),
        (" 1 , 2 ", (1, 2)),
        ("999999999999,0", (HEART_BEAT_MS_MAX, 0)),
    ],
)
def test_heart_beats_are_two_numbers(header: str, beats: tuple[int, int]) -> None:
    asked = connect({"accept-version": "1.2", "heart-beat": header})
    assert (asked.sends_every_ms, asked.wants_every_ms) == beats


@pytest.mark.parametrize(
    "header", ["", "1", "1,", ",1", "a,b", "-1,0", "1,2,3", "1.5,0", "٣,0", "9" * 30 + ",0"]
)
def test_other_heart_beats_are_refused(header: str) -> None:
    with pytest.raises(HeaderRefusal, match="heart-beat"):
        connect({"accept-version": "1.2", "heart-beat": header})

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.terminal.printable import printable


@pytest.mark.parametrize("text", ["news.sport", "ada:desk@alpha.example", "Grüße aus Köln", "天気", "[red]"])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb\nc", "a\\rb\\nc"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202egpj.exe", "abc\\u202egpj.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_would_act_on_a_terminal_is_shown_as_an_escape(hostile: str, shown: str) -> None:
    assert printable(hostile) == shown


@given(st.text())
def test_nothing_else_gets_through(text: str) -> None:
    assert all(
        character == " " or unicodedata.category(character)[0] not in "CZ" for character in printable(text)
    )

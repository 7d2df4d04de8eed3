"""Lines that the journal, people, and nobody's forger can work with."""

import json
import logging
import sys

import pytest

from daemon.system.log import JournalFormatter, JsonFormatter, TextFormatter


def record(level: int, text: str, *arguments: object, failed: bool = False) -> logging.LogRecord:
    made = logging.LogRecord("daemon.connections.listen", level, "", 0, text, arguments, None)
    made.created, made.msecs = 1_800_000_000.25, 250.0
    if failed:
        try:
            raise KeyError("a\nb")
        except KeyError:
            made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.DEBUG, 7)],
)
def test_the_journal_gets_a_priority(level: int, priority: int) -> None:
    line = JournalFormatter().format(record(level, "%s came", "ann"))
    assert line == f"<{priority}>daemon.connections.listen: ann came"


def test_people_get_the_time_in_utc() -> None:
    line = TextFormatter().format(record(logging.INFO, "%s came", "ann"))
    assert line == "2027-01-15T08:00:00.250Z info daemon.connections.listen: ann came"


@pytest.mark.parametrize("formatter", [JournalFormatter(), TextFormatter()])
def test_what_a_peer_sent_cannot_forge_a_line(formatter: logging.Formatter) -> None:
    line = formatter.format(record(logging.INFO, "hello %s", "x\n<0>forged\r\x1b[2J\u2028\x85"))
    assert line.endswith("hello x\\x0a<0>forged\\x0d\\x1b[2J\\u2028\\x85")


FORGED, SHOWN = "evil\n\x9b31m\u2028x", "evil\\x0a\\x9b31m\\u2028x"


def test_what_a_peer_sent_is_escaped_in_the_fields_of_an_object() -> None:
    made = record(logging.INFO, "hello %s", FORGED)
    made.fields = {"account": FORGED, "session": 7}
    told = json.loads(JsonFormatter().format(made))
    assert (told["text"], told["account"], told["session"]) == (f"hello {SHOWN}", SHOWN, 7)


def test_every_line_of_a_traceback_has_the_priority() -> None:
    lines = JournalFormatter().format(record(logging.ERROR, "failed", failed=True)).split("\n")
    assert lines[1] == "<3>Traceback (most recent call last):"
    assert all(line.startswith("<3>") for line in lines)
    assert lines[-1] == r"<3>KeyError: 'a\nb'"


def test_a_traceback_for_people_follows_its_line() -> None:
    text = TextFormatter().format(record(logging.ERROR, "failed", failed=True))
    assert "failed\nTraceback (most recent call last):\n" in text

"""What the journal gets, by a socket like its own."""

import logging
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.settings import LogSettings
from daemon.system import log
from daemon.system.limited_log import LimitedLog

ENTRY_BYTES_MAX = 1 << 20


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[socket.socket]:
    """Where entries come; all that is logged goes there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.setblocking(False)
        log.set_up(LogSettings(format="journal"), str(tmp_path / "socket"))
        yield listening
        log.set_up(LogSettings())


def entry(journal: socket.socket) -> dict[str, str]:
    """The next one, read as systemd documents it."""
    data, files, _, _ = socket.recv_fds(journal, ENTRY_BYTES_MAX, 1)
    if files:
        assert not data
        with os.fdopen(files[0], "rb") as file:
            data = os.pread(file.fileno(), ENTRY_BYTES_MAX * 4, 0)
            with pytest.raises(OSError, match="not permitted"):
                os.pwrite(file.fileno(), b"x", 0)
    found = {}
    while data:
        line, _, data = data.partition(b"\n")
        if b"=" in line:
            name, _, value = line.partition(b"=")
        else:
            name, (length,) = line, struct.unpack("<Q", data[:8])
            value, data = data[8 : 8 + length], data[8 + length + 1 :]
        found[name.decode()] = value.decode()
    return found


async def test_an_entry_has_fields_to_search_for(journal: socket.socket) -> None:
    logins = LimitedLog(logging.getLogger("daemon.site.site"), "logins")
    logins.log(
        logging.WARNING, "login of %s refused", "ada\nx", fields={"event": "login-refused", "session": 3}
    )
    assert entry(journal) == {
        "MESSAGE": "login of ada\\x0ax refused",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "smqpd",
        "SMQPD_FROM": "daemon.site.site",
        "SMQPD_EVENT": "login-refused",
        "SMQPD_SESSION": "3",
    }


def test_what_has_lines_comes_whole_and_forges_no_field(journal: socket.socket) -> None:
    fields = {"fields": {"account": "ada\nPRIORITY=0"}}
    try:
        raise KeyError("lost")
    except KeyError:
        logging.getLogger("smqpd").exception("failed", extra=fields)
    found = entry(journal)
    assert found["MESSAGE"].startswith("failed\nTraceback (most recent call last):\n")
    assert (found["PRIORITY"], found["SMQPD_ACCOUNT"]) == ("3", "ada\nPRIORITY=0")


def test_what_is_too_large_for_a_datagram_is_passed_in_a_sealed_file(journal: socket.socket) -> None:
    text = "x" * 2_000_000
    logging.getLogger("smqpd").info(text)
    assert entry(journal)["MESSAGE"] == text


def test_without_a_journal_lines_go_to_stderr(
    journal: socket.socket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.set_up(LogSettings(format="journal"), str(tmp_path / "nothing"))
    logging.getLogger("smqpd").info("came")
    assert capsys.readouterr().err == "<6>smqpd: came\n"

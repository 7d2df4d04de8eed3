"""The journal's own protocol: each line of the log as one datagram, with fields that can be searched for.

    journalctl SMQPD_ACCOUNT=ada SMQPD_EVENT=login

Source: systemd's JOURNAL_NATIVE_PROTOCOL. A field is `NAME=value`, or, where the value has line ends, the
name, its length in eight bytes and the value. What is too large for a datagram is passed in a sealed
memory file.
"""

import errno
import fcntl
import logging
import os
import socket
import struct
from collections.abc import Mapping
from typing import Final

PRIORITIES: Final = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}
"""Of syslog, by the levels of `logging`."""

ADDRESS: Final = "/run/systemd/journal/socket"
IDENTIFIER: Final = "smqpd"
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def encode_entry(fields: Mapping[str, str]) -> bytes:
    """An entry of these fields; names are upper-case letters, digits and `_`."""
    out = bytearray()
    for name, value in fields.items():
        data = value.encode(errors="replace")
        if b"\n" in data:
            out += name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
        else:
            out += name.encode() + b"=" + data + b"\n"
    return bytes(out)


class JournalSocket:
    """To send entries to; a journal that was restarted is found again."""

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send(self, entry: bytes) -> None:
        """Send an entry to the journal. Raises OSError where there is none."""
        try:
            self._socket.sendto(entry, self._address)
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            self._send_file(entry)

    def close(self) -> None:
        """Send nothing more."""
        self._socket.close()

    def _send_file(self, entry: bytes) -> None:
        file = os.memfd_create("smqpd-log", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        try:
            with open(file, "wb", closefd=False) as stream:
                stream.write(entry)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            passed = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", file))
            self._socket.sendmsg([b""], [passed], 0, self._address)
        finally:
            os.close(file)


class JournalHandler(logging.Handler):
    """Sends each record as an entry; to `otherwise` where there is no journal."""

    def __init__(self, otherwise: logging.Handler, address: str = ADDRESS) -> None:
        super().__init__()
        self._otherwise = otherwise
        self._journal = JournalSocket(address)

    def close(self) -> None:
        """Send nothing more."""
        self._journal.close()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the journal. Never raises."""
        try:
            fields = {
                "MESSAGE": self.format(record),
                "PRIORITY": str(PRIORITIES.get(record.levelno, 5)),
                "SYSLOG_IDENTIFIER": IDENTIFIER,
                "SMQPD_FROM": record.name,
            }
            for name, value in getattr(record, "fields", {}).items():
                fields[f"SMQPD_{name.upper()}"] = str(value)
            self._journal.send(encode_entry(fields))
        except OSError:
            self._otherwise.handle(record)
        except Exception:
            self.handleError(record)

"""Logs go to stderr, a line an event, for the journal or for people; or to the journal itself, with fields.

The journal takes a priority from a `<N>` at the beginning of each line (sd-daemon(3)) and stamps the
time itself. Messages may quote what a peer sent: control characters are escaped, so that nobody can
forge a line. Nothing here knows of secrets; who logs leaves them out.
"""

import json
import logging
import os
import sys
import time
from typing import Any, Final

from daemon.settings import LogSettings
from daemon.system.journal import ADDRESS, PRIORITIES, JournalHandler

CONTROL_CHARACTERS: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def one_line(text: str, characters_max: int) -> str:
    """What somebody else may have written, as one line of UTF-8: what no line may hold is escaped.

    It is cut off after so many characters.
    """
    shown = text[:characters_max].translate(CONTROL_CHARACTERS)
    return shown.encode(errors="backslashreplace").decode()[:characters_max]


class JournalFormatter(logging.Formatter):
    """`<6>daemon.connections.listen: text`, with the priority on every line of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{PRIORITIES.get(record.levelno, 5)}>"
        lines = [_text(record), *_traceback(self, record)]
        return "\n".join(prefix + line for line in lines)


class EntryFormatter(logging.Formatter):
    """What is said, then the lines of a traceback: for a journal that has the rest in fields."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join([_message(record), *_traceback(self, record)])


class TextFormatter(logging.Formatter):
    """`2026-11-21T10:00:00.250Z warning daemon.connections.listen: text`, then the lines of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{_stamp(record)} {record.levelname.lower()}"
        return "\n".join([f"{stamp} {_text(record)}", *_traceback(self, record)])


class JsonFormatter(logging.Formatter):
    """`{"time": "2026-11-21T10:00:00.250Z", "level": "warning", "from": "daemon.site.site", "text": ...}`.

    A login has `event`, `account`, `protocol`, `address` and `session` besides, and so on.
    """

    def format(self, record: logging.LogRecord) -> str:
        shown = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "from": record.name,
            "text": _message(record),
            **{name: _printable(value) for name, value in getattr(record, "fields", {}).items()},
        }
        if traceback := _traceback(self, record):
            shown["traceback"] = "\n".join(traceback)
        return json.dumps(shown, ensure_ascii=False)


def set_up(settings: LogSettings, journal: str = ADDRESS) -> None:
    """Log as `settings` say; can be called again. `journal` is where the journal listens."""
    to_journal = settings.format == "journal" or (settings.format == "auto" and _stderr_is_journal())
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if settings.format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(JournalFormatter() if to_journal else TextFormatter())
    if settings.format == "journal":
        handler = JournalHandler(handler, journal)
        handler.setFormatter(EntryFormatter())
    root = logging.getLogger()
    for before in root.handlers:
        if isinstance(before, JournalHandler):
            before.close()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())


def _stamp(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"


def _text(record: logging.LogRecord) -> str:
    return f"{record.name}: {_message(record)}"


def _message(record: logging.LogRecord) -> str:
    return record.getMessage().translate(CONTROL_CHARACTERS)


def _printable(value: Any) -> Any:
    """Text with its control characters and line ends escaped; anything else as it is."""
    return value.translate(CONTROL_CHARACTERS) if isinstance(value, str) else value


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    if not record.exc_info:
        return []
    return [
        line.translate(CONTROL_CHARACTERS) for line in formatter.formatException(record.exc_info).split("\n")
    ]


def _stderr_is_journal() -> bool:
    """Whether stderr is the stream that JOURNAL_STREAM names (systemd.exec(5))."""
    try:
        stderr = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stderr.st_dev}:{stderr.st_ino}"

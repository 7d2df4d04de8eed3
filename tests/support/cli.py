"""The command line, called as a shell would, in this process."""

import io
import os
import signal
import sys
from typing import Any

import pytest

from daemon.cli.main import main
from tests.support.process import PRETENCES


class Shell:
    """Runs `smqpd` with arguments and stdin; `out` and `err` are what the last command printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: object, stdin: str = "") -> int:
        """The exit code."""
        self._monkeypatch.setattr(sys, "argv", ["smqpd", *map(str, arguments)])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(os.fsencode(stdin))))
        for name in PRETENCES:
            self._monkeypatch.delenv(name, raising=False)
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self.out, self.err = self._capsys.readouterr()
        return int(ended.value.code or 0)

"""Runs the examples of a document: each ```console block is a dialogue with a shell.

    $ command              run in the document's own empty directory, and to exit with 0
    $ command &            left running until the document ends; what it prints is waited for, after what a
                           site may have to say before, `BEFORE`
    expected output        `...` as a line stands for any lines, within a line for anything;
                           no expected output means: whatever

All blocks of one document are one session. The port 7720 is replaced by one that is free, so that the
examples can be run beside a site that has it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Final

import msgspec

from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import inherited

PORT: Final = "7720"
BEFORE: Final = re.compile(r".* (link with \S+ is up .*|connections_max is \d+, but .*)")
"""A link may be up before a site says that it runs, and few files be allowed."""

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class ShownCommand(msgspec.Struct):
    """One command, and the output it is shown with."""

    command: str
    output: list[str]


class MismatchError(AssertionError):
    """An example does not do what the document shows."""


def steps(markdown: str) -> list[ShownCommand]:
    """The commands of all console blocks, in order."""
    found: list[ShownCommand] = []
    for block in _BLOCK.findall(markdown):
        begins = len(found)
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(ShownCommand(line[2:], []))
            elif line.startswith("> ") and len(found) > begins and not found[-1].output:
                found[-1].command += "\n" + line[2:]
            elif len(found) > begins:
                found[-1].output.append(line)
            else:
                raise MismatchError(f"a console block begins with {line!r}, not with a command")
    return found


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the output is what the document shows."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part.rstrip()) for part in line.split("...")) + r"[ ]*\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)) is not None


@contextmanager
def _ended_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    """With all that it has started: what it leaves behind could hold what its output is read from."""

    def end() -> None:
        with suppress(ProcessLookupError):  # it has ended at this moment
            os.killpg(process.pid, signal.SIGKILL)

    timer = Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class ShellSession:
    """One document's shell, in `directory`; `close` it to end what runs in the background."""

    def __init__(self, directory: Path, patience_s: float = PATIENCE_S) -> None:
        if shutil.which("smqpd", path=str(Path(sys.executable).parent)) is None:
            raise MismatchError("smqpd is not installed beside this Python; use tests/run")
        self._directory = directory
        self._patience_s = patience_s
        self._port = str(free_port())
        self._background: list[subprocess.Popen[str]] = []
        kept = {name: value for name, value in inherited().items() if not name.startswith("SMQPD_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = kept | {
            "PATH": path, "HOME": str(directory), "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
        }  # fmt: skip

    def run(self, step: ShownCommand) -> None:
        """Do what a reader would do. Raises MismatchError."""
        command = step.command.replace(PORT, self._port)
        expected = [line.replace(PORT, self._port) for line in step.output]
        while expected and not expected[-1].strip():
            expected.pop()
        if command.rstrip().endswith("&"):
            self._start(command.rstrip().removesuffix("&"), expected)
            return
        process = self._shell(command)
        with _ended_after(self._patience_s, process):
            printed, _ = process.communicate()
        if process.returncode != 0:
            raise MismatchError(f"$ {command}\nended with {process.returncode}:\n{printed}")
        if expected and not matches(expected, printed.rstrip().splitlines()):
            shown = "\n".join(expected)
            raise MismatchError(f"$ {command}\nprinted:\n{printed}\nand the document shows:\n{shown}")

    def _start(self, command: str, expected: list[str]) -> None:
        process = self._shell(f"exec {command}")
        self._background.append(process)
        assert process.stdout is not None
        printed: list[str] = []
        with _ended_after(self._patience_s, process):
            while not matches(expected, printed):
                line = process.stdout.readline()
                if not line:
                    shown = "\n".join(expected)
                    raise MismatchError(
                        f"$ {command} &\nended, and had printed:\n"
                        + "\n".join(printed)
                        + f"\nand the document shows:\n{shown}"
                    )
                if not BEFORE.fullmatch(line.rstrip()):
                    printed.append(line.rstrip())

    def _shell(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-c", command],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        """End what runs in the background, the last first."""
        for process in reversed(self._background):
            process.send_signal(signal.SIGTERM)
            with _ended_after(self._patience_s, process):
                process.communicate()

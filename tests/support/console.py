"""Runs the examples of a document: each ```console block is a dialogue with a shell.

    $ command              run in the document's own empty directory, and to exit with 0
    $ command &            left running until the document ends; what it prints is waited for
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
from pathlib import Path
from typing import Final

import msgspec

from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import inherited

PORT: Final = "7720"

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(msgspec.Struct):
    """One command, and the output it is shown with."""

    command: str
    output: list[str]


class MismatchError(AssertionError):
    """An example does not do what the document shows."""


def steps(markdown: str) -> list[Step]:
    """The commands of all console blocks, in order."""
    found: list[Step] = []
    for block in _BLOCK.findall(markdown):
        begins = len(found)
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
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


class Session:
    """One document's shell, in `directory`; `close` it to end what runs in the background."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("smqpd", path=str(Path(sys.executable).parent)) is None:
            raise MismatchError("smqpd is not installed beside this Python; use tests/run")
        self._directory = directory
        self._port = str(free_port())
        self._background: list[subprocess.Popen[str]] = []
        kept = {name: value for name, value in inherited().items() if not name.startswith("SMQPD_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = kept | {
            "PATH": path, "HOME": str(directory), "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
        }  # fmt: skip

    def run(self, step: Step) -> None:
        """Do what a reader would do. Raises MismatchError."""
        command = step.command.replace(PORT, self._port)
        expected = [line.replace(PORT, self._port) for line in step.output]
        while expected and not expected[-1].strip():
            expected.pop()
        if command.rstrip().endswith("&"):
            self._start(command.rstrip().removesuffix("&"), expected)
            return
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode != 0:
            raise MismatchError(f"$ {command}\nended with {done.returncode}:\n{done.stdout}")
        if expected and not matches(expected, done.stdout.rstrip().splitlines()):
            shown = "\n".join(expected)
            raise MismatchError(f"$ {command}\nprinted:\n{done.stdout}\nand the document shows:\n{shown}")

    def _start(self, command: str, expected: list[str]) -> None:
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._background.append(process)
        assert process.stdout is not None
        printed: list[str] = []
        while not matches(expected, printed):
            line = process.stdout.readline()
            if not line:
                raise MismatchError(f"$ {command} &\nended, and had printed:\n" + "\n".join(printed))
            printed.append(line.rstrip())

    def close(self) -> None:
        """End what runs in the background, the last first."""
        for process in reversed(self._background):
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
                process.wait()

"""Commands of the operator at a site of a test, run in this process."""

import json
from pathlib import Path
from typing import Any

import trio
from typer.testing import CliRunner

from daemon.cli.command_tree import build_app
from daemon.settings import ConfigError
from daemon.terminal.failure import FAILED, Failure


class Operator:
    """Who has the command line at a site."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def command(self, *words: str) -> tuple[int, str, str]:
        """Run a command: its exit code, stdout, and what it says on stderr."""
        return await trio.to_thread.run_sync(self._command, *words)

    async def asked(self, *words: str) -> Any:
        """What a command says with --json; it must succeed."""
        code, out, why = await self.command(*words, "--json")
        assert code == 0, why
        return json.loads(out)

    def _command(self, *words: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(build_app(words[0]), [*words, "--site", str(self._directory)])
        if isinstance(result.exception, Failure):
            return result.exception.exit_code, result.stdout, str(result.exception)
        if isinstance(result.exception, ConfigError):
            return FAILED, result.stdout, str(result.exception)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

"""The command line as a process of its own, running this checkout whatever is installed."""

import shlex
import subprocess
import sys
from pathlib import Path

from tests.support import forked
from tests.support.process import ROOT, inherited

COMMANDS = "[smqpd.commands]\npub = plugins.smqp.commands:pub\nsub = plugins.smqp.commands:sub\n"


class CommandResult:
    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.exit_code = process.returncode
        self.out = process.stdout
        self.error = process.stderr.decode()

    def __repr__(self) -> str:
        return f"exit code {self.exit_code}, out {self.out!r}, error {self.error!r}"


class CommandLine:
    """`smqpd` with an environment; `directory` is for its own use."""

    def __init__(self, directory: Path, **environment: str) -> None:
        installed = directory / "commands" / "smqpd_smqp-1.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: smqpd-smqp\nVersion: 1\n")
        (installed / "entry_points.txt").write_text(COMMANDS)
        kept = {name: value for name, value in inherited().items() if not name.startswith("SMQPD_")}
        self.environment = {**kept, "PYTHONPATH": f"{ROOT}:{installed.parent}", **environment}

    def arguments(self, *words: str) -> list[str]:
        """For Python."""
        return ["-c", "from daemon.cli.main import main; main()", *words]

    def in_shell(self, *words: str) -> str:
        """The command for a shell, in which it is started anew."""
        return shlex.join([sys.executable, *self.arguments(*words)])

    async def __call__(self, *words: str, stdin: bytes = b"", stdout: int | None = None) -> CommandResult:
        """Run to the end; what it prints is in the result, unless `stdout` takes that."""
        return CommandResult(
            await forked.run(self.arguments(*words), env=self.environment, stdin=stdin, stdout=stdout)
        )

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from daemon.cli.backup import backup
from daemon.cli.restore import restore
from daemon.store.store import Store
from tests.support.cli import Shell
from tests.support.made_site import made_site


@pytest.fixture
def site(tmp_path: Path) -> Path:
    made_site(tmp_path / "site", "alpha.example", 7720, is_bare=True)
    return tmp_path / "site"


@pytest.fixture
def store(site: Path) -> Iterator[Store]:
    """The store as a running daemon has it."""
    store = Store(site / "state" / "smqpd.db")
    yield store
    store.close()


@pytest.fixture
def run(site: Path) -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(backup)
    return lambda *arguments: CliRunner().invoke(app, ["--site", str(site), *map(str, arguments)])


@pytest.fixture
def restore_to() -> Iterator[Callable[..., Result]]:
    app = typer.Typer()
    app.command()(restore)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)

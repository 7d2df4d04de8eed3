"""What all commands of `smqpd trace` share: their options, a session of Spark, and how they end.

Spark and Java are looked for only when a command runs that needs them.
"""

import glob
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from routing.trace.show import can_be_drawn_on, console, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_there(logs: list[str]) -> list[str]:
    """Refuse a misspelled path before Spark is started; patterns and URLs are for Spark to look up."""
    for path in logs:
        if not ("://" in path or glob.has_magic(path) or os.path.exists(path)):
            raise typer.BadParameter(f"there is no {path}")
    return logs


Logs = Annotated[
    list[str],
    typer.Argument(metavar="LOGS", help="Directories or files of hop logs.", callback=check_there),
]
Out = Annotated[str, typer.Option("--out", metavar="DIR", help="The directory of the tables.")]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="A Spark master; all cores of this machine without it.")
]
Day = Annotated[
    datetime | None, typer.Option("--day", formats=["%Y-%m-%d"], help="Messages born on this UTC day.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Rows at most.")]

NOT_HERE = "the trace jobs are not installed here; install them with: pip install 'smqpd[trace]'"


def fail(text: str, code: int = 1) -> NoReturn:
    """End with one line on standard error."""
    print("smqpd: " + " ".join(str(plain(text)).split()), file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def spark(*sources: str, master: str | None = None) -> Iterator["SparkSession"]:
    """A session for what is below `sources`; for anything, where there are none."""
    try:
        from routing.trace import java
        from routing.trace.session import is_small, open_session
    except ModuleNotFoundError:
        fail(NOT_HERE)
    from pyspark.errors import PySparkException

    from routing.trace.tables import NoTable

    try:
        session = open_session(master, small=bool(sources) and is_small(*sources))
    except java.NoJava as error:
        fail(str(error))
    except PySparkException as error:
        fail(f"Spark does not start: {str(error).splitlines()[0]}")
    try:
        yield session
    except NoTable as error:
        fail(str(error))
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            fail(f"there is no {(error.getMessageParameters() or {}).get('path')}")
        fail(f"Spark could not do it: {str(error).splitlines()[0]}")
    finally:
        session.stop()


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Fail in one line where a file or directory cannot be written."""
    try:
        yield
    except OSError as error:
        fail(f"{what} cannot be written: {error.strerror or error}")


def check_writable(out: str) -> None:
    """Fail before Spark is started where there can be no tables; what is no path is for Spark to look up."""
    if "://" in out or out.startswith("file:"):
        return
    directory = Path(out)
    with writing(directory):
        made = [each for each in (directory, *directory.parents) if not each.exists()]
        if not made and not directory.is_dir():
            fail(f"{directory} cannot be written: it is no directory")
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        for each in made:
            each.rmdir()


@contextmanager
def steps(*, are_few: bool = True) -> Iterator[Callable[[str], None]]:
    """Say on standard error what is being done: in one place at a terminal, else a line each (of few)."""
    errors = console(stderr=True)
    if not can_be_drawn_on(errors):
        yield lambda step: print(f"smqpd: {step}", file=sys.stderr, flush=True) if are_few else None
        return
    with errors.status("starting") as status:
        yield lambda step: status.update(step)

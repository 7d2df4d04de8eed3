"""What all commands of `smqpd trace` share: their options, a session of Spark, and how they end.

Spark and Java are looked for only when a command runs that needs them.
"""

import glob
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

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


def check_named(out: str) -> str:
    """Refuse no name at all: tables would be looked for, and made, in the directory of all directories."""
    if not out.strip():
        raise typer.BadParameter("it names no directory")
    return out


Out = Annotated[
    str,
    typer.Option("--out", metavar="DIR", help="The directory of the tables.", callback=check_named),
]
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


def check_word(option: str, word: str, words: Sequence[str]) -> None:
    """Refuse what is none of the words that an option knows."""
    if word not in words:
        fail(f"{option} {word} is none of {', '.join(words)}", 2)


@contextmanager
def spark(*sources: str, master: str | None = None) -> Iterator["SparkSession"]:
    """A session for what is below `sources`; for anything, where there are none."""
    try:
        from routing.trace import java
        from routing.trace.session import is_small, open_session
    except ModuleNotFoundError:
        fail(NOT_HERE)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from routing.trace.tables import NoTable

    try:
        session = open_session(master, small=bool(sources) and is_small(*sources))
    except java.NoJava as error:
        fail(str(error))
    except PySparkException as error:
        fail(f"Spark does not start: {_why(error)}")
    try:
        yield session
    except NoTable as error:
        fail(str(error))
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            fail(f"there is no {(error.getMessageParameters() or {}).get('path')}")
        fail(f"Spark could not do it: {_why(error)}")
    except Py4JError as error:
        fail(f"Spark could not do it: {_why(error)}")
    finally:
        session.stop()


def _why(error: Exception) -> str:
    """The first line of what began it: of an error of Java, of what caused it, and what caused that."""
    began: Any = error
    while (cause := getattr(began, "_cause", None)) is not None:
        began = cause
    java = getattr(began, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(began) if java is None else java.getMessage() or java.toString()
    first = next(iter(str(text).splitlines()), type(error).__name__)
    file = re.search(r"\[FAILED_READ_FILE.*? while reading file (\S+)\.\s", str(error))
    return f"{file[1]} cannot be read: {first}" if file else first


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


def check_logs(logs: list[str]) -> None:
    """Fail before Spark is started where there is no closed log to read, or one that may not be read.

    Where there is none in one of several places that is said, and the others are read. Patterns and URLs are
    for Spark to look up, `check_far_logs`.
    """
    near = [path for path in logs if not _is_far(path)]
    _say_none([path for path in near if not _has_logs(path)], of=len(logs))


def check_far_logs(session: "SparkSession", logs: list[str]) -> None:
    """`check_logs` for patterns and URLs."""
    from routing.trace import files

    far = [path for path in logs if _is_far(path)]
    _say_none([path for path in far if not files.any_below(session, path)], of=len(logs))


def _say_none(bare: list[str], of: int) -> None:
    if bare and len(bare) == of:
        fail(f"no closed logs below {', '.join(bare)}")
    for path in bare:
        print(f"smqpd: no closed logs below {plain(path)}", file=sys.stderr)


def _is_far(path: str) -> bool:
    return "://" in path or path.startswith("file:") or glob.has_magic(path)


def _has_logs(path: str) -> bool:
    """Whether there is a closed log, as Spark looks for them; what may not be read it would pass over."""

    def refused(error: OSError) -> NoReturn:
        fail(f"{error.filename} cannot be read: {error.strerror}")

    found = False
    directory, name = os.path.split(path)
    below = os.walk(path, onerror=refused, followlinks=True)
    for where, inner, names in below if os.path.isdir(path) else [(directory, [], [name])]:
        inner[:] = [each for each in inner if not each.startswith((".", "_"))]
        for each in inner:
            _refuse_to_go_round(where, each)
        for each in names:
            if not each.startswith((".", "_")) and IS_LOG.match(each):
                found = True
                if not os.access(os.path.join(where, each), os.R_OK):
                    fail(f"{os.path.join(where, each)} cannot be read: Permission denied")
    return found


def _refuse_to_go_round(directory: str, name: str) -> None:
    """Fail where a link leads back to where it was reached from: Spark would go on and on.

    That is a directory, be it a link itself, on the way to it, or what that is in.
    """
    link = Path(directory, name)
    if not link.is_symlink():
        return
    target = os.path.realpath(link)
    if any(os.path.commonpath([target, os.path.realpath(passed)]) == target for passed in link.parents):
        fail(f"{link} cannot be read: it leads back to {target}")


IS_LOG: Final = re.compile(r"hops-.*\.jsonl(\.gz|\.zst)?\Z|.*\.parquet\Z", re.DOTALL)
"""A closed file, or what `compact` has made of some: as `files.LOG_NAMES` and `files.COMPACTED_NAMES`."""


@contextmanager
def steps(*, are_few: bool = True) -> Iterator[Callable[[str], None]]:
    """Say on standard error what is being done: in one place at a terminal, else a line each (of few)."""
    errors = console(stderr=True)
    if not can_be_drawn_on(errors):
        yield lambda step: print(f"smqpd: {step}", file=sys.stderr, flush=True) if are_few else None
        return
    with errors.status("starting") as status:
        yield lambda step: status.update(step)

"""How commands ask the running daemon of a site; they end with exit code 3 where there is none."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
import typer

from daemon.control.client import (
    PATIENCE_S,
    AnyQuestion,
    ForbiddenError,
    NotRunningError,
    Question,
    ask,
    ask_all,
)
from daemon.control.operators import AskDeadLetters, AskMessages, Declined
from daemon.control.reports import End, Told
from daemon.settings import Settings
from daemon.terminal.failure import FAILED, UNREACHABLE, USAGE, Failure, forbidden
from routing.errors import Refusal
from routing.federation.enquiry import LEFT_S_MAX

T = TypeVar("T")
BrowsedQuestion = AskMessages | AskDeadLetters

_MISSPELT: Final = (Refusal.BAD_COMMAND, Refusal.BAD_HEADER, Refusal.BAD_TOPIC)
"""Refusals of what can be of no site."""

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether that is meant.")]

TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.1, max=LEFT_S_MAX, help="How long to wait for other sites."
    ),
]


def value(settings: Settings, question: AnyQuestion, expected: type[T]) -> T:
    """An answer of one value. Raises Failure."""
    return decoded(line(settings.site.state_directory, question), expected)


def line(state_directory: Path, question: AnyQuestion, patience_s: float = PATIENCE_S) -> bytes:
    """An answer of one line, as JSON. Raises Failure, also for what was refused."""
    try:
        answer = ask(state_directory, question, patience_s).rstrip(b"\n")
    except ForbiddenError:
        raise forbidden(state_directory) from None
    except NotRunningError as error:
        raise Failure(str(error), UNREACHABLE) from None
    _raise_declined(answer)
    return answer


def asked_on(
    state_directory: Path, question: BrowsedQuestion, page: type[list[T]], id_of: Callable[[T], int]
) -> list[T]:
    """So many messages as the question asks for, in as many answers as they take.

    Only an empty one says that there are no more. Raises Failure.
    """
    found: list[T] = []
    while len(found) < question.count:
        after = id_of(found[-1]) if found else question.after
        asked = msgspec.structs.replace(question, after=after, count=question.count - len(found))
        more = decoded(line(state_directory, asked), page)
        if not more:
            break
        found += more
    return found


def _raise_declined(answer: bytes) -> None:
    if answer.startswith(b'{"refused":'):
        declined = decoded(answer, Declined)
        raise Failure(declined.text, USAGE if declined.refused in _MISSPELT else FAILED)


def decoded(answer: bytes, expected: type[T]) -> T:
    """What `line` has got. Raises Failure where another version of smqpd runs."""
    try:
        return msgspec.json.decode(answer, type=expected)
    except msgspec.MsgspecError as error:
        raise _of_another_version(error) from None


def _of_another_version(error: msgspec.MsgspecError) -> Failure:
    return Failure(f"the site runs another version of smqpd, whose answer this one cannot read: {error}")


def told(settings: Settings, question: Question) -> Iterator[Told]:
    """What sites report, as it comes, and the end.

    Raises Failure, also where the end does not come, or another version of smqpd runs.
    """
    decoder = msgspec.json.Decoder(Told)
    try:
        for line in ask_all(settings.site.state_directory, question):
            _raise_declined(line)
            try:
                one = decoder.decode(line)
            except msgspec.MsgspecError as error:
                raise _of_another_version(error) from None
            yield one
            if isinstance(one, End):
                return
    except ForbiddenError:
        raise forbidden(settings.site.state_directory) from None
    except NotRunningError as error:
        raise Failure(str(error), UNREACHABLE) from None
    raise Failure("the daemon ended before its answer did; what came of it is not the whole", UNREACHABLE)


def sure(yes: bool, question: str) -> None:
    """Have somebody at a terminal say that it is meant, where `--yes` does not. Raises Failure."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure("this cannot be undone, and nobody is there to be asked: give --yes", USAGE)
    if not typer.confirm(question):
        raise Failure("nothing was done")

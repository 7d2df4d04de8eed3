"""How commands ask the running daemon of a site; they end with exit code 3 where there is none."""

from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec
import typer

from daemon.control.reports import End, Told
from daemon.control.socket import NotRunningError, Question, ask, ask_all
from daemon.settings import Settings
from daemon.terminal.failure import UNREACHABLE, Failure
from routing.federation.enquiry import LEFT_S_MAX

T = TypeVar("T")

TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.1, max=LEFT_S_MAX, help="How long to wait for other sites."
    ),
]


def value(settings: Settings, question: Question, expected: type[T]) -> T:
    """An answer of one value. Raises Failure."""
    try:
        return msgspec.json.decode(ask(settings.site.state_directory, question), type=expected)
    except NotRunningError as error:
        raise Failure(str(error), UNREACHABLE) from None


def told(settings: Settings, question: Question) -> Iterator[Told]:
    """What sites report, as it comes, and the end. Raises Failure, also where the end does not come."""
    decoder = msgspec.json.Decoder(Told)
    try:
        for line in ask_all(settings.site.state_directory, question):
            one = decoder.decode(line)
            yield one
            if isinstance(one, End):
                return
    except NotRunningError as error:
        raise Failure(str(error), UNREACHABLE) from None
    raise Failure("the daemon ended before its answer did; what came of it is not the whole", UNREACHABLE)

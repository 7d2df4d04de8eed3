"""How a check ends: with a level, one line, and performance data, as plugins of Nagios and others do.

Source: Monitoring Plugins Development Guidelines.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, Literal, ParamSpec, get_args

import msgspec
import typer
from typer.core import TyperGroup

from daemon.settings import ConfigError
from daemon.terminal.failure import UNREACHABLE, Failure
from daemon.terminal.printable import printable
from routing.errors import Refusal

Level = Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""Each at the place of its exit code."""

IN_LABELS: Final = str.maketrans("='|", ':"/')
"""What stands in performance data for characters that no label may have there."""

P = ParamSpec("P")


class Checks(TyperGroup):
    """What is typed wrongly is UNKNOWN to who monitors, and not CRITICAL."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click.Command`."""
        with _unknown_if_wrong():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """See `click.Command`."""
        with _unknown_if_wrong():
            return super().invoke(ctx)


@contextmanager
def _unknown_if_wrong() -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        error.exit_code = LEVELS.index("UNKNOWN")
        raise


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A value, with the bounds at and above which it is a warning, or critical; below where `falls`."""

    label: str
    value: float
    unit: str = ""
    warning: float | None = None
    critical: float | None = None
    falls: bool = False

    @property
    def level(self) -> Level:
        """What its bounds say."""
        for level, bound in (("CRITICAL", self.critical), ("WARNING", self.warning)):
            if bound is not None and (self.value <= bound if self.falls else self.value >= bound):
                return level  # type: ignore[return-value] # one of the two
        return "OK"

    def __str__(self) -> str:
        bounds = ";".join(
            "" if bound is None else self._range(bound) for bound in (self.warning, self.critical)
        )
        label = printable(self.label).translate(IN_LABELS)
        return f"'{label}'={_number(self.value)}{self.unit};{bounds};0".replace(";;;0", "")

    def _range(self, bound: float) -> str:
        """That which is outside of it alerts."""
        return f"{_number(bound)}:" if self.falls else _number(bound)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    level: Level
    text: str
    measured: tuple[Measured, ...] = ()


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _worst(levels: Iterable[Level]) -> Level:
    return max(levels, key=LEVELS.index, default="OK")


def conclude(
    as_json: bool,
    problems: list[tuple[Level, str]],
    good: str,
    measured: Iterable[Measured] = (),
    named_before: Collection[str] = (),
) -> None:
    """Print what was found, the worst first, and exit.

    `named_before`: labels of what was measured and is among `problems` in words.
    """
    values = tuple(measured)
    level = _worst([found for found, _ in problems] + [value.level for value in values])
    named = sorted(problems, key=lambda each: -LEVELS.index(each[0]))
    over = [
        f"{value.label} is {_number(value.value)}{value.unit}"
        for value in values
        if value.level != "OK" and value.label not in named_before
    ]
    text = printable("; ".join([*(text for _, text in named), *over]) or good)
    if as_json:
        typer.echo(msgspec.json.encode(Checked(level=level, text=text, measured=values)))
    else:
        data = " ".join(map(str, values))
        typer.echo(f"SMQPD {level} - {text.replace('|', '/')}" + (f" | {data}" if data else ""))
    raise typer.Exit(LEVELS.index(level))


def monitored(command: Callable[P, None]) -> Callable[P, None]:
    """A site that does not run is CRITICAL; what cannot be found out is UNKNOWN."""

    @wraps(command)
    def checked(*args: P.args, **options: P.kwargs) -> None:
        as_json = bool(options.get("as_json"))
        try:
            command(*args, **options)
        except Failure as failure:
            level: Level = "CRITICAL" if failure.exit_code == UNREACHABLE else "UNKNOWN"
            conclude(as_json, [(level, str(failure))], "")
        except (ConfigError, Refusal) as error:
            conclude(as_json, [("UNKNOWN", str(error))], "")

    return checked

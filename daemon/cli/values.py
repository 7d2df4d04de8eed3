"""From the words that are typed to the values of a command's parameters.

typer has pydantic do that, which takes as long to load as all else that a command needs. Words, paths, flags,
choices and plain numbers need none of it. All else, and whatever is wrong, is left to typer, which says why.
"""

import os
import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

_PLAIN_NUMBER: Final = {
    int: re.compile(r"-?[0-9]{1,15}"),
    float: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?"),
}
_PATH_FLAGS: Final = ("exists", "writable", "resolve_path", "allow_dash", "path_type")


class _NotPlainError(Exception):
    """Typer is to convert it, or to refuse it."""


class Converting:
    """Stands in for what typer makes of a parameter's annotation, and hands on what it does not convert."""

    def __init__(self, annotation: Any, declared: Any) -> None:
        """`declared`: what `typer.Option` or `typer.Argument` has returned."""
        self._convert = _converter(annotation, declared)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """See typer's `RuntimeParam`."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        try:
            return self._convert(value)
        except _NotPlainError:
            param._runtime_param = None  # so it makes its own
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _converter(annotation: Any, declared: Any) -> Callable[[Any], Any]:
    if declared.parser is not None:
        return _hand_on
    if get_origin(annotation) is list:
        return partial(_each, _converter(get_args(annotation)[0], declared))
    if get_origin(annotation) is Literal:
        return partial(_choice, {word: word for word in get_args(annotation)})
    if annotation in (str, bool):
        return partial(_as_it_is, annotation)
    if annotation in _PLAIN_NUMBER and not declared.clamp:
        return partial(_number, annotation, declared.min, declared.max)
    if annotation is Path and not any(getattr(declared, flag) for flag in _PATH_FLAGS):
        return _path
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return partial(_choice, {member.value: member for member in annotation})
    return _hand_on


def _hand_on(value: Any) -> Any:
    raise _NotPlainError


def _each(convert: Callable[[Any], Any], values: Any) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise _NotPlainError
    return [convert(value) for value in values]


def _as_it_is(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _NotPlainError
    return value


def _choice(choices: dict[str, Any], value: Any) -> Any:
    if isinstance(value, Enum):  # a default
        return value
    if value not in choices:
        raise _NotPlainError
    return choices[value]


def _number(kind: type, least: float | None, most: float | None, value: Any) -> Any:
    if isinstance(value, str) and not _PLAIN_NUMBER[kind].fullmatch(value):
        raise _NotPlainError
    number = kind(value)
    if (least is not None and number < least) or (most is not None and number > most):
        raise _NotPlainError
    return number


def _path(value: Any) -> Path:
    """One that is there has to be readable, as typer has it."""
    if not os.access(value, os.R_OK) and os.path.exists(value):
        raise _NotPlainError
    return Path(value)

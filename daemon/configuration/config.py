"""Reads a configuration: TOML in, `daemon.settings.Settings` out.

What cannot be accepted is refused with the file, the key, what was expected and, for a misspelt key, the
nearest right one. Nothing is guessed: an unknown key is an error, and so is a number in quotes.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from daemon.configuration.discovery import Installed
from daemon.settings import ConfigError, Settings

FILE_BYTES_MAX: Final = 1_048_576
"""A configuration is written by people; what is larger is not one."""

WORDS: Final = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text in quotes",
}
"""What msgspec calls by names of Python and JSON."""

T = TypeVar("T")


def load(path: Path, installed: Installed) -> Settings:
    """Read the configuration at `path`, with tables of the front ends in `installed`.

    A front end without a table runs with its defaults if it is enabled by default; one with a table
    runs unless it says `enabled = false`. Raises ConfigError.
    """
    document = read_toml(path)
    tables = document.pop("plugins", {})
    if not isinstance(tables, dict):
        raise ConfigError(path, "plugins", "expected tables [plugins.NAME]")
    settings = typed(path, "", document, Settings)
    plugins = _plugins(path, tables, installed)
    if settings.tls.certificate is None:
        for name, plugin in plugins.items():
            for field in plugin.__struct_fields__:
                if field.startswith("listen") and field.endswith("_tls") and getattr(plugin, field):
                    raise ConfigError(path, f"plugins.{name}.{field}", "needs certificate and key in [tls]")
    return msgspec.structs.replace(settings, plugins=plugins)


_known_type_info: Final = cache(inspect.type_info)


def _type_info(kind: Any) -> inspect.Type:
    """Looked up once: it takes longer than all else that is done with a small table."""
    return _known_type_info(kind)


def read_toml(path: Path) -> dict[str, Any]:
    """The document at `path`. Raises ConfigError, also where there is no such file."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(path, "", f"cannot be read: {error.strerror}") from None
    return parse_toml(path, data)


def parse_toml(path: Path, data: bytes) -> dict[str, Any]:
    """The document that is or will be at `path`. Raises ConfigError."""
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(path, "", f"is larger than {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(path, "", f"is not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, "", f"is not TOML: {error}") from None
    except ValueError:  # of the interpreter, which bounds the digits that it reads
        raise ConfigError(path, "", "has a number of too many digits") from None
    except RecursionError:
        raise ConfigError(path, "", "has lists or tables too deep in each other") from None


def read_path(path: Path, key: str, value: object) -> Path:
    """What `value`, at `key` of the file, is as a path, without the rest of the file. Raises ConfigError."""
    try:
        return path.absolute().parent / Path(_path_of(Path, value))
    except ValueError as error:
        raise ConfigError(path, key, str(error)) from None


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where something known is near, else what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(names)}" if names else ""


def _plugins(path: Path, tables: dict[str, Any], installed: Installed) -> dict[str, msgspec.Struct]:
    running = {}
    for name, table in tables.items():
        key = f"plugins.{name}"
        if not isinstance(table, dict):
            raise ConfigError(path, key, f"expected a table [{key}]")
        enabled = table.pop("enabled", True)
        if not isinstance(enabled, bool):
            raise ConfigError(path, f"{key}.enabled", "expected true or false")
        if enabled and name in installed.broken:
            raise ConfigError(path, key, f"this front end cannot be loaded: {installed.broken[name]}")
        if name in installed.plugins:
            settings = typed(path, key, table, installed.plugins[name].settings)
            if enabled:
                running[name] = settings
        elif name not in installed.broken:
            raise ConfigError(path, key, "no such front end" + nearest(name, installed.plugins))
    for name, plugin in installed.plugins.items():
        if name not in tables and plugin.enabled_by_default:
            running[name] = typed(path, f"plugins.{name}", {}, plugin.settings)
    return running


def typed(path: Path, key: str, document: dict[str, Any], kind: type[T]) -> T:
    """`document` as a `kind`; `key` is where in the file it stands."""
    _refuse_unknown(path, key, document, _type_info(kind))
    try:
        settings = msgspec.convert(document, kind, dec_hook=_path_of)
    except msgspec.ValidationError as error:
        raise _explained(path, key, str(error), kind) from None
    return _anchored(settings, path.absolute().parent)  # type: ignore[no-any-return]  # the same type back


def _refuse_unknown(path: Path, key: str, value: Any, kind: inspect.Type) -> None:
    """Walk value and type together, as far as tables go."""
    kind = _bare(kind)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(path, key, "expected a finite number")
    if isinstance(kind, inspect.UnionType):
        for option in kind.types:
            if isinstance(option, inspect.StructType):
                kind = option
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in kind.fields}
        for name, inner in value.items():
            inner_key = f"{key}.{name}" if key else name
            if name not in fields:
                raise ConfigError(path, inner_key, "unknown key" + nearest(name, fields))
            _refuse_unknown(path, inner_key, inner, fields[name])
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for name, inner in value.items():
            _refuse_unknown(path, f"{key}.{name}", inner, kind.value_type)
    elif isinstance(kind, inspect.CollectionType) and isinstance(value, list):
        for number, inner in enumerate(value):
            _refuse_unknown(path, f"{key}[{number}]", inner, kind.item_type)


def _explained(path: Path, key: str, error: str, kind: type[Any]) -> ConfigError:
    """Msgspec's error in the words of a configuration file."""
    problem, _, place = error.partition(" - at `$")
    place = place.rstrip("`").removeprefix(".")
    full_key = ".".join(part for part in (key, place) if part)
    missing = re.fullmatch(r"Object missing required field `(.+)`", problem)
    if missing:
        full_key = ".".join(part for part in (full_key, missing[1]) if part)
        return ConfigError(path, full_key, "is required")
    expected = _expected(kind, place)
    if expected:
        return ConfigError(path, full_key, f"expected {expected}")
    problem = re.sub(r"`(\w+)", lambda word: "`" + WORDS.get(word[1], word[1]), problem).replace("`", "")
    return ConfigError(path, full_key, problem[:1].lower() + problem[1:])


def _expected(kind: type[Any], place: str) -> str:
    """What the field at `place` (`table.field`) takes, where msgspec's own words are poor."""
    found: inspect.Type = _type_info(kind)
    for part in re.sub(r"\[.*?\]", ".[]", place).split("."):
        found = _bare(found)
        if part == "[]" and isinstance(found, inspect.VarTupleType):
            found = found.item_type
            continue
        if not isinstance(found, inspect.StructType):
            return ""
        found = next((field.type for field in found.fields if field.encode_name == part), inspect.AnyType())
    if isinstance(found, inspect.UnionType):
        found = next((one for one in found.types if isinstance(one, inspect.Metadata)), found)
    if isinstance(found, inspect.Metadata) and "expected" in (found.extra or {}):
        return str((found.extra or {})["expected"])
    found = _bare(found)
    if isinstance(found, inspect.LiteralType):
        return "one of " + ", ".join(str(value) for value in found.values)
    return ""


def _bare(kind: inspect.Type) -> inspect.Type:
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _path_of(kind: type[Any], value: Any) -> Any:
    if kind is not Path or not isinstance(value, str) or not value:
        raise ValueError("expected the path of a file, in quotes")
    if "\0" in value:
        raise ValueError("no path has a null character in it")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        home = Path(value).parts[0]
        raise ValueError(f"where {home} is is not known here; write the path out") from None


def _anchored(settings: Any, directory: Path) -> Any:
    """The same settings with every relative path made absolute."""
    if isinstance(settings, Path):
        return directory / settings
    if isinstance(settings, msgspec.Struct):
        fields = {name: getattr(settings, name) for name in settings.__struct_fields__}
        changed = {name: _anchored(value, directory) for name, value in fields.items()}
        return msgspec.structs.replace(settings, **changed)
    if isinstance(settings, dict):
        return {name: _anchored(value, directory) for name, value in settings.items()}
    return settings

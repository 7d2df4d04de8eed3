"""Writes a configuration as TOML with comments, from the settings' own types and descriptions.

`smqpd init`, `smqpd config show` and the example in `etc/` are all made here, so that what is documented
is what is. A key that holds its default is written commented out: a site keeps getting the defaults of
the release that it runs.
"""

import json
import textwrap
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from daemon.settings import Settings

WIDTH: Final = 100


def render(settings: Settings, *, all_keys: bool = False) -> str:
    """`settings` as a configuration file that reads back as the same.

    With `all_keys`, keys that hold their default are live too: the effective configuration.
    """
    tables = []
    for field in msgspec.structs.fields(Settings):
        if field.name != "plugins":
            tables.append(_table(field.name, getattr(settings, field.name), all_keys))
    for name, plugin_settings in settings.plugins.items():
        tables.append(_table(f"plugins.{name}", plugin_settings, all_keys))
    return "\n".join(tables)


def render_commented(name: str, settings: msgspec.Struct) -> str:
    """A table as a comment: to be enabled by taking away the `# ` before its name and what is needed."""
    lines = _table(name, settings, all_keys=False).splitlines()
    return "\n".join(f"# {line}" if line and not line.startswith("#") else line for line in lines) + "\n"


def _table(name: str, settings: msgspec.Struct, all_keys: bool) -> str:
    kind = inspect.type_info(type(settings))
    assert isinstance(kind, inspect.StructType)
    lines = [*_comment((type(settings).__doc__ or "").partition("\n")[0]), f"[{name}]"]
    for field in kind.fields:
        value = getattr(settings, field.name)
        schema = (field.type.extra_json_schema or {}) if isinstance(field.type, inspect.Metadata) else {}
        lines += ["", *_comment(schema.get("description", ""))]
        if value is None:
            lines += [
                f"# {field.encode_name} = {toml_value(example)}" for example in schema.get("examples", [])[:1]
            ]
            continue
        live = all_keys or field.required or value != _default(field)
        lines.append(f"{'' if live else '# '}{field.encode_name} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def _default(field: inspect.Field) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


def toml_value(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:_}" if value >= 10_000 else str(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(k)} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, msgspec.Struct):
        return toml_value({key: v for key, v in msgspec.structs.asdict(value).items() if v is not None})
    return "[" + ", ".join(toml_value(item) for item in value) + "]"

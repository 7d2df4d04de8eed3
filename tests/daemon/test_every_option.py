"""Every option of a configuration, those of front ends too: what it may not say is refused, and said how."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from msgspec import inspect

from daemon.cli.options import state_directory
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.configuration.template import toml_value
from daemon.settings import ConfigError, Settings
from plugins.smqp.plugin import plugin as smqp
from plugins.stomp.plugin import plugin as stomp
from plugins.web.plugin import plugin as web
from plugins.xmpp.plugin import plugin as xmpp

FRONT_ENDS: Final[dict[str, Any]] = {"smqp": smqp, "stomp": stomp, "web": web, "xmpp": xmpp}
INSTALLED: Final = Installed(FRONT_ENDS, {})

WORDS: Final[dict[str, Any]] = {
    "a whole number": "5",
    "a number": "1.5",
    "true or false": "true",
    "text": '"x y"',
    "a list": "[]",
    "a list of lists": "[[]]",
    "a table": "{ x = 1 }",
    "a date": "2026-01-01",
}
FITS: Final[dict[type, tuple[str, ...]]] = {
    inspect.IntType: ("a whole number",),
    inspect.FloatType: ("a whole number", "a number"),
    inspect.BoolType: ("true or false",),
    inspect.StrType: ("text",),
    inspect.CustomType: ("text",),  # a path
    inspect.LiteralType: (),
    inspect.VarTupleType: ("a list",),
}
NO_PATHS: Final = {
    '""': "expected the path of a file",
    r'"a\u0000b"': "no path has a null character",
    '"~nosuchuser/x"': "where ~nosuchuser is is not known here; write the path out",
}


class Option(NamedTuple):
    """One, by the keys of its table; `default` is what stands there when nothing is said."""

    table: str
    name: str
    kind: inspect.Type
    meta: inspect.Metadata | None
    default: Any

    @property
    def key(self) -> str:
        return f"{self.table}.{self.name}"


def _options(table: str, kind: type) -> Iterator[Option]:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    for field in found.fields:
        meta, bare = None, field.type
        if isinstance(bare, inspect.Metadata):
            meta, bare = bare, bare.type
        if isinstance(bare, inspect.UnionType):
            (bare,) = (one for one in bare.types if not isinstance(one, inspect.NoneType))
        yield Option(table, field.encode_name, bare, meta, field.default)


def _all_options() -> list[Option]:
    root = inspect.type_info(Settings)
    assert isinstance(root, inspect.StructType)
    tables = {field.encode_name: field.type for field in root.fields}
    own = [
        option
        for name, kind in tables.items()
        if isinstance(kind, inspect.StructType)
        for option in _options(name, kind.cls)
    ]
    return own + [
        option
        for name, plugin in FRONT_ENDS.items()
        for option in _options(f"plugins.{name}", plugin.settings)
    ]


OPTIONS: Final = _all_options()


def ids(option: Option) -> str:
    return option.key


def document(option: Option, value: str) -> str:
    """A configuration that is good but for this."""
    lines = {"site": ['server_name = "a.example"']}
    table = [line for line in lines.get(option.table, []) if not line.startswith(f"{option.name} ")]
    lines[option.table] = [*table, f"{option.name} = {value}"]
    if option.table == "tls":  # it goes with the other
        other = {"key": "certificate", "certificate": "key"}[option.name]
        lines["tls"].append(f'{other} = "x"')
    return "\n".join(line for name, own in lines.items() for line in (f"[{name}]", *own)) + "\n"


@pytest.fixture
def refusal(tmp_path: Path) -> Any:
    """The problem of an option with this value; the key is the option's."""
    file = tmp_path / "smqpd.toml"

    def refusal(option: Option, value: str) -> str:
        file.write_text(document(option, value))
        with pytest.raises(ConfigError) as caught:
            load(file, INSTALLED)
        assert re.sub(r"[\[.]\d*\]?$", "", caught.value.key) == option.key, value
        assert caught.value.problem.isprintable()
        assert not re.search(r"\b(int|str|bool|float|array|object|msgspec|Path)\b", caught.value.problem)
        return caught.value.problem

    return refusal


@pytest.mark.parametrize("option", OPTIONS, ids=ids)
def test_what_is_of_another_type_is_refused(option: Option, refusal: Any) -> None:
    for name, value in WORDS.items():
        if name not in FITS[type(option.kind)]:
            assert refusal(option, value), name


@pytest.mark.parametrize(
    "option", [one for one in OPTIONS if isinstance(one.kind, inspect.IntType | inspect.FloatType)], ids=ids
)
def test_numbers_have_bounds(option: Option, refusal: Any) -> None:
    kind: Any = option.kind
    assert kind.le is not None
    refusal(option, str(kind.le + 1))
    refusal(option, str(kind.ge - 1 if kind.ge is not None else kind.gt))
    refusal(option, "9" * 400)
    if isinstance(kind, inspect.FloatType):
        for value in ("nan", "inf", "-inf", "1e308"):
            refusal(option, value)


@pytest.mark.parametrize(
    "option", [one for one in OPTIONS if isinstance(one.kind, inspect.CustomType)], ids=ids
)
@pytest.mark.parametrize("value", NO_PATHS)
def test_what_is_no_path_is_refused(option: Option, value: str, refusal: Any) -> None:
    assert refusal(option, value).startswith(NO_PATHS[value])


@pytest.mark.parametrize("value", ["5", *NO_PATHS])
def test_who_asks_a_site_whose_state_stands_nowhere_is_told_so(value: str, tmp_path: Path) -> None:
    file = tmp_path / "smqpd.toml"
    file.write_text(f'[site]\nserver_name = "a.example"\nstate_directory = {value}\n')
    with pytest.raises(ConfigError, match=r"smqpd\.toml: site\.state_directory: "):
        state_directory(file)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("site.server_name", "a.example"),
        ("site.redirect", "a.example:720"),
        ("links.listen", ["127.0.0.1:721"]),
        *((f"plugins.{name}.listen", ["127.0.0.1:1"]) for name in ("smqp", "stomp", "web")),
        ("plugins.stomp.channel", "stomp"),
        ("plugins.xmpp.component", "smqp.example"),
        ("plugins.xmpp.server", "localhost:5347"),
    ],
)
def test_a_name_ends_where_it_ends(key: str, value: Any, refusal: Any, tmp_path: Path) -> None:
    (option,) = (one for one in OPTIONS if one.key == key)
    file = tmp_path / "good.toml"
    file.write_text(document(option, toml_value(value)))
    load(file, INSTALLED)
    for end in ("\n", " ", "\0"):
        refusal(option, toml_value([value[0] + end] if isinstance(value, list) else value + end))


@pytest.mark.parametrize("port", ["65536", "99999", "-1", "", "x", "9" * 5_000])
def test_a_port_is_one(port: str, refusal: Any) -> None:
    for option in OPTIONS:
        if option.name.startswith("listen"):
            refusal(option, f'["127.0.0.1:{port}"]')
        if option.key in ("site.server_name", "site.redirect", "plugins.xmpp.server"):
            refusal(option, f'"a.example:{port}"')

"""What is typed becomes what typer makes of it, though mostly without typer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from daemon.cli.command_tree import tree

WORDS = (
    *("", " ", "x", "-", "ALL", "all", "ONE", "2030-01-31", "/", "a/../b"),
    *("0", "1", "-1", "+1", "01", "1_0", " 1", "2.5", "-2.5", ".5", "1e3", "inf", "nan", "\u0661", "9" * 30),
    *("true", "False", "yes"),
)


def parameters(command: Any, name: str = "smqpd") -> Iterator[tuple[str, Any]]:
    """Of all commands, with the name of each."""
    for parameter in command.params:
        yield f"{name} {parameter.name}", parameter
    for word, one in getattr(command, "commands", {}).items():
        yield from parameters(one, f"{name} {word}")


def outcome(parameter: Any, value: object) -> tuple[type, object]:
    """The value, or why it is refused."""
    try:
        converted = parameter.get_runtime_param().coerce(value, param=parameter, ctx=None)
    except (typer.TyperException, ValueError) as error:
        return type(error), str(error)
    return type(converted), repr(converted)


def test_each_parameter_takes_and_refuses_what_typer_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    found = list(parameters(tree()))
    assert len(found) > 100
    for name, parameter in found:
        ours = parameter.get_runtime_param()
        default = [] if callable(parameter.default) else [parameter.default]
        values = [None, *default, *([word, "x"] if parameter.multiple else word for word in WORDS)]
        for value in values:
            parameter._runtime_param = ours
            said = outcome(parameter, value)
            parameter._runtime_param = None
            assert (name, value, said) == (name, value, outcome(parameter, value))


def test_a_path_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.touch()
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may read all
    config = next(each for name, each in parameters(tree()) if name == "smqpd status config")
    with pytest.raises(typer.BadParameter, match="not readable"):
        config.get_runtime_param().coerce(str(secret), param=config, ctx=None)

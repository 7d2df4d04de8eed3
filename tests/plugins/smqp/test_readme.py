"""The protocol's README is complete: what is not documented does not pass."""

from pathlib import Path

import pytest

from plugins.smqp import protocol
from routing.errors import Refusal
from routing.headers import HEADER_RULES

README = (Path(protocol.__file__).parent / "README.md").read_text()
CODES = sorted(value for name, value in vars(Refusal).items() if name.isupper())


@pytest.mark.parametrize("command", sorted(protocol._COMMANDS))
def test_each_command_is_documented(command: str) -> None:
    assert f"**`{command} " in README or f"**`{command}`**" in README or f"(or `{command}`)" in README


@pytest.mark.parametrize("code", CODES)
def test_each_error_is_documented(code: str) -> None:
    assert f"\n| {code} | " in README


@pytest.mark.parametrize("name", [name for rule in HEADER_RULES for name in rule.names])
def test_each_header_is_documented(name: str) -> None:
    table = README.partition("## Headers of a message")[2]
    cells = [
        cell.strip() for line in table.splitlines() if line.startswith("| ") for cell in line.split("|")[1:2]
    ]
    assert name in [word for cell in cells for word in cell.split(", ")]


def test_each_file_is_documented() -> None:
    for path in Path(protocol.__file__).parent.glob("*.py"):
        assert path.name == "__init__.py" or f"`{path.name}`" in README

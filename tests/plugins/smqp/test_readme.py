"""The protocol's README is complete: what is not documented does not pass."""

from pathlib import Path
from typing import get_args

import pytest

from daemon.connections.conversation import EndReason
from daemon.frontend import Detached, Ending, Withdrawn
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


def test_the_reasons_of_a_goodbye_are_those_that_are_given() -> None:
    of_the_protocol = {"quit", "framing-lost", Refusal.BAD_LOGIN, Refusal.TOO_MANY}
    table = README.partition("**`BYE reason`**")[2].partition("\n## ")[0]
    told = {
        word
        for line in table.splitlines()
        if line.startswith("| ")
        for word in line.split("|")[1].strip().split(", ")
    }
    assert told - {"reason"} == of_the_protocol | set(get_args(EndReason))
    assert set(get_args(Ending.__annotations__["reason"])) <= set(get_args(EndReason))


@pytest.mark.parametrize(("notice", "event"), [("WITHDRAWN id", Withdrawn), ("DETACHED topic", Detached)])
def test_each_reason_of_a_notice_is_documented(notice: str, event: type) -> None:
    told = README.partition(f"- **`{notice}`**")[2].partition("\n- ")[0].partition("\n\n")[0]
    reasons = get_args(event.__annotations__["reason"])
    assert [reason for reason in reasons if f"`{reason}`" not in told] == []


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

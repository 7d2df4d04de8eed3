"""`smqpd peers` and `smqpd routes`: what they show of what a daemon has said."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import trio

from daemon.cli.failure import USAGE
from daemon.control import Question, Tell, serve_control
from daemon.link.port import LinkStatus
from tests.support.operator import Operator

UP = LinkStatus(
    peer="name.of.alpha.example",
    state="up",
    since_s=90.0,
    remote="192.0.2.7:721",
    round_trip_s=0.0021,
    waiting=0,
    in_flight=2,
    lag_s=0.004,
    why_down="",
    version="1.0",
    features=(),
)
DOWN = msgspec.structs.replace(
    UP,
    peer="beta.example",
    state="waiting",
    round_trip_s=None,
    waiting=1_234_567,
    in_flight=0,
    lag_s=86_400.0,
    why_down="cannot be dialled at 192.0.2.8:721: Connection refused \x1b[2J",
)


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    """At a site whose daemon says that it has these links."""
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "gamma.example"\n')
    (tmp_path / "state").mkdir()

    async def answer(question: Question, tell: Tell) -> None:
        await tell([UP, DOWN])

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answer)
        yield Operator(tmp_path)
        nursery.cancel_scope.cancel()


async def test_on_a_narrow_terminal_names_and_numbers_are_whole_and_reasons_have_their_own_line(
    operator: Operator,
) -> None:
    _, shown, _ = await operator.command("peers")
    lines = shown.splitlines()
    assert all(len(line) <= 80 for line in lines[:-1])
    assert any("name.of.alpha.example" in line and "2.1 ms" in line for line in lines)
    assert any("beta.example" in line and "1234567" in line and "1 d" in line for line in lines)
    assert lines[-1] == (
        "beta.example is down: cannot be dialled at 192.0.2.8:721: Connection refused \\x1b[2J"
    )


async def test_only_links_that_are_down_are_shown_where_that_is_asked_for(operator: Operator) -> None:
    assert [one["peer"] for one in await operator.asked("peers", "--only-down")] == ["beta.example"]


async def test_the_way_to_what_is_no_topic_is_not_asked_for(operator: Operator) -> None:
    code, _, why = await operator.command("routes", "no where")
    assert (code, "is not a topic" in why) == (USAGE, True)

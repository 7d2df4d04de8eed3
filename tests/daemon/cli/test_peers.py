"""`smqpd peers` and `smqpd routes`: what they show of what a daemon has said."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import trio

from daemon.control.client import Question
from daemon.control.socket import Tell, serve_control
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.operating.federation import LinkStatus, Route
from daemon.site.standing import Standing
from daemon.system.mishaps import Mishaps
from daemon.terminal.failure import USAGE
from routing.peering.news import DESTINATIONS, NEWS
from routing.peering.wants import PATTERNS
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
    messages=3,
    why_down="cannot be dialled at 192.0.2.8:721: Connection refused \x1b[2J",
)

STANDING = Standing(
    server="gamma.example",
    version="0.2.0",
    connections=0,
    held=0,
    held_guaranteed=0,
    errors=0,
    damaged=0,
)


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    """At a site whose daemon says that it has these links."""
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "gamma.example"\n')
    (tmp_path / "state").mkdir()

    async def answer(question: Question, tell: Tell) -> None:
        await tell([UP, DOWN] if question.ask == "peers" else STANDING)

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answer, Mishaps().note)
        yield Operator(tmp_path)
        nursery.cancel_scope.cancel()


async def test_names_and_numbers_are_whole_reasons_have_their_own_line_and_a_link_down_is_exit_code_1(
    operator: Operator,
) -> None:
    code, shown, _ = await operator.command("peers")
    assert code == 1
    lines = shown.splitlines()
    assert any("name.of.alpha.example" in line and "2.1 ms" in line for line in lines)
    assert any("beta.example" in line and "1234567" in line and "1 d" in line for line in lines)
    assert lines[-4].startswith("name.of.alpha.example knows no patterns: ")
    assert lines[-3].startswith("name.of.alpha.example is told no news of sites: ")
    assert lines[-2].startswith("name.of.alpha.example knows no destinations: ")
    assert lines[-1] == (
        "beta.example is down: cannot be dialled at 192.0.2.8:721: Connection refused \\x1b[2J"
    )


async def test_a_peer_that_goes_is_said_to_have_lacked_messages_and_not_what_sites_tell_each_other(
    operator: Operator, tmp_path: Path
) -> None:
    add_peer(tmp_path / "peers.toml", PeerEntry(name="beta.example"))
    _, shown, _ = await operator.command("peer", "remove", "beta.example")
    assert shown.startswith("Removed beta.example, for which 3 messages waited. ")


async def test_a_peer_that_takes_no_wants_from_news_is_named(tmp_path: Path) -> None:
    site = Operator(tmp_path)
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "gamma.example"\n')
    (tmp_path / "state").mkdir()
    earlier = msgspec.structs.replace(UP, features=(PATTERNS, NEWS, DESTINATIONS))

    async def answer(question: Question, tell: Tell) -> None:
        await tell([earlier])

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answer, Mishaps().note)
        code, shown, _ = await site.command("peers")
        nursery.cancel_scope.cancel()
    assert code == 0
    assert shown.splitlines()[-1] == (
        "name.of.alpha.example is told by its peers of all wants, as it takes none from news"
    )


async def test_only_links_that_are_down_are_shown_where_that_is_asked_for(operator: Operator) -> None:
    code, shown, _ = await operator.command("peers", "--only-down", "--json")
    assert (code, [one["peer"] for one in json.loads(shown)]) == (1, ["beta.example"])


async def test_the_way_to_what_is_no_topic_is_not_asked_for(operator: Operator) -> None:
    code, _, why = await operator.command("routes", "no where")
    assert (code, "is not a topic" in why) == (USAGE, True)


@pytest.mark.parametrize(
    ("obstacle", "why", "code"),
    [
        ("", "", 0),
        ("unwanted", "niemand dort will es", 0),
        ("down", "die Verbindung ist getrennt", 1),
        ("down-unwanted", "die Verbindung ist getrennt, und niemand wollte es dort", 1),
        ("down-untold", "die Verbindung ist getrennt, und war es immer", 1),
        ("rules", "the link is down", 0),
        ("word-of-a-later-version", "the link is down", 0),
    ],
)
async def test_routes_end_with_1_where_a_link_that_matters_is_down_in_whatever_words_the_site_says_so(
    tmp_path: Path, obstacle: str, why: str, code: int
) -> None:
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "gamma.example"\n')
    (tmp_path / "state").mkdir()

    async def answer(question: Question, tell: Tell) -> None:
        await tell([Route(peer="beta.example", kind="ALL", distance=None, why=why, obstacle=obstacle)])

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answer, Mishaps().note)
        ended, shown, _ = await Operator(tmp_path).command("routes", "weather")
        nursery.cancel_scope.cancel()
    assert (ended, why in shown) == (code, True)


def test_a_route_of_an_earlier_version_has_no_word_for_programs() -> None:
    told = b'{"peer":"beta.example","kind":"ALL","distance":null,"why":"the link is down"}'
    assert msgspec.json.decode(told, type=Route).obstacle == ""


async def test_a_link_whose_peer_has_said_goodbye_is_said_to_be_leaving_and_not_down(tmp_path: Path) -> None:
    site = Operator(tmp_path)
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "gamma.example"\n')
    (tmp_path / "state").mkdir()
    leaving = msgspec.structs.replace(UP, state="leaving", since_s=2.0, why_down="it has said goodbye")

    async def answer(question: Question, tell: Tell) -> None:
        await tell([leaving])

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answer, Mishaps().note)
        code, shown, _ = await site.command("peers")
        checked, problem, _ = await site.command("check", "links")
        nursery.cancel_scope.cancel()
    assert code == 1
    assert shown.splitlines()[-1] == "name.of.alpha.example is leaving: it has said goodbye"
    assert checked == 1
    assert "name.of.alpha.example is leaving for 2 s (it has said goodbye)" in problem

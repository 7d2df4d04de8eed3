"""How commands end that are given names: 1 where there is none of that name, 2 where there can be none."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.terminal.failure import FAILED, REFUSED, USAGE
from tests.support.operator import Operator
from tests.support.process import daemon
from tests.support.running import SiteProcess, message

SMUID = "alpha.example/01a2058d01b6-1-1"

GIVEN_A_TOPIC = {
    "topic show TOPIC": FAILED,
    "topic delete TOPIC --yes": FAILED,
    f"topic remove TOPIC {SMUID}": FAILED,
    f"dead replay TOPIC {SMUID}": FAILED,
    f"dead drop TOPIC {SMUID}": FAILED,
    # a topic that is empty is soon forgotten: what empties it each night does not fail
    "topic browse TOPIC": 0,
    "topic purge TOPIC --yes": 0,
    "dead list TOPIC": 0,
    "dead replay TOPIC --all": 0,
    "dead drop TOPIC --all --yes": 0,
    # settings may be made, and messages expected, before there is anything
    "check topic TOPIC": 0,
    "routes TOPIC": 0,
    "account test eve publish TOPIC": 0,
    "topic set TOPIC --delivery ONE": 0,
}
"""Each with the code that it ends with for an unknown one, in an order in which it stays unknown."""

FINDS_NOTHING: dict[str, Any] = {
    "topic browse TOPIC": [],
    "topic purge TOPIC --yes": {"removed": 0},
    "dead list TOPIC": [],
    "dead replay TOPIC --all": {"replayed": 0, "stayed": 0, "refused": {}},
    "dead drop TOPIC --all --yes": {"dropped": 0},
}
"""With what they say as JSON of a topic that there is not."""

NO_TOPICS = ("a#b", "", "a//b", "a b", "a\x1b[31m", "*", "x" * 256)

GIVEN_AN_ACCOUNT = {
    "account disable NAME": FAILED,
    "account enable NAME": FAILED,
    "account remove NAME --yes": FAILED,
    "account rights NAME": FAILED,
    "account quotas NAME": FAILED,
    "account passwd NAME --generate": FAILED,
    "account token add NAME grafana": FAILED,
    "account token list NAME": FAILED,
    "account token revoke NAME grafana --yes": FAILED,
    "sessions --account NAME": FAILED,
    "account test NAME publish weather": REFUSED,  # it may not
}
TOO_GREAT = str(2**63)

NO_ACCOUNTS = ("bad name", "a/b", "dead.eve", "a\x1b[31m", "x" * 65)

GIVEN_A_SMUID = (
    "why SMUID",
    "topic remove work SMUID",
    "quarantine dump SMUID",
    "quarantine drop SMUID",
    "dead drop work SMUID",
)
NO_SMUIDS = ("bad", "alpha.example/1-1", "x y/01a2058d01b6-1-1", "\x1b[31m")


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def code(site: SiteProcess, command: str, placeholder: str, given: str) -> int:
    """Of a command in which one word is what the user gives."""
    ended, out, why = await site.command(
        *(given if word == placeholder else word for word in command.split())
    )
    assert "\x1b" not in out
    assert ended == 0 or why or out, f"{command} says nothing"
    return ended


async def test_a_topic_that_is_unknown_or_none(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        for command, expected in GIVEN_A_TOPIC.items():
            assert await code(site, command, "TOPIC", "nowhere") == expected, command
            malformed = 3 if command.startswith("check") else USAGE  # as Nagios has it: unknown
            for topic in NO_TOPICS:
                assert await code(site, command, "TOPIC", topic) == malformed, (command, topic)
        why = "nothing is known of nowhere2"
        assert await site.command("topic", "delete", "nowhere2", "--yes") == (FAILED, "", why)
        why = "smqpd: nothing is known of nowhere2; `smqpd topics` lists what there is\n"
        for command in FINDS_NOTHING:
            _, out, remark = await site.command(*command.replace("TOPIC", "nowhere2").split(), "--json")
            assert (json.loads(out), remark) == (FINDS_NOTHING[command], why), command
        assert (await site.command("topics", "a#b"))[0] == USAGE
        assert "purged" not in running.log
        assert "deleted" not in running.log


async def test_a_topic_without_dead_letters_is_not_unknown(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.publish("work", message(b"x", delivery="ONE"))
        assert await site.printed("dead", "list", "work") == "work has no dead letters.\n"
        assert await site.asked("dead", "replay", "work", "--all") == {
            "replayed": 0,
            "stayed": 0,
            "refused": {},
        }
        assert await site.asked("dead", "drop", "work", "--all", "--yes") == {"dropped": 0}
        await eve.subscribe("work")
        await site.asked("topic", "purge", "work", "--yes")
        assert await site.printed("topic", "browse", "work") == "It holds nothing.\n"


async def test_an_account_that_is_unknown_or_none(site: SiteProcess) -> None:
    async with daemon(site.config):
        for command, expected in GIVEN_AN_ACCOUNT.items():
            assert await code(site, command, "NAME", "ghost") == expected, command
            if command.startswith("account"):
                for name in NO_ACCOUNTS:
                    assert await code(site, command, "NAME", name) == USAGE, (command, name)
        assert await code(site, "account add NAME --generate", "NAME", "bad name") == USAGE
        assert await code(site, "account add NAME --generate", "NAME", "eve") == FAILED
        assert await site.printed("sessions", "--account", "eve") == "eve is not logged in.\n"
        assert json.loads(await site.printed("sessions", "--account", "eve", "--json")) == []


async def test_a_message_that_is_unknown_or_none(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.publish("work", message(b"x", delivery="ONE"))
        for command in GIVEN_A_SMUID:
            assert await code(site, command, "SMUID", SMUID) == FAILED, command
            for smuid in NO_SMUIDS:
                assert await code(site, command, "SMUID", smuid) == USAGE, (command, smuid)


async def test_a_session_or_a_peer_that_is_unknown_or_none(site: SiteProcess) -> None:
    async with daemon(site.config):
        assert await code(site, "session close ID", "ID", "99") == FAILED
        for id in ("0", "-1", "abc", TOO_GREAT):
            assert await code(site, "session close ID", "ID", id) == USAGE
        for command in ("topics --offset N", "topic browse work --after N", "dead list work --after N"):
            assert await code(site, command, "N", TOO_GREAT) == USAGE, command
        assert await code(site, "topics NAME", "NAME", "x" * 5_000) == USAGE, "no question is as long"
        for command in ("peer remove NAME", "ping NAME --count 1"):
            assert await code(site, command, "NAME", "ghost.example") == FAILED, command
            assert await code(site, command, "NAME", "bad name") == USAGE, command
        assert await code(site, "peer add NAME beta.example:721", "NAME", "bad name") == USAGE


@pytest.mark.parametrize("command", ["status", "topics", "account list", "pub work x", "sub work", "bench"])
async def test_a_site_that_is_none(tmp_path: Path, command: str) -> None:
    code, _, said = await Operator(tmp_path / "none").command(*command.split())
    assert (code, str(tmp_path / "none") in said) == (FAILED, True)

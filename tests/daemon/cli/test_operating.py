"""The operator's commands, asked of a daemon that runs: what they print, and how they end."""

import json
import re
import shlex
import socket
from pathlib import Path

import msgspec
import pytest
import trio

from daemon.cli import dead
from daemon.control import operators
from daemon.control.operators import AnyOperatorQuestion
from daemon.control.socket import Tell, serve_control
from daemon.frontend import Identity
from daemon.operations.site import SiteOperations
from daemon.system.version import VERSION
from daemon.terminal.failure import FAILED, UNREACHABLE, USAGE
from plugins.smqp.connection import ConnectionLost
from routing.options import SubscribeOptions
from tests.support.broker import virtual_site
from tests.support.process import daemon
from tests.support.running import SiteProcess, message

OTHERS_FOLLOW = "smqpd: others may follow: smqpd topics 'dead.#' --sort held --offset 1\n"


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def test_an_operator_looks_at_topics_and_changes_them(site: SiteProcess) -> None:
    async with daemon(site.config) as running, site.eve() as eve:
        assert await site.printed("topics") == "There are no topics.\n"
        await eve.subscribe("weather.oslo", SubscribeOptions(credit=1))
        for body in (b"rain", b"\x1b[31msnow"):
            await eve.publish("weather.oslo", message(body, name="Forecast"))
        await eve.publish("work", message(b"x", delivery="ONE"))

        page = await site.asked("topics", "weather", "--sort", "held")
        assert [(topic["name"], topic["held"]) for topic in page["topics"]] == [("weather.oslo", 2)]
        assert (page["matching"], page["total"]) == (1, 2)
        listed = (await site.printed("topics")).splitlines()
        assert listed[0].split() == [
            "topic",
            "held",
            "guaranteed",
            "oldest",
            "in/s",
            "out/s",
            "subs",
            "expired",
            "dead",
        ]
        assert [line.split()[:2] for line in listed[1:]] == [["weather.oslo", "2"], ["work", "1"]]
        assert all(len(line) <= 80 for line in listed)
        assert (await site.command("topics", "--sort", "colour"))[0] == USAGE
        assert await site.printed("topics", "--offset", "2") == "No more than 2 topics: see --offset.\n"
        assert await site.printed("topics", "snow") == "No topic has snow in its name.\n"
        assert await site.printed("topics", "snow.#") == "No topic matches snow.#.\n"

        shown = await site.printed("topic", "show", "weather.oslo")
        assert shown.splitlines()[0] == "weather.oslo"
        assert shown.splitlines()[-1].split()[:2] == ["eve:desk", "BOTH"]
        [subscription] = (await site.asked("topic", "show", "weather.oslo"))["subscriptions"]
        assert (subscription["waiting"], subscription["locked"]) == (1, 1)
        code, _, why = await site.command("topic", "show", "nowhere")
        assert (code, why) == (FAILED, "nothing is known of nowhere; `smqpd topics` lists what there is")

        browsed = await site.printed("topic", "browse", "weather.oslo")
        assert "Name: Forecast" in browsed
        assert "rain" in browsed
        assert "\\x1b[31msnow" in browsed
        assert [one["size"] for one in await site.asked("topic", "browse", "weather.oslo")] == [4, 9]

        assert (
            await site.printed("topic", "set", "work", "--timeout", "90", "--delivery", "ONE")
            == "Set work.\n"
        )
        work = (await site.asked("topic", "show", "work"))["summary"]
        assert (work["timeout_s"], work["delivery"]) == (90.0, "ONE")
        await site.asked("topic", "set", "work", "--timeout", "infinite")
        assert (await site.asked("topic", "show", "work"))["summary"]["timeout_s"] == "INFINITE"
        for wrong in (("--timeout", "soon"), ("--timeout", "1000000001"), ("--delivery", "SOME"), ()):
            assert (await site.command("topic", "set", "work", *wrong))[0] == USAGE
        code, _, why = await site.command("topic", "set", "work", "--delivery", "ALL", "--timeout", "0")
        most = "1,000,000,000 seconds"
        assert (code, why) == (USAGE, f"--timeout is above 0 and at most {most}, or INFINITE: not '0'")
        assert (await site.asked("topic", "show", "work"))["summary"]["delivery"] == "ONE"

        code, _, why = await site.command("topic", "purge", "weather.oslo")
        assert (code, why) == (USAGE, "this cannot be undone, and nobody is there to be asked: give --yes")
        purged = await site.printed("topic", "purge", "weather.oslo", "--yes")
        assert purged == "Purged weather.oslo: 2 messages removed.\n"
        assert await site.asked("topic", "delete", "work", "--yes") == {"removed": 1}
        assert [topic["name"] for topic in (await site.asked("topics"))["topics"]] == ["weather.oslo"]
        assert "purged weather.oslo, which held 2 messages: by " in running.log


async def test_a_topic_shows_who_gets_it_by_a_pattern(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.subscribe("#", SubscribeOptions(credit=0))
        await eve.subscribe("news", SubscribeOptions(credit=0))
        for topic in ("news", "weather", "weather"):
            await eve.publish(topic, message(b"x", delivery="ALL"))
        shown = await site.printed("topic", "show", "news")
        assert re.search(r"^eve:desk +BOTH +\d+ +1 ", shown, re.MULTILINE)
        assert re.search(r"^eve:desk to # +BOTH +\d+ +2 ", shown, re.MULTILINE)
        last = "To the pattern #: what waits, is locked and received is so in all topics of it."
        assert shown.splitlines()[-1] == last


async def test_an_operator_ends_a_subscription_that_nobody_uses(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        async with site.eve() as eve:
            await eve.subscribe("weather.#", SubscribeOptions(credit=0))
            await eve.subscribe("work", SubscribeOptions(credit=0, name="late"))
            await eve.publish("weather.oslo", message(b"rain"))
            code, _, why = await site.command("topic", "unsubscribe", "weather.#", "eve:desk", "--yes")
            assert (code, "end that first: `smqpd session close 1`" in why) == (FAILED, True)
        for words, expected in (
            (["weather.#", "eve"], USAGE),
            (["weather.#", "eve:"], USAGE),
            (["weather.#.#", "eve:desk"], USAGE),
            (["weather.oslo", "eve:desk"], FAILED),
            (["weather.#", "eve:phone"], FAILED),
            (["work", "eve:desk"], FAILED),
            (["weather.#", "eve:desk"], USAGE),  # nobody is there to be asked
        ):
            code, _, why = await site.command(
                "topic", "unsubscribe", *words, *["--yes"] * (expected == FAILED)
            )
            assert (code, bool(why)) == (expected, True), words
        ended = await site.printed("topic", "unsubscribe", "weather.#", "eve:desk", "--yes")
        assert ended == "Ended the subscription of eve:desk, to weather.#, with 1 message for it.\n"
        assert "ended the subscription of eve:desk to weather.#, with 1 message: by " in running.log
        assert await site.asked("topic", "unsubscribe", "work", "eve:desk", "--name", "late", "--yes") == {
            "waited": 0
        }
        assert (await site.asked("status"))["subscriptions"] == 0
        assert (await site.asked("topics"))["topics"] == [], "what waited is given up"


async def test_an_operator_removes_one_message(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        for body in (b"1", b"2"):
            await eve.publish("work", message(body, delivery="ONE"))
        first, second = (one["smuid"] for one in await site.asked("topic", "browse", "work"))
        assert await site.printed("topic", "remove", "work", first) == f"Removed {first} from work.\n"
        assert [one["smuid"] for one in await site.asked("topic", "browse", "work")] == [second]


async def test_who_lists_dead_letters_is_told_where_topics_are_left_out(
    site: SiteProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead, "_TOPICS", msgspec.structs.replace(dead._TOPICS, count=1))
    async with daemon(site.config), site.eve() as eve:
        for topic, many in (("work", 2), ("play", 1)):
            await eve.subscribe(topic)
            for _ in range(many):
                await eve.publish(topic, message(b"x", delivery="ONE"))
                await eve.give_back([await anext(eve)], outcome="rejected", reason="no good")
            code, out, why = await site.command("dead", "list")
            assert (code, out.splitlines()[1].split()[:2]) == (0, ["work", "2"])
            assert why == ("" if topic == "work" else OTHERS_FOLLOW)
        [_, left_out] = (await site.printed(*shlex.split(OTHERS_FOLLOW)[5:])).splitlines()
        assert left_out.split()[:2] == ["dead.play", "1"]


async def test_an_operator_sends_dead_letters_back_or_drops_them(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        assert await site.printed("dead", "list") == "There are no dead letters.\n"
        await eve.subscribe("work")
        for body in (b"1", b"2", b"3"):
            await eve.publish("work", message(body, delivery="ONE"))
        for _ in range(3):
            await eve.give_back([await anext(eve)], outcome="rejected", reason="no good")
        listed = (await site.printed("dead", "list")).splitlines()
        assert [line.split()[:4] for line in listed[1:]] == [["work", "3", "3", "B"]]
        letters = await site.asked("dead", "list", "work")
        assert {letter["reason"] for letter in letters} == {"no good"}
        assert "Dead-Reason: no good" in await site.printed("dead", "list", "work")

        first, second, _ = (letter["message"]["smuid"] for letter in letters)
        assert await site.printed("dead", "drop", "work", first) == "Dropped: 1.\n"
        replayed = await site.asked("dead", "replay", "work", second)
        assert replayed == {"replayed": 1, "stayed": 0, "refused": {}}
        again = await anext(eve)
        assert again.message.sections[0].body == b"2"
        code, _, why = await site.command("dead", "replay", "work", second)
        assert (code, why) == (FAILED, f"{second} is not among the dead letters of work")
        assert await site.printed("dead", "replay", "work", "--all") == "Replayed to work: 1.\n"
        assert await site.printed("dead", "list", "work") == "work has no dead letters.\n"
        assert await site.asked("dead", "drop", "work", "--all", "--yes") == {"dropped": 0}
        assert (await site.command("dead", "drop", "work"))[0] == USAGE
        code, _, why = await site.command("dead", "list", "dead.work")
        assert (code, why) == (USAGE, "name the topic that they come from, work")


async def test_an_operator_sees_who_is_logged_in_and_ends_a_session(site: SiteProcess) -> None:
    async with daemon(site.config):
        assert await site.printed("sessions") == "Nobody is logged in.\n"
        async with site.eve("phone") as eve:
            [shown] = await site.asked("sessions")
            assert (shown["account"], shown["channel"], shown["protocol"]) == ("eve", "phone", "smqp")
            assert (await site.printed("sessions")).splitlines()[1].split()[:3] == [
                str(shown["id"]),
                "smqp",
                "eve:phone",
            ]
            assert await site.asked("sessions", "--account", "admin") == []
            assert await site.printed("session", "close", str(shown["id"])) == (
                f"Closed session {shown['id']}.\n"
            )
            with pytest.raises(ConnectionLost, match="closed"):
                await anext(eve)
        code, _, why = await site.command("session", "close", "99")
        assert (code, why) == (FAILED, "there is no session 99; see `smqpd sessions`")


async def test_nothing_in_the_name_of_a_client_acts_on_the_terminal(
    tmp_path: Path, site: SiteProcess
) -> None:
    """Such as the resource of a JID, which XMPP servers vouch for."""
    async with virtual_site(tmp_path) as running, trio.open_nursery() as nursery:
        broker, remote = running.broker, "ada@xmpp.example/\x9b2J\u202e"
        session = broker.open_session(Identity("ada"), "desk", protocol="xmpp", remote=remote)

        async def answer(question: AnyOperatorQuestion, tell: Tell) -> None:
            await tell(await operators.answer(SiteOperations(broker), question))

        await nursery.start(serve_control, site.config.parent / "state", answer, broker.mishaps.note)
        assert "ada@xmpp.example/\\x9b2J\\u202e" in await site.printed("sessions")
        session.close()
        nursery.cancel_scope.cancel()


async def test_status_and_top_tell_how_the_site_does(site: SiteProcess) -> None:
    assert (await site.command("topics"))[0] == UNREACHABLE
    async with daemon(site.config), site.eve() as eve:
        await eve.publish("weather", message(b"rain", timeout_s=60.0))
        status = await site.printed("status")
        assert status.startswith(f"alpha.example runs, smqpd {VERSION}: 1 connection, 1 message held\n")
        assert "  listens   smqp 127.0.0.1:" in status
        assert all(len(line) <= 80 for line in status.splitlines())
        known = await site.asked("status")
        reserve, hops = site.config.parent / "state/reserve", site.config.parent / "state/hops"
        assert known["reserve_bytes"] == (reserve.stat().st_size if reserve.exists() else 0)
        assert 0 < known["hop_log_bytes"] <= sum(path.stat().st_size for path in hops.iterdir())
        assert re.search(
            r"^  uses .* of database, .*\n(.*\n)*  keeps +\S+ \w+ of hop log", status, re.MULTILINE
        )
        assert (known["held"], known["topics"], known["sessions"], known["warnings"]) == (1, 1, 1, [])
        await eve.publish("weather", message(b"wind", timeout_s=60.0, guarantee=False))
        known = await site.asked("status")
        assert (known["held"], known["held_guaranteed"]) == (2, 1)
        status = await site.printed("status")
        assert "1 connection, 2 messages held (1 guaranteed)\n" in status
        assert "  holds     2 messages (1 guaranteed), 8 B; " in status
        assert "  holds     2 messages (1 guaranteed), 8 B: " in await site.printed(
            "topic", "show", "weather"
        )
        assert re.search(r"^weather +2 +1 ", await site.printed("topics"), re.MULTILINE)
        assert "weather" in await site.printed("top", "--count", "1")
        _, out, _ = await site.command("top", "--count", "2", "--every", "0.2", "--json")
        assert [json.loads(line)["topics"]["total"] for line in out.splitlines()] == [1, 1]


async def test_a_port_that_something_else_has_is_warned_of_while_the_site_runs(site: SiteProcess) -> None:
    async with daemon(site.config):
        assert await site.printed("config", "check") != ""
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            text = site.config.read_text().replace(f"127.0.0.1:{site.port}", f"127.0.0.1:{port}")
            site.config.write_text(text)
            _, _, said = await site.command("config", "check")
        assert said.count("cannot be listened on now") == 1
        assert f"127.0.0.1:{port} cannot be listened on now: Address already in use" in said

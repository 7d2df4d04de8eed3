"""Patterns in a federation of daemons of which only the last one has a subscription to one."""

from pathlib import Path

from daemon.hops.reader import HopLogReader
from plugins.smqp.client import Client
from plugins.smqp.incoming import Delivery
from routing.message import DeliveryMode, Message, Section
from tests.support.operator import Operator
from tests.support.real_sites import real_sites
from tests.support.trial import known, way_for


def message(text: str, *, mode: DeliveryMode = "ALL", timeout_s: float | None = None) -> Message:
    return Message(
        depth=2,
        delivery=mode,
        timeout_s=timeout_s,
        receipt="ALL",
        sections=(Section("text/plain", text.encode()),),
    )


async def committed(client: Client, count: int) -> list[tuple[str, str]]:
    """So many messages, by topic and text."""
    got: list[Delivery] = []
    while len(got) < count:
        some = await client.take()
        await client.commit(some)
        got += some
    return sorted((each.topic, each.message.sections[0].body.decode()) for each in got)


async def test_what_is_published_two_links_away_comes_by_a_pattern(tmp_path: Path) -> None:
    async with real_sites(tmp_path, [("alpha", "beta"), ("beta", "gamma")], namespaces=False) as sites:
        alpha = Operator(sites["alpha"].directory)
        async with sites["alpha"].client("writer") as writer, sites["gamma"].client("reader") as reader:
            await writer.subscribe(writer.topic)
            await writer.publish("weather.early", message("before", timeout_s=600.0))
            await reader.subscribe("weather.#")
            assert await committed(reader, 1) == [("weather.early", "before")]
            await way_for(sites["alpha"], "weather.oslo", "ALL", {"beta": 2})
            await known(sites["alpha"], sites.pairs)

            await writer.publish("weather.oslo", message("rain"))
            await writer.publish("weather.oslo.harbour", message("wind", mode="ONE"))
            await writer.publish("news", message("nobody"))
            assert await committed(reader, 2) == [("weather.oslo", "rain"), ("weather.oslo.harbour", "wind")]
            receipts = [text for _, text in await committed(writer, 4)]
            assert receipts == ["0/0", "0/0", "1/1", "1/1"]

            code, shown, _ = await alpha.command("trace", "weather.bergen")
            assert (code, "1 subscription" in shown) == (0, True)
            code, shown, _ = await alpha.command("routes", "weather.bergen")
            assert (code, "yes" in shown) == (0, True)
            code, shown, _ = await alpha.command("peers")
            assert (code, "patterns" in shown) == (0, False)

            await sites["gamma"].kill()
        async with sites["alpha"].client("writer") as writer, sites["gamma"].client("reader") as reader:
            await writer.publish("weather.oslo", message("snow"))
            await reader.subscribe("weather.#")
            assert await committed(reader, 1) == [("weather.oslo", "snow")]
        await sites.stop()
    records = HopLogReader(tmp_path / "gamma" / "state" / "hops").records()
    assert {record.pattern for record in records if record.event == "committed"} == {"weather.#"}

"""An error of smqpd's own that a request meets: the client is told, and nobody else is harmed."""

from pathlib import Path
from typing import Any

from daemon.system.mishaps import OWN_ERROR
from tests.support.site import running_site
from tests.support.smqp_peer import connected, frame, publish


async def test_a_client_whose_request_an_error_of_ours_meets_is_told_and_others_are_served(
    tmp_path: Path,
) -> None:
    async with running_site(tmp_path) as site, connected(site, "ada/other") as other:
        async with connected(site) as ada:
            await ada.send(publish("bad", "c1", "Delivery: ONE"))
            assert (await ada.line())[0] == "OK PUBLISH"
            topic: Any = site.broker._router._state.topics["bad"]
            waiting, topic.shared = topic.shared, None
            await ada.send(frame("SUBSCRIBE bad"))
            start, attributes = await ada.line()
            assert (start, attributes["Text"]) == ("BYE failed", OWN_ERROR)
            assert await ada.line() is None
        topic.shared = waiting
        await other.send(frame("SUBSCRIBE bad"))
        assert (await other.line())[0] == "OK SUBSCRIBE"
        assert (await other.frame()).command == "MESSAGE"
        assert site.broker.mishaps.count == 1

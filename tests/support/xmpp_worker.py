"""A worker as a process of its own, which may be killed at any moment and started again.

    python -m tests.support.xmpp_worker PORT RESOURCE JOURNAL

It speaks urn:xmpp:qos, and keeps what it has across its crashes in a journal:

    subscribed             once
    received MSGID ITEM    stored, but not yet to be worked on
    worked MSGID ITEM      the work itself
    retracted ITEM         the service knows that it is done

Where the connection breaks it connects again.
"""

import os
import sys
from pathlib import Path
from typing import Any

import trio

from plugins.xmpp.wire.namespaces import PUBSUB, QOS
from tests.support.xmpp_pubsub import error_of, subscribe
from tests.support.xmpp_servers import COMPONENT_NAME, RealClient

NODE = "counted"
CREDIT = 5
WORK_S = 0.02
RETRACT_AGAIN_S = 0.3
LOG_IN_AGAIN_S = 30.0
"""Where a server that is killed or starts says nothing."""


class Journal:
    """What has been done, as it is read after a crash."""

    def __init__(self, path: Path) -> None:
        self.received: dict[str, str] = {}
        self.worked: list[str] = []
        self.retracted: set[str] = set()
        self.subscribed = False
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        for line in path.read_text().splitlines():
            self._apply(*line.split())

    def note(self, *words: str) -> None:
        os.write(self._file, f"{' '.join(words)}\n".encode())
        self._apply(*words)

    def _apply(self, what: str, *words: str) -> None:
        if what == "received":
            self.received[words[0]] = words[1]
        elif what == "worked":
            del self.received[words[0]]
            self.worked.append(words[1])
        elif what == "subscribed":
            self.subscribed = True
        else:
            self.retracted.add(words[0])

    def close(self) -> None:
        os.close(self._file)


def read_journal(path: Path) -> Journal:
    """As it is now."""
    journal = Journal(path)
    journal.close()
    return journal


class Worker:
    """One connection of the worker."""

    def __init__(self, client: RealClient, journal: Journal) -> None:
        self._client = client
        self._journal = journal

    async def run(self) -> None:
        """Until the connection breaks."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._client.run)
            await self._client.send(f"<presence to='{COMPONENT_NAME}'/>")
            nursery.start_soon(self._subscribe_and_retract)
            async for stanza in self._client.stanzas:
                if stanza.tag.endswith("}iq"):
                    if stanza.get("type") == "set":
                        await self._request(stanza)
                    elif stanza.get("id") == "s" and stanza.get("type") == "result":
                        self._journal.note("subscribed")
                    elif (id := stanza.get("id", "")).startswith("r-"):
                        gone = stanza.get("type") == "error" and error_of(stanza)[1] == "item-not-found"
                        if gone or stanza.get("type") == "result":
                            self._journal.note("retracted", id.removeprefix("r-"))
            nursery.cancel_scope.cancel()

    async def _request(self, iq: Any) -> None:
        request, content = iq[0], ""
        msg_id = request.get("msgId", "")
        if request.tag == f"{{{QOS}}}assured":
            item = next(request.iter(f"{{{PUBSUB}#event}}item")).get("id", "")
            if msg_id not in self._journal.received:
                self._journal.note("received", msg_id, item)
            content = f"<received xmlns='{QOS}' msgId='{msg_id}'/>"
        elif msg_id in self._journal.received:
            await trio.sleep(WORK_S)
            self._journal.note("worked", msg_id, self._journal.received[msg_id])
        await self._client.send(f"<iq type='result' id='{iq.get('id')}' to='{iq.get('from')}'>{content}</iq>")

    async def _subscribe_and_retract(self) -> None:
        journal = self._journal
        while not journal.subscribed:
            text = subscribe(self._client.jid, str(CREDIT), NODE)
            await self._client.send(f"<iq type='set' id='s' to='{COMPONENT_NAME}'>{text}</iq>")
            await trio.sleep(RETRACT_AGAIN_S)
        while True:
            for item in [item for item in journal.worked if item not in journal.retracted]:
                content = f"<retract node='{NODE}'><item id='{item}'/></retract>"
                text = f"<pubsub xmlns='{PUBSUB}'>{content}</pubsub>"
                await self._client.send(f"<iq type='set' id='r-{item}' to='{COMPONENT_NAME}'>{text}</iq>")
            await trio.sleep(RETRACT_AGAIN_S)


async def work(port: int, resource: str, path: Path) -> None:
    """For ever."""
    journal = Journal(path)
    while True:
        try:
            client = RealClient(await trio.open_tcp_stream("127.0.0.1", port))
            client.features = (QOS,)
            with trio.fail_after(LOG_IN_AGAIN_S):
                await client.log_in("bob", resource)
            await Worker(client, journal).run()
        except* (
            OSError,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
            trio.TooSlowError,
            AssertionError,
        ):
            pass
        await trio.sleep(0.1)


if __name__ == "__main__":
    trio.run(work, int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))

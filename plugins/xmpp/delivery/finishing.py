"""What the server has read, finished together: each commit by itself would be a transaction."""

from typing import Final, Protocol

import trio

FINISH_S: Final = 0.2
"""For so long, what the server has read waits for a publication with which it can be committed."""


class Reads(Protocol):
    """See `client.Client`."""

    def finish(self) -> None: ...


class Finishing:
    """The clients that have something to tell the broker."""

    def __init__(self) -> None:
        self._clients: list[Reads] = []
        self._some = trio.Event()

    def soon(self, client: Reads) -> None:
        """Have the client tell the broker what is finished: with the next publication, or in a moment."""
        self._clients.append(client)
        self._some.set()

    def now(self) -> None:
        """Finish what has been read, as something is about to be committed, with which it goes."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.finish()

    async def run(self) -> None:
        """Finish what the server has read, a little later and together. Runs until cancelled."""
        while True:
            await self._some.wait()
            await trio.sleep(FINISH_S)
            self._some = trio.Event()
            self.now()

"""A front end for tests: `login ACCOUNT PASSWORD` opens a session, every other line comes back."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import trio

from daemon.frontend import Session, Site
from routing.errors import Refusal


class EchoSettings(msgspec.Struct, frozen=True):
    """Echoes lines."""

    listen: tuple[str, ...] = ()
    listen_tls: tuple[str, ...] = ()


class Echo:
    name = "echo"
    settings = EchoSettings
    enabled_by_default = False

    def check(self, settings: Any, accounts: Collection[str]) -> Iterable[str]:
        return ()

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async def handle(stream: trio.abc.Stream, remote: str) -> None:
            await echo(site, stream, remote)

        async def listen(
            addresses: tuple[str, ...], name: str, tls: bool, task_status: trio.TaskStatus[list[str]]
        ) -> None:
            await site.serve_streams(addresses, handle, socket_name=name, tls=tls, task_status=task_status)

        async with trio.open_nursery() as nursery:
            await nursery.start(listen, settings.listen, "echo", False)
            await nursery.start(listen, settings.listen_tls, "echos", True)
            task_status.started()


async def echo(site: Site, stream: trio.abc.Stream, remote: str) -> None:
    sessions: list[Session] = []
    sending = trio.Lock()

    async def send(text: str) -> None:
        async with sending:
            await stream.send_all(text.encode())

    async def read() -> None:
        while data := await stream.receive_some():
            words = data.decode().split()
            if words[:1] != ["login"]:
                await send(data.decode())
                continue
            try:
                identity = await site.authenticate(words[1], words[2], remote)
                sessions.append(site.open_session(identity, "main", protocol="echo", remote=remote))
            except Refusal as refusal:
                await send(f"{refusal.code}\n")
                continue
            nursery.start_soon(write, sessions[-1])
            await send("welcome\n")
        nursery.cancel_scope.cancel()

    async def write(session: Session) -> None:
        while events := await session.events():
            for event in events:
                await send(f"{type(event).__name__} {getattr(event, 'reason', '')}\n")

    async def drain() -> None:
        await site.draining.wait()
        await send("draining\n")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            nursery.start_soon(read)
    finally:
        for session in sessions:
            session.close()


plugin = Echo()

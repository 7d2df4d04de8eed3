"""A front end for tests, of which each line comes back; with these words it does something, too.

login ACCOUNT PASSWORD    logs in
stay                      has it say no goodbye, which no front end should do: whatever ends it is the site
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec
import trio

from daemon.connections.conversation import Conversation, Credentials, EndReason
from daemon.connections.shell import Connections, Endpoint
from daemon.frontend import Session, SessionEvent, Site
from routing.errors import Refusal

LINE_BYTES_MAX: Final = 4_096


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
        await Connections(site, "echo", lambda remote: EchoConversation(site)).listen(
            Endpoint(addresses=settings.listen, socket_name="echo"),
            Endpoint(addresses=settings.listen_tls, socket_name="echos", tls=True),
            task_status=task_status,
        )


class EchoConversation(Conversation):
    def __init__(self, site: Site) -> None:
        super().__init__(site.metrics.tell_refused)
        self._came = b""
        self._stays = False

    @property
    def unfinished_bytes(self) -> int:
        return len(self._came)

    def feed(self, data: bytes | bytearray) -> None:
        self._came += data

    def proceed(self, unanswered_max: int) -> Credentials | None:
        while self.goodbye is None and self.unanswered < unanswered_max:
            line, ended, rest = self._came.partition(b"\n")
            if not ended:
                if len(line) > LINE_BYTES_MAX:
                    self.goodbye = b"too long\n"
                return None
            self._came = rest
            self.frames += 1
            words = line.decode().split()
            if words[:1] == ["login"]:
                return Credentials(words[1], words[2], "main")
            if words == ["stay"]:
                self._stays = True
            self._say(line.decode())
        return None

    def _say(self, line: str) -> None:
        self.out.append(f"{line}\n".encode())

    def accept(self, session: Session) -> None:
        self._say("welcome")

    def refuse(self, refusal: Refusal) -> None:
        self._say(refusal.code)

    def refuse_unfinished(self, refusal: Refusal) -> None:
        self.goodbye = f"{refusal.code}\n".encode()

    def handle(self, events: Iterable[SessionEvent]) -> None:
        for event in events:
            self._say(type(event).__name__)

    def end(self, reason: EndReason, text: str, redirect: str | None) -> None:
        if self._stays:
            self._say(f"not ending: {reason}")
        else:
            self.goodbye = f"ending: {reason}\n".encode()


plugin = Echo()

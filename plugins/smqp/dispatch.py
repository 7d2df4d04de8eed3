"""Carries a client's commands out on its session, and says what can be said at once.

Pure but for the session that it calls: no task, no socket. One dispatcher serves one session.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from daemon.frontend import Answer, Ending, Event, Session
from plugins.smqp import replies
from plugins.smqp.protocol import read_command
from plugins.smqp.requests import (
    Command,
    Commit,
    ConnectTo,
    Detach,
    Login,
    Ping,
    Publish,
    Received,
    Remove,
    Return,
    SetDelivery,
    SetTimeout,
    Subscribe,
    Unsubscribe,
)
from routing.errors import Refusal
from routing.frames import Frame
from routing.names import make_address

CONNECT_TIMEOUT_S: Final = 60.0
"""How long a CONNECTTO waits for its receiver: who asked is not listening for longer."""


class Dispatcher:
    """Commands in; calls of the session, and immediate replies, out.

    Attributes:
        unanswered: requests that an event of the session has still to answer.
    """

    def __init__(self, session: Session, server_name: str, remote: str) -> None:
        self.unanswered = 0
        self._session = session
        self._server_name = server_name
        self._remote = remote
        self._handlers: dict[type[Command], Callable[[Any], object]] = {
            Commit: lambda command: session.commit(command.numbers, command.key),
            ConnectTo: self._connect_to,
            Detach: lambda command: session.detach(command.topic, command.name, command.key),
            Login: self._log_in_again,
            Received: lambda command: session.received(command.numbers, command.key),
            Remove: lambda command: session.remove(command.topic, command.smuid, command.key),
            Return: lambda command: session.give_back(
                command.numbers, command.reason, command.delay_s, command.key, outcome=command.outcome
            ),
            SetDelivery: lambda command: session.set_delivery(command.topic, command.mode, command.key),
            SetTimeout: lambda command: session.set_timeout(command.topic, command.timeout_s, command.key),
            Subscribe: lambda command: session.subscribe(command.topic, command.options, command.key),
            Unsubscribe: lambda command: session.unsubscribe(command.topic, command.name, command.key),
        }

    def check(self, frame: Frame) -> None:
        """Whether it is of use to read the sections of a frame whose head has come. Raises Refusal."""
        if frame.command == "PUBLISH":
            self._session.check_publish(frame.arguments.strip())
        else:
            read_command(frame)
            raise Refusal(Refusal.BAD_FRAME, f"{frame.command} has no sections")

    def carry_out(self, command: Command) -> bytes:
        """Do what the command asks, QUIT excepted; the reply, or b"" where an event brings it or none is due.

        An unguaranteed PUBLISH is never answered, not even when it is refused. Source: SMQP GUARANTEE.
        """
        try:
            if type(command) is Publish:
                message = command.message
                self._session.publish(command.topic, message, command.key)
                if message.guarantee:
                    self.unanswered += 1
            elif type(command) is Ping:
                return replies.pong(command.request)
            else:
                self._handlers[type(command)](command)
                self.unanswered += 1
        except Refusal as refusal:
            if type(command) is Publish and not command.message.guarantee:
                return b""
            return replies.error(command.key, refusal)
        return b""

    def note(self, events: Iterable[Event]) -> bool:
        """Take notice of what the session told the client; True once that was its end."""
        ends = False
        for event in events:
            if type(event) is Answer:
                self.unanswered -= 1
            elif type(event) is Ending:
                ends = True
        return ends

    def _connect_to(self, command: ConnectTo) -> None:
        address = command.address or _without_port(self._remote)
        message = replies.connect_request(address, command.port, CONNECT_TIMEOUT_S, datetime.now(UTC))
        topic = make_address(command.account, command.channel, self._server_name)
        self._session.publish(topic, message, command.key)

    def _log_in_again(self, command: Login) -> None:
        raise Refusal(Refusal.BAD_COMMAND, "this connection is logged in already")


def _without_port(remote: str) -> str:
    """`10.0.0.1:4711` and `[::1]:4711` to the address alone; an address alone stays."""
    if remote.startswith("["):
        return remote[1:].partition("]")[0]
    return remote.partition(":")[0] if remote.count(":") == 1 else remote

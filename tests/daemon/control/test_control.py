"""The operator's socket: one question a connection, and the lines of its answer as they come."""

import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from daemon.connections.listen import ListenError
from daemon.control import client
from daemon.control.client import QUESTION_BYTES_MAX, SOCKET, NotRunningError, Question, ask, ask_all
from daemon.control.socket import Tell, serve_control
from daemon.system.mishaps import Mishaps
from routing.errors import Refusal

Answerer = Callable[[Question, Tell], Awaitable[None]]


@asynccontextmanager
async def control(directory: Path, answer: Answerer) -> AsyncIterator[Mishaps]:
    mishaps = Mishaps()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, directory, answer, mishaps.note)
        yield mishaps
        nursery.cancel_scope.cancel()


async def asked(directory: Path, question: Question) -> list[Any]:
    """All lines of the answer."""
    lines = await trio.to_thread.run_sync(lambda: list(ask_all(directory, question)))
    return [msgspec.json.decode(line) for line in lines]


async def echo(question: Question, tell: Tell) -> None:
    await tell({"you asked": question.name})


@asynccontextmanager
async def connected(directory: Path) -> AsyncIterator[trio.SocketStream]:
    """Somebody who speaks to the socket by hand."""
    with trio.socket.socket(socket.AF_UNIX) as raw:
        await raw.connect(str(directory / SOCKET))
        yield trio.SocketStream(raw)


async def test_a_place_that_is_taken_by_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / SOCKET).mkdir()
    named = rf"^cannot listen for commands on {tmp_path / SOCKET}: Is a directory$"
    with pytest.RaisesGroup(pytest.RaisesExc(ListenError, match=named)):
        async with control(tmp_path, echo):
            pass


async def test_a_question_is_answered_and_the_connection_ends(tmp_path: Path) -> None:
    async with control(tmp_path, echo):
        assert await asked(tmp_path, Question(ask="routes", name="weather")) == [{"you asked": "weather"}]


async def test_an_answer_of_several_lines_comes_line_by_line(tmp_path: Path) -> None:
    first_was_read = trio.Event()

    async def in_two(question: Question, tell: Tell) -> None:
        await tell(1)
        await first_was_read.wait()
        await tell(2)

    async with control(tmp_path, in_two):
        lines = ask_all(tmp_path, Question(ask="trace", name="weather", timeout_s=5.0))
        assert await trio.to_thread.run_sync(next, lines) == b"1\n"
        first_was_read.set()
        assert await trio.to_thread.run_sync(list, lines) == [b"2\n"]


async def test_what_was_asked_ends_when_whoever_asked_has_gone(tmp_path: Path) -> None:
    began, ended = trio.Event(), trio.Event()

    async def for_ever(question: Question, tell: Tell) -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with control(tmp_path, for_ever):
        async with connected(tmp_path) as stream:
            await stream.send_all(b'{"ask":"why","name":"x","timeout_s":60}\n')
            await began.wait()
        await ended.wait()


async def test_a_question_may_come_in_pieces(tmp_path: Path) -> None:
    async with control(tmp_path, echo), connected(tmp_path) as stream:
        for part in (b'{"ask":"pe', b'ers","name":"x"', b"}\n"):
            await stream.send_all(part)
        assert await stream.receive_some() == b'{"you asked":"x"}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b'{"ask":"everything"}\n',
        b'{"ask":"ping","name":"x","timeout_s":1e9}\n',
        b'{"ask":"trace","name":"x","depth":-2}\n',
        b'{"ask":"topics","count":9223372036854775808}\n',
        b'{"ask":"peers","name":"\xff"}\n',
        b" " * (QUESTION_BYTES_MAX + 1),
    ],
)
async def test_what_is_no_question_is_refused_in_words_and_harms_nobody(tmp_path: Path, line: bytes) -> None:
    async with control(tmp_path, echo):
        async with connected(tmp_path) as stream:
            await stream.send_all(line)
            answer = b"".join([part async for part in stream])
            assert answer.startswith(b'{"refused":"bad-command","text":"')
            assert answer.endswith(b'"}\n')
        assert await asked(tmp_path, Question(ask="peers", name="next")) == [{"you asked": "next"}]


async def test_who_says_nothing_is_waited_for_no_longer_than_a_while(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with control(tmp_path, echo) as mishaps, connected(tmp_path) as stream:
        await stream.send_all(b"{")
        assert await stream.receive_some() == b""
        assert mishaps.count == 0


async def test_a_question_that_is_refused_gets_no_answer(tmp_path: Path) -> None:
    async def refuse(question: Question, tell: Tell) -> None:
        raise Refusal(Refusal.BAD_TOPIC, "no")

    async with control(tmp_path, refuse):
        with pytest.raises(NotRunningError, match="gives no answer"):
            await asked(tmp_path, Question(ask="trace", name="x"))


def test_without_a_daemon_it_is_said_that_none_answers(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="no daemon answers"):
        ask(tmp_path, Question(ask="peers"))
    with pytest.raises(NotRunningError, match="no daemon answers"):
        ask(tmp_path / "missing", Question(ask="peers"))


async def test_a_daemon_that_ends_in_the_middle_of_a_line_has_not_answered(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    async def end_in_the_middle() -> None:
        connection, _ = await listening.accept()
        async with trio.SocketStream(connection) as stream:
            await stream.receive_some()
            await stream.send_all(b'[{"peer": "beta.ex')

    with trio.socket.socket(socket.AF_UNIX) as listening:
        await listening.bind(str(tmp_path / SOCKET))
        listening.listen()
        nursery.start_soon(end_in_the_middle)
        with pytest.raises(NotRunningError, match="ended before its answer did"):
            await asked(tmp_path, Question(ask="peers"))


async def test_a_line_that_is_too_long_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_BYTES_MAX", 10)
    async with control(tmp_path, echo):
        with pytest.raises(NotRunningError, match="of more than 10 bytes in a line"):
            await asked(tmp_path, Question(ask="peers"))


async def test_nobody_else_may_ask_and_the_socket_goes_with_the_daemon(tmp_path: Path) -> None:
    async with control(tmp_path, echo):
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
    assert not (tmp_path / SOCKET).exists()


async def test_a_socket_that_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / SOCKET))
    async with control(tmp_path, echo):
        assert await asked(tmp_path, Question(ask="peers")) == [{"you asked": ""}]


async def test_the_directory_may_have_a_longer_name_than_a_socket(tmp_path: Path) -> None:
    long = tmp_path / ("d" * 120)
    os.mkdir(long)
    async with control(long, echo):
        assert await asked(long, Question(ask="peers", name="x")) == [{"you asked": "x"}]


async def test_a_question_that_meets_an_error_gets_no_answer_and_the_next_one_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(question: Question, tell: Tell) -> None:
        if question.name == "broken":
            raise TypeError("an answer that is broken")
        await echo(question, tell)

    async with control(tmp_path, answer) as mishaps:
        with pytest.raises(NotRunningError, match="gives no answer"):
            await asked(tmp_path, Question(ask="routes", name="broken"))
        assert await asked(tmp_path, Question(ask="routes", name="news")) == [{"you asked": "news"}]
        assert mishaps.count == 1
    assert "the question 'routes' of an operator was set aside" in caplog.text

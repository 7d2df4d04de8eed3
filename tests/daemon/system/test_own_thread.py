"""The thread that commits for the event loop."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import trio

from daemon.system.own_thread import OwnThread


@pytest.fixture
def thread() -> Iterator[OwnThread]:
    with closing(OwnThread("own")) as thread:
        yield thread


async def test_every_call_is_made_by_one_thread_that_is_not_the_loops(thread: OwnThread) -> None:
    idents = {await thread.run_sync(threading.get_ident) for _ in range(100)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents


async def test_what_a_call_raises_is_raised_and_the_next_is_made(thread: OwnThread) -> None:
    with pytest.raises(ZeroDivisionError):
        await thread.run_sync(lambda: 1 / 0)
    assert await thread.run_sync(lambda: 1 / 1) == 1


async def test_the_loop_goes_on_meanwhile(thread: OwnThread) -> None:
    may_end, ended = threading.Event(), []

    async def work() -> None:
        ended.append(await thread.run_sync(may_end.wait))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        for _ in range(10):
            await trio.sleep(0.001)
        assert not ended
        may_end.set()
    assert ended == [True]


async def test_who_is_cancelled_waits_for_the_call_and_the_next_one_is_not_taken_for_it(
    thread: OwnThread,
) -> None:
    began, may_end, done = threading.Event(), threading.Event(), []

    def call() -> None:
        began.set()
        may_end.wait()
        done.append("first")

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run_sync, call)
            await trio.to_thread.run_sync(began.wait)
            scope.cancel()
            threading.Timer(0.01, may_end.set).start()
    assert done == ["first"]
    assert await thread.run_sync(lambda: "second") == "second"


async def test_what_a_call_raises_is_not_told_who_comes_after_one_that_was_cancelled(
    thread: OwnThread,
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        may_end.wait()
        raise ZeroDivisionError

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run_sync, call)
            await trio.to_thread.run_sync(began.wait)
            scope.cancel()
            threading.Timer(0.01, may_end.set).start()
    assert await thread.run_sync(lambda: "second") == "second"


async def test_where_the_system_has_no_thread_to_give_it_is_asked_again(
    thread: OwnThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                await thread.run_sync(lambda: None)
    assert await thread.run_sync(lambda: "done") == "done"


async def test_it_ends_when_it_is_closed() -> None:
    with closing(OwnThread("one that ends")) as thread:
        await thread.run_sync(lambda: None)
        assert _named("one that ends") == 1
    assert _named("one that ends") == 0


def _named(name: str) -> int:
    """Threads that run: others, of the loop's own for example, come and go meanwhile."""
    return sum(each.name == name for each in threading.enumerate())

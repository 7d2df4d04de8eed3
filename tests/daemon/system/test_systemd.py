"""What the service manager hears, and what it passes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from daemon.site.run import STATUS_S, tell_manager
from daemon.system.mishaps import Mishaps
from daemon.system.systemd import Notifier, passed


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def heard(manager: socket.socket) -> list[str]:
    lines = []
    while True:
        try:
            lines.append(manager.recv(4096).decode())
        except BlockingIOError:
            return lines


def test_states_are_told_as_systemd_reads_them(manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "HOME": "/"}
    notifier = Notifier(environment)
    assert environment == {"HOME": "/"}
    notifier.ready("all well")
    notifier.status("so so")
    notifier.reloading()
    notifier.stopping("bye")
    ready, status, reloading, stopping = heard(manager)
    assert ready == "READY=1\nSTATUS=all well"
    assert status == "STATUS=so so"
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert int(reloading.rpartition("=")[2]) > 0
    assert stopping == "STOPPING=1\nSTATUS=bye"


def test_a_manager_that_does_not_read_holds_up_nobody(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    for number in range(1_000):
        notifier.status(str(number))
    assert heard(manager)[0] == "STATUS=0"
    notifier.status("again")
    assert heard(manager) == ["STATUS=again"]


def test_an_abstract_socket_works_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0smqpd-test-{os.getpid()}")
        Notifier({"NOTIFY_SOCKET": f"@smqpd-test-{os.getpid()}"}).status("here")
        assert listening.recv(100) == b"STATUS=here"


def test_without_a_manager_or_with_a_deaf_one_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready("nobody hears")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("nobody hears")


def test_memory_is_given_to_the_manager_once_and_taken_back(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    memory = notifier.outlasting("passwords", {})
    assert memory is not None
    memory.append(b"first")
    told, descriptors, _, _ = socket.recv_fds(manager, 4096, 1)
    assert told == b"FDSTORE=1\nFDNAME=passwords"
    os.close(memory.descriptor)
    kept = {"passwords": descriptors}
    again = notifier.outlasting("passwords", kept)
    assert again is not None
    assert (again.read(), kept, heard(manager)) == ([b"first"], {}, [])
    os.close(again.descriptor)
    assert Notifier({}).outlasting("passwords", {}) is None


async def test_the_watchdog_hears_from_a_loop_that_lives(
    manager: socket.socket, autojump_clock: MockClock
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000"})
    stuck = trio.Event()

    async def alive() -> None:
        if trio.current_time() >= 60:
            stuck.set()
            await trio.sleep_forever()

    with trio.move_on_after(300):
        await notifier.watchdog(alive)
    assert stuck.is_set()
    assert heard(manager) == ["WATCHDOG=1"] * 4


@pytest.mark.parametrize("more", [{}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}])
async def test_no_watchdog_is_asked_for(manager: socket.socket, more: dict[str, str]) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), **more})
    await notifier.watchdog(trio.lowlevel.checkpoint)
    assert heard(manager) == []


def test_sockets_are_passed_by_name(tmp_path: Path) -> None:
    """In a process of its own, since the protocol begins at file descriptor 3."""
    program = """if True:
        import os, socket
        from daemon.system.systemd import passed
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        addresses = [sock.getsockname() for sock in sockets]
        for number, sock in enumerate(sockets):
            os.dup2(sock.detach(), 13 + number)
        for number in range(2):
            os.dup2(13 + number, 3 + number)
        os.dup2(os.memfd_create("memory"), 5)
        names = "smqp:smqps:passwords"
        environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3", "LISTEN_FDNAMES": names}
        given = passed(environment)
        assert environment == {}
        assert [sock.getsockname() for name in ("smqp", "smqps") for sock in given.sockets[name]] == addresses
        assert given.kept == {"passwords": [5]}
        assert not os.get_inheritable(5)
        assert not any(sock.get_inheritable() for name in given.sockets for sock in given.sockets[name])
        """
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


@pytest.mark.parametrize(
    "environment",
    [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"}],
)
def test_what_is_not_ours_is_left_alone(environment: dict[str, str]) -> None:
    given = passed(environment)
    assert given.sockets == {}
    assert given.kept == {}


async def test_the_manager_is_told_on_where_what_it_is_told_fails(
    manager: socket.socket, mock_clock: MockClock
) -> None:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "10000000"}
    lines: list[str] = []
    mishaps = Mishaps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell_manager, Notifier(environment), lambda: lines[-1], mishaps.keep_going)
        for told in ([], ["all well"]):
            lines += told
            for _ in range(2 * int(STATUS_S)):
                await trio.testing.wait_all_tasks_blocked(0.001)
                mock_clock.jump(1)
        assert mishaps.count == 1
        assert "STATUS=all well" in heard(manager)
        nursery.cancel_scope.cancel()

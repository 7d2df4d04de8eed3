"""What `smqpd pub` and `sub` write, as processes: to who reads slowly, or not at all, or a full disk."""

import json
import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from tests.support.command_line import CommandLine
from tests.support.patience import PATIENCE_S, until
from tests.support.receiving import full_pipe

WRITE: Final = 1
"""The number of the system call."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


async def test_an_interrupt_ends_sub_and_keeps_what_was_not_written(smqpd: CommandLine) -> None:
    process = await trio.lowlevel.open_process(
        [sys.executable, *smqpd.arguments("sub", "t", "--channel", "desk")],
        stdout=subprocess.PIPE,
        env=smqpd.environment,
    )
    while (await smqpd("pub", "t", "one", "--delivery", "ONE", "--wait-receipt")).out.split()[1:] != [b"1/1"]:
        pass
    assert process.stdout is not None
    assert (await process.stdout.receive_some()).startswith(b"one\n")
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130


def is_writing_to(process: Any, descriptor: int) -> bool:
    """Whether a thread of it waits in a write to what nobody reads."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(OSError):  # it has just ended
            if (task / "syscall").read_text().startswith(f"{WRITE} {descriptor:#x} "):
                return True
    return False


def system_calls_are_told() -> bool:
    """Whether one may see what a process waits in, which not every container lets one."""
    try:
        return platform.machine() == "x86_64" and bool(Path("/proc/self/syscall").read_text())
    except OSError:
        return False


@pytest.mark.skipif(not system_calls_are_told(), reason="nothing says what it waits in, with these numbers")
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_ends_pub_and_sub_while_nobody_reads_what_they_write(
    smqpd: CommandLine, number: signal.Signals, exit_code: int
) -> None:
    for words in (("pub", "t", "rain", "--delivery", "ONE"), ("sub", "t", "--channel", "desk")):
        reads, writes = full_pipe()
        process = await trio.lowlevel.open_process(
            [sys.executable, *smqpd.arguments(*words)], stdout=writes, env=smqpd.environment
        )
        try:
            await until(partial(is_writing_to, process, 1))
            process.send_signal(number)
            with trio.fail_after(PATIENCE_S):
                assert await process.wait() == exit_code
        finally:
            process.kill()
            for descriptor in (reads, writes):
                os.close(descriptor)
    assert (await smqpd("sub", "t", "--channel", "desk", "-n", "1")).out == b"rain\n"


async def test_stored_messages_are_named_where_their_ids_cannot_be_written(smqpd: CommandLine) -> None:
    async def pub(*words: Any, stdin: bytes = b"") -> Any:
        with open("/dev/full", "w") as full:
            return await smqpd("pub", "t", "--timeout", "60", *words, stdin=stdin, stdout=full.fileno())

    one, three = await pub("rain"), await pub("--lines", stdin=b"a\nb\nc\n")
    received = await smqpd("sub", "t", "-n", "4", "--json")
    smuids = [json.loads(line)["smuid"] for line in received.out.splitlines()]
    full = "smqpd: standard output cannot be written: No space left on device; stored: "
    assert (one.exit_code, one.error) == (1, f"{full}{smuids[0]}\n")
    assert (three.exit_code, three.error) == (
        1,
        f"{full}3 messages, {smuids[1]} to {smuids[3]}\n",
    )


async def test_what_cannot_be_written_is_not_committed(smqpd: CommandLine) -> None:
    await smqpd("pub", "t", "rain", "--delivery", "ONE")
    with open("/dev/full", "w") as full:
        failed = await smqpd("sub", "t", "-n", "1", stdout=full.fileno())
    assert failed.exit_code == 1
    assert failed.error == (
        "smqpd: standard output cannot be written: No space left on device; what is not written is not"
        " committed\n"
    )
    assert (await smqpd("sub", "t", "-n", "1")).out == b"rain\n"


async def test_output_that_others_have_set_not_to_block_is_written_as_it_is_read(smqpd: CommandLine) -> None:
    """As whoever shares a terminal or a pipe may do."""
    body = b"x" * 1_000_000
    await smqpd("pub", "t", "--delivery", "ONE", stdin=body)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)

    async def receive() -> None:
        received = await smqpd("sub", "t", "-n", "1", "--raw", stdout=writes)
        os.close(writes)
        assert (received.exit_code, received.error) == (0, "")

    async with trio.open_nursery() as nursery, trio.lowlevel.FdStream(reads) as reader:
        nursery.start_soon(receive)
        read = b"".join([part async for part in reader])
    assert read == body


async def test_what_is_written_only_in_part_is_not_committed_either(
    smqpd: CommandLine, tmp_path: Path
) -> None:
    """As on a disk that is nearly full; without a buffer of Python's no error says so."""
    await smqpd("pub", "t", "--delivery", "ONE", stdin=b"x" * 5_000)
    command = smqpd.in_shell("sub", "t", "-n", "1", "--raw")
    failed = await trio.run_process(
        ["sh", "-c", f"ulimit -f 1; {command} > {tmp_path / 'written'}"],
        capture_stderr=True,
        check=False,
        # the limit holds for all files, those too in which Python keeps modules
        env=smqpd.environment | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (failed.returncode, failed.stderr) == (
        1,
        b"smqpd: standard output cannot be written: File too large; what is not written is not committed\n",
    )
    assert 0 < (tmp_path / "written").stat().st_size < 5_000
    assert (await smqpd("sub", "t", "-n", "1", "--raw")).out == b"x" * 5_000


async def test_a_reader_that_has_enough_ends_sub_without_complaint(smqpd: CommandLine) -> None:
    await smqpd("pub", "t", "--lines", "--delivery", "ONE", stdin=b"x" * 100_000 + b"\n1\n")
    command = smqpd.in_shell("sub", "t", "--credit", "1")
    result = await trio.run_process(
        ["sh", "-c", f"{command} | head -c 10"],
        capture_stdout=True,
        capture_stderr=True,
        env=smqpd.environment,
    )
    assert (result.stdout, result.stderr) == (b"x" * 10, b"")

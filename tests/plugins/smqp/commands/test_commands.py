"""`smqpd pub` and `sub` as processes, against a server that listens on loopback."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.certificates.self_signed import make_self_signed
from tests.support.command_line import CommandLine
from tests.support.site import PASSWORD, BrokerSite
from tests.support.smqp_peer import serve_connection
from tests.support.terminal import CTRL_C, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


async def test_what_is_published_is_received(smqpd: CommandLine) -> None:
    published = await smqpd(
        "pub", "t", "rain", "--name", "Wæther", "--priority", "3", "--timeout", "60", "-H", "X-A: b", "--json"
    )
    assert published.exit_code == 0, published
    smuid = json.loads(published.out)["smuid"]
    received = await smqpd("sub", "t", "--count", "1", "--json")
    assert received.exit_code == 0, received
    (line,) = received.out.decode().splitlines()
    found = json.loads(line)
    assert found.pop("created").endswith("Z")
    assert found.pop("cmuid")
    assert found.pop("account").startswith("ada:pub-")
    assert found == {
        "topic": "t",
        "smuid": smuid,
        "name": "Wæther",
        "priority": 3,
        "timeout": "60",
        "attempt": 1,
        "headers": [["X-A", "b"]],
        "sections": [{"content_type": "text/plain; charset=utf-8", "text": "rain"}],
    }


async def test_lines_of_stdin_are_messages_with_a_rising_sequence(smqpd: CommandLine) -> None:
    published = await smqpd(
        "pub", "t", "--lines", "--delivery", "ONE", "--sequence", "7", "--cmuid", "x", stdin=b"a\r\nb\n\nd"
    )
    assert (published.exit_code, len(published.out.split())) == (0, 4), published
    received = await smqpd("sub", "t", "-n", "4", "--json", "--ordered")
    found = [json.loads(line) for line in received.out.splitlines()]
    assert [message["sections"][0]["text"] for message in found] == ["a", "b", "", "d"]
    assert [(message["sequence"], message["cmuid"]) for message in found] == [
        (7, "x-1"),
        (8, "x-2"),
        (9, "x-3"),
        (10, "x-4"),
    ]
    again = await smqpd("pub", "t", "--lines", "--delivery", "ONE", "--cmuid", "x", "--json", stdin=b"a\nb\n")
    assert [json.loads(line)["repeated"] for line in again.out.splitlines()] == [True, True]


async def test_a_message_says_of_which_group_it_is(smqpd: CommandLine) -> None:
    published = await smqpd("pub", "t", "rain", "--delivery", "ONE", "--group", "oslo", "--group-end")
    assert published.exit_code == 0, published
    found = json.loads((await smqpd("sub", "t", "-n", "1", "--json")).out)
    assert (found["group"], found["group_end"]) == ("oslo", True)


async def test_files_are_sections_byte_for_byte(smqpd: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\n")
    (tmp_path / "b.png").write_bytes(bytes(range(256)))
    published = await smqpd(
        "pub", "t", "-f", str(tmp_path / "a.txt"), "-f", str(tmp_path / "b.png"), "--delivery", "ONE"
    )
    assert published.exit_code == 0, published
    received = await smqpd("sub", "t", "-n", "1", "--raw")
    assert received.out == b"one\r\n" + bytes(range(256))


async def test_a_channel_keeps_what_comes_while_nobody_listens(smqpd: CommandLine) -> None:
    assert (await smqpd("sub", "t", "--channel", "desk", "--timeout", "0")).exit_code == 0
    assert (await smqpd("pub", "t", "kept")).exit_code == 0
    received = await smqpd("sub", "t", "--channel", "desk", "-n", "1", "--headers")
    assert received.out.startswith(b"Topic: t\nSmuid: ")
    assert received.out.endswith(b"\nContent-Type: text/plain; charset=utf-8\n\nkept\n\n")
    rest = await smqpd("sub", "t", "--channel", "desk", "-n", "1", "--timeout", "0.2")
    assert (rest.exit_code, rest.out) == (1, b"")
    assert rest.error == "smqpd: nothing came for 0.2 s; messages still to come: 1\n"


async def test_a_count_takes_no_message_more(smqpd: CommandLine) -> None:
    await smqpd("pub", "t", "--lines", "--delivery", "ONE", stdin=b"1\n2\n3\n4\n5\n")
    assert (await smqpd("sub", "t", "-n", "2")).out == b"1\n2\n"
    rest = await smqpd("sub", "t", "-n", "3", "--json")
    found = [json.loads(line) for line in rest.out.splitlines()]
    assert [(message["sections"][0]["text"], message["attempt"]) for message in found] == [
        ("3", 1),
        ("4", 1),
        ("5", 1),
    ]


async def test_a_receipt_is_waited_for_and_printed(smqpd: CommandLine) -> None:
    await smqpd("sub", "t", "--channel", "desk", "--timeout", "0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(smqpd, "sub", "t", "--channel", "desk", "-n", "1")
        published = await smqpd("pub", "t", "hi", "--wait-receipt")
    assert published.exit_code == 0, published
    assert published.out.split()[1] == b"1/1"


@pytest.mark.parametrize(
    ("words", "exit_code", "error"),
    [
        (("pub", "a b", "x"), 2, "is not a topic"),
        (("pub", "t", "x", "--priority", "0"), 2, "Priority: '0' is not an integer from 1"),
        (("pub", "t", "x", "-H", f"F: {'a' * 70_000}"), 1, "the site refuses what was sent"),
        (("pub", "t", "x", "-H", f"F: {'a' * 70_000}"), 1, "the header lines are longer than 65536 bytes"),
        (("pub", "t", "x", "--name", "a\nb"), 2, "Name: 'a\\nb' is not one line of UTF-8 text"),
        (("pub", "t", "x", "--group", "a\x01"), 2, "Group: 'a\\x01' is not one line of UTF-8 text"),
        (("pub", "t", "x", "-H", "A: b\nc"), 2, "A: 'b\\nc' is not one line of UTF-8 text"),
        (("pub", "t", "x", "--content-type", "nonsense"), 2, "Content-Type: 'nonsense' is not a media type"),
        (("pub", "t", "x", "--delivery", "some"), 2, "'--delivery': 'some' is not one of 'ONE', 'ALL'; see"),
        (("pub", "t", "x", "--wait-receipt", "--wait-timeout", "-1"), 2, "greater than or equal to 0"),
        (("pub", "t", "x", "--wait-receipt", "--wait-timeout", "nan"), 2, "greater than or equal to 0"),
        (("sub", "t", "--credit", "99999999"), 2, "Credit: '99999999' is not a number of messages from 0 to"),
        (("sub", "t", "--credit", "9" * 12), 2, f"Credit: '{'9' * 12}' is not a number of messages"),
        (("sub", "t", "--lock", "-1"), 2, "greater than or equal to 0.1"),
        (("sub", "t", "--lock", "nan"), 2, "less than or equal to 86400"),
        (("sub", "t", "--lock", "86401"), 2, "less than or equal to 86400"),
        (("sub", "t", "--subscription", "a b"), 2, "'a b' is not a channel"),
        (("pub", "t", "x", "--lines"), 2, "BODY stands alone"),
        (("pub", "t", "x", "-H", "Smuid: 1"), 2, "is no header"),
        (("pub", "t", "-f", "/nowhere"), 1, "/nowhere cannot be read"),
        (
            ("pub", "t", "x", "--server", "127.0.0.1:1"),
            3,
            "cannot reach 127.0.0.1:1: Connection refused; does the site run?",
        ),
        (("pub", "t", "x", "--server", "a..b:1"), 2, "'a..b:1' is no server"),
        (("pub", "t", "x", "--server", ".:1"), 2, "'.:1' is no server"),
        (("sub", "t", "--server", f"{'a' * 64}.example"), 2, "is no server"),
        (("sub", "t", "--tls", "--tls-name", "a..b"), 2, "--tls-name: 'a..b' is no name of a host"),
        (("pub", "t", "x", "--password-file", "/dev/null"), 2, "/dev/null begins with an empty line"),
        (("pub", "t", "x", "--account", "nobody"), 4, "account or password is wrong"),
        (("pub", "t", "x", "--account", "eve"), 4, "eve may not publish t"),
        (("pub", "t", "x", "--ca", "/nowhere"), 2, "holds no certificates"),
        (("sub", "t", "--site", "/nowhere"), 1, "is not there"),
        (("sub", "t", "--json", "--raw"), 2, "exclude each other"),
    ],
)
async def test_what_goes_wrong_is_one_line_and_an_exit_code(
    smqpd: CommandLine, words: Any, exit_code: int, error: str
) -> None:
    result = await smqpd(*words)
    assert (result.exit_code, result.out) == (exit_code, b""), result
    assert error in result.error
    assert result.error.startswith("smqpd: ")
    assert result.error.count("\n") == 1


async def test_the_password_comes_from_a_file_or_a_sites_own_login(
    smqpd: CommandLine, address: str, tmp_path: Path
) -> None:
    del smqpd.environment["SMQPD_PASSWORD"], smqpd.environment["SMQPD_SERVER"]
    missing = await smqpd("pub", "t", "x", "--server", address)
    assert (missing.exit_code, missing.error) == (
        2,
        "smqpd: no password for ada; set SMQPD_PASSWORD or give --password-file\n",
    )
    (tmp_path / "password").write_text(PASSWORD + "\n")
    result = await smqpd("pub", "t", "x", "--server", address, "--password-file", str(tmp_path / "password"))
    assert result.exit_code == 0, result
    (tmp_path / "keys").mkdir()
    login = f'server = "{address}"\naccount = "bob"\npassword = "{PASSWORD}"\n'
    (tmp_path / "keys" / "admin.toml").write_text(login)
    del smqpd.environment["SMQPD_ACCOUNT"]
    result = await smqpd("pub", "t", "x", "--site", str(tmp_path))
    assert result.exit_code == 0, result


ELSEWHERE = {
    "SMQPD_SERVER": "127.0.0.1:1",
    "SMQPD_ACCOUNT": "nobody",
    "SMQPD_PASSWORD": "of-another-server",
}


def site_of_bob(directory: Path, address: str) -> str:
    (directory / "keys").mkdir()
    login = f'server = "{address}"\naccount = "bob"\npassword = "{PASSWORD}"\n'
    (directory / "keys" / "admin.toml").write_text(login)
    return str(directory)


@pytest.mark.parametrize("set", [*([name] for name in ELSEWHERE), list(ELSEWHERE)])
@pytest.mark.parametrize("by", ["option", "environment"])
async def test_with_a_site_nothing_of_address_and_login_is_of_the_environment(
    smqpd: CommandLine, address: str, tmp_path: Path, set: list[str], by: str
) -> None:
    for name, value in ELSEWHERE.items():
        smqpd.environment.pop(name)
        if name in set:
            smqpd.environment[name] = value
    site = site_of_bob(tmp_path, address)
    words = ["--site", site] if by == "option" else []
    if by == "environment":
        smqpd.environment["SMQPD_SITE"] = site
    await smqpd("sub", "t", "--channel", "desk", "--timeout", "0", *words)
    published = await smqpd("pub", "t", "x", *words)
    assert published.exit_code == 0, published
    (line,) = (await smqpd("sub", "t", "--channel", "desk", "-n", "1", "--json", *words)).out.splitlines()
    assert json.loads(line)["account"].startswith("bob:")


@pytest.mark.parametrize(
    "words",
    [("--server", "127.0.0.1:1"), ("--account", "ada"), ("--password-file", "/nowhere"), ("-a", "bob")],
)
async def test_a_site_goes_with_no_other_address_or_login_on_the_command_line(
    smqpd: CommandLine, address: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    site = site_of_bob(tmp_path, address)
    option = "--account" if words[0] == "-a" else words[0]
    expected = f"smqpd: --site brings an address and a login of its own; leave it out with {option}\n"
    for command in (("pub", "t", "x"), ("sub", "t", "--timeout", "0")):
        result = await smqpd(*command, "--site", site, *words)
        assert (result.exit_code, result.out, result.error) == (2, b"", expected)


async def test_a_server_on_the_command_line_is_not_sent_the_login_of_a_site_in_the_environment(
    smqpd: CommandLine, address: str, tmp_path: Path
) -> None:
    site = site_of_bob(tmp_path, "127.0.0.1:1")
    smqpd.environment["SMQPD_SITE"] = site
    result = await smqpd("pub", "t", "x", "--server", address)
    assert result.exit_code == 0, result  # as ada, with the password of the environment
    result = await smqpd("pub", "t", "x", "--account", "ada")
    assert result.exit_code == 0, result
    del smqpd.environment["SMQPD_PASSWORD"]
    result = await smqpd("pub", "t", "x", "--server", address, "--account", "bob")
    assert (result.exit_code, "no password for bob" in result.error) == (2, True), result
    del smqpd.environment["SMQPD_ACCOUNT"]
    result = await smqpd("pub", "t", "x", "--server", address)
    assert (result.exit_code, "nobody to log in as" in result.error) == (2, True), result


@pytest.mark.parametrize(
    ("words", "password", "error"),
    [
        (("--channel", "a\nb"), PASSWORD, "'a\\nb' is not a channel"),
        (("--channel", "a b"), PASSWORD, "'a b' is not a channel"),
        (("--channel", ""), PASSWORD, "'' is not a channel"),
        (("--account", "a\nb"), PASSWORD, "'a\\nb' is not an account"),
        (("--account", "a/b"), PASSWORD, "'a/b' is not an account"),
        ((), "geheim\x01wort", "the password is not one line of UTF-8 text"),
        ((), "geheim\udce4wort", "the password is not one line of UTF-8 text"),
    ],
)
@pytest.mark.parametrize("command", [("pub", "t", "x"), ("sub", "t", "--timeout", "0")])
async def test_a_login_that_cannot_be_is_wrong_usage_and_its_password_is_not_told(
    smqpd: CommandLine, command: tuple[str, ...], words: tuple[str, ...], password: str, error: str
) -> None:
    smqpd.environment["SMQPD_PASSWORD"] = password
    result = await smqpd(*command, *words)
    assert (result.exit_code, result.out) == (2, b""), result
    assert result.error.startswith("smqpd: ")
    assert error in result.error
    assert "geheim" not in result.error
    assert PASSWORD not in result.error


async def test_tls_checks_the_certificate(
    smqpd: CommandLine, site: BrokerSite, nursery: trio.Nursery, tmp_path: Path
) -> None:
    import ssl

    certificate, key = make_self_signed("smqp.example")
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    async def serve(stream: Any) -> None:
        await serve_connection(site, stream, "127.0.0.1:1")

    (listener,) = await nursery.start(
        lambda task_status: trio.serve_ssl_over_tcp(
            serve, 0, context, host="127.0.0.1", task_status=task_status
        )
    )
    smqpd.environment["SMQPD_SERVER"] = f"127.0.0.1:{listener.transport_listener.socket.getsockname()[1]}"
    ca = str(tmp_path / "tls.crt")
    for words in (("--ca", ca), ("--ca", ca, "--tls-name", "smqp.example")):
        result = await smqpd("pub", "t", "x", *words)
        assert result.exit_code == 0, result
    for refused in (("--tls",), ("--ca", ca, "--tls-name", "another.example")):
        result = await smqpd("pub", "t", "x", *refused)
        assert (result.exit_code, "CERTIFICATE_VERIFY_FAILED" in result.error) == (3, True), result


@pytest.mark.parametrize("words", [("pub", "t", "--lines", "--timeout", "60"), ("pub", "t"), ("sub", "t")])
async def test_ctrl_c_at_a_terminal_ends_a_command_without_a_word(
    smqpd: CommandLine, site: BrokerSite, words: tuple[str, str, str, str, str] | tuple[str, str]
) -> None:
    """`pub` is reading what is typed, in a thread that nobody can end."""
    async with terminal(smqpd.arguments(*words), smqpd.environment) as at:
        if "--lines" in words:
            at.type(b"rain\n")
            await at.shows("/")  # a Smuid: it is reading the next line
        else:
            await site.opened.wait()
        at.type(2 * CTRL_C)
        assert await at.exit_code() == 130
    assert [line for line in at.shown.splitlines() if "^C" not in line and "/" not in line] in ([], ["rain"])


async def test_a_message_to_all_where_nobody_subscribes_is_said_to_be_gone(smqpd: CommandLine) -> None:
    gone = await smqpd("pub", "t", "rain")
    smuid = gone.out.decode().strip()
    assert (gone.exit_code, gone.error) == (
        0,
        "smqpd: nobody at this site subscribes to t, and nothing waits there without --timeout;"
        f" --depth lets it go to others: {smuid}\n",
    )
    gone = await smqpd("pub", "t", "rain", "--depth", "-1")
    smuid = gone.out.decode().strip()
    assert (gone.exit_code, gone.error) == (
        0,
        "smqpd: nobody at any site that it may go to subscribes to t, and nothing waits there without"
        f" --timeout: {smuid}\n",
    )
    for kept in (("--timeout", "60"), ("--delivery", "ONE")):
        assert (await smqpd("pub", "t", "rain", *kept)).error == ""
    await smqpd("sub", "u", "--channel", "desk", "--timeout", "0")
    assert (await smqpd("pub", "u", "rain")).error == ""
    assert json.loads((await smqpd("pub", "t", "rain", "--json")).out)["due"] == 0


async def test_a_receipt_that_does_not_come_leaves_the_smuid_on_stdout(smqpd: CommandLine) -> None:
    await smqpd("sub", "t", "--channel", "desk", "--timeout", "0")
    waited = await smqpd("pub", "t", "rain", "--wait-receipt", "--wait-timeout", "0.2")
    smuid = waited.out.decode().strip()
    assert smuid.count("/") == 1
    assert (waited.exit_code, waited.error) == (1, f"smqpd: no receipt within 0.2 s for {smuid}\n")

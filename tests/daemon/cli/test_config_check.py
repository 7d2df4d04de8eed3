"""`smqpd config check` says what `smqpd run` would, before it does."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

import plugins.xmpp
from daemon.accounts.accounts_editor import edit
from daemon.broker.lifetime import StartError
from daemon.certificates.authority import Authority
from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.site.lock import state_lock
from daemon.site.site import serve_site
from daemon.system.systemd import Notifier
from tests.support.cli import Shell
from tests.support.keys import write_keys
from tests.support.made_site import made_site
from tests.support.process import ROOT
from tests.support.required import needs_root

NOBODY = 65_534


class Site:
    """A site that can be spoilt."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "site"
        self.config = made_site(self.directory, "alpha.example", 0).config
        self.keys = self.directory / "keys"
        self.authority = Authority.create(directory / "ca", "test", 3650, datetime.now(UTC) - timedelta(99))

    def configure(self, table: str, *lines: str) -> None:
        """Put lines at the beginning of a table, which is made where there is none."""
        text = self.config.read_text()
        if f"\n[{table}]\n" not in text:
            text += f"\n[{table}]\n"
        self.config.write_text(text.replace(f"\n[{table}]\n", "\n".join(["", f"[{table}]", *lines, ""])))

    def issue(self, name: str = "alpha.example", days_ago: int = 0, days: int = 60) -> None:
        write_keys(self.authority, name, self.keys, datetime.now(UTC) - timedelta(days_ago), days)

    def peer(self, name: str = "beta.example", address: str | None = "192.0.2.7:721") -> None:
        add_peer(self.directory / "peers.toml", PeerEntry(name=name, address=address))

    def xmpp(self, *lines: str) -> None:
        secret = self.keys / "xmpp-secret"
        secret.write_text("shared\n")
        secret.chmod(0o600)
        self.configure("plugins.xmpp", 'component = "smqp.example"', *lines)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.delenv("SMQPD_CONFIG", raising=False)
    return Shell(monkeypatch, capsys)


def swapped(site: Site) -> None:
    site.issue()
    site.issue("beta.example")


def mismatched(site: Site) -> None:
    site.issue()
    key = (site.keys / "site.key").read_bytes()
    site.issue()
    (site.keys / "site.key").write_bytes(key)


def without(*names: str) -> Callable[[Site], None]:
    def spoil(site: Site) -> None:
        site.issue()
        for name in names:
            (site.keys / name).unlink()
        site.peer()

    return spoil


def no_component(site: Site) -> None:
    site.configure("plugins.xmpp")


def no_secret(site: Site) -> None:
    site.xmpp()
    (site.keys / "xmpp-secret").unlink()


def open_secret(site: Site) -> None:
    site.xmpp()
    (site.keys / "xmpp-secret").chmod(0o644)


def no_front_end(site: Site) -> None:
    site.config.write_text('[site]\nserver_name = "alpha.example"\n[plugins.smqp]\nenabled = false\n')


def listens_twice(site: Site) -> None:
    site.configure("plugins.stomp", 'listen = ["127.0.0.1:7000"]', 'listen_tls = ["*:7000"]')


def a_directory_for(name: str) -> Callable[[Site], None]:
    def spoil(site: Site) -> None:
        path = site.directory / "state" / name
        path.unlink(missing_ok=True)
        path.mkdir()

    return spoil


REFUSED: list[tuple[Callable[[Site], object], str]] = [
    (swapped, "site.pem: is for beta.example, but this site is alpha.example"),
    (mismatched, "site.pem and site.key do not work together"),
    (without("site.key"), "site.key: No such file"),
    (without("site.key"), "; a site with links has it from `smqpd cert issue alpha.example`, or by"),
    (without("crl.pem"), "or by `smqpd cert request alpha.example`"),
    (without("site.pem"), "site.pem: No such file"),
    (without("ca.pem"), "ca.pem: No such file"),
    (without("crl.pem"), "crl.pem: No such file"),
    (lambda site: site.peer(), "site.key: No such file"),
    (lambda site: site.configure("links", 'listen = ["127.0.0.1:0"]'), "site.key: No such file"),
    (no_component, "[plugins.xmpp]: component: is required"),
    (no_secret, "the component's secret cannot be read"),
    (open_secret, "others can read the component's secret"),
    (lambda site: site.xmpp("tls = true", 'tls_authorities = "none.pem"'), "none.pem: the authorities"),
    (no_front_end, "no front end is enabled"),
    (lambda site: site.configure("plugins.stomp", 'listen = ["[::1::2]:1"]'), "cannot be listened on"),
    (lambda site: site.configure("plugins.stomp", 'listen = ["a..b:1"]'), "cannot be listened on"),
    (lambda site: (site.keys / "tls.key").chmod(0o644), "tls.key: is open to others"),
    (lambda site: (site.directory / "accounts.toml").chmod(0o644), "accounts.toml: is open to others"),
    (lambda site: (site.directory / "accounts.toml").unlink(), "accounts.toml: cannot be read"),
    (lambda site: (site.directory / "peers.toml").write_text("[["), "peers.toml: is not TOML"),
    (lambda site: site.configure("links", 'peers_file = "pers.toml"'), "pers.toml: there is no such file"),
    (lambda site: (site.directory / "peers.toml").mkdir(), "peers.toml: cannot be read: Is a directory"),
    (lambda site: shutil.rmtree(site.directory / "state"), "smqpd.db: is gone, but this site had a store"),
    (lambda site: (site.directory / "state/smqpd.db").write_text("x" * 4096), "file is not a database"),
    (lambda site: (site.directory / "state/hops").write_text(""), "hops: is not a directory"),
    (listens_twice, "[plugins.stomp] listen_tls and [plugins.stomp] listen both listen on *:7000"),
    *(
        (a_directory_for(name), f"{name}: is a directory")
        for name in ("control", "lock", "installation", "reserve", "smqpd.db", "smqpd.db-shm")
    ),
]


@pytest.mark.parametrize(("spoil", "says"), REFUSED)
async def test_what_keeps_a_site_from_starting_is_an_error_of_the_check_in_the_same_words(
    site: Site, smqpd: Shell, spoil: Callable[[Site], object], says: str
) -> None:
    spoil(site)
    assert smqpd("config", "check", site.config) == 1
    assert smqpd.out == ""
    [said] = smqpd.err.splitlines()
    assert says in said
    settings = load(site.config, installed_plugins())
    with pytest.RaisesGroup(StartError) as refused:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_site, site.config, settings, installed_plugins(), Notifier({}), {})
            nursery.cancel_scope.cancel()  # it has started
    assert f"smqpd: {refused.value.exceptions[0]}" == said


def expired(site: Site) -> None:
    site.issue(days_ago=90, days=10)


def revoked(site: Site) -> None:
    site.issue()
    site.authority.revoke("alpha.example", datetime.now(UTC))
    shutil.copy(site.authority.directory / "crl.pem", site.keys)


def of_another_authority(site: Site) -> None:
    site.issue()
    other = Authority.create(site.directory.parent / "other", "other", 3650, datetime.now(UTC))
    for name in ("ca.pem", "crl.pem"):
        shutil.copy(other.directory / name, site.keys)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (expired, "site.pem: the certificate expired on"),
        (revoked, "peers refuse this site: its certificate is revoked"),
        (of_another_authority, "peers refuse this site: its certificate is from an unknown authority"),
    ],
)
def test_what_a_site_starts_with_and_cannot_use_is_an_error_too(
    site: Site, smqpd: Shell, spoil: Callable[[Site], None], says: str
) -> None:
    spoil(site)
    assert smqpd("config", "check", site.config) == 1
    assert says in smqpd.err
    assert smqpd("config", "check", site.config, "--json") == 1
    checked = json.loads(smqpd.out)
    assert checked["good"] is False
    assert [finding["level"] for finding in checked["findings"]] == ["broken"]


def waits_for_a_peer(site: Site) -> None:
    site.issue()
    site.peer(address=None)


def names_nobody(site: Site) -> None:
    site.xmpp("[[plugins.xmpp.accounts]]", 'domain = "example.org"', 'account = "operatoins"')


def names_what_stands_for_nothing(site: Site) -> None:
    site.xmpp("[[plugins.xmpp.accounts]]", 'domain = "example.org"', 'account = "{node}"')


def names_somebody(site: Site) -> None:
    site.xmpp(
        "[[plugins.xmpp.accounts]]",
        'domain = "example.com"',
        'account = "admin"',
        "[[plugins.xmpp.accounts]]",
        'domain = "example.org"',
        'account = "{local}"',
    )


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (waits_for_a_peer, "beta.example has no address, so it has to dial this site, which listens for no"),
        (lambda site: site.issue(days=10), "site.pem: the certificate expires on"),
        (names_nobody, "a rule names operatoins, which is no account of this site"),
        (names_what_stands_for_nothing, "a rule names {node}, which is no account of this site"),
        (lambda site: site.xmpp(), "no rule gives any JID an account"),
        (names_somebody, ""),
        (lambda site: site.configure("plugins.smqp", "listen_tls = []"), ""),
    ],
)
def test_what_is_hardly_meant_is_a_warning(
    site: Site, smqpd: Shell, spoil: Callable[[Site], None], says: str
) -> None:
    spoil(site)
    assert smqpd("config", "check", site.config) == 0
    assert f"{site.config} is good: site alpha.example, accounts: 1, front ends: " in smqpd.out
    assert says in smqpd.err
    assert smqpd.err.count("smqpd: warning: ") == smqpd.err.count("\n") == (1 if says else 0)
    assert smqpd("config", "check", "--site", site.directory, "--json") == 0
    assert json.loads(smqpd.out)["good"] is True


@pytest.mark.parametrize(
    ("address", "says"),
    [("192.0.2.1:7720", "Cannot assign requested address"), ("nowhere.invalid:7720", "")],
)
def test_an_address_that_is_not_of_this_machine_is_an_error(
    site: Site, smqpd: Shell, address: str, says: str
) -> None:
    site.configure("plugins.stomp", f'listen = ["{address}"]')
    assert smqpd("config", "check", site.config) == 1
    [said] = smqpd.err.splitlines()
    assert f"[plugins.stomp] listen: {address} cannot be listened on now: {says}" in said


def test_a_port_that_is_taken_is_a_warning_unless_the_site_has_it_itself(site: Site, smqpd: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.configure("plugins.stomp", f'listen = ["127.0.0.1:{port}"]')
        assert smqpd("config", "check", site.config) == 0
        assert f"127.0.0.1:{port} cannot be listened on now: Address already in use" in smqpd.err
        assert "unless a socket unit listens for it" in smqpd.err
        with state_lock(site.directory / "state"):
            assert smqpd("config", "check", site.config) == 0
        assert smqpd.err == ""


def test_everything_that_is_wrong_is_said_at_once(site: Site, smqpd: Shell) -> None:
    (site.directory / "accounts.toml").write_text("[acounts]\n")
    site.peer()
    no_secret(site)
    assert smqpd("config", "check", site.config) == 1
    assert len(smqpd.err.splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[site]\nserver_nam = "alpha.example"\n', "smqpd.toml: site.server_nam: unknown key; did you mean"),
        ('[site]\n"\\u001b[31m" = 1\n', "smqpd.toml: site.\\x1b[31m: unknown key"),
        ("[site\n", "smqpd.toml: is not TOML: "),
    ],
    ids=["misspelt", "not-to-be-shown", "no-toml"],
)
def test_a_configuration_that_is_bad_itself_is_a_finding_too(
    site: Site, smqpd: Shell, text: str, says: str
) -> None:
    site.config.write_text(text)
    assert smqpd("config", "check", site.config) == 1
    assert says in smqpd.err
    assert smqpd.err.count("\n") == 1
    assert smqpd("config", "check", site.config, "--json") == 1
    checked = json.loads(smqpd.out)
    assert (checked["file"], checked["good"]) == (str(site.config), False)
    assert [(one["part"], one["level"]) for one in checked["findings"]] == [("configuration", "refused")]


def test_an_extra_that_is_not_installed_is_named(
    site: Site, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.xmpp()
    monkeypatch.delattr(plugins.xmpp, "serving", raising=False)
    monkeypatch.setitem(sys.modules, "plugins.xmpp.serving", None)
    assert smqpd("config", "check", site.config) == 1
    assert "[plugins.xmpp]: a library is missing (" in smqpd.err
    assert "install smqpd[xmpp]" in smqpd.err


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """One that others may enter, unlike that of a test."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@needs_root
def test_root_sees_what_the_daemon_would(open_directory: Path, smqpd: Shell) -> None:
    site = Site(open_directory)
    for path in (site.directory, *site.directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    assert smqpd("config", "check", site.config, "--json") == 0
    with edit(site.directory / "accounts.toml") as editor:
        editor.set_disabled("admin", False)
    os.chown(site.directory / "accounts.toml", 0, 0)
    assert smqpd("config", "check", site.config) == 1
    assert smqpd.err == f"smqpd: {site.directory / 'accounts.toml'}: cannot be read: Permission denied\n"
    assert os.geteuid() == 0


@needs_root
@pytest.mark.parametrize("name", ["state/smqpd.db", "keys/tls.key", "accounts.toml"])
def test_what_root_has_made_for_itself_is_found(open_directory: Path, smqpd: Shell, name: str) -> None:
    site = Site(open_directory)
    for path in (site.directory, *site.directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.chown(site.directory / name, 0, 0)
    assert smqpd("config", "check", site.config) == 1
    assert str(site.directory / name) in smqpd.err
    assert not list((site.directory / "state").glob("*-shm"))


@needs_root
def test_who_may_not_read_the_files_is_told_so_and_nothing_else(open_directory: Path) -> None:
    site = Site(open_directory)
    site.directory.chmod(0o755)
    site.config.chmod(0o644)  # whatever the umask
    # once with every right: Python's own files may be closed to nobody, too, and be needed by then
    code = f"""if True:
        import contextlib, io, os, sys
        sys.path.insert(0, sys.argv[1])
        from daemon.cli.main import main
        sys.argv[1:] = ["config", "check", sys.argv[2]]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main()
        os.setgroups([])
        os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
        os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(site.config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("smqpd: not checked: ")
    assert f"may not read {site.directory / 'accounts.toml'}, {site.directory / 'keys'}" in done.stderr
    assert "run it as root, whose site it is, or as root" in done.stderr

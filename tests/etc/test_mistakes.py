"""The mistakes of the operator's guide: each is made, and what the guide shows is what is seen."""

import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from daemon.certificates.authority import Authority
from daemon.terminal.failure import FAILED
from plugins.smqp.connecting import session
from routing.errors import Refusal
from routing.options import SubscribeOptions
from tests.support import forked
from tests.support.command_line import CommandLine, CommandResult
from tests.support.keys import write_keys
from tests.support.patience import PATIENCE_S
from tests.support.process import ROOT, SMQPD_RUN, Daemon, daemon, environment
from tests.support.running import SiteProcess, message

GUIDE = (ROOT / "etc/README.md").read_text().partition("## Mistakes at night")[2].partition("\n## ")[0]


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


def guide(mistake: str) -> list[str]:
    """What the guide says that is seen, in its own words, of a mistake."""
    [row] = [line for line in GUIDE.splitlines() if line.startswith(f"| {mistake}")]
    return re.findall(r"`([^`]+)`", row.split(" | ")[1])


def shows(seen: str, said: str) -> bool:
    """Whether it does, with anything where the guide has dots or a number."""
    parts = [re.sub(r"\d+", r"\\d+", re.escape(part)) for part in said.split("...")]
    return re.search(".*".join(parts), " ".join(seen.split())) is not None


async def refused_reload(site: SiteProcess) -> str:
    code, _, why = await site.command("reload")
    assert code == FAILED
    return why


async def refused_start(site: SiteProcess) -> str:
    done = await forked.run([*SMQPD_RUN, str(site.config)], env=environment(site.config.parent))
    assert done.returncode == FAILED
    return done.stderr.decode()


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


async def held(site: SiteProcess) -> dict[str, int]:
    """By topic, how many messages."""
    return {each["name"]: each["held"] for each in (await site.asked("topics"))["topics"]}


async def goes_on(site: SiteProcess, running: Daemon) -> None:
    assert running.process.poll() is None
    async with site.eve() as eve:
        await eve.publish("work", message(b"x"))


async def test_a_setting_is_misspelt(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        edit(site.config, "[limits]\n", "[limits]\nconections_max = 10\n")
        assert shows(await refused_reload(site), guide("a setting misspelt")[0])
        await goes_on(site, running)


async def test_the_accounts_are_open_to_others(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        (site.config.parent / "accounts.toml").chmod(0o644)
        assert shows(await refused_reload(site), guide("`accounts.toml` edited")[0])
        await goes_on(site, running)


async def test_the_accounts_are_deleted(site: SiteProcess) -> None:
    said = guide("`accounts.toml` deleted")[0]
    async with daemon(site.config) as running:
        (site.config.parent / "accounts.toml").unlink()
        assert shows(await refused_reload(site), said)
        assert shows((await site.command("status"))[1], said)
        await goes_on(site, running)
    assert shows(await refused_start(site), said.removeprefix("accounts: "))


async def test_the_accounts_are_replaced(site: SiteProcess) -> None:
    accounts = site.config.parent / "accounts.toml"
    right = accounts.read_text()
    durable = SubscribeOptions(durable=True)
    async with daemon(site.config), site.eve() as eve:
        for wanted, topic in (("weather", "weather"), ("news.#", "news.oslo")):
            await eve.subscribe(wanted, durable)
            await eve.publish(topic, message(b"x"))
    accounts.write_text("[accounts]\n")
    async with daemon(site.config):
        with pytest.raises(Refusal) as refused:
            async with site.eve():
                pass
        assert shows(str(refused.value), guide("`accounts.toml` replaced")[0])
        assert await held(site) == {"weather": 1}
    accounts.write_text(right)
    async with daemon(site.config):
        assert await held(site) == {"weather": 1}
        accounts.write_text("[accounts]\n")
        await site.printed("reload")
        assert await held(site) == {}


async def test_a_site_is_started_twice(site: SiteProcess) -> None:
    async with daemon(site.config) as running:
        assert shows(await refused_start(site), guide("the site started a second time")[0])
        await goes_on(site, running)


async def test_a_backup_is_restored_over_the_site_that_runs(site: SiteProcess, tmp_path: Path) -> None:
    async with daemon(site.config) as running:
        await site.printed("backup", str(tmp_path / "backup"))
        smqpd = CommandLine(tmp_path)
        for words in ((), ("--replace",)):
            restored = (str(tmp_path / "backup"), str(site.config.parent))
            done = await smqpd("restore", *restored, *words)
            assert done.exit_code == FAILED
            if words:
                assert shows(done.error, guide("a backup restored over")[0])
        await goes_on(site, running)


async def test_the_wrong_topic_is_purged(site: SiteProcess) -> None:
    async with daemon(site.config) as running, site.eve() as eve:
        for body in (b"x", b"y"):
            await eve.publish("orders.new", message(body, delivery="ONE"))
        await site.printed("topic", "purge", "orders.new", "--yes")
        said = guide("the wrong topic purged")[0].replace("root", "...")
        assert shows(running.log, said)
        _, _, remark = await site.command("topic", "purge", "orders.old", "--yes")
        assert shows(remark, guide("the wrong topic purged")[1])


async def test_the_disk_with_the_state_is_not_mounted(site: SiteProcess) -> None:
    async with daemon(site.config):
        pass
    state = site.config.parent / "state"
    state.rename(state.with_name("unmounted"))
    state.mkdir(mode=0o700)
    assert shows(await refused_start(site), guide("the disk with the state not mounted")[0])


async def test_the_name_of_the_server_is_changed(site: SiteProcess) -> None:
    async with daemon(site.config):
        pass
    edit(site.config, '"alpha.example"', '"beta.example"')
    assert shows(await refused_start(site), guide("`server_name` changed")[0])


async def test_the_port_is_taken(site: SiteProcess) -> None:
    said = guide("its port taken by something else")[0]
    with socket.create_server(("127.0.0.1", site.port)):
        assert shows(await refused_start(site), said)
        code, _, warned = await site.command("config", "check")
    assert code == 0
    assert shows(warned, f"127.0.0.1:{site.port} cannot be listened on now: {said.rpartition(': ')[2]}")


async def test_a_client_has_an_old_password(site: SiteProcess) -> None:
    answer, logged = guide("a client with an old password")
    async with daemon(site.config) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", site.port)
        with pytest.raises(Refusal) as refused:
            async with session(stream, "eve", "an old one"):
                pass
        assert shows(str(refused.value), answer)
        assert shows(running.log, logged.replace("ada", "eve"))


async def test_a_certificate_is_not_renewed(site: SiteProcess) -> None:
    said = guide("a certificate not renewed")[0]
    expire(site.config.parent / "keys")
    async with daemon(site.config) as running:
        assert shows(running.log, said)
        assert shows((await site.command("status"))[1], said)
        code, out, _ = await site.command("check", "certificates")
        assert code == 2
        assert shows(out, said.partition(";")[0])
        await goes_on(site, running)


async def test_the_certificate_of_another_site_is_copied(site: SiteProcess, tmp_path: Path) -> None:
    keys, now = site.config.parent / "keys", datetime.now(UTC)
    authority = Authority.create(tmp_path / "ca", "test", 400, now)
    write_keys(authority, "alpha.example", keys, now)
    async with daemon(site.config) as running:
        write_keys(authority, "c.example", keys, now)
        assert shows(
            await refused_reload(site),
            guide("the certificate of another site")[0].replace("b.example", "alpha.example"),
        )
        await goes_on(site, running)


async def test_the_limit_of_open_files_is_too_low(site: SiteProcess) -> None:
    async with daemon(site.config, within=("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh")) as running:
        assert shows(running.log, guide("the limit of open files too low")[0])
        await goes_on(site, running)


async def test_a_topic_is_deleted_that_somebody_reads(site: SiteProcess, tmp_path: Path) -> None:
    said = guide("a topic deleted that somebody reads")[0]
    seen: list[CommandResult] = []

    async def read() -> None:
        seen.append(await CommandLine(tmp_path)("sub", "work", "--site", str(site.config.parent)))

    async with daemon(site.config) as running, trio.open_nursery() as nursery:
        nursery.start_soon(read)
        with trio.fail_after(PATIENCE_S):
            while (await site.command("topic", "show", "work"))[0] == FAILED:
                pass
        await site.printed("topic", "delete", "work", "--yes")
        nursery.cancel_scope.deadline = trio.current_time() + PATIENCE_S
    [ended] = seen
    assert ended.exit_code == FAILED
    assert shows(ended.error, said)
    assert re.search(r"deleted work\b.* by \S+ \(control\)", running.log)


def expire(keys: Path) -> None:
    """A certificate of clients that has ended, for the key that is there."""
    key = load_pem_private_key((keys / "tls.key").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alpha.example")])
    ended_at = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(ended_at - timedelta(days=1))
        .not_valid_after(ended_at)
        .sign(key, hashes.SHA256())
    )
    (keys / "tls.crt").write_bytes(certificate.public_bytes(Encoding.PEM))


def test_each_mistake_is_made() -> None:
    made = re.findall(r"guide\(\s*\"([^\"]+)\"", Path(__file__).read_text())
    rows = [line.removeprefix("| ") for line in GUIDE.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if not any(row.startswith(mistake) for mistake in made)] == []

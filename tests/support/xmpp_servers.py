"""Real XMPP servers on loopback, as Debian installs them, and a client that logs in to them.

Their modules are those of the configurations that the packages come with. What differs is where they listen
and write, that clients need no TLS on loopback, and that no client is slowed down (Prosody's mod_limits takes
10 KiB a second where nothing is said, and where `limits` is empty).

Each server has the host `localhost`, the component `COMPONENT_NAME` with `SECRET`, and the accounts
`USERS`, all with the password `PASSWORD`; all that it writes is below one directory.
"""

import base64
import os
import shutil
import signal
import subprocess
from pathlib import Path
from xml.etree.ElementTree import Element

import trio

from daemon.certificates.self_signed import make_self_signed
from plugins.xmpp.wire.namespaces import COMPONENT, DISCO_INFO
from plugins.xmpp.wire.parser import StreamEnd, StreamHeader, StreamParser, parse_fragment
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.xmpp import LIMITS
from tests.support.xmpp_client import StanzaClient

COMPONENT_NAME = "workflow.localhost"
OWN_PUBSUB = "pubsub.localhost"
"""The server's own pubsub service, to be measured beside ours."""

SECRET = "a component's secret"
PASSWORD = "pencil"
USERS = ("ada", "bob")
CLIENT = "jabber:client"

_PROSODY = """
run_as_root = true
pidfile = "{directory}/prosody.pid"
data_path = "{directory}/data"
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {c2s} }}
s2s_ports = {{ }}
component_ports = {{ {component} }}
component_interfaces = {{ "127.0.0.1" }}
network_settings = {{ nagle = false }}
component_conflict_resolve = "kick_old"
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_hashed"
limits = {{ c2s = {{ rate = "1gb/s" }} }}
modules_enabled = {{
  "disco", "roster", "saslauth", "blocklist", "bookmarks", "carbons", "dialback", "limits", "pep",
  "private", "smacks", "vcard4", "vcard_legacy", "csi_simple", "invites", "invites_adhoc",
  "invites_register", "ping", "register", "time", "uptime", "version", "admin_adhoc", "admin_shell", "posix"
}}
http_ports = {{ }}
https_ports = {{ }}
log = {{ warn = "*console" }}
VirtualHost "localhost"
Component "{name}"
  component_secret = "{secret}"
Component "{own}" "pubsub"
  pubsub_max_items = 100000
  admins = {{ "ada@localhost" }}
"""

_EJABBERD = """
loglevel: warning
hosts: [localhost]
listen:
  - port: {c2s}
    ip: 127.0.0.1
    module: ejabberd_c2s
    access: c2s
    starttls: false
  - port: {component}
    ip: 127.0.0.1
    module: ejabberd_service
    access: all
    hosts:
      {name}:
        password: "{secret}"
  - port: {component_tls}
    ip: 127.0.0.1
    module: ejabberd_service
    access: all
    tls: true
    certfile: "{directory}/certificate-and-key.pem"
    hosts:
      {name}:
        password: "{secret}"
auth_method: internal
disable_sasl_mechanisms: [digest-md5, X-OAUTH2]
access_rules:
  c2s: {{allow: all}}
  register: {{allow: all}}
registration_timeout: infinity
shaper_rules:
  max_user_sessions: 10
  max_user_offline_messages: 100
auth_password_format: scram
modules:
  mod_adhoc: {{}}
  mod_admin_extra: {{}}
  mod_announce: {{}}
  mod_avatar: {{}}
  mod_blocking: {{}}
  mod_bosh: {{}}
  mod_caps: {{}}
  mod_carboncopy: {{}}
  mod_client_state: {{}}
  mod_configure: {{}}
  mod_disco: {{}}
  mod_fail2ban: {{}}
  mod_http_api: {{}}
  mod_last: {{}}
  mod_mqtt: {{}}
  mod_muc: {{}}
  mod_muc_admin: {{}}
  mod_offline:
    access_max_user_messages: max_user_offline_messages
  mod_ping: {{}}
  mod_pres_counter:
    count: 5
    interval: 60
  mod_privacy: {{}}
  mod_private: {{}}
  mod_pubsub:
    host: {own}
    access_createnode: c2s
    plugins: [flat, pep]
    max_items_node: 100000
  mod_push: {{}}
  mod_push_keepalive: {{}}
  mod_register:
    ip_access: all
    access: register
  mod_roster:
    versioning: true
  mod_s2s_dialback: {{}}
  mod_shared_roster: {{}}
  mod_stream_mgmt:
    resend_on_timeout: if_offline
  mod_vcard:
    search: false
  mod_vcard_xupdate: {{}}
  mod_version: {{}}
"""


def installed(name: str) -> bool:
    return shutil.which({"prosody": "prosody", "ejabberd": "ejabberdctl"}[name]) is not None


class RealServer:
    """One server process; started, killed and started again on the same ports.

    Attributes:
        component_tls: for components, with TLS from the first byte; Prosody has no such port.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.c2s, self.component, self.component_tls = free_ports(3)
        self.certificate = directory / "certificate.pem"
        self.certificate_and_key = directory / "certificate-and-key.pem"
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "data").mkdir(parents=True)
        certificate, key = make_self_signed(COMPONENT_NAME)
        self.certificate.write_bytes(certificate)
        self.certificate_and_key.write_bytes(certificate + key)
        values = {
            "directory": directory,
            "c2s": self.c2s,
            "component": self.component,
            "component_tls": self.component_tls,
            "name": COMPONENT_NAME,
            "secret": SECRET,
            "own": OWN_PUBSUB,
        }
        template = _PROSODY if name == "prosody" else _EJABBERD
        self._config = directory / ("prosody.cfg.lua" if name == "prosody" else "ejabberd.yml")
        self._config.write_text(template.format(**values))

    def _command(self) -> tuple[list[str], dict[str, str]]:
        environment = {**os.environ, "HOME": str(self.directory)}
        if self.name == "prosody":
            return ["prosody", "-F", "--config", str(self._config)], environment
        ebin = next(Path("/usr/lib").glob("*/ejabberd-*/ebin"))
        environment |= {
            "EJABBERD_CONFIG_PATH": str(self._config),
            "EJABBERD_LOG_PATH": str(self.directory / "ejabberd.log"),
            "SPOOL_DIR": str(self.directory / "data"),
            "ERL_LIBS": str(ebin.parent.parent),
            "ERL_MAX_PORTS": "4096",
        }
        # without distribution: no port mapper is started, and none is disturbed
        spool = f'"{self.directory / "data"}"'
        return ["erl", "-noinput", "-mnesia", "dir", spool, "-s", "ejabberd"], environment

    async def start(self) -> None:
        command, environment = self._command()
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for port in (self.c2s, self.component):
            await self._answers(port)

    async def _answers(self, port: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    assert self._process is not None
                    assert self._process.poll() is None, (self.directory / "log").read_text()
                    await trio.sleep(0.1)
                else:
                    await stream.aclose()
                    return

    def __repr__(self) -> str:
        return f"{self.name} logged\n{(self.directory / 'log').read_text()[-4000:]}"

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Of the process that was started; what it starts is in its session."""
        assert self._process is not None
        return self._process.pid

    async def register(self) -> None:
        """Make the accounts. A killed ejabberd may have lost them: it writes them to disk later."""
        for user in USERS:
            if self.name == "prosody":
                command = ["prosodyctl", "--root", "--config", str(self._config), "register", user]
                await trio.run_process([*command, "localhost", PASSWORD], capture_stdout=True, check=False)
            else:
                await register_in_band(self.c2s, user)

    def kill(self) -> None:
        """SIGKILL, and all that it has started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class RealClient(StanzaClient):
    """A client on one stream; `run` reads it."""

    service = COMPONENT_NAME
    patience_s = PATIENCE_S

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__(10_000)
        self.jid = ""
        self.features: tuple[str, ...] = ()
        self.answers = True
        """Whether it knows of XEP-0030; else it answers as RFC 6120 8.4 has it."""
        self._stream = stream
        self._parser = StreamParser(LIMITS)
        self._events: list[object] = []
        self._sending = trio.Lock()

    async def _open(self) -> Element:
        self._parser = StreamParser(LIMITS)
        await self._stream.send_all(
            f"<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='{CLIENT}'"
            " xmlns:stream='http://etherx.jabber.org/streams'>".encode()
        )
        return await self._next()

    async def _next(self) -> Element:
        while True:
            while self._events:
                event = self._events.pop(0)
                if isinstance(event, StreamEnd):
                    raise trio.BrokenResourceError("the server closed the stream")
                if not isinstance(event, StreamHeader):
                    assert isinstance(event, Element), event
                    return event
            data = await self._stream.receive_some(65_536)
            if not data:
                raise trio.BrokenResourceError("the server closed the connection")
            self._events += self._parser.feed(data)

    async def send(self, text: str) -> None:
        async with self._sending:
            await self._stream.send_all(text.encode())

    async def log_in(self, user: str, resource: str) -> None:
        await self._open()
        token = base64.b64encode(f"\0{user}\0{PASSWORD}".encode()).decode()
        sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
        await self.send(f"<auth xmlns='{sasl}' mechanism='PLAIN'>{token}</auth>")
        assert (await self._next()).tag == f"{{{sasl}}}success"
        await self._open()
        bind = "urn:ietf:params:xml:ns:xmpp-bind"
        text = f"<bind xmlns='{bind}'><resource>{resource}</resource></bind>"
        await self.send(f"<iq type='set' id='bind'>{text}</iq>")
        self.jid = (await self._next()).findtext(f"{{{bind}}}bind/{{{bind}}}jid") or ""
        assert self.jid == f"{user}@localhost/{resource}"

    async def register(self, user: str) -> None:
        await self._open()
        text = f"<username>{user}</username><password>{PASSWORD}</password>"
        await self.send(f"<iq type='set' id='r'><query xmlns='jabber:iq:register'>{text}</query></iq>")
        # an error is a conflict: the account is there already
        await self._next()

    async def run(self) -> None:
        """Answer questions about ourselves, and put everything else into `stanzas`."""
        try:
            await self._run()
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _run(self) -> None:
        while True:
            try:
                stanza = await self._next()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.stanzas_in.close()
                return
            asked = stanza.get("type") == "get" and stanza.find(f"{{{DISCO_INFO}}}query") is not None
            if asked and not self.answers:
                condition = "<service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
                await self.send(
                    f"<iq type='error' id='{stanza.get('id')}' to='{stanza.get('from')}'>"
                    f"<error type='cancel'>{condition}</error></iq>"
                )
                continue
            if asked:
                features = "".join(f"<feature var='{feature}'/>" for feature in self.features)
                await self.send(
                    f"<iq type='result' id='{stanza.get('id')}' to='{stanza.get('from')}'>"
                    f"<query xmlns='{DISCO_INFO}'>{features}</query></iq>"
                )
                continue
            for each in stanza.iter():
                each.tag = each.tag.replace(f"{{{CLIENT}}}", f"{{{COMPONENT}}}")
            self.stanzas_in.send_nowait(stanza)

    async def exchange(self, text: str) -> Element:
        """Send an IQ as it stands, and wait for its answer; what came before that stays to be received."""
        await self.send(text)
        id = parse_fragment(text.encode(), LIMITS).get("id")
        return await self.answer(id)

    async def close(self) -> None:
        """The connection breaks."""
        await trio.aclose_forcefully(self._stream)


async def log_in(
    port: int, nursery: trio.Nursery, user: str, resource: str, *features: str, answers: bool = True
) -> RealClient:
    """Log a client in."""
    client = RealClient(await trio.open_tcp_stream("127.0.0.1", port))
    client.features, client.answers = features, answers
    with trio.fail_after(PATIENCE_S):
        await client.log_in(user, resource)
    nursery.start_soon(client.run)
    return client


async def register_in_band(port: int, user: str) -> None:
    client = RealClient(await trio.open_tcp_stream("127.0.0.1", port))
    with trio.fail_after(PATIENCE_S):
        await client.register(user)
    await client.close()

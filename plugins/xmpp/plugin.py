"""What the daemon knows of the front end before it is enabled: its settings, and how it is started.

A site that does not enable it imports no more than this: slixmpp takes 10 MB of memory.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from daemon.frontend import ConfigError, Site
from plugins.xmpp.settings import LOCAL_PART, TABLE, XmppSettings
from routing.errors import Refusal
from routing.names import account_name

if TYPE_CHECKING:
    from plugins.xmpp.wire.component import Dial

SECRET_BYTES_MAX: Final = 1_024


def read_secret(path: Path) -> str:
    """The secret: the file's only line. Raises ConfigError."""
    try:
        data = path.read_bytes()
        mode = path.stat().st_mode
        secret = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(path, "", f"the component's secret cannot be read: {why}") from None
    if mode & 0o077:
        raise ConfigError(path, "", "others can read the component's secret; chmod 600 it")
    if not secret or len(data) > SECRET_BYTES_MAX or "\n" in secret:
        raise ConfigError(path, "", "expected the component's secret, one line of text")
    return secret


def _can_become_an_account(name: str) -> bool:
    """Whether a rule's name stands for as many accounts as there are JIDs."""
    if LOCAL_PART not in name:
        return False
    try:
        account_name(name.replace(LOCAL_PART, "x"))
    except Refusal:
        return False
    return True


class XmppPlugin:
    """See `daemon.frontend.Plugin`."""

    name = "xmpp"
    settings: type[msgspec.Struct] = XmppSettings
    enabled_by_default = False

    def check(self, settings: Any, accounts: Collection[str]) -> Iterable[str]:
        """See `daemon.frontend.Plugin`."""
        assert isinstance(settings, XmppSettings)
        self._ready(settings)
        if not settings.accounts:
            yield "accounts: no rule gives any JID an account; add tables [[plugins.xmpp.accounts]]"
        for rule in settings.accounts:
            if not (_can_become_an_account(rule.account) or rule.account in accounts):
                yield f"accounts: a rule names {rule.account}, which is no account of this site"

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """See `daemon.frontend.Plugin`. Raises ConfigError before it has started.

        Started without waiting for the XMPP server: that one may come later, or be gone for a while.
        """
        connect, secret = self._ready(settings)
        from plugins.xmpp import serving

        task_status.started()
        await serving.serve(site, settings, connect, secret)

    @staticmethod
    def _ready(settings: XmppSettings) -> "tuple[Dial, str]":
        """How the XMPP server is reached, and the secret. Raises ConfigError."""
        if not settings.component:
            raise ConfigError(TABLE, "component", "is required")
        try:
            from plugins.xmpp import serving
        except ImportError as error:
            problem = f"a library is missing ({error}); install smqpd[xmpp]"
            raise ConfigError(TABLE, "", problem) from None
        return serving.connector(settings), read_secret(settings.secret_file)


plugin = XmppPlugin()

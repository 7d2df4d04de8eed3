"""What the daemon knows of the front end before it is enabled: its settings, and how it is started.

A site that does not enable it imports no more than this: the libraries take 20 MB of memory.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daemon.frontend import ConfigError, Site
from plugins.web.settings import WebSettings

TABLE: Final = Path("[plugins.web]")
"""Named where a problem is in the configuration itself, whose file a front end does not know."""


class WebPlugin:
    """See `daemon.frontend.Plugin`."""

    name = "web"
    settings: type[msgspec.Struct] = WebSettings
    enabled_by_default = False

    def check(self, settings: Any, accounts: Collection[str]) -> Iterable[str]:
        """See `daemon.frontend.Plugin`."""
        assert isinstance(settings, WebSettings)
        _load()
        for address in settings.listen:
            if not address.startswith(("127.", "localhost:", "[::1]:")):
                yield f"listen: passwords cross the network in clear at {address}; see listen_tls"

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """See `daemon.frontend.Plugin`. Raises ConfigError before it has started."""
        assert isinstance(settings, WebSettings)
        await _load()(site, settings, task_status=task_status)


def _load() -> Any:
    """`plugins.web.serving.serve`. Raises ConfigError where the extra is not installed."""
    try:
        from plugins.web.serving import serve
    except ImportError as error:
        raise ConfigError(TABLE, "", f"needs the extra, pip install '.[web]': {error}") from None
    return serve


plugin: Final = WebPlugin()

"""/health: whether the process answers, and whether the site can do its work.

Both are open to whoever can connect, and say which thing is wrong, not why: the page and the log do.
"""

from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse

from daemon.frontend import Site
from plugins.web.settings import WebSettings


async def live(request: Any) -> Any:
    """The process answers."""
    return PlainTextResponse("alive\n")


async def problems(site: Site, settings: WebSettings) -> list[str]:
    """What keeps the site from its work: `draining`, `store`, `disk`, `link PEER`; [] where it is ready."""
    overview = await site.operations.overview()
    found = ["draining"] if overview.draining or site.draining.is_set() else []
    found += ["store"] if overview.store_failed else []
    found += ["disk"] if overview.disk_full else []
    if settings.ready_links:
        up = {link.peer for link in await site.operations.links() if link.state == "up"}
        found += [f"link {peer}" for peer in settings.ready_links if peer not in up]
    return found


async def ready(site: Site, settings: WebSettings) -> Any:
    """200 where messages are taken and go where they must, else 503."""
    found = await problems(site, settings)
    return JSONResponse({"ready": not found, "problems": found}, 503 if found else 200)

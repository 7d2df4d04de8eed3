"""The files that pages load: read once, served from memory by their exact names: no path leads elsewhere."""

from hashlib import sha256
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response

from plugins.web.render import HERE

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFiles:
    """All of the folder `static`."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in (HERE / "static").iterdir()}

    async def serve(self, request: Any) -> Any:
        """One of them; browsers ask each time whether theirs is still the same."""
        name: str = request.path_params["name"]
        data = self._files.get(name)
        if data is None:
            return PlainTextResponse("not found\n", 404)
        tag = f'"{sha256(data).hexdigest()[:16]}"'
        headers = {"cache-control": "no-cache", "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=TYPES[name[name.rindex(".") :]], headers=headers)

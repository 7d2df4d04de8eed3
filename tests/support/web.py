"""A browser, or a program, that talks to the page in memory: requests to the application, and its answers."""

from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

import msgspec

REMOTE = "192.0.2.7:4711"


class WebAnswer:
    """What came back.

    Attributes:
        headers: with lower-case names; of several with one name, the last.
    """

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = {name.decode().lower(): value.decode("latin-1") for name, value in headers}
        self.cookies = [value.decode() for name, value in headers if name.lower() == b"set-cookie"]
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class WebBrowser:
    """Keeps cookies, sends what browsers send of their own accord, and follows no redirects.

    Attributes:
        headers: sent with each request, besides those of a call.
    """

    def __init__(self, app: Any, *, scheme: str = "http", host: str = "127.0.0.1:7780") -> None:
        self.app = app
        self.scheme = scheme
        self.host = host
        self.headers: dict[str, str] = {}
        self.cookies: dict[str, str] = {}

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    async def get(self, path: str, **headers: str) -> WebAnswer:
        return await self.request("GET", path, headers=headers)

    async def post(self, path: str, **fields: str) -> WebAnswer:
        """Send a form of this page."""
        kind = {"content-type": "application/x-www-form-urlencoded", "origin": self.origin}
        return await self.request("POST", path, urlencode(fields).encode(), headers=kind)

    async def log_in(self, account: str, password: str, there: str = "/") -> WebAnswer:
        """By the form of the page."""
        return await self.post("/login", account=account, password=password, next=there)

    async def do(self, path: str, **fields: str) -> WebAnswer:
        """Send a form of the page of somebody who is logged in, with its token."""
        token = hidden_fields(await self.get("/")).get("token", "")
        return await self.post(path, token=token, **fields)

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> WebAnswer:
        sent = {"host": self.host, **self.headers, **(headers or {})}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body:
            sent.setdefault("content-length", str(len(body)))
        where, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": where,
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": ("192.0.2.7", 4711),
            "server": ("127.0.0.1", 7780),
            "state": {"remote": REMOTE},
            "extensions": {},
        }
        pieces = [body[at : at + 65_536] for at in range(0, len(body), 65_536)] or [b""]
        incoming = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]
        outgoing: list[Any] = []

        async def receive() -> Any:
            return incoming.pop(0) if incoming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            outgoing.append(message)

        await self.app(scope, receive, send)
        start, *bodies = outgoing
        answer = WebAnswer(start["status"], start["headers"], b"".join(each["body"] for each in bodies))
        self._keep(answer)
        return answer

    def _keep(self, answer: WebAnswer) -> None:
        for line in answer.cookies:
            for name, cookie in SimpleCookie(line).items():
                if cookie["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = cookie.value


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden":
            self.hidden[given.get("name") or ""] = given.get("value") or ""


def hidden_fields(answer: WebAnswer) -> dict[str, str]:
    """The hidden fields of the forms in a page."""
    fields = _Fields()
    fields.feed(answer.text)
    return fields.hidden

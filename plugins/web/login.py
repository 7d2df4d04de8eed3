"""Who uses the page: browsers that have logged in, and programs that say who they are with each request.

    a browser    POST /login -> a signed cookie; what changes something comes from a form with its token
    a program    Basic credentials, or a bearer token, with each request; no cookie, so nothing that a page
                 could misuse

A cookie holds the account, a number of its own and when it was last renewed, and what signs it is in the
memory of this process alone: a restart logs everybody out. Who has logged out is remembered until the cookie
would have ended anyhow; all cookies of an account end with its password. Rights are asked for with each
request, so that an account that is disabled is out at once.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
import trio

from daemon.frontend import Identity, Operating, Site
from plugins.web.settings import WebSettings
from routing.errors import Refusal

RENEWED_S: Final = 60.0
RENEWED_PART: Final = 0.1
"""A cookie is made anew with a request that comes so long after it was made, or after such a part of what a
session lasts without one. It holds for so much longer."""

CREDENTIALS_CHARACTERS_MAX: Final = 2_048
LEFT_MAX: Final = 100_000
"""Sessions that were left and are remembered; the oldest are forgotten first."""


class WebUser(msgspec.Struct, frozen=True):
    """Whose request it is.

    Attributes:
        operates: `look` or `change`; never "".
        token: what a form must bring; "" for a program, whose requests no other page can send.
        cookie: to be set with the answer; "" for none.
        bearer: name of the bearer token that the program has shown; "" for none.
    """

    identity: Identity
    operates: Operating
    token: str = ""
    session: str = ""
    cookie: str = ""
    bearer: str = ""

    @property
    def may_change(self) -> bool:
        """Whether it may do more than look."""
        return self.operates == "change"


class NotLoggedIn(Exception):
    """Nobody is, or not with the right to be here."""


class NotAllowed(Exception):
    """What was asked for is not this user's to do, or did not come from a form of ours; the text says so."""


class Logins:
    """Of one page."""

    def __init__(self, site: Site, settings: WebSettings) -> None:
        self._site = site
        self._renewed_s = min(RENEWED_S, RENEWED_PART * settings.session_s)
        self._cookie_s = settings.session_s + self._renewed_s
        self._key = secrets.token_bytes(32)
        self._left: dict[str, float] = {}
        name = hashlib.sha256(site.server_name.encode()).hexdigest()[:8]
        self._name = (
            f"smqpd-{name}"  # browsers send cookies to every port of a host, so each site has its own
        )

    # -- who it is --------------------------------------------------------------------------------

    async def user(self, request: Any) -> WebUser:
        """Whose request it is. Raises NotLoggedIn, or NotAllowed for a program with no right to be here."""
        authorization = request.headers.get("authorization")
        if authorization is not None:
            return await self._program(authorization, request.state.remote)
        found = self._read(request.cookies.get(self._cookie_name(request), ""))
        if found is None:
            raise NotLoggedIn
        account, session, made_at = found
        operates = self._site.operates(account)
        if not operates:
            raise NotLoggedIn
        renew = trio.current_time() - made_at >= self._renewed_s
        return WebUser(
            Identity(account=account),
            operates,
            token=self._token(session),
            session=session,
            cookie=self._cookie(request, account, session) if renew else "",
        )

    async def _program(self, authorization: str, remote: str) -> WebUser:
        scheme, _, credentials = authorization.partition(" ")
        if len(credentials) > CREDENTIALS_CHARACTERS_MAX:
            raise NotLoggedIn
        try:
            identity, bearer = await self._known(scheme.lower(), credentials.strip(), remote)
        except (ValueError, Refusal):
            raise NotLoggedIn from None
        operates = self._site.operates(identity.account)
        if not operates:
            raise NotAllowed(f"{identity.account} may neither look at this site nor change it")
        return WebUser(identity, operates, bearer=bearer)

    async def _known(self, scheme: str, credentials: str, remote: str) -> tuple[Identity, str]:
        """Raises ValueError for what are no credentials, and Refusal."""
        if scheme == "bearer":
            return await self._site.authenticate_token(credentials, remote, protocol="web")
        if scheme != "basic":
            raise ValueError
        account, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        if not colon:
            raise ValueError
        return await self._site.authenticate(account, password, remote, protocol="web"), ""

    # -- logging in and out -----------------------------------------------------------------------

    async def log_in(self, request: Any, account: str, password: str) -> str:
        """The cookie of a new session. Raises Refusal, after the delay that guesses get."""
        identity = await self._site.authenticate(account, password, request.state.remote, protocol="web")
        if not self._site.operates(identity.account):
            raise Refusal(
                Refusal.FORBIDDEN, f"{identity.account} may neither look at this site nor change it"
            )
        return self._cookie(request, identity.account, secrets.token_urlsafe(18))

    def log_out(self, request: Any, user: WebUser) -> str:
        """End the session of the user; a cookie that takes the other one away."""
        now = trio.current_time()
        for session, until in list(self._left.items()):
            if until > now and len(self._left) < LEFT_MAX:
                break
            del self._left[session]
        self._left[user.session] = now + self._cookie_s
        return (
            f"{self._cookie_name(request)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{_secure(request)}"
        )

    def renewed(self, request: Any, user: WebUser) -> str:
        """A cookie for the session of the user, whose password has just been changed."""
        return self._cookie(request, user.identity.account, user.session)

    def check_form(self, request: Any, user: WebUser | None, token: str) -> None:
        """Raises NotAllowed where a request that changes something was not sent by a page of ours."""
        check_origin(request)
        if user is not None and user.session and not hmac.compare_digest(token.encode(), user.token.encode()):
            raise NotAllowed("the form is of an earlier login, or of another page; load it anew")

    # -- cookies ----------------------------------------------------------------------------------

    def _cookie_name(self, request: Any) -> str:
        """Over TLS one that no other host, and nobody without TLS, can have set."""
        return f"__Host-{self._name}" if request.url.scheme == "https" else self._name

    def _cookie(self, request: Any, account: str, session: str) -> str:
        text = f"{account}|{session}|{trio.current_time():.3f}"
        value = f"{text}|{self._sign_cookie(account, text)}"
        age = f"Path=/; Max-Age={self._cookie_s:.0f}; HttpOnly; SameSite=Strict"
        return f"{self._cookie_name(request)}={value}; {age}{_secure(request)}"

    def _read(self, cookie: str) -> tuple[str, str, float] | None:
        """Account, session and when it was made; None where it is not ours, or has ended."""
        text, _, signature = cookie.rpartition("|")
        wanted = self._sign_cookie(text.partition("|")[0], text)
        if not hmac.compare_digest(signature.encode(), wanted.encode()):
            return None
        account, session, made = text.split("|")
        made_at = float(made)
        if trio.current_time() - made_at > self._cookie_s or session in self._left:
            return None
        return account, session, made_at

    def _sign_cookie(self, account: str, text: str) -> str:
        """Sign a cookie, which holds as long as the account has the password that it was given for."""
        return self._sign("cookie", f"{text}|{self._site.credential(account)}")

    def _token(self, session: str) -> str:
        return self._sign("form", session)

    def _sign(self, purpose: Literal["cookie", "form"], text: str) -> str:
        digest = hmac.digest(self._key, f"{purpose}|{text}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def check_origin(request: Any) -> None:
    """Raises NotAllowed for a request that a page of somebody else has had a browser send."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("this was sent by a page of another site")
    origin = request.headers.get("origin")
    if origin is not None and _host_of(origin) != request.headers["host"].lower():
        raise NotAllowed("this was sent by a page of another site")


def _host_of(origin: str) -> str | None:
    """None where it is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _secure(request: Any) -> str:
    return "; Secure" if request.url.scheme == "https" else ""

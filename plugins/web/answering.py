"""From what is asked to an answer: who it is, whether they may, and what is said where not."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.responses import JSONResponse, RedirectResponse

from daemon.frontend import CONFLICT, Site
from plugins.web.actions import FORM_BYTES_MAX, Action, read_form
from plugins.web.login import Logins, NotAllowed, NotLoggedIn, WebUser, check_origin
from plugins.web.pages import Pages, login_address
from routing.errors import Refusal

View = Callable[[Any], Awaitable[Any]]
"""A request, whose `state.user` is a `WebUser`, to its answer."""

STATUS: Final = {
    Refusal.BAD_LOGIN: 401,
    Refusal.FORBIDDEN: 403,
    Refusal.NOT_FOUND: 404,
    CONFLICT: 409,
    Refusal.TOO_LARGE: 413,
    Refusal.TOO_MANY: 429,
    Refusal.NOT_AVAILABLE: 503,
    Refusal.QUEUE_FULL: 503,
    Refusal.STORE_FAILED: 503,
}
"""Of what a site refuses; all else is a request that was wrong."""

ASKS: Final = {"www-authenticate": 'Basic realm="smqpd", charset="UTF-8", Bearer realm="smqpd"'}


def for_programs(site: Site, logins: Logins, view: View, *, change: bool = False) -> View:
    """A view for who has credentials of a program, or is a script of our own page; errors are JSON.

    With `change` it needs the right to change the site, and from a browser the token of its session.
    """

    counts = site.metrics

    async def answer(request: Any) -> Any:
        try:
            user = await logins.user(request)
            if change:
                check_may_change(user)
                request.state.still = lambda: may_still_change(logins, request)
                request.state.holding = site.holding
                if user.session:
                    logins.check_form(request, user, request.headers.get("x-csrf-token", ""))
                else:
                    check_origin(request)
            request.state.user = user
            return await view(request)
        except NotLoggedIn:
            return JSONResponse({"error": "not-logged-in", "text": "log in"}, 401, headers=ASKS)
        except NotAllowed as error:
            counts.refuse(Refusal(Refusal.FORBIDDEN, str(error)))
            return JSONResponse({"error": "forbidden", "text": str(error)}, 403)
        except Refusal as refusal:
            counts.tell_refused(refusal)
            status = STATUS.get(refusal.code, 400)
            return JSONResponse({"error": refusal.code, "text": refusal.text}, status)

    return answer


def refusing(pages: Pages, view: View) -> View:
    """A view for who is not logged in, with pages that say why where it is refused."""
    counts = pages.site.metrics

    async def answer(request: Any) -> Any:
        try:
            return await view(request)
        except NotAllowed as error:
            counts.refuse(Refusal(Refusal.FORBIDDEN, str(error)))
            return pages.refuse(request, 403, "Not allowed", str(error))
        except Refusal as refusal:
            counts.tell_refused(refusal)
            return pages.refuse(request, STATUS.get(refusal.code, 400), "Refused", refusal.text)

    return answer


def page(pages: Pages, view: View) -> View:
    """A view for people; who is not logged in is shown where to."""

    async def answer(request: Any) -> Any:
        try:
            user = await pages.logins.user(request)
        except NotLoggedIn:
            return RedirectResponse(login_address(request), 303)
        request.state.user = user
        shown = await view(request)
        if user.cookie and "set-cookie" not in shown.headers:
            shown.headers.append("set-cookie", user.cookie)
        return shown

    return refusing(pages, answer)


def action(pages: Pages, act: Action, *, look: bool = False, bytes_max: int = FORM_BYTES_MAX) -> View:
    """What a form of a page does; needs the right to change the site, unless who may `look` may do it."""

    async def view(request: Any) -> Any:
        user: WebUser = request.state.user
        if not look:
            check_may_change(user)
        request.state.holding = pages.site.holding
        fields = await read_form(request, bytes_max)
        pages.logins.check_form(request, user, fields.get("token", ""))
        if not look:
            await may_still_change(pages.logins, request)
        return await act(request, user, fields)

    return page(pages, view)


def check_may_change(user: WebUser) -> None:
    """Raises NotAllowed where it may only look."""
    if not user.may_change:
        raise NotAllowed(f"{user.identity.account} may look at this site, and not change it")


async def may_still_change(logins: Logins, request: Any) -> None:
    """Check a right again. Raises NotAllowed where it was lost before the request's body had come."""
    try:
        check_may_change(await logins.user(request))
    except NotLoggedIn:
        raise NotAllowed("who sent this is not logged in any more") from None

"""What people look at: each page of the site, made on the server, and usable without a script."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, get_args
from urllib.parse import quote

from starlette.responses import HTMLResponse, RedirectResponse

from daemon.frontend import BrowsedMessage, Right, Site, TopicOrder, link_remarks
from plugins.web.drawing import draw
from plugins.web.live import Live, texts
from plugins.web.login import Logins, NotAllowed, NotLoggedIn, WebUser
from plugins.web.render import make_environment
from plugins.web.settings import WebSettings
from routing.errors import Refusal
from routing.names import dead_letter_topic

TOPICS_ON_A_PAGE: Final = 50
SESSIONS_ON_A_PAGE: Final = 100
MESSAGES_ON_A_PAGE: Final = 20
SITES_ON_A_PAGE: Final = 200
SUBSCRIPTIONS_ON_A_PAGE: Final = 200
ACCOUNTS_ON_A_PAGE: Final = 100
JOURNEY_S: Final = 5.0
"""For other sites to say what they know of a message."""

WHOLE_DIGITS_MAX: Final = 18
"""Of numbers that are asked for."""

ORDERS: Final[tuple[TopicOrder, ...]] = get_args(TopicOrder)
NOTES_MAX: Final = 1_000
"""Sessions that are still to be told what became of something; the oldest are forgotten first."""

READS: Final[tuple[Right, ...]] = ("subscribe", "administer")
"""Who has one of these rights to a topic reads what its messages say."""


class Pages:
    """Of one site."""

    def __init__(self, site: Site, settings: WebSettings, logins: Logins, live: Live) -> None:
        self.site = site
        self.settings = settings
        self.logins = logins
        self.live = live
        self._templates = make_environment()
        self._notes: OrderedDict[str, tuple[str, str]] = OrderedDict()

    # -- showing ----------------------------------------------------------------------------------

    def show(self, request: Any, template: str, title: str, *, status: int = 200, **values: Any) -> Any:
        """A page; what was noted for its user stands at its top, once."""
        user: WebUser | None = getattr(request.state, "user", None)
        note = self._notes.pop(user.session, None) if user is not None else None
        text = self._templates.get_template(template).render(
            title=title,
            server=self.site.server_name,
            user=user,
            token=user.token if user is not None else "",
            path=request.url.path,
            note=note,
            **values,
        )
        return HTMLResponse(text, status)

    def note(self, user: WebUser, text: str, kind: str = "done") -> None:
        """Have the next page of this user say it; programs have none."""
        if not user.session:
            return
        self._notes[user.session] = kind, text
        while len(self._notes) > NOTES_MAX:
            self._notes.popitem(last=False)

    def refuse(self, request: Any, status: int, title: str, text: str) -> Any:
        """A page that says why there is no other."""
        return self.show(request, "refused.html", title, status=status, text=text)

    def may_read(self, user: WebUser, topic: str) -> bool:
        """Whether the account may read what the messages of a topic say."""
        operations = self.site.operations
        return any(operations.may(user.identity.account, right, topic).allowed for right in READS)

    # -- logging in -------------------------------------------------------------------------------

    async def login(self, request: Any) -> Any:
        """The page where one logs in."""
        try:
            await self.logins.user(request)
        except (NotLoggedIn, NotAllowed):
            return self.show(
                request,
                "login.html",
                "Log in",
                next=own_path(request.query_params.get("next", "/")),
                account="",
                error="",
            )
        return RedirectResponse("/", 303)

    # -- the pages --------------------------------------------------------------------------------

    async def overview(self, request: Any) -> Any:
        """The whole site."""
        overview = await self.live.overview()
        return self.show(
            request,
            "overview.html",
            "Overview",
            overview=overview,
            texts=texts(overview),
            charts={chart.name: chart for chart in self.live.charts()},
        )

    async def topics(self, request: Any) -> Any:
        """Topics, searched, sorted and paged."""
        asked = request.query_params
        search, offset = asked.get("search", "")[:255], whole(asked, "offset")
        order: TopicOrder = next((each for each in ORDERS if each == asked.get("order")), "name")
        error = ""
        try:
            page = await self.site.operations.topics(
                search, order=order, offset=offset, count=TOPICS_ON_A_PAGE
            )
        except Refusal as refusal:  # a pattern that is none
            error, page = refusal.text, await self.site.operations.topics("", count=0)
        return self.show(
            request,
            "topics.html",
            "Topics",
            page=page,
            search=search,
            order=order,
            offset=offset,
            count=TOPICS_ON_A_PAGE,
            error=error,
        )

    async def topic(self, request: Any) -> Any:
        """One topic: what it holds, who has subscribed, what may be done with it."""
        name = request.query_params.get("name", "")
        user: WebUser = request.state.user
        may_publish = self.site.operations.may(user.identity.account, "publish", name).allowed
        may_publish &= user.may_change
        topic = await self.site.operations.topic(name)
        if topic is None:
            subscriptions = await self.site.operations.subscribed(name)
            return self.show(
                request,
                "unknown.html",
                name,
                name=name,
                subscriptions=subscriptions[:SUBSCRIPTIONS_ON_A_PAGE],
                unshown=max(len(subscriptions) - SUBSCRIPTIONS_ON_A_PAGE, 0),
                may_publish=may_publish,
            )
        return self.show(
            request,
            "topic.html",
            name,
            topic=topic,
            name=name,
            unshown=max(len(topic.subscriptions) - SUBSCRIPTIONS_ON_A_PAGE, 0),
            subscriptions=topic.subscriptions[:SUBSCRIPTIONS_ON_A_PAGE],
            may_publish=may_publish,
        )

    async def messages(self, request: Any) -> Any:
        """The page of what a topic holds, some messages at a time."""
        name, after = request.query_params.get("name", ""), whole(request.query_params, "after")
        found = await self.site.operations.browse(name, after=after, count=MESSAGES_ON_A_PAGE)
        return self.show(
            request,
            "messages.html",
            f"Messages of {name}",
            name=name,
            messages=found,
            after=after,
            more=await self._has_more(name, found),
            may_read=self.may_read(request.state.user, name),
        )

    async def _has_more(self, topic: str, found: Sequence[BrowsedMessage]) -> bool:
        """Whether something follows: a page also ends early, after messages with very many headers."""
        return bool(found and await self.site.operations.browse(topic, after=found[-1].id, count=1))

    async def dead_letters(self, request: Any) -> Any:
        """The page of what nobody could take of a topic, and why."""
        name, after = request.query_params.get("name", ""), whole(request.query_params, "after")
        found = await self.site.operations.dead_letters(name, after=after, count=MESSAGES_ON_A_PAGE)
        dead_topic = dead_letter_topic(name)
        return self.show(
            request,
            "dead_letters.html",
            f"Dead letters of {name}",
            name=name,
            letters=found,
            dead_topic=dead_topic,
            after=after,
            more=await self._has_more(dead_topic, [letter.message for letter in found]),
            may_read=self.may_read(request.state.user, name),
        )

    async def sessions(self, request: Any) -> Any:
        """The page of who is logged in."""
        every = await self.site.operations.sessions()
        searched = [f"{each.account}/{each.channel} {each.protocol} {each.remote}" for each in every]
        return self._show_found(request, "sessions", every, searched, SESSIONS_ON_A_PAGE)

    async def message(self, request: Any) -> Any:
        """The page of what became of a message, at all sites that answer in time."""
        smuid, way, error = request.query_params.get("smuid", "").strip(), None, ""
        if smuid:
            try:
                way = await self.site.operations.journey(smuid, JOURNEY_S)
            except Refusal as refusal:
                error = refusal.text
        return self.show(request, "message.html", "A message", smuid=smuid, way=way, error=error)

    async def accounts(self, request: Any) -> Any:
        """The page of who may log in, and what for."""
        operations = self.site.operations
        every, fixed = await operations.accounts(), operations.accounts_fixed()
        names = [each.name for each in every]
        return self._show_found(request, "accounts", every, names, ACCOUNTS_ON_A_PAGE, fixed=fixed)

    def _show_found(
        self, request: Any, what: str, every: Sequence[Any], searched: Sequence[str], count: int, **more: Any
    ) -> Any:
        """The page of `what`: `count` of those in whose text, which is `searched`, is what is asked for."""
        asked = request.query_params
        search, offset = asked.get("search", "")[:255], whole(asked, "offset")
        folded = search.casefold()
        found = [each for each, text in zip(every, searched, strict=True) if folded in text.casefold()]
        shown: dict[str, Any] = {what: found[offset : offset + count]}
        return self.show(
            request,
            f"{what}.html",
            what.capitalize(),
            **shown,
            matching=len(found),
            total=len(every),
            search=search,
            offset=offset,
            count=count,
            **more,
        )

    async def account(self, request: Any) -> Any:
        """One account: what it may do, and what may be done with it."""
        name, operations = request.query_params.get("name", ""), self.site.operations
        accounts = await operations.accounts()
        account = next((each for each in accounts if each.name == name), None)
        if account is None:
            raise Refusal(Refusal.NOT_FOUND, f"there is no account {name[:80]}")
        changes = [each.name for each in accounts if each.rights.operate == "change" and not each.disabled]
        return self.show(
            request,
            "account.html",
            name,
            name=name,
            account=account,
            last=changes == [name],
            fixed=operations.accounts_fixed(),
        )

    async def links(self, request: Any) -> Any:
        """The peers, all sites that are known, drawn, and the ways of a topic."""
        operations, topic = self.site.operations, request.query_params.get("topic", "").strip()
        links, sites, routes, error = await operations.links(), await operations.sites(), [], ""
        if topic:
            try:
                routes = await operations.routes(topic)
            except Refusal as refusal:
                error = refusal.text
        return self.show(
            request,
            "links.html",
            "Links",
            links=links,
            sites=sites[:SITES_ON_A_PAGE],
            remarks=link_remarks(sites),
            unshown=max(len(sites) - SITES_ON_A_PAGE, 0),
            drawing=draw(sites[:SITES_ON_A_PAGE], links, routes),
            topic=topic,
            routes=routes,
            error=error,
        )


def whole(values: Any, name: str) -> int:
    """A number that was asked for; 0 for what is none."""
    text = values.get(name, "")
    return int(text) if is_whole(text) else 0


def is_whole(text: str) -> bool:
    """Whether it is a number from 0 that is counted with."""
    return text.isascii() and text.isdigit() and len(text) <= WHOLE_DIGITS_MAX


def own_path(path: str) -> str:
    """The path, or `/` where browsers would leave this page for it."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def login_address(request: Any) -> str:
    """Where to log in, and come back from to what was asked for."""
    if request.method != "GET" or request.url.path == "/":
        return "/login"
    there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?next={quote(there, safe='')}"


def topic_address(name: str) -> str:
    """The page of a topic."""
    return f"/topic?name={quote(name, safe='')}"


def account_address(name: str) -> str:
    """The page of an account."""
    return f"/account?name={quote(name, safe='')}"

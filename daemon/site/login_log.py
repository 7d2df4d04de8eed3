"""What the log says of logins: who came, who was refused, who left and why; of a crowd, how many more."""

import logging
from typing import Final

from daemon.broker.session import BrokerSession
from daemon.system.limited_log import LimitedLog

_log = logging.getLogger(__name__)

NAME_MAX: Final = 65
"""Characters of the name of an account that is tried."""


class LoginLog:
    """Its lines have fields, too, for logs in JSON."""

    def __init__(self) -> None:
        self._logins = LimitedLog(_log, "logins")
        self._ends = LimitedLog(_log, "ends of sessions")

    def refused(self, account: str, why: str, protocol: str, remote: str) -> None:
        """Log who is not let in and said to be `account`; `protocol` is "" where it is not known."""
        shown = account[:NAME_MAX]
        self._logins.log(
            logging.WARNING,
            "login of %s refused (%s, %s): %s",
            shown,
            protocol or "?",
            remote,
            why,
            fields={
                "event": "login-refused",
                "account": shown,
                "protocol": protocol,
                "address": remote,
                "why": why,
            },
        )

    def opened(self, session: BrokerSession) -> None:
        """Log who is let in."""
        self._logins.log(
            logging.INFO,
            "%s/%s logged in (%s, %s): session %d",
            session.account,
            session.channel,
            session.protocol,
            session.remote,
            session.id,
            fields={"event": "login", **session.fields},
        )

    def ended(self, session: BrokerSession, why: str) -> None:
        """Log the end of a session, and what went through it."""
        self._ends.log(
            logging.INFO,
            "%s/%s logged out (%s, %s): session %d, after %.1f s, %d published, %d delivered: %s",
            session.account,
            session.channel,
            session.protocol,
            session.remote,
            session.id,
            session.lasted_s,
            session.published,
            session.delivered,
            why,
            fields={
                "event": "logout",
                **session.fields,
                "lasted_s": round(session.lasted_s, 3),
                "published": session.published,
                "delivered": session.delivered,
                "why": why,
            },
        )

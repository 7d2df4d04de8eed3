"""Who a JID is at this site: its account by the configured rules, its channel from the JID itself.

The XMPP server vouches for `from`, so no password is asked. A JID to which no rule applies has no account
and may do nothing. One full JID is one login, and its channel is derived from the JID alone, so that it
is the same after every restart.
"""

import re
from collections.abc import Container
from functools import lru_cache
from typing import Final

from slixmpp.jid import JID, InvalidJID

from plugins.xmpp.forms.payload import PUBLISHER
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.settings import LOCAL_PART, JidRule
from routing.errors import Refusal
from routing.message import Message
from routing.names import account_name, make_channel, parse_address

REMEMBERED_CHARACTERS_MAX: Final = 300
"""Of a JID, which may have 3,071 bytes, and be anybody's."""


def bare_of(jid: str) -> str:
    """The JID without its resource."""
    return jid.partition("/")[0]


def local_of(jid: str) -> str:
    """The part before the @; "" for none."""
    bare = bare_of(jid)
    return bare.partition("@")[0] if "@" in bare else ""


def read_jid(text: str, known: Container[str] = ()) -> str:
    """A JID that somebody names, in the form in which all are kept; "" for none.

    One that is `known` is taken as it stands: servers vouch for JIDs (RFC 7622) that the form of RFC 6122,
    which slixmpp makes, changes or does not have.
    """
    if text in known:
        return text
    try:
        return str(JID(text))
    except InvalidJID:
        return ""


def channel_of(jid: str) -> str:
    """The channel of a full JID: 64 characters at most.

    >>> channel_of("workerbee237@shakespeare.lit/foo")
    'workerbee237-foo.83eadf7bd129fe15b05f9cfa'
    """
    return _remembered_channel_of(jid) if len(jid) <= REMEMBERED_CHARACTERS_MAX else _channel_of(jid)


@lru_cache(maxsize=16_384)
def _remembered_channel_of(jid: str) -> str:
    return _channel_of(jid)


def _channel_of(jid: str) -> str:
    return make_channel(jid, f"{local_of(jid) or bare_of(jid)}-{jid.partition('/')[2]}")


def publisher_of(message: Message) -> str:
    """The JID that published a message by this front end; "" where that is not known.

    Anybody may write the header: it is believed where the login that published is that of the JID.
    """
    jids = [value for name, value in message.others if name == PUBLISHER]
    if not jids:
        return ""
    return jids[-1] if parse_address(message.account).channel == channel_of(jids[-1]) else ""


class NoAccount(StanzaError):
    """No account belongs to a JID: no rule fits, or the one that does names an account that is not there."""

    def __init__(self) -> None:
        super().__init__("forbidden", "auth", "no account at this site belongs to your JID")


class AccountRules:
    """The rules, in order."""

    def __init__(self, rules: tuple[JidRule, ...]) -> None:
        # ASCII: else an i also stands for a dotless one, which is a letter of somebody else's name
        flags = re.IGNORECASE | re.ASCII
        self._rules = [(re.compile(_expression(rule).lower(), flags), rule.account) for rule in rules]
        self._remembered_account_of = lru_cache(maxsize=16_384)(self._account_of)

    def account_of(self, bare_jid: str) -> str | None:
        """The account of a bare JID, or None. A name that cannot be an account's is none either."""
        is_short = len(bare_jid) <= REMEMBERED_CHARACTERS_MAX
        return self._remembered_account_of(bare_jid) if is_short else self._account_of(bare_jid)

    def _account_of(self, bare_jid: str) -> str | None:
        for pattern, account in self._rules:
            if pattern.fullmatch(bare_jid):
                name = account.replace(LOCAL_PART, local_of(bare_jid))
                try:
                    return account_name(name)
                except Refusal:
                    return None
        return None


def _expression(rule: JidRule) -> str:
    if rule.jid:
        return re.escape(rule.jid)
    if rule.domain:
        return rf"(?:[^@]*@)?{re.escape(rule.domain)}"
    return "[^@]*".join(re.escape(part) for part in rule.pattern.split("*"))

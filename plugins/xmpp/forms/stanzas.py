"""Answers and errors: the small shapes that every handler makes.

Errors have a condition of RFC 6120 8.3.3 (slixmpp's own do not know all of them), and mostly a second,
more exact one of XEP-0060, which is named here as `pubsub`.
"""

from typing import Final
from xml.etree.ElementTree import Element, SubElement

from daemon.frontend import CONFLICT
from plugins.xmpp.wire.namespaces import COMPONENT, PUBSUB_ERRORS, STANZA_ERRORS, local_name, namespace_of
from plugins.xmpp.wire.serializer import escape_attribute, is_sendable
from routing.errors import SUBSCRIPTIONS, Refusal

IQ: Final = f"{{{COMPONENT}}}iq"
MESSAGE: Final = f"{{{COMPONENT}}}message"
PRESENCE: Final = f"{{{COMPONENT}}}presence"
ERROR: Final = f"{{{COMPONENT}}}error"

_SWAPPED: Final = (("from", "to"), ("to", "from"), ("id", "id"))
"""The attributes of an answer, and those of the stanza that they come from."""


class StanzaError(Exception):
    """A request is refused with a stanza error.

    Attributes:
        condition: of RFC 6120 8.3.3.
        kind: its type: cancel, continue, modify, auth or wait.
        pubsub: condition of XEP-0060 that says more; "" for none.
        feature: of `pubsub` = `unsupported`, the feature's name.
        children: sent back in front of the error.
        refusal: what the metrics count, where the condition does not say it.
    """

    def __init__(
        self,
        condition: str,
        kind: str,
        text: str = "",
        *,
        pubsub: str = "",
        feature: str = "",
        children: tuple[Element, ...] = (),
        refusal: Refusal | None = None,
    ) -> None:
        super().__init__(text or condition)
        self.condition = condition
        self.kind = kind
        self.text = text
        self.pubsub = pubsub
        self.feature = feature
        self.children = children
        self.refusal = refusal

    @property
    def as_refusal(self) -> Refusal | None:
        """What the metrics count; None where an error of ours is all that there is to tell."""
        if self.refusal is None and self.condition in _CODES:
            self.refusal = Refusal(_CODES[self.condition], self.text)
        return self.refusal


_CODES: Final = {
    "bad-request": Refusal.BAD_COMMAND,
    "conflict": CONFLICT,
    "feature-not-implemented": Refusal.BAD_COMMAND,
    "forbidden": Refusal.FORBIDDEN,
    "item-not-found": Refusal.NOT_FOUND,
    "not-acceptable": Refusal.BAD_HEADER,
    "not-allowed": Refusal.FORBIDDEN,
    "not-authorized": Refusal.FORBIDDEN,
    "policy-violation": Refusal.TOO_MANY,
    "resource-constraint": Refusal.TOO_MANY,
    "service-unavailable": Refusal.NOT_AVAILABLE,
    "unexpected-request": Refusal.NOT_SUBSCRIBED,
}
"""What the front end itself refuses with each condition, as the code that comes nearest."""

_REFUSALS: Final = {
    Refusal.BAD_HEADER: ("bad-request", "modify", ""),
    Refusal.BAD_LOGIN: ("forbidden", "auth", ""),
    Refusal.BAD_TOPIC: ("not-acceptable", "modify", ""),
    Refusal.FORBIDDEN: ("forbidden", "auth", ""),
    Refusal.LOCK_LOST: ("unexpected-request", "wait", ""),
    Refusal.NOT_FOUND: ("item-not-found", "cancel", ""),
    Refusal.NOT_SUBSCRIBED: ("unexpected-request", "cancel", "not-subscribed"),
    Refusal.NOT_AVAILABLE: ("service-unavailable", "wait", ""),
    Refusal.QUEUE_FULL: ("resource-constraint", "wait", ""),
    Refusal.STORE_FAILED: ("internal-server-error", "wait", ""),
    Refusal.TOO_LARGE: ("not-acceptable", "modify", "payload-too-big"),
    Refusal.TOO_MANY: ("policy-violation", "wait", "too-many-subscriptions"),
}


def from_refusal(refusal: Refusal) -> StanzaError:
    """What the broker refused, as XEP-0060 says it."""
    condition, kind, pubsub = _REFUSALS.get(refusal.code, ("undefined-condition", "cancel", ""))
    if refusal.code == Refusal.TOO_MANY and refusal.subject != SUBSCRIPTIONS:
        pubsub = ""
    return StanzaError(condition, kind, refusal.text, pubsub=pubsub, refusal=refusal)


def unsupported(feature: str) -> StanzaError:
    """A feature of XEP-0060 that this service does not have."""
    return StanzaError("feature-not-implemented", "cancel", pubsub="unsupported", feature=feature)


def result(iq: Element, *children: Element) -> Element:
    """The answer to an IQ."""
    answer = Element(IQ, _addresses(iq, "result"))
    answer.extend(children)
    return answer


def result_text(iq: Element, content: str) -> str:
    """The same, of content that has been written already."""
    addresses = ""
    for name, source in _SWAPPED:
        if (value := iq.get(source)) is not None:
            addresses += f" {name}='{escape_attribute(value)}'"
    return f"<iq type='result'{addresses}>{content}</iq>"


def address_text(sender: str, jid: str, id: str) -> str:
    """The attributes of a stanza of ours."""
    return f" from='{sender}' to='{escape_attribute(jid)}' id='{escape_attribute(id)}'"


def failure(stanza: Element, error: StanzaError) -> Element:
    """The error that answers a stanza."""
    answer = Element(stanza.tag, _addresses(stanza, "error"))
    answer.extend(error.children)
    answer.append(error_element(error))
    return answer


def error_element(error: StanzaError) -> Element:
    """`<error/>` alone."""
    element = Element(ERROR, {"type": error.kind})
    SubElement(element, f"{{{STANZA_ERRORS}}}{error.condition}")
    if error.text:
        text = error.text[:500] if is_sendable(error.text) else error.condition
        SubElement(element, f"{{{STANZA_ERRORS}}}text").text = text
    if error.pubsub:
        exact = SubElement(element, f"{{{PUBSUB_ERRORS}}}{error.pubsub}")
        if error.feature:
            exact.set("feature", error.feature)
    return element


def condition_of(stanza: Element) -> tuple[str, str]:
    """The (condition, type) of an error stanza that came; both may be ""."""
    for child in stanza:
        if local_name(child.tag) == "error":
            for inner in child:
                condition = local_name(inner.tag)
                if namespace_of(inner.tag) == STANZA_ERRORS and condition != "text":
                    return condition, child.get("type", "")
            return "", child.get("type", "")
    return "", ""


def _addresses(stanza: Element, kind: str) -> dict[str, str]:
    addresses = {"type": kind}
    for name, source in _SWAPPED:
        if (value := stanza.get(source)) is not None:
            addresses[name] = value
    return addresses

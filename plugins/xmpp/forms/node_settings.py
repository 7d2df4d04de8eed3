"""A node's configuration: the topic's own settings, as fields of XEP-0060's form.

    {urn:smqp:xmpp:0}queueing   whether items go to one subscriber each (XEP-0254); on by default
    {urn:smqp:xmpp:0}delivery   ONE, ALL, or MESSAGE where each message says
    pubsub#item_expire          seconds; `max` for items that stay until they are retracted
    pubsub#persist_items        whether items are kept for those who subscribe later; a queue keeps them

What may be done with a node is the accounts' rights, which the site's operator sets: the access model is
always `whitelist`. The names in braces are those of fields that nobody has registered (XEP-0068).
"""

from typing import Final, Literal
from xml.etree.ElementTree import Element

import msgspec

from daemon.frontend import TopicInfo
from plugins.xmpp.forms.data_forms import NODE_CONFIG, Field, boolean, form
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import SMQP
from routing.errors import Refusal
from routing.headers import read_seconds, write_seconds
from routing.message import INFINITE, DeliveryMode

QUEUEING_FIELD: Final = f"{{{SMQP}}}queueing"
DELIVERY_FIELD: Final = f"{{{SMQP}}}delivery"
EXPIRE_FIELD: Final = "pubsub#item_expire"
PERSIST_FIELD: Final = "pubsub#persist_items"

_FIXED: Final = {
    "pubsub#access_model": "whitelist",
    "pubsub#publish_model": "publishers",
    "pubsub#deliver_notifications": "1",
    "pubsub#deliver_payloads": "1",
    "pubsub#node_type": "leaf",
    "pubsub#max_items": "max",
    "pubsub#notification_type": "normal",
    "pubsub#notify_config": "0",
    "pubsub#notify_delete": "1",
    "pubsub#notify_retract": "1",
    "pubsub#notify_sub": "0",
    "pubsub#presence_based_delivery": "0",
    "pubsub#purge_offline": "0",
    "pubsub#send_last_published_item": "on_sub",
}
"""What every node does; a form may say so too."""

_BINDING: Final = frozenset({"pubsub#access_model", "pubsub#publish_model", "pubsub#node_type"})
"""Without which a node is another than the one that was wanted."""

_REGISTERED: Final = "pubsub#"
_EXACT_ERRORS: Final = {"pubsub#access_model": "unsupported-access-model"}

NodeDelivery = Literal["ONE", "ALL", "MESSAGE"]


class NodeSettings(msgspec.Struct, frozen=True):
    """What is set for a node.

    Attributes:
        delivery: MESSAGE is a topic without a mode of its own; XMPP clients queue on it by default.
        timeout_s: None for none; `INFINITE` for items that stay.
    """

    delivery: NodeDelivery = "ONE"
    timeout_s: float | None = None

    @classmethod
    def of(cls, topic: TopicInfo | None) -> "NodeSettings":
        """What holds for a topic; the defaults for one that nobody knows."""
        if topic is None:
            return cls()
        return cls(topic.delivery or "MESSAGE", topic.timeout_s)

    @property
    def is_queue(self) -> bool:
        """Whether a subscriber has to say how many items it takes at a time."""
        return self.delivery != "ALL" and self.timeout_s != INFINITE

    @property
    def mode(self) -> DeliveryMode | None:
        """For the topic."""
        return None if self.delivery == "MESSAGE" else self.delivery

    def values(self) -> dict[str, str]:
        """The form's fields."""
        expire = "" if self.timeout_s is None else write_seconds(self.timeout_s)
        return {
            QUEUEING_FIELD: "1" if self.is_queue else "0",
            DELIVERY_FIELD: self.delivery,
            PERSIST_FIELD: "1" if self.is_queue or self.timeout_s is not None else "0",
            EXPIRE_FIELD: "max" if self.timeout_s == INFINITE else expire,
            **_FIXED,
        }

    def changed(self, values: dict[str, str]) -> "NodeSettings":
        """With what a filled-in form says. Raises StanzaError."""
        for field, value in values.items():
            self._check(field, value, creating=False)
        delivery = self._delivery(values)
        return NodeSettings(delivery, self._timeout_s(values, delivery))

    def created(self, values: dict[str, str]) -> tuple["NodeSettings", list[str]]:
        """The same for a node that is made, and the fields that are not kept. Raises StanzaError.

        What a node says of itself, or how it tells of things, is no reason to make none. Who may do what with
        it is.
        """
        kept = {field: value for field, value in values.items() if self._check(field, value, creating=True)}
        return self.changed(kept), sorted(values.keys() - kept.keys())

    def _check(self, field: str, value: str, *, creating: bool) -> bool:
        """Whether a field can be as it is wanted; False where a node is created without it."""
        if field not in _FIXED:
            if field in self.values():
                return True
            if creating and field.startswith(_REGISTERED):
                return False
            raise StanzaError("not-acceptable", "modify", f"{field[:100]} is not a field of a node")
        if same_value(value, _FIXED[field]):
            return True
        if creating and field not in _BINDING:
            return False
        text, exact = f"{field} can only be {_FIXED[field]}", _EXACT_ERRORS.get(field, "")
        raise StanzaError("not-acceptable", "modify", text, pubsub=exact)

    def _delivery(self, values: dict[str, str]) -> NodeDelivery:
        delivery = self.delivery
        if queueing := values.get(QUEUEING_FIELD, ""):
            wanted = _boolean(QUEUEING_FIELD, queueing)
            if wanted is not self.is_queue:
                delivery = "ONE" if wanted else "ALL"
        stated = values.get(DELIVERY_FIELD, "")
        if stated in ("ONE", "ALL", "MESSAGE"):
            if stated != self.delivery and delivery not in (self.delivery, stated):
                raise StanzaError("not-acceptable", "modify", "delivery and queueing contradict each other")
            return delivery if stated == self.delivery else stated  # type: ignore[return-value]  # the three
        if stated:
            raise StanzaError("not-acceptable", "modify", f"{DELIVERY_FIELD} is ONE, ALL or MESSAGE")
        return delivery

    def _timeout_s(self, values: dict[str, str], delivery: NodeDelivery) -> float | None:
        timeout_s = self.timeout_s
        if (expire := values.get(EXPIRE_FIELD)) is not None:
            timeout_s = _seconds(expire)
        if delivery == "ONE" and timeout_s == INFINITE:
            timeout_s = None
        queue = NodeSettings(delivery, timeout_s).is_queue
        persist = values.get(PERSIST_FIELD, "")
        if not persist:
            return timeout_s
        if _boolean(PERSIST_FIELD, persist):
            # what waits in a queue stays until it is done anyway
            return INFINITE if timeout_s is None and not queue else timeout_s
        if queue:
            raise StanzaError("not-acceptable", "modify", f"{PERSIST_FIELD} of a queue can only be 1")
        return None

    def form(self) -> Element:
        """To be filled in by an owner."""
        holds = self.values()
        labels = {
            DELIVERY_FIELD: "Who gets an item",
            EXPIRE_FIELD: "Seconds that an item is kept, or max",
            PERSIST_FIELD: "Keep items for those who subscribe later",
            QUEUEING_FIELD: "Each item goes to one subscriber, which deletes it when done",
        }
        modes = {"ONE": "one subscriber", "ALL": "all", "MESSAGE": "as each says"}
        options = {
            DELIVERY_FIELD: modes,
            "pubsub#access_model": {"whitelist": "those with rights"},
            "pubsub#publish_model": {"publishers": "those with rights"},
            "pubsub#node_type": {"leaf": "leaf"},
            "pubsub#notification_type": {"normal": "normal"},
            "pubsub#send_last_published_item": {"on_sub": "to who subscribes"},
        }
        fields = []
        for var, value in holds.items():
            kind = "boolean" if value in ("0", "1") and var != EXPIRE_FIELD else "text-single"
            if var in options:
                kind = "list-single"
            fields.append(Field(var, kind, labels.get(var, ""), value, options.get(var)))
        return form(NODE_CONFIG, fields)


def _boolean(field: str, value: str) -> bool:
    read = boolean(value)
    if read is None:
        raise StanzaError("not-acceptable", "modify", f"{field} is 0 or 1")
    return read


def same_value(value: str, holds: str) -> bool:
    """Whether a field of a form says what holds."""
    wanted = boolean(value)
    return value == holds if wanted is None else wanted is boolean(holds)


def _seconds(value: str) -> float | None:
    if not value:
        return None
    if value == "max":
        return INFINITE
    try:
        seconds = read_seconds(value)
    except Refusal:
        raise StanzaError("not-acceptable", "modify", f"{EXPIRE_FIELD} is seconds or max") from None
    if seconds <= 0:
        raise StanzaError("not-acceptable", "modify", f"{EXPIRE_FIELD} is more than 0")
    return seconds

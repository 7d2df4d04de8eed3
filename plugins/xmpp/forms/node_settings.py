"""A node's configuration: the topic's own settings, as fields of XEP-0060's form.

    {urn:smqp:xmpp:0}queueing   whether items go to one subscriber each (XEP-0254); on by default
    {urn:smqp:xmpp:0}delivery   ONE, ALL, or MESSAGE where each message says
    pubsub#item_expire          seconds; `max` for items that stay until they are retracted
    pubsub#persist_items        whether items are kept for those who subscribe later; a queue keeps them, so
                                a node that is made to keep none is no queue

and those of `forms.node_options`, which are kept beside the topic's settings. The names in braces are those
of fields that nobody has registered (XEP-0068).
"""

from typing import Final, Literal
from xml.etree.ElementTree import Element

import msgspec

from daemon.frontend import TopicInfo
from plugins.xmpp.forms import node_options
from plugins.xmpp.forms.data_forms import NODE_CONFIG, Field, boolean, form
from plugins.xmpp.forms.node_options import BINDING, FIXED, OPTIONS, NodeOptions, same_value
from plugins.xmpp.forms.node_record import record_of
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import SMQP
from routing.errors import Refusal
from routing.headers import read_seconds, write_seconds
from routing.message import INFINITE, DeliveryMode

QUEUEING_FIELD: Final = f"{{{SMQP}}}queueing"
DELIVERY_FIELD: Final = f"{{{SMQP}}}delivery"
EXPIRE_FIELD: Final = "pubsub#item_expire"
PERSIST_FIELD: Final = "pubsub#persist_items"

_REGISTERED: Final = "pubsub#"

_OF_QUEUES: Final = {
    "pubsub#max_items": "max",
    "pubsub#deliver_notifications": "1",
    "pubsub#notification_type": "normal",
}
"""An item of a queue stays until it is done; whom it is given to is told, by what is not lost in silence."""

_PLAIN: Final = {QUEUEING_FIELD: "0"}

NodeDelivery = Literal["ONE", "ALL", "MESSAGE"]


class NodeSettings(msgspec.Struct, frozen=True):
    """What is set for a node.

    Attributes:
        delivery: MESSAGE is a topic without a mode of its own; XMPP clients queue on it by default.
        timeout_s: None for none; `INFINITE` for items that stay.
    """

    delivery: NodeDelivery = "ONE"
    timeout_s: float | None = None
    options: NodeOptions = NodeOptions()

    @classmethod
    def of(cls, topic: TopicInfo | None) -> "NodeSettings":
        """What holds for a topic; the defaults for one that nobody knows."""
        if topic is None:
            return cls()
        return cls(topic.delivery or "MESSAGE", topic.timeout_s, record_of(topic).options)

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
            **node_options.values(self.options),
        }

    def changed(self, values: dict[str, str]) -> "NodeSettings":
        """The settings with what a filled-in form says. Raises StanzaError."""
        holds = self.values()
        for field, value in values.items():
            if field not in holds:
                raise StanzaError("not-acceptable", "modify", f"{field[:100]} is not a field of a node")
            node_options.check_fixed(field, value)
        delivery = self._delivery(values)
        timeout_s = self._timeout_s(values, delivery)
        options = node_options.changed(self.options, values)
        new = NodeSettings(delivery, timeout_s, options)
        if new.is_queue:
            for field in values.keys() & _OF_QUEUES.keys():
                if not same_value(values[field], _OF_QUEUES[field]):
                    text = f"{field} of a queue can only be {_OF_QUEUES[field]}"
                    raise StanzaError("not-acceptable", "modify", text)
            # what a plain node was told does not hold for the queue that it becomes
            new = NodeSettings(delivery, timeout_s, node_options.changed(options, _OF_QUEUES))
        return new

    def created(self, values: dict[str, str]) -> tuple["NodeSettings", list[str]]:
        """The same for a node that is made, and the fields that are not kept. Raises StanzaError.

        What a node says of itself, or how it tells of things, is no reason to make none. Who may do what with
        it is.
        """
        values = wanted_of_new(values)
        holds = self.values()
        kept = {field: value for field, value in values.items() if self._can_be(field, value, holds)}
        of_any = {field: value for field, value in kept.items() if field not in _OF_QUEUES}
        if self.changed(of_any).is_queue:
            kept = of_any | {
                field: value for field, value in kept.items() if value == _OF_QUEUES.get(field, "")
            }
        return self.changed(kept), sorted(values.keys() - kept.keys())

    @staticmethod
    def _can_be(field: str, value: str, holds: dict[str, str]) -> bool:
        if field in BINDING or (field in holds and field not in FIXED and field not in OPTIONS):
            # refused, where it cannot be
            return True
        if field in holds:
            return node_options.can_be(field, value)
        return not field.startswith(_REGISTERED)

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
        """The form of the settings, to be filled in by an owner."""
        holds = self.values()
        modes = {"ONE": "one subscriber", "ALL": "all", "MESSAGE": "as each says"}
        who = "Each item goes to one subscriber, which deletes it when done"
        kept = "Keep items for those who subscribe later"
        own = [
            Field(QUEUEING_FIELD, "boolean", who, holds[QUEUEING_FIELD]),
            Field(DELIVERY_FIELD, "list-single", "Who gets an item", self.delivery, modes),
            Field(PERSIST_FIELD, "boolean", kept, holds[PERSIST_FIELD]),
            Field(EXPIRE_FIELD, "text-single", "Seconds that an item is kept, or max", holds[EXPIRE_FIELD]),
        ]
        return form(NODE_CONFIG, own + node_options.fields(self.options))


def wanted_of_new(values: dict[str, str]) -> dict[str, str]:
    """What a form wants of a node that is not there yet.

    A queue keeps its items: who wants none kept, and says nothing of queueing, wants a plain node.
    """
    says_kind = QUEUEING_FIELD in values or DELIVERY_FIELD in values
    return values if says_kind or boolean(values.get(PERSIST_FIELD, "")) is not False else _PLAIN | values


def _boolean(field: str, value: str) -> bool:
    read = boolean(value)
    if read is None:
        raise StanzaError("not-acceptable", "modify", f"{field} is 0 or 1")
    return read


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

"""What a subscriber may choose: the form, and what is filled in. Source: XEP-0060 6.3, XEP-0254 2.1."""

from typing import Final
from xml.etree.ElementTree import Element

import msgspec

from daemon.frontend import Accepts
from plugins.xmpp.forms.data_forms import SUBSCRIBE_OPTIONS, Field, boolean, form
from plugins.xmpp.forms.node_record import LOCK_S_MAX, LOCK_S_MIN
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.known.transfers import QosLevel
from plugins.xmpp.wire.namespaces import SMQP
from routing.errors import Refusal
from routing.headers import read_seconds, write_seconds

REQUESTS_FIELD: Final = "pubsub#queue_requests"
QOS_FIELD: Final = f"{{{SMQP}}}qos"
ACCEPTS_FIELD: Final = f"{{{SMQP}}}accepts"
LOCK_FIELD: Final = f"{{{SMQP}}}lock"

_LEVELS: Final[dict[str, QosLevel]] = {
    "none": "plain",
    "plain": "plain",
    "acknowledged": "acknowledged",
    "assured": "assured",
}
TYPE_FIELD: Final = "pubsub#subscription_type"
DEPTH_FIELD: Final = "pubsub#subscription_depth"
COLLECTION_OPTIONS: Final = {TYPE_FIELD: "items", DEPTH_FIELD: "1"}
"""As they are for every subscription to a collection, whatever more was asked for."""

_FIXED: Final = {"pubsub#deliver": True, "pubsub#digest": False, "pubsub#include_body": False}
_OF_QUEUES: Final = (REQUESTS_FIELD, ACCEPTS_FIELD)
_ACCEPTS: Final[dict[str, Accepts]] = {"ONE": "ONE", "ALL": "ALL", "BOTH": "BOTH"}


def invalid_options(text: str) -> StanzaError:
    """XEP-0060 6.3.6."""
    return StanzaError("bad-request", "modify", text, pubsub="invalid-options")


class Options(msgspec.Struct):
    """What a subscriber filled in; None where it said nothing."""

    queue_requests: int | None = None
    level: QosLevel | None = None
    accepts: Accepts | None = None
    lock_s: float | None = None

    @classmethod
    def read(
        cls, values: dict[str, str] | None, credit_max: int, *, of_collection: bool = False
    ) -> "Options":
        """Raises StanzaError."""
        options = cls()
        for field, value in (values or {}).items():
            if of_collection and field in _OF_QUEUES:
                # whether a JID may have an item is for the owners of each node, who are not asked before it
                # is locked
                raise invalid_options(f"{field} is for queues, to each of which its workers subscribe")
            if of_collection and field in (TYPE_FIELD, DEPTH_FIELD):
                _check_of_collection(field, value)
            elif field == REQUESTS_FIELD:
                if not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value)):
                    raise invalid_options(f"{field} is a number of items, 1 or more")
                options.queue_requests = int(value)
                if options.queue_requests > credit_max:
                    raise invalid_options(f"{field} is at most {credit_max}")
            elif field == QOS_FIELD:
                if value not in _LEVELS:
                    raise invalid_options(f"{field} is none, acknowledged or assured")
                options.level = _LEVELS[value]
            elif field == ACCEPTS_FIELD:
                if value not in _ACCEPTS:
                    raise invalid_options(f"{field} is ONE, ALL or BOTH")
                options.accepts = _ACCEPTS[value]
            elif field == LOCK_FIELD:
                try:
                    options.lock_s = read_seconds(value)
                except Refusal:
                    raise invalid_options(f"{field} is seconds") from None
                if not LOCK_S_MIN <= options.lock_s <= LOCK_S_MAX:
                    raise invalid_options(f"{field} is {LOCK_S_MIN} to {LOCK_S_MAX} seconds")
            elif field not in _FIXED:
                raise invalid_options(f"{field[:100]} is not an option")
            elif boolean(value) is not _FIXED[field]:
                raise invalid_options(f"{field} can only be {int(_FIXED[field])}")
        return options


def _check_of_collection(field: str, value: str) -> None:
    """Nodes come and go with what is published; a collection has its nodes, and no collections, in it."""
    if field == TYPE_FIELD and value != "items":
        raise invalid_options(f"{field} can only be items")
    if (
        field == DEPTH_FIELD
        and value != "all"
        and not (value.isascii() and value.isdecimal() and value.strip("0"))
    ):
        raise invalid_options(f"{field} is 1, more, or all, which is the same")


def options_form(
    subscription: NodeSubscription | None, *, queue: bool, of_collection: bool = False
) -> Element:
    """The form of a subscription's options, to be filled in."""
    requests, level, accepts, lock = None, None, None, None
    if subscription is not None:
        requests, level, accepts = (
            str(subscription.credit),
            level_name(subscription),
            subscription.accepts,
        )
        lock = None if subscription.lock_s is None else write_seconds(subscription.lock_s)
    levels = {"none": "messages", "acknowledged": "at least once", "assured": "exactly once"}
    modes = {"ONE": "items for one", "ALL": "items for all", "BOTH": "both"}
    fields = [
        Field(REQUESTS_FIELD, "text-single", "Items to work on at a time", requests, required=queue),
        Field(QOS_FIELD, "list-single", "How items are sent (urn:xmpp:qos)", level, levels),
        Field(ACCEPTS_FIELD, "list-single", "Which items", accepts, modes),
        Field(LOCK_FIELD, "text-single", "Seconds until an unanswered item goes to the next", lock),
    ]
    if of_collection:
        fields = [each for each in fields if each.var not in _OF_QUEUES]
        fields += [
            Field(
                TYPE_FIELD,
                "list-single",
                "What to be told of",
                COLLECTION_OPTIONS[TYPE_FIELD],
                {"items": "items"},
            ),
            Field(DEPTH_FIELD, "text-single", "Of nodes how far down", COLLECTION_OPTIONS[DEPTH_FIELD]),
        ]
    return form(SUBSCRIBE_OPTIONS, fields)


def level_name(subscription: NodeSubscription) -> str:
    """The level of a subscription, as the option says it."""
    return "none" if subscription.level == "plain" else subscription.level

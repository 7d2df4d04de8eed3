"""What of a node's configuration only XMPP knows: its fields, and what may be filled in.

Source: XEP-0060 16.4.4. A field of `FIXED` says what every node does; a form may say so too.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from plugins.xmpp.forms.data_forms import Field, boolean
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.wire.namespaces import SMQP
from plugins.xmpp.wire.serializer import is_sendable

AccessModel = Literal["open", "authorize", "whitelist"]
PublishModel = Literal["publishers", "subscribers", "open"]

TITLE_CHARACTERS_MAX: Final = 500
DESCRIPTION_CHARACTERS_MAX: Final = 4_000
TYPE_CHARACTERS_MAX: Final = 500
LANGUAGE_CHARACTERS_MAX: Final = 35
MAX_ITEMS_MAX: Final = 1_000_000

CHILDREN, COLLECTION, NODE_TYPE = "pubsub#children", "pubsub#collection", "pubsub#node_type"
FIXED: Final = {
    CHILDREN: "",
    COLLECTION: "",
    NODE_TYPE: "leaf",
    "pubsub#presence_based_delivery": "0",
    "pubsub#purge_offline": "0",
}

BINDING: Final = frozenset({"pubsub#access_model", "pubsub#publish_model", NODE_TYPE})
"""Without which a node is another than the one that was wanted."""

EXACT_ERRORS: Final = {"pubsub#access_model": "unsupported-access-model"}


class NodeOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an owner has chosen.

    Attributes:
        type: the namespace of its payloads.
        max_items: that are kept, the newest; None for all.
        publisher: whether an item says which JID published it.
        subscribe: whether anybody may subscribe.
    """

    title: Annotated[str, msgspec.Meta(max_length=TITLE_CHARACTERS_MAX)] = ""
    description: Annotated[str, msgspec.Meta(max_length=DESCRIPTION_CHARACTERS_MAX)] = ""
    type: Annotated[str, msgspec.Meta(max_length=TYPE_CHARACTERS_MAX)] = ""
    language: Annotated[str, msgspec.Meta(max_length=LANGUAGE_CHARACTERS_MAX)] = ""
    access_model: AccessModel = "open"
    publish_model: PublishModel = "publishers"
    subscribe: bool = True
    max_items: Annotated[int, msgspec.Meta(ge=1, le=MAX_ITEMS_MAX)] | None = None
    deliver_notifications: bool = True
    deliver_payloads: bool = True
    notification_type: Literal["normal", "headline"] = "normal"
    notify_config: bool = False
    notify_delete: bool = True
    notify_retract: bool = True
    notify_sub: bool = False
    publisher: bool = False
    send_last_published_item: Literal["on_sub", "never"] = "on_sub"


class _Option(msgspec.Struct, frozen=True):
    """One of them as a field of a form.

    Attributes:
        read: what is filled in to what is kept; None where it cannot be that.
        expected: what it can be, for people.
        choices: value to label, of a list.
    """

    name: str
    kind: str
    label: str
    read: Callable[[str], Any]
    expected: str
    choices: dict[str, str] | None = None


def _text(name: str, label: str, characters_max: int) -> _Option:
    def read(value: str) -> str | None:
        return value if len(value) <= characters_max and is_sendable(value) else None

    return _Option(name, "text-single", label, read, f"at most {characters_max} characters")


def _switch(name: str, label: str) -> _Option:
    return _Option(name, "boolean", label, boolean, "0 or 1")


def _choice(name: str, label: str, **choices: str) -> _Option:
    def read(value: str) -> str | None:
        return value if value in choices else None

    return _Option(name, "list-single", label, read, " or ".join(choices), choices)


def _read_count(value: str) -> int | None:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        return None
    return int(value) if 1 <= int(value) <= MAX_ITEMS_MAX else None


MAX_ITEMS: Final = "pubsub#max_items"
OPTIONS: Final[dict[str, _Option]] = {
    "pubsub#title": _text("title", "A short name", TITLE_CHARACTERS_MAX),
    "pubsub#description": _text("description", "What it is for", DESCRIPTION_CHARACTERS_MAX),
    "pubsub#type": _text("type", "Namespace of its payloads", TYPE_CHARACTERS_MAX),
    "pubsub#language": _text("language", "Language of its items", LANGUAGE_CHARACTERS_MAX),
    "pubsub#access_model": _choice(
        "access_model",
        "Who of those with the right may subscribe",
        open="all",
        authorize="whom an owner lets",
        whitelist="who has an affiliation",
    ),
    "pubsub#publish_model": _choice(
        "publish_model",
        "Who of those with the right may publish",
        publishers="publishers",
        subscribers="publishers and subscribers",
        open="all",
    ),
    "pubsub#subscribe": _switch("subscribe", "Allow subscriptions"),
    MAX_ITEMS: _Option(
        "max_items",
        "text-single",
        "How many items are kept, or max",
        _read_count,
        f"1 to {MAX_ITEMS_MAX}, or max",
    ),
    "pubsub#deliver_notifications": _switch("deliver_notifications", "Tell subscribers of items"),
    "pubsub#deliver_payloads": _switch("deliver_payloads", "Send items with what they contain"),
    "pubsub#notification_type": _choice(
        "notification_type",
        "Type of the messages",
        normal="normal",
        headline="headline: lost where nobody is there",
    ),
    "pubsub#notify_config": _switch("notify_config", "Tell subscribers of another configuration"),
    "pubsub#notify_delete": _switch("notify_delete", "Tell subscribers that the node is deleted"),
    "pubsub#notify_retract": _switch("notify_retract", "Tell subscribers of items that are retracted"),
    "pubsub#notify_sub": _switch("notify_sub", "Tell owners who subscribes, and who does no longer"),
    f"{{{SMQP}}}publisher": _switch("publisher", "Say of items who published them"),
    "pubsub#send_last_published_item": _choice(
        "send_last_published_item", "When the last item is sent", on_sub="to who subscribes", never="never"
    ),
}


def values(options: NodeOptions) -> dict[str, str]:
    """The options, as the fields of a form have them."""
    return {
        field: _written(field, getattr(options, option.name)) for field, option in OPTIONS.items()
    } | FIXED


def _written(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return "max" if value is None and field == MAX_ITEMS else str(value)


def changed(options: NodeOptions, filled_in: dict[str, str]) -> NodeOptions:
    """The options with what a form says of them; other fields are passed over. Raises StanzaError."""
    read = {
        OPTIONS[field].name: _read(field, value) for field, value in filled_in.items() if field in OPTIONS
    }
    return msgspec.structs.replace(options, **read)


def _read(field: str, value: str) -> Any:
    if field == MAX_ITEMS and value in ("", "max"):
        return None
    option = OPTIONS[field]
    read = option.read(value)
    if read is None:
        text = f"{field} is {option.expected}"
        raise StanzaError("not-acceptable", "modify", text, pubsub=EXACT_ERRORS.get(field, ""))
    return read


def check_fixed(field: str, value: str) -> None:
    """Check that a field that is the same for every node is left so. Raises StanzaError."""
    if field not in FIXED or same_value(value, FIXED[field]):
        return
    text = f"{field} can only be {FIXED[field] or 'empty'}"
    if field in (CHILDREN, COLLECTION) or (field == NODE_TYPE and value == "collection"):
        # a collection is there by its name alone. Source: XEP-0248 7.1.3.2, 7.2.3
        raise StanzaError("not-allowed", "cancel", text, pubsub="invalid-options")
    raise StanzaError("not-acceptable", "modify", text)


def can_be(field: str, value: str) -> bool:
    """Whether a field of `OPTIONS` or `FIXED` can have a value."""
    if field in FIXED:
        return same_value(value, FIXED[field])
    return (field == MAX_ITEMS and value in ("", "max")) or OPTIONS[field].read(value) is not None


def same_value(value: str, holds: str) -> bool:
    """Whether a field of a form says what holds."""
    wanted = boolean(value)
    return value == holds if wanted is None else wanted is boolean(holds)


def fields(options: NodeOptions) -> list[Field]:
    """The fields of a form, to be filled in."""
    listed = []
    for var, value in values(options).items():
        option = OPTIONS.get(var)
        if option is not None:
            listed.append(Field(var, option.kind, option.label, value, option.choices))
        elif value in ("0", "1"):
            listed.append(Field(var, "boolean", "", value))
        elif not value:
            listed.append(Field(var, "text-multi", "", value))
        else:
            listed.append(Field(var, "list-single", "", value, {value: value}))
    return listed

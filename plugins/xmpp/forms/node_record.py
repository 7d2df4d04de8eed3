"""What this front end keeps with a topic: an owner's choices, who made the node, and who may do what with it.

It is the topic's annotation, as JSON. What is read there may be anything: where it is no record, or only an
empty text is left of one, the node is closed to all but those who may administer it, until one of them
configures it again.
"""

from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from daemon.frontend import ANNOTATION_BYTES_MAX, Accepts, TopicInfo
from plugins.xmpp.forms.node_options import NodeOptions
from plugins.xmpp.forms.stanzas import StanzaError
from routing.numbers import SMALL_MAX

FRONT_END: Final = "xmpp"
"""The name of its annotations, which is that of its sessions."""

JID_CHARACTERS_MAX: Final = 3_071
AFFILIATIONS_MAX: Final = 500
REQUESTS_MAX: Final = 100
"""To subscribe, that wait for an owner of one node."""

Affiliation = Literal["owner", "publisher", "publish-only", "member", "none", "outcast"]
ListedAffiliation = Literal["owner", "publisher", "publish-only", "member", "outcast"]
JidText = Annotated[str, msgspec.Meta(min_length=1, max_length=JID_CHARACTERS_MAX)]


LOCK_S_MIN: Final = 0.1
LOCK_S_MAX: Final = 604_800


class SubscriptionRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subscription that waits for an owner; see `known.registry.NodeSubscription`."""

    jid: JidText
    accepts: Accepts
    credit: Annotated[int, msgspec.Meta(ge=1, le=SMALL_MAX)]
    level: Literal["plain", "acknowledged", "assured"]
    lock_s: Annotated[float, msgspec.Meta(ge=LOCK_S_MIN, le=LOCK_S_MAX)] | None = None
    of_bare: bool = False


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """See the module.

    Attributes:
        creator: the bare JID that made it; "" where none did.
        created: when, as XEP-0082 has it.
        affiliations: those that owners have given, by bare JID.
        requests: by the JID that is to subscribe, as it was written.
    """

    options: NodeOptions = NodeOptions()
    creator: Annotated[str, msgspec.Meta(max_length=JID_CHARACTERS_MAX)] = ""
    created: Annotated[str, msgspec.Meta(max_length=40)] = ""
    affiliations: Annotated[dict[JidText, ListedAffiliation], msgspec.Meta(max_length=AFFILIATIONS_MAX)] = (
        msgspec.field(default_factory=dict)
    )
    requests: Annotated[dict[JidText, SubscriptionRequest], msgspec.Meta(max_length=REQUESTS_MAX)] = (
        msgspec.field(default_factory=dict)
    )


_NOTHING: Final = NodeRecord()
_CLOSED: Final = NodeRecord(options=NodeOptions(access_model="whitelist"))


def record_of(topic: TopicInfo | None) -> NodeRecord:
    """What is kept with a topic; the defaults where nothing is."""
    return read_record(None if topic is None else topic.annotations.get(FRONT_END))


def read_record(text: str | None) -> NodeRecord:
    """The same, from the annotation itself."""
    return _NOTHING if text is None else _read(text)


@lru_cache(maxsize=1_024)
def _read(text: str) -> NodeRecord:
    try:
        return msgspec.json.decode(text, type=NodeRecord)
    except msgspec.DecodeError:
        return _CLOSED


def written(record: NodeRecord) -> str:
    """The record as it is kept. Raises StanzaError for more than there is room for."""
    text = msgspec.json.encode(record).decode()
    if len(text.encode()) > ANNOTATION_BYTES_MAX:
        raise StanzaError("resource-constraint", "wait", "there is too much to keep of this node")
    return text

"""Questions and orders of operators over the control socket: each is a call of `daemon.operating`.

    {"ask": "topics", "search": "weather", "order": "held"}      one line of JSON, what the call returns
    {"ask": "purge", "topic": "weather"}

What cannot be done is answered `{"refused": CODE, "text": TEXT}`, and was not done.
"""

import math
from typing import Annotated, Any, Final, Literal, assert_never

import msgspec

from daemon.operating.operations import Actor, Operations
from daemon.operating.topics import TIMEOUT_S_MAX, TopicOrder
from routing.message import DeliveryMode
from routing.numbers import Number
from routing.rights import Right

LONG_S: Final = 600.0
"""What goes through all messages of a topic may take so long."""

TimeoutSeconds = Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)]


class OperatorQuestion(msgspec.Struct, frozen=True, kw_only=True, tag_field="ask"):
    """Any of them.

    Attributes:
        by: the user of the machine that asks, as the socket says; what stands in the line is not believed.
        timeout_s: how much longer than usual an answer may take.
    """

    by: str = ""
    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=LONG_S)] = 0.0


class AskOverview(OperatorQuestion, frozen=True, kw_only=True, tag="overview"):
    """`Operations.overview`."""


class AskTopics(OperatorQuestion, frozen=True, kw_only=True, tag="topics"):
    """`Operations.topics`."""

    search: str = ""
    order: TopicOrder = "name"
    offset: Number = 0
    count: Number


class AskTopic(OperatorQuestion, frozen=True, kw_only=True, tag="topic"):
    """`Operations.topic`."""

    topic: str


class AskSubscribed(OperatorQuestion, frozen=True, kw_only=True, tag="subscribed"):
    """`Operations.subscribed`."""

    topic: str


class AskSubscription(OperatorQuestion, frozen=True, kw_only=True, tag="subscription"):
    """`Operations.subscription`."""

    wanted: str
    account: str
    channel: str
    name: str = ""


class AskSessions(OperatorQuestion, frozen=True, kw_only=True, tag="sessions"):
    """`Operations.sessions`."""


class AskAccounts(OperatorQuestion, frozen=True, kw_only=True, tag="accounts"):
    """`Operations.accounts`."""


class AskMay(OperatorQuestion, frozen=True, kw_only=True, tag="may"):
    """`Operations.may`."""

    account: str
    right: Right
    topic: str


class AskMessages(OperatorQuestion, frozen=True, kw_only=True, tag="browse"):
    """`Operations.browse`."""

    topic: str
    after: Number = 0
    count: Number


class AskDeadLetters(OperatorQuestion, frozen=True, kw_only=True, tag="dead-letters"):
    """`Operations.dead_letters`."""

    topic: str
    after: Number = 0
    count: Number


class OrderPurge(OperatorQuestion, frozen=True, kw_only=True, tag="purge"):
    """`Operations.purge`."""

    topic: str


class OrderDeletion(OperatorQuestion, frozen=True, kw_only=True, tag="delete"):
    """`Operations.delete_topic`."""

    topic: str


class OrderUnsubscribing(OperatorQuestion, frozen=True, kw_only=True, tag="unsubscribe"):
    """`Operations.end_subscription`."""

    wanted: str
    account: str
    channel: str
    name: str = ""


class OrderDelivery(OperatorQuestion, frozen=True, kw_only=True, tag="set-delivery"):
    """`Operations.set_delivery`."""

    topic: str
    mode: DeliveryMode | None = None


class OrderTimeout(OperatorQuestion, frozen=True, kw_only=True, tag="set-timeout"):
    """`Operations.set_timeout`."""

    topic: str
    seconds: TimeoutSeconds | Literal["INFINITE"] | None = None


class OrderRemoval(OperatorQuestion, frozen=True, kw_only=True, tag="remove"):
    """`Operations.remove_message`."""

    topic: str
    smuid: str


class OrderReplay(OperatorQuestion, frozen=True, kw_only=True, tag="replay"):
    """`Operations.replay`."""

    topic: str
    smuid: str = ""
    after: Number = 0


class OrderClosing(OperatorQuestion, frozen=True, kw_only=True, tag="close-session"):
    """`Operations.close_session`."""

    id: Number


AnyOperatorQuestion = (
    AskOverview
    | AskTopics
    | AskTopic
    | AskSubscribed
    | AskSubscription
    | AskSessions
    | AskAccounts
    | AskMay
    | AskMessages
    | AskDeadLetters
    | OrderPurge
    | OrderDeletion
    | OrderUnsubscribing
    | OrderDelivery
    | OrderTimeout
    | OrderRemoval
    | OrderReplay
    | OrderClosing
)


class Declined(msgspec.Struct, frozen=True):
    """The answer to what is refused; see `routing.errors.Refusal`."""

    refused: str
    text: str


async def answer(operations: Operations, question: AnyOperatorQuestion) -> Any:
    """What the call returns. Raises Refusal."""
    by = Actor(name=question.by, via="control")
    match question:
        case AskOverview():
            return await operations.overview()
        case AskTopics(search=search, order=order, offset=offset, count=count):
            return await operations.topics(search, order=order, offset=offset, count=count)
        case AskTopic(topic=topic):
            return await operations.topic(topic)
        case AskSubscribed(topic=topic):
            return await operations.subscribed(topic)
        case AskSubscription(wanted=wanted, account=account, channel=channel, name=name):
            return await operations.subscription(wanted, account, channel, name)
        case AskSessions():
            return await operations.sessions()
        case AskAccounts():
            return await operations.accounts()
        case AskMay(account=account, right=right, topic=topic):
            return operations.may(account, right, topic)
        case AskMessages(topic=topic, after=after, count=count):
            return await operations.browse(topic, after=after, count=count)
        case AskDeadLetters(topic=topic, after=after, count=count):
            return await operations.dead_letters(topic, after=after, count=count)
        case OrderPurge(topic=topic):
            return await operations.purge(topic, by)
        case OrderDeletion(topic=topic):
            return await operations.delete_topic(topic, by)
        case OrderUnsubscribing(wanted=wanted, account=account, channel=channel, name=name):
            return await operations.end_subscription(wanted, account, channel, by, name=name)
        case OrderDelivery(topic=topic, mode=mode):
            return await operations.set_delivery(topic, mode, by)
        case OrderTimeout(topic=topic, seconds=seconds):
            return await operations.set_timeout(topic, math.inf if seconds == "INFINITE" else seconds, by)
        case OrderRemoval(topic=topic, smuid=smuid):
            return await operations.remove_message(topic, smuid, by)
        case OrderReplay(topic=topic, smuid=smuid, after=after):
            return await operations.replay(topic, by, smuid=smuid, after=after)
        case OrderClosing(id=id):
            return await operations.close_session(id, by)
        case _:
            assert_never(question)

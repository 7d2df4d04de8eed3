"""`smqpd topics` and `smqpd topic`: what the running site's topics hold, and what is done to them."""

import json
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import msgspec
import typer

from daemon.cli.asking import YesOption, asked_on, decoded, line, sure
from daemon.cli.completing import complete_topic
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.control.operators import (
    LONG_S,
    AskMessages,
    AskSubscription,
    AskTopic,
    AskTopics,
    OrderDeletion,
    OrderDelivery,
    OrderPurge,
    OrderRemoval,
    OrderTimeout,
    OrderUnsubscribing,
)
from daemon.operating.messages import BROWSED_MAX, BrowsedMessage
from daemon.operating.topics import (
    TIMEOUT_S_MAX,
    TOPICS_MAX,
    SubscriptionStatus,
    TopicOrder,
    TopicPage,
    TopicStatus,
    TopicSummary,
)
from daemon.terminal.failure import USAGE, Failure, tell
from daemon.terminal.figures import (
    bytes_shown,
    count_shown,
    counted,
    counts_shown,
    duration_shown,
    guaranteed_shown,
    rate_shown,
)
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.errors import Refusal
from routing.headers import read_seconds
from routing.message import DeliveryMode
from routing.names import account_name, channel_name, check_topic, parse_smuid
from routing.numbers import NUMBER_MAX
from routing.patterns import check_wanted, is_pattern
from routing.traffic import TOPIC_COUNTERS

app = typer.Typer(no_args_is_help=True, help="Look at one topic, and change it.")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]

BODY_SHOWN_MAX: Final = 300
"""Characters of a body in a list."""

NONE: Final = "none"


def topics(
    search: Annotated[
        str, typer.Argument(metavar="[SEARCH]", help="Part of the name, or a pattern with * or #.")
    ] = "",
    sort: Annotated[str, typer.Option(metavar="ORDER", help=f"One of {', '.join(get_args(TopicOrder))}.")] = (
        "name"
    ),
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=TOPICS_MAX, help="At most so many.")] = 50,
    offset: Annotated[
        int, typer.Option("--offset", min=0, max=NUMBER_MAX, help="Leave out the first ones.")
    ] = 0,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show topics: what they hold, how old, how fast it comes and goes, and what became of it."""
    if sort not in get_args(TopicOrder):
        raise Failure(f"--sort {sort}: is none of {', '.join(get_args(TopicOrder))}", USAGE)
    order: TopicOrder = sort  # type: ignore[assignment] # just checked
    question = AskTopics(search=search, order=order, count=count, offset=offset)
    answer = line(state_directory(config), question)
    if as_json:
        typer.echo(answer)
        return
    page = decoded(answer, TopicPage)
    if not page.topics:
        typer.echo(_why_none(page, search))
        return
    show_topics(page.topics)
    if (shown := offset + len(page.topics)) < page.matching:
        typer.echo(f"{page.matching - shown:,} more: see --count and --offset.")


def _why_none(page: TopicPage, search: str) -> str:
    if page.matching:
        return f"No more than {counted(page.matching, 'topic')}: see --offset."
    if not search:
        return "There are no topics."
    if is_pattern(search):
        return f"No topic matches {printable(search)}."
    return f"No topic has {printable(search)} in its name."


def show_topics(found: tuple[TopicSummary, ...]) -> None:
    """Show topics as a table."""
    rows = [
        (
            printable(topic.name),
            count_shown(topic.held),
            count_shown(topic.held_guaranteed),
            duration_shown(topic.oldest_s),
            rate_shown(topic.in_per_s),
            rate_shown(topic.out_per_s),
            count_shown(topic.subscriptions),
            count_shown(topic.expired),
            count_shown(topic.dead_letters),
        )
        for topic in found
    ]
    columns = ("topic", "held", "guaranteed", "oldest", "in/s", "out/s", "subs", "expired", "dead")
    show_table(columns, rows, folds=("topic",))


@app.command()
def show(topic: TopicArgument, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show a topic with its subscriptions, and what waits for each; ends with 1 where there is none."""
    answer = line(state_directory(config), AskTopic(topic=_checked(topic)))
    if as_json:
        typer.echo(answer)
    found = decoded(answer, TopicStatus | None)  # type: ignore[arg-type] # a union is no type to mypy
    if found is None:
        raise Failure(_unknown(topic))
    if not as_json:
        _show(found)


def _unknown(topic: str) -> str:
    return f"nothing is known of {printable(topic)}; `smqpd topics` lists what there is"


def remark_unknown(state_directory: Path, topic: str, *others: str) -> None:
    """Say on stderr that there is no such topic, where the site knows neither it nor the others.

    No failure: a site forgets a topic that is empty, and that nobody subscribes to, and what lists or empties
    topics each night finds nothing then.
    """
    if all(line(state_directory, AskTopic(topic=name)).strip() == b"null" for name in (topic, *others)):
        tell(_unknown(topic))


def _show(found: TopicStatus) -> None:
    summary = found.summary
    full = max(summary.held / found.messages_max, summary.bytes / max(found.bytes_max, 1))
    held = f"{counted(summary.held, 'message')}{guaranteed_shown(summary.held, summary.held_guaranteed)}"
    lines = [
        ("holds", f"{held}, {bytes_shown(summary.bytes)}: {full:.1%} of what it may"),
        ("oldest", duration_shown(summary.oldest_s)),
        ("waiting", f"{found.waiting:,} for any subscription; {found.kept:,} also for late ones"),
        ("for peers", f"{found.for_peers:,} that they have not answered for"),
        (
            "rates",
            f"{rate_shown(summary.in_per_s, '0')}/s in, {rate_shown(summary.out_per_s, '0')}/s out",
        ),
        ("so far", counts_shown(summary, TOPIC_COUNTERS)),
        ("dead", f"{counted(summary.dead_letters, 'dead letter')} now; see `smqpd dead list`"),
        ("delivery", summary.delivery or "as each message says"),
        ("timeout", _timeout_shown(summary.timeout_s)),
    ]
    unshown = {"for peers": not found.for_peers, "dead": not summary.dead_letters}
    typer.echo(printable(summary.name))
    for name, text in lines:
        if not unshown.get(name):
            typer.echo(f"  {name:<9} {text}")
    if not found.subscriptions:
        typer.echo("  no subscriptions")
        return
    typer.echo("")
    show_table(
        ("subscription", "takes", "sessions", "waiting", "locked", "for", "received", "credit", "unused"),
        map(_row, found.subscriptions),
        folds=("subscription",),
    )
    patterns = sorted({each.topic for each in found.subscriptions if is_pattern(each.topic)})
    if patterns:
        typer.echo("")
    for pattern in patterns:
        text = f"To the pattern {pattern}: what waits, is locked and received is so in all topics of it."
        typer.echo(printable(text))


def _timeout_shown(timeout_s: float | str | None) -> str:
    if timeout_s is None:
        return "none of its own"
    return timeout_s if isinstance(timeout_s, str) else duration_shown(timeout_s)


def _row(subscription: SubscriptionStatus) -> tuple[str, ...]:
    name = f"/{subscription.name}" if subscription.name else ""
    pattern = f" to {subscription.topic}" if is_pattern(subscription.topic) else ""
    return (
        printable(f"{subscription.account}:{subscription.channel}{name}{pattern}"),
        subscription.accepts,
        ",".join(map(str, subscription.sessions)) or "-",
        count_shown(subscription.waiting),
        count_shown(subscription.locked),
        duration_shown(subscription.locked_s),
        count_shown(subscription.received),
        str(subscription.credit),
        duration_shown(subscription.unused_s),
    )


@app.command()
def browse(
    topic: TopicArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=BROWSED_MAX, help="At most.")] = 10,
    after: Annotated[
        int, typer.Option("--after", metavar="ID", min=0, max=NUMBER_MAX, help="From the next one on.")
    ] = 0,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show what a topic holds, the oldest first; nothing is taken by that."""
    state = state_directory(config)
    question = AskMessages(topic=_checked(topic), count=count, after=after)
    found = asked_on(state, question, list[BrowsedMessage], lambda message: message.id)
    if not found:
        remark_unknown(state, topic)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    for message in found:
        show_message(message)
    if not found:
        typer.echo(_unseen(state, topic, after))
    elif len(found) == count:
        typer.echo(f"More may follow: --after {found[-1].id}")


def _unseen(state_directory: Path, topic: str, after: int) -> str:
    """What is to be said where nothing of a topic is shown."""
    status = decoded(line(state_directory, AskTopic(topic=topic)), TopicStatus | None)  # type: ignore[arg-type]
    if status is None or not status.summary.held:
        return "It holds nothing."
    if after:
        return f"It holds nothing after {after}."
    return f"It holds {counted(status.summary.held, 'message')}, which nobody is to have before a delay ends."


def show_message(message: BrowsedMessage) -> None:
    """Show the headers of a message, and the beginning of its bodies."""
    ends = "" if message.expires_in_s is None else f", {duration_shown(message.expires_in_s)} left"
    locked = ", locked" if message.locked else ""
    typer.echo(
        printable(f"{message.smuid}  {duration_shown(message.age_s)} old{ends}{locked}, id {message.id}")
    )
    for name, text in message.headers:
        if name != "Smuid":
            typer.echo(printable(f"  {name}: {text}"))
    for section in message.sections:
        typer.echo(printable(f"  {section.content_type}, {bytes_shown(section.size)}"))
        text = section.body.decode(errors="backslashreplace")[:BODY_SHOWN_MAX]
        for part in text.splitlines():
            typer.echo("    " + printable(part))
        if len(section.body) < section.size or len(text) == BODY_SHOWN_MAX:
            typer.echo("    ...")


@app.command()
def purge(
    topic: TopicArgument,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Remove all messages that it holds now, also from subscribers that have them."""
    sure(yes, f"Remove all messages of {printable(_checked(topic))}?")
    state = state_directory(config)
    answer = line(state, OrderPurge(topic=topic, timeout_s=LONG_S))
    if not decoded(answer, int):
        remark_unknown(state, topic)
    _tell_removed(answer, f"Purged {printable(topic)}", as_json)


@app.command()
def delete(
    topic: TopicArgument,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Remove its messages, its subscriptions and its settings."""
    sure(yes, f"Delete {printable(_checked(topic))}, with its messages and subscriptions?")
    answer = line(state_directory(config), OrderDeletion(topic=topic, timeout_s=LONG_S))
    _tell_removed(answer, f"Deleted {printable(topic)}", as_json)


@app.command()
def remove(
    topic: TopicArgument,
    smuid: Annotated[str, typer.Argument(metavar="SMUID", help="As `topic browse` shows it.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Remove one message for good, also from subscribers that have it, and at other sites where it went."""
    _checked(topic)
    try:
        parse_smuid(smuid)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    line(state_directory(config), OrderRemoval(topic=topic, smuid=smuid))
    typer.echo(json.dumps({"removed": 1}) if as_json else f"Removed {smuid} from {printable(topic)}.")


@app.command()
def unsubscribe(
    wanted: Annotated[str, typer.Argument(metavar="TOPIC|PATTERN", autocompletion=complete_topic)],
    owner: Annotated[str, typer.Argument(metavar="ACCOUNT:CHANNEL", help="As `topic show` names it.")],
    name: Annotated[str, typer.Option("--name", help="Of the subscription, where it has one.")] = "",
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """End a subscription that nobody uses any more; what waits for it alone is given up.

    One from which a session consumes stays, and the command ends with 1, as where there is none.
    """
    account, channel = _login(owner)
    shown = printable(f"{owner}{f'/{name}' if name else ''}, to {_wanted(wanted)}")
    state = state_directory(config)
    question = AskSubscription(wanted=wanted, account=account, channel=channel, name=name)
    found = decoded(line(state, question), SubscriptionStatus | None)  # type: ignore[arg-type] # a union
    if found is None:
        raise Failure(f"there is no subscription of {shown}; `smqpd topic show TOPIC` lists those of a topic")
    if found.sessions:
        advice = ", ".join(f"`smqpd session close {id}`" for id in found.sessions)
        raise Failure(f"a session consumes from the subscription of {shown}; end that first: {advice}")
    sure(yes, f"End the subscription of {shown}, with {counted(found.waiting, 'message')} for it?")
    order = OrderUnsubscribing(wanted=wanted, account=account, channel=channel, name=name, timeout_s=LONG_S)
    waited = decoded(line(state, order), int)
    text = f"Ended the subscription of {shown}, with {counted(waited, 'message')} for it."
    typer.echo(json.dumps({"waited": waited}) if as_json else text)


def _login(owner: str) -> tuple[str, str]:
    account, colon, channel = owner.partition(":")
    try:
        if colon:
            return account_name(account), channel_name(channel)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    raise Failure(f"{printable(owner)} is no ACCOUNT:CHANNEL", USAGE)


def _wanted(wanted: str) -> str:
    try:
        return check_wanted(wanted)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None


def _tell_removed(answer: bytes, done: str, as_json: bool) -> None:
    removed = decoded(answer, int)
    typer.echo(
        json.dumps({"removed": removed}) if as_json else f"{done}: {counted(removed, 'message')} removed."
    )


@app.command("set")
def set_(
    topic: TopicArgument,
    delivery: Annotated[
        str | None,
        typer.Option(metavar="ONE|ALL|none", help="To one subscription, to all, or as each message says."),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="SECONDS|INFINITE|none", help="For messages that state no timeout."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Set how it delivers, or how long it keeps messages that do not say; of what comes from now on."""
    if delivery is None and timeout is None:
        raise Failure("give --delivery, --timeout or both", USAGE)
    _checked(topic)
    orders: list[OrderDelivery | OrderTimeout] = []
    if delivery is not None:
        orders.append(OrderDelivery(topic=topic, mode=_mode(delivery)))
    if timeout is not None:
        orders.append(OrderTimeout(topic=topic, seconds=_seconds(timeout)))
    state = state_directory(config)
    for order in orders:
        line(state, order)
    if as_json:
        typer.echo(line(state, AskTopic(topic=topic)))
    else:
        typer.echo(f"Set {printable(topic)}.")


def _mode(text: str) -> DeliveryMode | None:
    modes: dict[str, DeliveryMode | None] = {"ONE": "ONE", "ALL": "ALL", NONE.upper(): None}
    if text.upper() not in modes:
        raise Failure(f"--delivery {text}: is neither ONE, ALL nor {NONE}", USAGE)
    return modes[text.upper()]


def _seconds(text: str) -> float | Literal["INFINITE"] | None:
    if text.lower() == NONE:
        return None
    try:
        seconds = read_seconds(text.upper())
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    if seconds == float("inf"):
        return "INFINITE"
    if not 0 < seconds <= TIMEOUT_S_MAX:
        most = f"{TIMEOUT_S_MAX:,.0f} seconds"
        raise Failure(f"--timeout is above 0 and at most {most}, or INFINITE: not {text!r}", USAGE)
    return seconds


def _checked(topic: str) -> str:
    try:
        return check_topic(topic)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None

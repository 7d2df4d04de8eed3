"""`smqpd dead`: messages that nobody could take; why, back to where they came from, or gone."""

import json
from itertools import islice
from typing import Annotated

import msgspec
import typer

from daemon.cli.asking import YesOption, asked_on, decoded, line, sure
from daemon.cli.completing import complete_topic
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.cli.topics import remark_unknown, show_message
from daemon.control.operators import (
    LONG_S,
    AskDeadLetters,
    AskTopics,
    OrderPurge,
    OrderRemoval,
    OrderReplay,
)
from daemon.operating.messages import BROWSED_MAX, REFUSED_MAX, DeadLetter, Replayed
from daemon.operating.topics import TOPICS_MAX, TopicPage
from daemon.terminal.failure import FAILED, USAGE, Failure, tell
from daemon.terminal.figures import bytes_shown, duration_shown
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.errors import Refusal
from routing.names import DEAD_LETTER_PREFIX, check_topic, dead_letter_topic, parse_smuid
from routing.numbers import NUMBER_MAX

app = typer.Typer(no_args_is_help=True, help="Dead letters: messages that nobody could take.")

DeadTopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Where they were published.", autocompletion=complete_topic)
]
SmuidArgument = Annotated[
    str, typer.Argument(metavar="[SMUID]", help="Of the dead letter, as `list` shows it.")
]


@app.command("list")
def list_(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="Where they were published.", autocompletion=complete_topic),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=BROWSED_MAX, help="At most.")] = 20,
    after: Annotated[
        int, typer.Option("--after", metavar="ID", min=0, max=NUMBER_MAX, help="From the next one on.")
    ] = 0,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show which topics have dead letters; or those of one topic, each with the reason."""
    if topic is None:
        _list_topics(line(state_directory(config), _TOPICS), as_json)
        return
    state = state_directory(config)
    question = AskDeadLetters(topic=_checked(topic), count=count, after=after)
    found = asked_on(state, question, list[DeadLetter], lambda letter: letter.message.id)
    if not found:
        remark_unknown(state, topic, dead_letter_topic(topic))
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    for letter in found:
        show_message(letter.message)
    if not found:
        typer.echo(f"{printable(topic)} has no dead letters.")
    elif len(found) == count:
        typer.echo(f"More may follow: --after {found[-1].message.id}")


_TOPICS = AskTopics(search=f"{DEAD_LETTER_PREFIX}#", order="held", count=TOPICS_MAX)


def _list_topics(answer: bytes, as_json: bool) -> None:
    page = decoded(answer, TopicPage)
    found = [topic for topic in page.topics if topic.held]
    shown = len(page.topics)
    if found and shown == len(found) < page.matching:
        tell(f"others may follow: smqpd topics '{_TOPICS.search}' --sort {_TOPICS.order} --offset {shown}")
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    if not found:
        typer.echo("There are no dead letters.")
        return
    rows = [
        (
            printable(topic.name.removeprefix(DEAD_LETTER_PREFIX)),
            f"{topic.held:,}",
            bytes_shown(topic.bytes),
            duration_shown(topic.oldest_s),
        )
        for topic in found
    ]
    show_table(("topic", "dead letters", "bytes", "oldest"), rows, folds=("topic",))


@app.command()
def replay(
    topic: DeadTopicArgument,
    smuid: SmuidArgument = "",
    every: Annotated[bool, typer.Option("--all", help="All of the topic.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Publish one again where it came from, or all with --all; ends with 1 where one had to stay.

    It is a new message of who published it, for this site alone: one that was for all (Delivery ALL) goes to
    every subscription here again, also to those that had it. The Timeout, Depth and Receipt of the first are
    not kept: the topic's timeout holds, and nobody is sent a receipt.
    """
    _one_or_all(topic, smuid, every)
    state, done, stayed, refused, after = state_directory(config), 0, 0, dict[str, str](), 0
    while True:
        order = OrderReplay(topic=topic, smuid=smuid, after=after, timeout_s=LONG_S)
        replayed = decoded(line(state, order), Replayed)
        done += replayed.done
        stayed += replayed.stayed
        refused |= islice(replayed.refused.items(), REFUSED_MAX - len(refused))
        if smuid or replayed.last_id is None:
            break
        after = replayed.last_id
    if not done + stayed:
        remark_unknown(state, topic, dead_letter_topic(topic))
    if as_json:
        typer.echo(json.dumps({"replayed": done, "stayed": stayed, "refused": refused}))
    else:
        typer.echo(f"Replayed to {printable(topic)}: {done:,}.")
        for one, why in refused.items():
            typer.echo(printable(f"{one} stays: {why}"), err=True)
        if stayed > len(refused):
            typer.echo(f"{stayed - len(refused):,} more stay", err=True)
    if stayed:
        raise typer.Exit(FAILED)


@app.command()
def drop(
    topic: DeadTopicArgument,
    smuid: SmuidArgument = "",
    every: Annotated[bool, typer.Option("--all", help="All of the topic.")] = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Remove one for good, or all with --all."""
    _one_or_all(topic, smuid, every)
    dead, state = dead_letter_topic(topic), state_directory(config)
    if every:
        sure(yes, f"Remove all dead letters of {printable(topic)} for good?")
        dropped = decoded(line(state, OrderPurge(topic=dead, timeout_s=LONG_S)), int)
        if not dropped:
            remark_unknown(state, topic, dead)
    else:
        line(state, OrderRemoval(topic=dead, smuid=smuid))
        dropped = 1
    typer.echo(json.dumps({"dropped": dropped}) if as_json else f"Dropped: {dropped:,}.")


def _one_or_all(topic: str, smuid: str, every: bool) -> None:
    _checked(topic)
    if bool(smuid) == every:
        raise Failure("name one message, or all of them with --all", USAGE)
    if smuid:
        try:
            parse_smuid(smuid)
        except Refusal as refusal:
            raise Failure(refusal.text, USAGE) from None


def _checked(topic: str) -> str:
    """A name with the prefix would be that of dead letters of dead letters, of which there are none."""
    try:
        check_topic(topic)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    if topic.startswith(DEAD_LETTER_PREFIX):
        advice = topic.removeprefix(DEAD_LETTER_PREFIX)
        raise Failure(f"name the topic that they come from, {printable(advice)}", USAGE)
    return topic

"""Conversations of XEP-0114: `feed` is the server speaking."""

import hashlib

import pytest

from plugins.xmpp.wire.outbox import Outgoing, StanzaOutbox
from plugins.xmpp.wire.parser import StanzaTooMuch
from plugins.xmpp.wire.stream import ComponentStream, NotAuthorized, StreamFailed
from tests.support.xmpp import LIMITS

SERVER = (
    b"<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' id='17'>"
)


def begin() -> ComponentStream:
    stream = ComponentStream("smqp.example", "pa&ss", LIMITS)
    assert b"to='smqp.example'" in stream.data_to_send()
    return stream


def proving() -> ComponentStream:
    stream = begin()
    assert stream.receive(SERVER) == []
    digest = hashlib.sha1(b"17pa&ss").hexdigest()
    assert stream.data_to_send() == f"<handshake>{digest}</handshake>".encode()
    return stream


def test_the_handshake_and_a_stanza_in_one_segment() -> None:
    stream = proving()
    [stanza] = stream.receive(b"<handshake/><message id='1'/>")
    assert not isinstance(stanza, StanzaTooMuch)
    assert stanza.get("id") == "1"
    assert stream.state == "established"


@pytest.mark.parametrize("condition", ["not-authorized", "host-unknown"])
def test_a_refusal_is_told_apart(condition: str) -> None:
    stream = proving()
    error = f"<stream:error><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
    with pytest.raises(NotAuthorized) as refused:
        stream.receive(error.encode())
    assert refused.value.condition == condition


def test_an_unknown_host_may_be_refused_before_there_is_an_id() -> None:
    stream = begin()
    with pytest.raises(NotAuthorized):
        stream.receive(
            SERVER.replace(b" id='17'", b"")
            + b"<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
        )


def test_a_server_that_just_closes_at_the_handshake_refuses() -> None:
    with pytest.raises(NotAuthorized):
        proving().receive(b"</stream:stream>")


def test_a_conflict_may_pass() -> None:
    with pytest.raises(StreamFailed) as failed:
        proving().receive(
            b"<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
        )
    assert not isinstance(failed.value, NotAuthorized)


def test_an_end_of_the_connection_is_no_refusal() -> None:
    with pytest.raises(StreamFailed) as failed:
        proving().receive(b"")
    assert not isinstance(failed.value, NotAuthorized)


def test_a_stanza_before_the_handshake_is_not_taken() -> None:
    with pytest.raises(StreamFailed):
        proving().receive(b"<message/>")


def test_a_broken_server_is_told_why() -> None:
    stream = proving()
    stream.receive(b"<handshake/>")
    with pytest.raises(StreamFailed):
        stream.receive(b"<!-- -->")
    assert b"<restricted-xml" in stream.data_to_send()


class Sender:
    """Records what an outbox reports."""

    def __init__(self) -> None:
        self.outbox = StanzaOutbox(lambda id: f"[{id}]".encode())
        self.settled: list[tuple[str, bool]] = []

    def put(self, text: str, *, again: bool = False) -> None:
        self.outbox.put(Outgoing(text.encode(), lambda read: self.settled.append((text, read)), again))


def test_what_was_written_counts_as_read_once_its_mark_is_back() -> None:
    sender = Sender()
    sender.put("a")
    sender.put("b")
    assert sender.outbox.take() == b"ab[mark-1]"
    sender.put("c")
    assert sender.outbox.take() == b"c"
    assert sender.settled == []
    sender.outbox.marked("mark-1")
    assert sender.settled == [("a", True), ("b", True)]
    assert sender.outbox.take() == b"[mark-2]"
    sender.outbox.marked("mark-2")
    assert sender.settled[2:] == [("c", True)]
    assert not sender.outbox.has_work
    assert sender.outbox.bytes == 0


def test_of_a_broken_stream_answers_are_sent_again_and_what_was_written_is_reported() -> None:
    sender = Sender()
    sender.put("answer", again=True)
    sender.put("item")
    sender.outbox.take()
    sender.put("late item")
    sender.outbox.broken()
    assert sender.settled == [("item", False)]
    assert sender.outbox.take() == b"answerlate item[mark-2]"
    sender.outbox.marked("mark-1")
    assert len(sender.settled) == 1
    sender.outbox.marked("mark-2")
    assert sender.settled[1:] == [("answer", True), ("late item", True)]


def test_of_what_waits_for_a_stream_for_long_answers_are_kept_and_the_rest_is_reported() -> None:
    sender = Sender()
    sender.put("answer", again=True)
    sender.put("item")
    sender.outbox.drop()
    assert sender.settled == [("item", False)]
    assert sender.outbox.bytes == len("answer")
    assert sender.outbox.take() == b"answer[mark-1]"

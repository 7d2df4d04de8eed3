"""stomp.py from PyPI, in its three versions, over TCP and TLS."""

import queue
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import stomp
from stomp.exception import NotConnectedException

from tests.support.patience import PATIENCE_S

CONNECTIONS = {
    "1.0": stomp.StompConnection10,
    "1.1": stomp.StompConnection11,
    "1.2": stomp.StompConnection12,
}


class Listener(stomp.ConnectionListener):  # type: ignore[misc] # it has no types
    """Puts what it hears into queues."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[Any] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
        self.ends: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)

    def on_disconnected(self) -> None:
        self.ends.put(True)


class Client:
    """A connection of the library with its listener."""

    def __init__(self, version: Any, port: int, host: str = "127.0.0.1", **options: Any) -> None:
        self.version = version
        self.connection = CONNECTIONS[version]([(host, port)], **options)
        self.heard = Listener()
        self.connection.set_listener("test", self.heard)
        self.receipts = 0

    def connect(self, login: str = "guest", passcode: str = "guest", **headers: Any) -> None:
        self.connection.connect(login, passcode, wait=True, **headers)

    def subscribe(self, destination: Any, id: str = "1", ack: str = "auto", **headers: Any) -> None:
        if self.version == "1.0":
            headers = {**headers, "id": id}
            self.connection.subscribe(destination, ack=ack, headers=headers)
        else:
            self.connection.subscribe(destination, id=id, ack=ack, headers=headers)
        self.settle()

    def settle(self) -> None:
        """Wait until the server has carried out what was sent."""
        self.receipts += 1
        name = f"settle-{self.receipts}"
        self.connection.begin(name)
        self.connection.send_frame("ABORT", {"transaction": name, "receipt": name})
        while self.heard.receipts.get(timeout=PATIENCE_S) != name:
            pass

    def message(self) -> Any:
        return self.heard.messages.get(timeout=PATIENCE_S)

    def ack(self, frame: Any, nack: bool = False) -> None:
        call = self.connection.nack if nack else self.connection.ack
        if self.version == "1.0":
            assert not nack
            self.connection.ack(frame.headers["message-id"])
        elif self.version == "1.1":
            call(frame.headers["message-id"], frame.headers["subscription"])
        else:
            call(frame.headers["ack"])


@pytest.fixture(params=CONNECTIONS)
def client(request: pytest.FixtureRequest, daemon: Any) -> Iterator[Any]:
    client = Client(request.param, daemon.port)
    client.connect()
    yield client
    # the server ends it after an ERROR, perhaps at this moment
    with suppress(OSError, NotConnectedException):
        if client.connection.is_connected():
            client.connection.disconnect()


@pytest.fixture
def name() -> Any:
    return uuid.uuid4().hex


def test_a_message_comes_back_with_its_headers(client: Any, name: Any) -> None:
    client.subscribe(f"/queue/{name}")
    headers = {"x-app": "value", "correlation-id": "7"}
    if client.version != "1.0":
        headers["special"] = "a:b\\c\nd"
    client.connection.send(f"/queue/{name}", "smörgås", content_type="text/plain", headers=headers)
    frame = client.message()
    assert frame.body == "smörgås"
    assert frame.headers["content-type"] == "text/plain"
    assert {key: frame.headers[key] for key in headers} == headers


@pytest.mark.parametrize("last", ["*", "#", ">"])
@pytest.mark.parametrize("kind", ["/topic", "/queue", "/exchange/amq.topic", "/amq/queue"])
def test_a_pattern_brings_messages_of_many_topics(client: Any, name: Any, kind: str, last: str) -> None:
    client.subscribe(f"{kind}/{name}.{last}", ack="client-individual")
    for topic in (f"{name}.a", f"{name}.b"):
        client.connection.send(f"{kind}/{topic}", "x")
    shown = {"/exchange/amq.topic": "/topic", "/amq/queue": "/queue"}.get(kind, kind)
    for topic in (f"{name}.a", f"{name}.b"):
        frame = client.message()
        assert (frame.headers["destination"], frame.headers["subscription"]) == (f"{shown}/{topic}", "1")
        client.ack(frame)
    client.connection.send(f"{kind}/{name}.*", "x")
    assert "is a pattern" in client.heard.errors.get(timeout=PATIENCE_S).body


def test_a_receipt_comes_for_every_message(client: Any, name: Any) -> None:
    for number in range(50):
        client.connection.send(f"/queue/{name}", "x", receipt=f"r{number}", persistent="true")
    assert {client.heard.receipts.get(timeout=PATIENCE_S) for _ in range(50)} == {
        f"r{number}" for number in range(50)
    }


def test_an_unacknowledged_message_comes_to_the_next_connection(client: Any, name: Any, daemon: Any) -> None:
    client.subscribe(f"/queue/{name}", ack="client")
    for number in range(3):
        client.connection.send(f"/queue/{name}", str(number), persistent="true")
    frames = [client.message() for _ in range(3)]
    client.ack(frames[1])
    client.settle()
    client.connection.disconnect()
    client.heard.ends.get(timeout=PATIENCE_S)
    other = Client(client.version, daemon.port)
    other.connect()
    other.subscribe(f"/queue/{name}")
    frame = other.message()
    assert (frame.body, frame.headers["redelivered"]) == ("2", "true")
    other.connection.disconnect()


@pytest.mark.parametrize("client", ["1.1", "1.2"], indirect=True)
def test_a_nack_brings_the_message_again(client: Any, name: Any) -> None:
    client.subscribe(f"/queue/{name}", ack="client-individual")
    client.connection.send(f"/queue/{name}", "again", persistent="true")
    client.ack(client.message(), nack=True)
    frame = client.message()
    assert frame.headers["delivery-count"] == "2"
    client.ack(frame)
    client.settle()


def test_transactions_are_committed_or_aborted_whole(client: Any, name: Any) -> None:
    client.subscribe(f"/queue/{name}")
    for outcome in ("abort", "commit"):
        transaction = client.connection.begin()
        for number in range(2):
            client.connection.send(f"/queue/{name}", f"{outcome} {number}", transaction=transaction)
        getattr(client.connection, outcome)(transaction)
    assert [client.message().body for _ in range(2)] == ["commit 0", "commit 1"]


def test_a_topic_reaches_every_subscriber(client: Any, name: Any, daemon: Any) -> None:
    others = [Client(version, daemon.port) for version in CONNECTIONS]
    for other in others:
        other.connect()
        other.subscribe(f"/topic/{name}")
    client.connection.send(f"/topic/{name}", "news")
    for other in others:
        assert other.message().body == "news"
        other.connection.disconnect()


def test_a_durable_subscription_keeps_what_came_meanwhile(client: Any, name: Any, daemon: Any) -> None:
    first = Client(client.version, daemon.port)
    first.connect(headers={"client-id": name})
    first.subscribe(f"/topic/{name}", id="d", durable="true")
    first.connection.disconnect()
    client.connection.send(f"/topic/{name}", "missed", persistent="true")
    client.settle()
    second = Client(client.version, daemon.port)
    second.connect(headers={"client-id": name})
    second.subscribe(f"/topic/{name}", id="d", durable="true")
    assert second.message().body == "missed"
    second.connection.disconnect()


def test_a_request_is_answered(client: Any, name: Any, daemon: Any) -> None:
    server = Client(client.version, daemon.port)
    server.connect()
    server.subscribe(f"/queue/{name}")
    client.connection.send(f"/queue/{name}", "2+2", headers={"reply-to": "/temp-queue/answers"})
    request = server.message()
    server.connection.send(request.headers["reply-to"], "4")
    assert client.message().body == "4"
    server.connection.disconnect()


def test_a_wrong_passcode_is_refused(client: Any, daemon: Any) -> None:
    other = Client(client.version, daemon.port)
    with pytest.raises(stomp.exception.ConnectFailedException):
        other.connect(passcode="wrong")
    assert other.heard.errors.get(timeout=PATIENCE_S).headers["message"] == "bad-login"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_heart_beats_keep_a_connection_that_has_nothing_to_say(daemon: Any, name: Any, version: Any) -> None:
    client = Client(version, daemon.port, heartbeats=(1000, 1000))
    beats: queue.Queue[Any] = queue.Queue()
    client.heard.on_heartbeat = lambda: beats.put(True)
    client.connect()
    for _ in range(2):
        beats.get(timeout=PATIENCE_S)
    client.subscribe(f"/queue/{name}")
    client.connection.disconnect()


def test_tls_carries_it_too(daemon: Any, name: Any) -> None:
    client = Client("1.2", daemon.tls_port, host="localhost")
    hosts = [("localhost", daemon.tls_port)]
    client.connection.set_ssl(hosts, ca_certs=str(daemon.certificate))
    client.connect()
    client.subscribe(f"/queue/{name}")
    client.connection.send(f"/queue/{name}", "secret")
    assert client.message().body == "secret"
    client.connection.disconnect()

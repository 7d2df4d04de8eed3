from typing import Any

import pytest
import trio

from daemon.settings import Limits
from plugins.web.app import make_app
from plugins.web.live import Live
from plugins.web.serving import WebServer
from plugins.web.settings import WebSettings
from tests.support.http2 import Http2Client
from tests.support.web_connection import SEND_S, ConnectPage, ServedConnection


@pytest.fixture
def limits() -> Limits:
    return Limits(send_timeout_s=SEND_S)


@pytest.fixture
def live(site: Any) -> Live:
    return Live(site)


@pytest.fixture
def server(site: Any, live: Live) -> WebServer:
    return WebServer(site, make_app(site, WebSettings(), live))


@pytest.fixture
def connect(server: WebServer, nursery: trio.Nursery) -> ConnectPage:
    def connect() -> ServedConnection:
        connected = ServedConnection()
        nursery.start_soon(connected.serve, server)
        return connected

    return connect


@pytest.fixture
def connected(connect: ConnectPage) -> ServedConnection:
    return connect()


@pytest.fixture
def client(connected: ServedConnection) -> Http2Client:
    return Http2Client(connected.ours)

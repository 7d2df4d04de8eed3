"""Connects a client of SMQP: over TCP or TLS, or a stream that is there, up to its login, and to its end."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from plugins.smqp.client import OTHER_PORT, Client
from plugins.smqp.connection import ConnectionLost


async def _open(host: str, port: int, context: ssl.SSLContext | None, server_name: str) -> trio.abc.Stream:
    stream = await trio.open_tcp_stream(host, port)
    if context is None:
        return stream
    tls_stream = trio.SSLStream(stream, context, server_hostname=server_name, https_compatible=True)
    try:
        await tls_stream.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(tls_stream)
        raise ConnectionLost("tls", str(error.__cause__ or "the server closed the connection")) from None
    return tls_stream


@asynccontextmanager
async def connect(
    host: str,
    port: int,
    account: str,
    password: str,
    *,
    channel: str | None = None,
    tls: ssl.SSLContext | None = None,
    tls_server_name: str | None = None,
    timeout_s: float = 20.0,
) -> AsyncIterator[Client]:
    """Connect and log in; leaving the block says goodbye and closes the connection.

    `channel` is the server's default where it is None. `tls` checks the certificate against
    `tls_server_name`, or `host`. Raises LoginRefused where the login is refused, ConnectionLost where the
    server cannot be reached within `timeout_s` or is not available.
    """
    try:
        with trio.fail_after(timeout_s):
            stream = await _open(host, port, tls, tls_server_name or host)
    except UnicodeError:
        raise ConnectionLost("unreachable", f"{host}:{port}: this is no name of a host") from None
    except (OSError, trio.TooSlowError) as error:
        raise ConnectionLost("unreachable", f"{host}:{port}: {_why(error)}") from None
    async with session(stream, account, password, channel=channel, timeout_s=timeout_s) as client:
        yield client


@asynccontextmanager
async def session(
    stream: trio.abc.Stream,
    account: str,
    password: str,
    *,
    channel: str | None = None,
    timeout_s: float = 20.0,
) -> AsyncIterator[Client]:
    """`connect`, over a stream that is connected already and that this closes."""
    failure: Exception | None = None
    async with stream:
        client = Client(stream)
        try:
            with trio.fail_after(timeout_s):
                await client.log_in(account, password, channel)
        except trio.TooSlowError:
            silent = "the server does not answer"
            if not client.is_greeted:
                silent = f"the server has not greeted, as one of SMQP does first; {OTHER_PORT}"
            raise ConnectionLost("silent", silent) from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLost("lost", str(error.__cause__ or "the connection was cut")) from None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            try:
                yield client
                await client.connection.quit()
            except Exception as error:  # raised again below, where no nursery wraps it in a group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _why(error: BaseException) -> str:
    """In a few words; trio says only that all attempts failed, and what failed is behind it."""
    while cause := error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__:
        error = cause
    text = getattr(error, "strerror", None) or str(error) or "no answer"
    return str(text).rpartition("): ")[2]  # trio puts the address before the reason, which the caller names

"""Connections to peers over TCP and mutual TLS 1.3. The only file of the links that knows sockets.

OpenSSL judges the certificate during the handshake and tells the peer by an alert what is wrong with it;
the name in it is read here, and is for the manager to judge. Sessions are never resumed: a resumed one
would be judged by the certificate of an earlier day.
"""

import contextlib
import datetime
import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Final

import trio
from cryptography import x509

from daemon.certificates.errors import CertificateError
from daemon.certificates.identity import server_name_of
from daemon.connections.accepting import Mishap, accept_all
from daemon.connections.addresses import counted_as
from daemon.connections.listen import open_listeners, shown, split_address
from daemon.link.handshakes import Handshakes
from daemon.link.keys import ALPN, LinkKeys
from daemon.link.peers_file import PeerEntry
from daemon.link.refusals import Refusals
from daemon.link.transport import DialError, Secured, SecuredHandler

_log = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64
"""Strangers that may be in their handshake at a time: see `daemon.link.handshakes`."""
LINGER_S: Final = 1.0

_VERIFY_WORDS: Final = {  # X509_V_ERR_*, openssl-verification-options(1)
    3: "there is no revocation list of its authority",
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    12: "the revocation list of its authority has expired",
    18: "its certificate is from an unknown authority",
    19: "its certificate is from an unknown authority",
    20: "its certificate is from an unknown authority",
    21: "its certificate is from an unknown authority",
    23: "its certificate is revoked",
    26: "its certificate is not for links",
}
_ALERT_WORDS: Final = {  # RFC 8446 6.2; what the peer says of this site's certificate
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this site has expired, it says",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the certificate of this site is revoked, it says",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the certificate of this site is bad, it says",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the certificate of this site is not acceptable, it says",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the certificate of this site is not for links, it says",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "no common ground for TLS, it says",
    "TLSV1_ALERT_UNKNOWN_CA": "the certificate of this site is from an unknown authority, it says",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "this site must show a certificate, it says",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNEXPECTED_EOF_WHILE_READING": "it closed the connection in the handshake",
    "HTTP_REQUEST": "it does not speak TLS",
}


class TlsTransport:
    """See `daemon.link.transport.LinkTransport`.

    Attributes:
        addresses: where this site is listening, once `listen` has returned.
    """

    def __init__(
        self,
        keys: LinkKeys,
        listen: tuple[str, ...],
        wall_us: Callable[[], int],
        mishap: Mishap,
        passed: Iterable[socket.socket] = (),
    ) -> None:
        """`mishap` is told of an error of ours; `passed` listen already, in the place of `listen`."""
        self._mishap = mishap
        self.addresses: list[str] = []
        self._listen = listen
        self._passed = list(passed)
        self._listeners: list[trio.SocketListener] | None = None
        self._wall_us = wall_us
        self._handshakes = Handshakes(HANDSHAKES_MAX)
        self._refusals = Refusals(_log)
        self.take(keys)

    def take(self, keys: LinkKeys) -> None:
        """Use these keys for new connections, and judge by them in `refusal`, from now on."""
        self._keys = keys

    async def dial(self, peer: PeerEntry) -> Secured:
        """See `LinkTransport`."""
        assert peer.address is not None
        host, port = split_address(peer.address)
        try:
            tcp = await trio.open_tcp_stream(host or "localhost", port)
        except OSError as error:
            raise DialError(_os_words(error)) from None
        try:
            return await self._secure(tcp, self._keys.client_context, server_side=False)
        except OSError as error:  # the peer was gone before its address could be asked for
            await trio.aclose_forcefully(tcp)
            raise DialError(_os_words(error)) from None
        except BaseException:
            await trio.aclose_forcefully(tcp)
            raise

    async def listen(self) -> None:
        """Let peers connect, of whom none is accepted before `serve`. Raises ListenError."""
        self._listeners = await open_listeners(self._listen, self._passed, "peers")
        self.addresses = [shown(listener.socket.getsockname()) for listener in self._listeners]

    def stop_listening(self) -> None:
        """Where `serve` has not begun: whoever has connected is lost."""
        for listener in self._listeners or ():
            listener.socket.close()
        self._listeners = None

    async def serve(
        self, handler: SecuredHandler, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """See `LinkTransport`. Listens first, if need be, and raises ListenError before it has started."""

        async def connected(tcp: trio.SocketStream) -> None:
            secured = await self._admit(tcp)
            if secured is not None:
                await handler(secured)

        if self._listeners is None:
            await self.listen()
        listeners, self._listeners = self._listeners, None
        task_status.started()
        if listeners:
            await accept_all(connected, listeners, self._mishap)

    def refusal(self, secured: Secured) -> str | None:
        """See `LinkTransport`."""
        assert isinstance(secured.proof, x509.Certificate)
        return self._keys.trust.refusal(secured.proof, self._now(), f"the certificate of {secured.name}")

    def explain(self, error: trio.BrokenResourceError) -> str:
        """See `LinkTransport`."""
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError):
            return _tls_words(cause)
        return _os_words(cause) if isinstance(cause, OSError) else "the connection was lost"

    async def _admit(self, tcp: trio.SocketStream) -> Secured | None:
        """The handshake with who has connected; None, logged and closed, where it proves no name."""
        remote, why = "an address that is gone", ""
        try:
            remote = shown(tcp.socket.getpeername())
            with self._handshakes.admit(counted_as(remote)) as has_place:
                if has_place:
                    try:
                        return await self._secure(tcp, self._keys.server_context, server_side=True)
                    except DialError as error:
                        why = str(error)
                        await _linger(tcp)
        except OSError as error:
            why = str(error)
        await trio.aclose_forcefully(tcp)
        why = why or f"{HANDSHAKES_MAX} are in their handshake, most of them from its own address"
        self._refusals.log(counted_as(remote), remote, why)
        return None

    async def _secure(self, tcp: trio.SocketStream, context: ssl.SSLContext, *, server_side: bool) -> Secured:
        """The handshake. Raises DialError; the stream is the caller's to close then."""
        remote = shown(tcp.socket.getpeername())
        stream = trio.SSLStream(tcp, context, server_side=server_side, https_compatible=True)
        try:
            with trio.fail_after(HANDSHAKE_S):
                await stream.do_handshake()
        except trio.TooSlowError:
            raise DialError(f"no TLS handshake within {HANDSHAKE_S:g} s") from None
        except trio.BrokenResourceError as error:
            await _send_alert(stream, tcp)
            raise DialError(self.explain(error)) from None
        if stream.selected_alpn_protocol() != ALPN:
            raise DialError("it does not speak HTTP/2")
        try:
            certificate = x509.load_der_x509_certificate(stream.getpeercert(binary_form=True))
            name = server_name_of(certificate)
        except (CertificateError, ValueError, TypeError) as error:
            raise DialError(str(error)) from None
        return Secured(stream, name, remote, certificate)

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._wall_us() / 1e6, datetime.UTC)


async def _linger(tcp: trio.SocketStream) -> None:
    """Let the peer read an alert: a close with unread bytes resets the connection, and it would be lost."""
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(LINGER_S):
        while await tcp.receive_some(4_096):
            pass


async def _send_alert(stream: trio.SSLStream[trio.SocketStream], tcp: trio.SocketStream) -> None:
    """Tell the peer why its handshake failed: trio leaves OpenSSL's alert where it was written."""
    alert = stream._outgoing.read()
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(LINGER_S):
        await tcp.send_all(alert)


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY_WORDS.get(error.verify_code, f"its certificate is refused: {error.verify_message}")
    reason = error.reason or ""
    return _ALERT_WORDS.get(reason, f"TLS failed: {reason.lower().replace('_', ' ') or 'no reason given'}")


def _os_words(error: OSError) -> str:
    if isinstance(error.__cause__, ExceptionGroup):  # of trio.open_tcp_stream: each address that was tried
        numbers = {each.errno for each in error.__cause__.exceptions if isinstance(each, OSError)}
        return ", ".join(os.strerror(number) for number in sorted(filter(None, numbers))) or str(error)
    return error.strerror or str(error) or type(error).__name__

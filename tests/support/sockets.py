"""Streams over real sockets, for what only these do: to take bytes in part, and at once."""

import socket

import trio


def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Both ends of a connection, with small buffers for what is sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    return tuple(trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in (ours, theirs))  # type: ignore[return-value]

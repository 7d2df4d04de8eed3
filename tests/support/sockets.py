"""Streams over real sockets, for what only these do: to take bytes in part, and at once."""

import socket

import trio


def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Both ends of a connection, with small buffers."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    for each in (ours, theirs):
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # which the system else lets grow to many MB
            each.setsockopt(socket.SOL_SOCKET, buffer, 16_384)
    return tuple(trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in (ours, theirs))  # type: ignore[return-value]

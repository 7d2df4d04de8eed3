"""Connections of clients, whatever they speak.

    listen             sockets and limits: who is let in, and who is one too many
    accepting          accepts, and goes on where the system has nothing left to accept with
    addresses          remote addresses, as limits count them
    unfinished         the memory for what is no message yet, fair by account and address
    shell              the connections of a front end: where it listens, and that each is served
    client_connection  one from its first byte to its last: login, reading, writing, the goodbye
    output             what goes to its client: one send at a time, heart-beats
    silence            how long its client has sent nothing, or no whole frame
    conversation       what a protocol is to the shell: bytes and events in, bytes and calls of a session out
    transport          what carries the bytes
    http2              its bounds, for links and the page
    unless_left        work for a client that may give up waiting

Links between sites are counted likewise, and are in `daemon.link`.
"""

"""Connections of clients, whatever they speak.

    listen         sockets and limits: who is let in, and who is one too many
    addresses      remote addresses, as limits count them
    unfinished     the memory for what is no message yet, fair by account and address
    unless_left    work for a client that may give up waiting

Links between sites are counted likewise, and are in `daemon.link`.
"""

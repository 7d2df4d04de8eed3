"""The links of a site: HTTP/2 over mutual TLS 1.3, one link a peer, whoever dialled it.

    joining         how a site and its links are joined
    port            what the manager wants of the broker, and offers it
    peers_file      the peers as TOML: who may link, where they are dialled, what may cross
    peers_editor    changes it, for `smqpd peer`, and keeps what people wrote beside
    keys            the keys of the site, and whom it trusts; `notary` signs and judges news by them
    manager         the peers: who is linked, who is dialled, what happens on reload and on drain
    peer            what is kept of one peer while connections come and go
    dialling        when to dial a peer again
    handshakes      places for strangers in their handshake
    refusals        those that are refused, in the log
    connection      one connection: its HELLO, its tasks, its end
    exchange        what passes between this site and a peer: between units and broker
    controls        what routers tell each other beside messages, as bytes
    unacknowledged  what peers have not got yet, for people
    lane_input      what comes in one lane: bytes to units, and its flow control
    lanes           HTTP/2 as three lanes, without I/O
    guard           what no honest peer does with HTTP/2
    transport       how connections are opened, as an interface; a simulation brings its own
    tls             the one transport of a running site, and the only file here that knows sockets

What is said on a link, and the state of both of its ends, is in `routing.link`.
"""

"""What two sites say to each other on a link: units, their bytes, and the state of both ends. Pure.

    dialler                                  acceptor
      HELLO smqp-link/1.0  --------------->             each says who it is, and what it can do
            <---------------  HELLO smqp-link/1.0
                                                        the site whose name sorts first decides
      WELCOME  --------------------------->             which connection is the link, if there are two
      TRANSFER 17 weather.oslo  ---------->             a copy of a message, with its number
      CONTROL 18 interest  --------------->             what routers tell each other
            <---------------  ACK accepted              on disk: numbers 17-18, and the stamps
      PROBE 3  --------------------------->
            <---------------  PROBED 3                  the round trip, through the data path
      GOODBYE draining  ------------------>             nothing new comes; acknowledgements still do

Every unit is one SMQP frame (`routing.frames`), many to a read. A link has three lanes, each an ordered
stream of its own: control, urgent and bulk; between lanes there is no order. TRANSFER carries the message
as the sending site holds it, in one section; what is different for each peer and each moment (depth, hops,
the time left) stands in attributes of TRANSFER, so that a site encodes a message once, for its disk, its
subscribers and all its peers.

What is unknown is passed over: attributes, commands, features, kinds of control. A new minor version adds
only such things, so that old and new sites understand each other; a new major version is refused.

    units       the typed units
    codec       units to bytes and back
    agreement   what two HELLOs agree on; which of two connections is the link
    sender      numbers, window, what is unacknowledged
    receiver    what was handed to the router and not yet answered; acknowledgements in ranges
    remembered  what texts that come again and again were read as
    forgery     what a peer may not claim about a message

Source: routing contract 8.
"""

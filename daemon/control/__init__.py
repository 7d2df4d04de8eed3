"""What operators ask a running daemon, and what sites ask each other.

    client       how commands ask
    socket       questions and answers of commands, over a Unix socket in the state directory
    operators    those that are calls of `daemon.operating`
    routes       where a message would go from this site
    federation   all sites of which this one knows
    enquiring    questions over links: `smqpd ping`, `trace TOPIC`, `why --ask-peers`
    reports      what sites answer to them
    journey      the way of one message over all sites, from what they answer

What the questions over links mean is in `routing.federation.enquiry`.
"""

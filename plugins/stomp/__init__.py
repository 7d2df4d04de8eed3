"""STOMP 1.0, 1.1 and 1.2: a front end for the client libraries that people already use."""

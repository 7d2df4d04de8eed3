"""The native SMQP front end: the protocol, its server, a client library, and `smqpd pub` and `sub`."""

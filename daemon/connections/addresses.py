"""Remote addresses, as limits count them: an IPv4 address, or a /64 of IPv6, which is what one host has."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def counted_as(remote: str) -> str:
    """Whose share of a limit a peer's address takes; `remote` is with or without its port.

    >>> counted_as("10.0.0.1:4711"), counted_as("[2001:db8::1:2:3:4]:4711"), counted_as("unix")
    ('10.0.0.1', '2001:db8::/64', 'unix')
    """
    host, colon, port = remote.rpartition(":")
    if remote.startswith("["):
        host = remote[1:].partition("]")[0]
    elif not (colon and port.isdigit() and ":" not in host):
        host = remote
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))

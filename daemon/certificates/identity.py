"""The server name in a certificate: written by the authority, read by the peer.

Exactly one URI `smqp://NAME` among the subject's alternative names says who a site is. A certificate
without one, or with two, names nobody.
"""

import ipaddress
from typing import Final

from cryptography import x509

from daemon.certificates.errors import CertificateError
from routing.names import is_server_name

SCHEME: Final = "smqp://"

_UNREADABLE: Final = (
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,  # an X.400 address, or a name of EDI
    ValueError,
)


def alternative_names(server: str) -> x509.SubjectAlternativeName:
    """What a certificate of this server carries: its URI, and its host for the tools of others."""
    return x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier(SCHEME + server), general_name(host_of(server))]
    )


def host_of(server: str) -> str:
    """The host of a server name: without its port, an IPv6 address without its brackets."""
    if server.startswith("["):
        return server[1:].partition("]")[0]
    return server.partition(":")[0]


def general_name(host: str) -> x509.GeneralName:
    """A host among the names of a certificate."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def server_name_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The server name in a certificate or request. Raises CertificateError where there is not exactly one."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except _UNREADABLE:
        raise CertificateError("the certificate has no readable server name (URI smqp://NAME)") from None
    uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
    names = [uri.removeprefix(SCHEME) for uri in uris if uri.startswith(SCHEME)]
    if len(names) != 1 or not is_server_name(names[0]):
        raise CertificateError(f"the certificate has {len(names)} server names (URI smqp://NAME), not one")
    return names[0]

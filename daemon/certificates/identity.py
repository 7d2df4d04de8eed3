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


def alternative_names(server: str) -> x509.SubjectAlternativeName:
    """What a certificate of this server carries: its URI, and its host for the tools of others."""
    host, port = server, server.rpartition(":")[2]
    if ":" in server and port.isdigit() and not server.endswith("]"):
        host = server.rpartition(":")[0]
    host = host.removeprefix("[").removesuffix("]")
    general: x509.GeneralName
    try:
        general = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        general = x509.DNSName(host)
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(SCHEME + server), general])


def server_name_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The server name in a certificate or request. Raises CertificateError where there is not exactly one."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        raise CertificateError("the certificate has no readable server name (URI smqp://NAME)") from None
    uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
    names = [uri.removeprefix(SCHEME) for uri in uris if uri.startswith(SCHEME)]
    if len(names) != 1 or not is_server_name(names[0]):
        raise CertificateError(f"the certificate has {len(names)} server names (URI smqp://NAME), not one")
    return names[0]

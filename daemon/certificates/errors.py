"""The one error of this package."""


class CertificateError(Exception):
    """A key, certificate, request or list that cannot be used; the text says which file and why."""

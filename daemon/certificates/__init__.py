"""Who a site is: the federation's authority, the certificates it signs, and what a site trusts.

The server name stands in the certificate as its only URI: `smqp://host` or `smqp://host:port`. Nothing
else in the certificate says who a site is; the host also stands there as a DNS name or IP address, and
the name as common name, for the eyes of people and the tools of others.

A site's key directory holds five files, and needs no other:

    site.key    its private key, mode 0600; made at the site, never sent anywhere
    site.csr    its request to the authority (only until it is signed)
    site.pem    its certificate
    ca.pem      the certificate of the authority, or of several while one replaces another
    crl.pem     the authority's list of revoked certificates; without it no link is made

The modules:

    authority      signs the names of sites, and takes them back
    identity       the name in a certificate, written and read
    files          keys and certificates as PEM files
    trust          whom a site trusts at one moment, and its judgement on a peer
    signatures     by the key of a certificate
    tls            for clients; `self_signed`: before anybody has issued a certificate
    expiry         when certificates and lists end, and who is told
    errors         those of this package
"""

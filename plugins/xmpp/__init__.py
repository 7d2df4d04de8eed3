"""The XMPP front end: a component (XEP-0114) of the site's own XMPP server. See README.md."""

"""The stream to the XMPP server: XML with limits, XEP-0114, and what is known to have been read."""

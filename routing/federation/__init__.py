"""Messages across sites: who wants what (`interest`), and where a copy goes (`forwarding`)."""

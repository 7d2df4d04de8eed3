"""Carries out what the router decides: commits it, then hands on what has come true."""

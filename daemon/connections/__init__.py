"""Connections of clients: accepted, counted, and bounded in what they hold."""

"""The front ends: each a pure part (bytes or stanzas to events and back) and a trio part."""

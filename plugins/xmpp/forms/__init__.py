"""The shapes of what is said: stanzas, data forms, pages, items, notifications; nothing is remembered."""

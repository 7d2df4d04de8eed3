"""What a command shows: its output, and how it says that it failed."""

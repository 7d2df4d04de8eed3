"""One running site: its files, its parts, and its process."""

"""Messages across sites: `federation.py` says what each of the other modules does."""

"""What operators ask a running daemon, and what daemons ask each other."""

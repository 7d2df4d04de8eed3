"""Who may log in, and with which rights."""

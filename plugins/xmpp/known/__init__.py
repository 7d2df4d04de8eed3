"""What the service knows of its clients: who they are, subscribe to, hold, and have not answered."""

"""What goes to subscribers: the work of each JID, and whether it is there."""

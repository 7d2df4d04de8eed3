"""What a message is and where it goes: pure, values and `now` in, decisions out."""

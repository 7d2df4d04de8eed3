"""What clients ask for, by kind: a handler takes one request and answers it."""

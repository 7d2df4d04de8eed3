"""What the operating system gives: clocks, files, the journal, the service manager."""

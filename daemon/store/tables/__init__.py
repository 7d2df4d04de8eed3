"""What is stored: a file for each thing, with its columns, how it is written and how it is read back."""

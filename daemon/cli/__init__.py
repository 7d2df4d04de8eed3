"""The command line `smqpd`: one file for each group of commands, `main` puts them together."""

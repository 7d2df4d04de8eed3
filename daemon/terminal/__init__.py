"""What a command shows: its output, and how it says that it failed.

output       JSON or tables, on standard output that may fail
figures      numbers for people, of pages, too
printable    what came from others, made fit for a terminal
screen       what is drawn again and again
failure      one line on stderr, and an exit code
"""

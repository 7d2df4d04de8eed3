"""What a site keeps on disk: one SQLite database in WAL mode, synchronous=FULL.

`schema` makes and migrates it; `tables` has a file for each stored thing: its columns by name, what of it
decisions change, and how it is read back (`table`: row by row, whatever is damaged); `batch` is what one
transaction does to all of them, and `store` writes and reads.
"""
